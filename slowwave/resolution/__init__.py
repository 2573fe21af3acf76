"""Resolution: which known entity a name means."""
