"""Comparison: similarity of statements, and guards that must agree before two count as one."""
