"""Merging: what says the same becomes one, guarded."""
