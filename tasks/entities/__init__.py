"""Writes around one entity: names, merges, links, profiles, retirement of facts."""
