"""What a process keeps of the rows that it wrote: for what is in memory, which follows, and to join small files."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from .disk import manifest_on_disk

MOST_ROWS = 256
"""Rows of a table that a process keeps of what it wrote, and one more for each commit: some 20 kB each."""

BY_KEY = ("episodes", "episode_entities", "runs", "patch_batches")
"""Tables that nobody holds in memory, of which a writer asks for what it has just written."""

Change: TypeAlias = pa.Table | frozenset[str]
"""Full rows that were put in the place of those with their ids or beside the others, or the ids of rows that went."""


RowPlace: TypeAlias = tuple[pa.Table, int]
"""A row of a table, by its number."""


@dataclass(frozen=True)
class RowStep:
    """The changes, in their order, that lead from the version `before` of a table to the version `after`."""

    before: int
    after: int
    changes: tuple[Change, ...]

    @property
    def size(self) -> int:
        """How many rows are written or gone."""
        return sum(len(change) for change in self.changes)

    @property
    def ids(self) -> set[str]:
        """The rows that are written or gone."""
        each = (change if isinstance(change, frozenset) else change["id"].to_pylist() for change in self.changes)
        return {id_ for ids in each for id_ in ids}

    @cached_property
    def left(self) -> Mapping[str, RowPlace | None]:
        """Where the rows are that are written or gone, as they were afterwards; None for those that are gone."""
        found: dict[str, RowPlace | None] = {}
        for change in self.changes:
            ids = change if isinstance(change, frozenset) else change["id"].to_pylist()
            found |= {id_: None if isinstance(change, frozenset) else (change, n) for n, id_ in enumerate(ids)}
        return found


# The last steps of each table that this process wrote, with the manifest that each led to.


_lock = threading.Lock()
_steps: dict[tuple[str, str], deque[tuple[RowStep, object]]] = {}
_sizes = Counter[tuple[str, str]]()


def follow(address: str, names: Iterable[str]) -> None:
    """From here on keep the steps of these tables."""
    with _lock:
        for name in names:
            _steps.setdefault((address, name), deque())


def keep_step(address: str, name: str, step: RowStep) -> None:
    """Keep what this process has just published, where somebody follows the table."""
    if (address, name) not in _steps:
        return
    place = manifest_on_disk(address, name, step.after)
    with _lock:
        steps = _steps[address, name]
        steps.append((step, place))
        _sizes[address, name] += step.size + 1
        while len(steps) > 1 and _sizes[address, name] > MOST_ROWS:
            _sizes[address, name] -= steps.popleft()[0].size + 1


def own_steps(address: str, name: str, before: int, after: int) -> list[RowStep] | None:
    """The steps between two versions, if this process wrote all of them and still has them."""
    with _lock:
        steps = [*_steps.get((address, name), ())]
    found: list[RowStep] = []
    version = after
    for step, place in reversed(steps):
        if version == before:
            break
        if step.after == version:
            if not found and place != manifest_on_disk(address, name, after):
                return None  # another store lies in that folder now
            found.append(step)
            version = step.before
    return found[::-1] if version == before else None


def own_rows(address: str, name: str, version: int, ids: Sequence[str]) -> list[pa.Table] | None:
    """Those of the rows that are there in a version, if this process wrote or removed each of them."""
    with _lock:
        steps = [*_steps.get((address, name), ())]
    if not steps or steps[-1][0].after != version or steps[-1][1] != manifest_on_disk(address, name, version):
        return None
    wanted, found = {*ids}, list[RowPlace]()
    for step, _ in reversed(steps):
        if step.after != version:
            return None
        version = step.before
        found += (place for id_ in ids if id_ in wanted and (place := step.left.get(id_)) is not None)
        wanted -= step.left.keys()
        if not wanted:
            return taken(found)
    return None


def taken(places: Iterable[RowPlace], columns: Sequence[str] | None = None) -> list[pa.Table]:
    """The rows at these places, those of one table together; by default with all columns."""
    tables: dict[int, tuple[pa.Table, list[int]]] = {}
    for table, place in places:
        tables.setdefault(id(table), (table, []))[1].append(place)
    parts = ((table if columns is None else table.select(columns), own) for table, own in tables.values())
    return [table.take(own) for table, own in parts]  # Polars reads no slice of vectors with nulls


# Pieces: each commit of few rows leaves a small file in every table it writes, which each later read opens. A process
# that commits again and again joins what it left itself: the rows are written once more as they are, in one piece.
# Everything else is left to `upkeep`, which compacts whole tables.


FEW = 64
"""Rows that a commit puts into a table at most, for these to be joined with those of others."""
AT_ONCE = 32
"""Pieces of one size that are joined to one."""
LEVELS = 2
"""Sizes of joined pieces; the largest have a thousand rows and are left to `upkeep`."""
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
