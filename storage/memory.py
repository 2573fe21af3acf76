"""Memory that was freed, given back to the system.

Reading a table leaves free pieces all over the C library's heap, which keeps them: some 50 MB of 600 after the tables
of 100,000 facts were read.
"""

from __future__ import annotations

import ctypes
from functools import cache


def release_unused_memory() -> None:
    """Give back what the C library keeps free; nothing where it has no such call (musl, macOS, Windows)."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> ctypes._FuncPointer | None:
    try:
        found: ctypes._FuncPointer | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # where a library must be named
        return None
    return found
