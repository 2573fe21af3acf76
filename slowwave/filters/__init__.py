"""Gates: what is refused before it is stored as knowledge."""
