"""Resolution: the known entity of each name."""
