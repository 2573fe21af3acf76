"""Splitting: when an entity has too many observations, and how it is split (S0-07 … S0-16).

- `split_suggestions`: which entities, and by which topics?
- `split_plan`: which observation goes to which new entity?
"""
