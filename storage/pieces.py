"""Pieces: each commit of few rows leaves a small file in every table it writes, which each later read opens.

A process that commits again and again joins what it left itself: the rows are written once more as they are, in one
piece. Everything else is left to `upkeep`, which compacts whole tables.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

FEW = 64
"""Rows that a commit puts into a table at most, for these to be joined with those of others."""
AT_ONCE = 16
"""Pieces of one size that are joined to one."""
LEVELS = 3
"""Sizes of joined pieces; the largest have some thousand rows and are left to `upkeep`."""
_WHILE_AT_IT = 4


class Pieces:
    """The rows of the small pieces that one process left in the tables of a namespace."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, list[list[Sequence[str]]]] = {}

    def add(self, puts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Note what a commit put; returns the rows by table that are to be joined now, most often none."""
        with self._lock:
            for name, ids in puts.items():
                self._levels.setdefault(name, [[] for _ in range(LEVELS)])[0].append(ids)
            if max((len(levels[0]) for levels in self._levels.values()), default=0) < AT_ONCE:
                return {}
            joined = {name: _joined(levels) for name, levels in self._levels.items()}
            return {name: rows for name, rows in joined.items() if rows}


def _joined(levels: list[list[Sequence[str]]]) -> list[str]:
    """The rows of the next larger piece, which takes in all of its size where these are many."""
    if len(levels[0]) < _WHILE_AT_IT:
        return []
    rows: list[str] = []
    for pieces in levels:
        if rows and len(pieces) < AT_ONCE - 1:
            pieces.append(rows)
            break
        rows = [*dict.fromkeys(id_ for ids in (*pieces, rows) for id_ in ids)]
        pieces.clear()
    return rows
