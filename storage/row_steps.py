"""What commits did to the rows of a table, so that what is in memory follows instead of being read anew.

A process keeps what it wrote itself for a while. Of commits of others the difference of two versions is read: each row
has the version that last wrote it, its mark.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import pyarrow as pa

from .connection import manifest_on_disk
from .rows import MARK, id_filters

if TYPE_CHECKING:
    from lancedb import AsyncTable

    from .residents import Resident
    from .warm import Tables

MOST_ROWS = 2_000
"""Rows of a table that a process keeps of what it wrote."""
TOO_MANY, FEW = 0.2, 1_000
"""Share of changed rows from which reading the whole table is faster than following it, and what is never many."""

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


async def read_step(
    tables: Tables,
    name: str,
    before: int,
    known: Resident,
    columns: Sequence[str],
    returned: frozenset[str] | None,
    *,
    is_in_order: bool,
) -> RowStep | None:
    """The difference of two versions as a step with these columns; None where it is large, or cannot be read.

    `known` is the table at the version `before`. Rows of newer marks were written since; they are the last ones where
    the table `is_in_order`, not compacted meanwhile. A restored version has rows with the marks they had: `returned`
    are those for which this may be so. Where it may be any (None), or the number of rows does not agree, both versions
    are compared.
    """
    after, most = tables.versions[name], max(int(TOO_MANY * len(known)), FEW)
    if after < before:
        return None
    try:
        table = await tables.table(name)
        if returned is not None:
            size = await table.count_rows()
            written = await _written_since(table, before, columns, size, max(size - len(known), 0), most, is_in_order)
            maybe = sorted(returned - {*written["id"]})
            back = [await _rows(table, where, columns) for where in id_filters(maybe)]
            written = pl.concat([written, *back])
            gone = frozenset(known.values("id", known.places("id", maybe))) - {*written["id"]}
            new = len(written) - len(known.places("id", written["id"]))
            if size == len(known) - len(gone) + new:
                return _step(before, after, written, gone, most)
        marks = [await _rows(each, None, ["id", MARK]) for each in (await tables.open(name, before), table)]
        changed = marks[1].join(marks[0], on=["id", MARK], how="anti")["id"]
        ids = known.column("id")
        gone = frozenset(ids.filter(~ids.is_in(marks[1]["id"].implode())))
        if len(changed) + len(gone) > most:
            return None
        parts = [await _rows(table, where, columns) for where in id_filters(changed.to_list())]
    except (ValueError, RuntimeError, OSError):
        return None
    written = pl.concat(parts) if parts else await _rows(table, "false", columns)
    return _step(before, after, written, gone, most)


async def _written_since(
    table: AsyncTable, before: int, columns: Sequence[str], size: int, more: int, most: int, is_in_order: bool
) -> pl.DataFrame:
    """The rows with newer marks: from the end of the table, which has some `more`, until one is older."""
    count = more + 2
    while is_in_order and count <= most:
        query = table.query().offset(max(size - count, 0)).limit(count).select([*columns, MARK])
        rows = pl.DataFrame(pl.from_arrow(await query.to_arrow()))
        if count >= size or rows[MARK][0] <= before:
            return rows.filter(pl.col(MARK) > before).drop(MARK)
        count *= 4
    return await _rows(table, f"{MARK} > {before}", columns)


async def _rows(table: AsyncTable, where: str | None, columns: Sequence[str]) -> pl.DataFrame:
    query = table.query().select(list(columns))
    return pl.DataFrame(pl.from_arrow(await (query.where(where) if where else query).to_arrow()))


def _step(before: int, after: int, written: pl.DataFrame, gone: frozenset[str], most: int) -> RowStep | None:
    if len(written) + len(gone) > most:
        return None
    changes: tuple[Change, ...] = (written.to_arrow(),) if len(written) else ()
    return RowStep(before, after, (*changes, gone) if gone else changes)
