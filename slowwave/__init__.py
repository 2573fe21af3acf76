"""The sleep of an agent's memory. `open_memory` is the door for programs; the command line is the one for people."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slowwave.common import __version__

if TYPE_CHECKING:
    from slowwave.common import errors, types
    from slowwave.integrations.python_api import OpenMemory, open_memory

__all__ = ["OpenMemory", "__version__", "errors", "open_memory", "types"]


def __getattr__(name: str) -> Any:
    """What programs use, imported when they use it: a command needs none of it to print its help."""
    if name in ("errors", "types"):
        return import_module(f"slowwave.common.{name}")
    if name in __all__:
        return getattr(import_module("slowwave.integrations.python_api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
