"""Extraction by rules: facts, names and times in a window of messages."""
