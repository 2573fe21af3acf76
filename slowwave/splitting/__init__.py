"""Splitting: when an entity holds too much, which topics it holds, and how it is parted by them (S0-07 … S0-16)."""
