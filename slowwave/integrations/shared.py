"""What the integrations share: the memory they need, reads of what is not there yet, and new turns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from slowwave.common.errors import NoStoreYet, TookTooLong, UnknownName, UnusableInput
from slowwave.common.types import RecalledFact
from slowwave.integrations.python_api import OpenMemory

T = TypeVar("T")
_warned: set[str] = set()


def checked_memory(memory: object) -> OpenMemory:
    """The open memory itself; `UnusableInput` for anything else, such as the path of a store."""
    if not isinstance(memory, OpenMemory):
        raise UnusableInput(
            f"{memory!r} is no open memory.", "Give `open_memory(PATH)`: `from slowwave import open_memory`."
        )
    return memory


def read_or(nothing: T, read: Callable[[], T], *, is_warned: bool = True) -> T:
    """What is read, or `nothing` where there is no such store (it warns once in a process) or namespace yet."""
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


def recalled(memory: OpenMemory, query: str, k: int) -> tuple[RecalledFact, ...]:
    """The facts of a recall; `TookTooLong` where it took longer than it may."""
    found = memory.recall(query, k, only="facts")
    if found.is_timed_out:
        raise TookTooLong("The search took longer than it may.", "Increase recall_timeout_ms of [recall].")
    return found.facts


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
