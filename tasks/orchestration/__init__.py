"""What flows are composed with:

- `phases`: parts of a maintenance run, and the gate around them: a phase that made recall worse is undone
- `tallies`: what a run counts
- `backfilling`: old messages, window by window, and what that will cost
"""
