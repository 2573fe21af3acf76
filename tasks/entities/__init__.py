"""Writes around one entity:

- `alias_and_rename`: one more name, or another one to be shown under
- `pins`: entities and facts that are kept for ever
- `merges`: two entities become one
- `retirement`: facts leave together with what depends on them, and come back
- `derived`: what follows from the facts of an entity: profile, links, community
"""
