"""Comparison: how alike two statements are, and what must agree before they count as one."""
