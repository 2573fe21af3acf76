"""What flows are composed with: phases, tallies, fleets, backfills."""
