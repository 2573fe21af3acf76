"""Ranking: in which order facts and entities are recalled."""
