"""Writes around one entity: names, merges, what follows from its facts, and facts that leave or come back."""
