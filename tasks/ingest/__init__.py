"""From files to facts."""
