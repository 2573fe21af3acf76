"""What commits did to the rows of a table, so that what is in memory follows instead of being read anew.

A process keeps what it wrote itself for a while.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from .connection import manifest_on_disk

MOST_ROWS = 2_000
"""Rows of a table that a process keeps of what it wrote."""

BY_KEY = ("episodes", "episode_entities")
"""Tables that nobody holds in memory, of which a writer asks for what it has just written."""

Change: TypeAlias = pa.Table | frozenset[str]
"""Full rows that were put in the place of those with their ids or beside the others, or the ids of rows that went."""


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
    def left(self) -> Mapping[str, tuple[pa.Table, int] | None]:
        """Where the rows are that are written or gone, as they were afterwards; None for those that are gone."""
        found: dict[str, tuple[pa.Table, int] | None] = {}
        for change in self.changes:
            ids = change if isinstance(change, frozenset) else change["id"].to_pylist()
            found |= {id_: None if isinstance(change, frozenset) else (change, n) for n, id_ in enumerate(ids)}
        return found


class _Written:
    """The last steps of each table that this process wrote, with the manifest that each led to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[tuple[str, str], deque[tuple[RowStep, object]]] = {}

    def follow(self, address: str, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._steps.setdefault((address, name), deque())

    def keep(self, address: str, name: str, step: RowStep) -> None:
        if (address, name) not in self._steps:
            return
        place = manifest_on_disk(address, name, step.after)
        with self._lock:
            steps = self._steps[address, name]
            steps.append((step, place))
            while len(steps) > 1 and sum(each.size + 1 for each, _ in steps) > MOST_ROWS:
                steps.popleft()

    def between(self, address: str, name: str, before: int, after: int) -> list[RowStep] | None:
        with self._lock:
            steps = [*self._steps.get((address, name), ())]
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

    def rows(self, address: str, name: str, version: int, ids: Iterable[str]) -> list[pa.Table] | None:
        with self._lock:
            steps = [*self._steps.get((address, name), ())]
        if not steps or steps[-1][0].after != version or steps[-1][1] != manifest_on_disk(address, name, version):
            return None
        wanted, found = {*ids}, []
        for step, _ in reversed(steps):
            if step.after != version:
                return None
            version = step.before
            for id_ in wanted & step.left.keys():
                if (place := step.left[id_]) is not None:
                    found.append(place[0].take([place[1]]))  # Polars reads no slice of vectors with nulls
            wanted -= step.left.keys()
            if not wanted:
                return found
        return None


_written = _Written()


def follow(address: str, names: Iterable[str]) -> None:
    """From here on keep the steps of these tables."""
    _written.follow(address, names)


def keep_step(address: str, name: str, step: RowStep) -> None:
    """Keep what this process has just published, where somebody follows the table."""
    _written.keep(address, name, step)


def own_steps(address: str, name: str, before: int, after: int) -> list[RowStep] | None:
    """The steps between two versions, if this process wrote all of them and still has them."""
    return [] if before == after else _written.between(address, name, before, after)


def own_rows(address: str, name: str, version: int, ids: Iterable[str]) -> list[pa.Table] | None:
    """Those of the rows that are there in a version, if this process wrote or removed each of them last."""
    return _written.rows(address, name, version, ids)
