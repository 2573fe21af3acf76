"""Faces for other libraries, each a module of its own; none is imported before a program asks for it.

- `mem0`: a `Memory` with the calls of mem0's
- `langgraph`: a `BaseStore`
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from slowwave.errors import NoStoreYet, UnknownName

T = TypeVar("T")
_warned: set[str] = set()


def read_or(nothing: T, read: Callable[[], T], *, is_warned: bool = True) -> T:
    """What is read, or `nothing` where there is no such store or namespace yet.

    Where there is no store it warns, once in a process: the path may be wrong.
    """
    try:
        return read()
    except NoStoreYet as error:
        if is_warned and error.message not in _warned:
            _warned.add(error.message)
            warnings.warn(f"{error.message} Nothing is known until something is added there.", stacklevel=3)
        return nothing
    except UnknownName as error:
        if error.kind != "namespace":
            raise
        return nothing
