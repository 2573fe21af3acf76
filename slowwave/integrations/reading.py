"""Reading a memory that may not be there yet: programs ask before anything was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slowwave.api import OpenMemory
from slowwave.errors import NoStoreYet, UnknownName

T = TypeVar("T")
NOTHING = "Nothing is known about that."
"""What a tool answers where memory has nothing."""


def read_or(nothing: T, read: Callable[[], T]) -> T:
    """What is read, or `nothing` where there is no such store or namespace yet."""
    try:
        return read()
    except NoStoreYet:
        return nothing
    except UnknownName as error:
        if error.kind != "namespace":
            raise
        return nothing


def block_for(memory: OpenMemory, query: str, token_budget: int) -> str:
    """The block of `OpenMemory.context_for`; empty where nothing is known."""
    return read_or("", lambda: memory.context_for(query, token_budget))
