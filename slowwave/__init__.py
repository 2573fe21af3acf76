"""The sleep of an agent's memory. `open_memory` is the door for programs; the command line is the one for people."""

from slowwave.common import __version__
from slowwave.integrations.python_api import OpenMemory, open_memory

from .common import errors, types

__all__ = ["OpenMemory", "__version__", "errors", "open_memory", "types"]
