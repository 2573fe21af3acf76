"""The query path: how a memory is read."""
