"""The sleep of an agent's memory. `open_memory` is the door for programs; the command line is the one for people."""

from .api import OpenMemory, open_memory

__all__ = ["OpenMemory", "open_memory"]
