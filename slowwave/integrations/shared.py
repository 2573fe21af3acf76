"""What the integrations share: reading a memory that may not be there yet, and new turns without times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from slowwave.api import OpenMemory
from slowwave.errors import NoStoreYet, UnknownName

T = TypeVar("T")
BLOCK_TOKENS = 1000
"""Tokens of a block in another library, where the caller names no number."""


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


def dated(turns: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The turns; those without a time are dated now, a microsecond apart.

    Undated turns of the same words are one message to the memory, so what is said again would not be learned.
    """
    now = datetime.now(UTC)
    # what is no turn is refused later; `date` is the last of the keys of times: any other time of a turn goes before it
    return [
        {"date": (now + timedelta(microseconds=n)).isoformat(), **turn} if isinstance(turn, Mapping) else turn
        for n, turn in enumerate(turns)
    ]
