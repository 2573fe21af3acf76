"""New turns of a conversation, which a program hands over once and without times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any


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
