"""The sleep of an agent's memory. `open_memory` is the door for programs; the command line is the one for people."""

from .api import OpenMemory, open_memory

__all__ = ["OpenMemory", "__version__", "open_memory"]
__version__ = "0.1.0"
"""The version of the package: the wheel, the command line and the MCP server have it from here (docs/releasing.md)."""
