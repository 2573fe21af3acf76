"""Writes around one entity:

- `names_and_pins`: one more name, another one to be shown under, and what is kept for ever
- `merges`: two entities become one
- `retirement`: facts leave together with what depends on them, and come back
- `derived`: what follows from the facts of an entity: profile, links, community
"""
