"""Deduplication: facts that say the same are merged, if the guards agree."""
