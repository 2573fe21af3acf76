"""The sleep of an agent's memory. `open_memory` is the door for programs; the command line is the one for people."""

from . import errors, types
from .api import OpenMemory, open_memory
from .version import __version__

__all__ = ["OpenMemory", "__version__", "errors", "open_memory", "types"]
