"""Residents: tables of one state read into memory, so that a question to them is arrays and no query at all.

A query of LanceDB takes a millisecond or more however small the table is, and one question makes a dozen of them. What
is in memory follows each commit by the rows that it changed (`following`).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.validity import of_rows

from .columns import Columns, PlainColumn, WordIndex, word_scores
from .columns import Row as Row
from .row_steps import RowStep
from .vectors import Penalties, VectorRows, Vectors, least_of_best

CONDITIONS_KEPT = 8
"""Of a table: questions to all that may answer and to what is of a time, and those of a statement, come in turn."""
ROWS_AT_ONCE = 20_000
"""Rows up to which all rows of a table are built at once; of a larger table only the requested rows and columns."""
SMALL = 3
LAST, NEWEST, NEWER = 16, 256, 4_096
"""Rows of the small parts behind the large one: the last takes each commit; one that is full joins the one before."""
_BEFORE_ALL = np.iinfo(np.int64).min
RAGGED = 0.1
"""Share of rows behind the large part, or gone from it, from which the table is read anew beside the old one."""

Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Key = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """Rows with their vectors (n, d), zeros where there is none."""

    rows: Sequence[Row]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as a filter of LanceDB, and of a frame.

    Where it is about what holds `at` a time, `kind` names it without that time: until the next end of a row, the same
    rows meet it.
    """

    sql: str
    kind: str = ""
    at: datetime | None = None

    def expression(self) -> pl.Expr:
        """The same of a frame."""
        return of_rows(self.sql)


@dataclass(frozen=True, slots=True)
class ResidentSpec:
    """The parts of a table that are kept in memory: columns, the column for word search, vectors, and the end of rows.

    Vectors without `is_compared` serve only rows that were found in another way. Columns that are `followed` are read
    of changed rows alone, for what else follows the table.
    """

    columns: tuple[str, ...]
    words: str | None = None
    has_vectors: bool = False
    end: str | None = None
    is_compared: bool = True
    followed: tuple[str, ...] = ()

    @property
    def read(self) -> list[str]:
        """All columns that are kept of a row."""
        more = [*([self.words] if self.words else []), *(["vector"] if self.has_vectors else [])]
        return [*dict.fromkeys((*self.columns, *more))]


class Part:
    """Rows that never change, and what was worked out of them. Rows that are handed out are shared: only to be read.

    `frame` has all columns of the spec, where the part is small enough to be joined to another. `numbers` are those
    that the rows had (`_rowid`) when the part was read.
    """

    def __init__(
        self,
        columns: Columns,
        vectors: VectorRows,
        words: WordIndex | None = None,
        end: str | None = None,
        frame: pl.DataFrame | None = None,
        numbers: Offsets | None = None,
    ) -> None:
        self.columns, self.vectors, self.words, self.frame, self.numbers = columns, vectors, words, frame, numbers
        ends = columns[end].whole() if end is not None else pl.Series([], dtype=pl.Null)
        # of few, a query of Polars takes longer than all else
        self._ends = sorted({*(ends.to_list() if len(columns) <= LAST else ends.unique())} - {None})
        self._keys: dict[Key, tuple[Offsets, Offsets]] = {}
        self._met: dict[tuple[str, int], tuple[Mask, Penalties]] = {}
        self._meeting = threading.Lock()

    def __len__(self) -> int:
        """How many rows it has."""
        return len(self.columns)

    def places(self, key: Key, hashes: Offsets) -> Offsets:
        """Where the rows are whose key has one of these hashes, in their order."""
        if not len(self) or not len(hashes):
            return np.zeros(0, np.int64)
        known, order = self._by(key)
        first = np.searchsorted(known, hashes)
        counts = np.searchsorted(known, hashes, "right") - first
        if not counts.any():
            return counts[:0]
        slots = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return np.sort(order[slots])

    def rows(self, places: Offsets, columns: Sequence[str]) -> Sequence[Row]:
        """The rows at these places: these columns, and perhaps others."""
        if len(self) > ROWS_AT_ONCE:
            return self.columns.rows(places, columns)
        return [self._rows[place] for place in places.tolist()]

    @cached_property
    def _rows(self) -> list[Row]:
        if self.frame is None:
            return self.columns.rows(np.arange(len(self)))
        names = [name for name, _ in self.columns.items()]
        return [dict(zip(names, row, strict=True)) for row in frames.rows_of(self.frame, *names)]

    def meeting(self, where: Condition) -> tuple[Mask, Penalties]:
        """A mask of the rows that meet a condition, and penalties for all other rows and for rows without a vector."""
        key = (where.sql, 0) if where.at is None else (where.kind, bisect_right(self._ends, where.at))
        if (known := self._met.get(key)) is None:
            condition = where.expression().fill_null(False)
            read = self.columns.frame(dict.fromkeys(condition.meta.root_names()))
            met = read.select(condition.alias("met"))["met"].to_numpy()
            made = met, np.where(met & self.vectors.is_there, np.float32(0), np.float32(-np.inf))
            with self._meeting:
                while len(self._met) >= CONDITIONS_KEPT:
                    del self._met[next(iter(self._met))]
                self._met[key] = made
            return made
        return known

    def _by(self, key: Key) -> tuple[Offsets, Offsets]:
        """The hashes of a key, sorted, and the place of each: a tenth of the memory of a dict."""
        if key not in self._keys:
            columns = (self.columns[name].whole() for name in ([key] if isinstance(key, str) else key))
            values: Iterable[Hashable] = next(columns) if isinstance(key, str) else zip(*columns, strict=True)
            hashes = np.fromiter(map(hash, values), np.int64, len(self))
            order = np.argsort(hashes, kind="stable")
            self._keys[key] = hashes[order], order
        return self._keys[key]


class Resident:
    """One table at one version: a large part, and the rows that came since in small ones; some rows are gone.

    A place counts the rows of all parts, one after the other. `after` gives the table of a later version and leaves
    this one as it is.
    """

    def __init__(
        self, spec: ResidentSpec, kinds: pl.Schema, parts: Sequence[Part], gone: Sequence[Mask | None] = ()
    ) -> None:
        self.spec, self._kinds, self._parts = spec, kinds, tuple(parts)
        self._read = {name: kinds[name] for name in spec.read}
        self._gone = tuple(gone) or (None,) * len(self._parts)
        self._starts = np.concatenate(([0], np.cumsum([len(part) for part in self._parts])))
        self._size = int(self._starts[-1]) - sum(int(gone.sum()) for gone in self._gone if gone is not None)

    def __len__(self) -> int:
        """How many rows the table has."""
        return self._size

    @property
    def size_when_read(self) -> int:
        """How many rows were read at once; what came later has the places behind them."""
        return len(self._parts[0])

    @property
    def is_ragged(self) -> bool:
        """Whether so many rows changed that reading the table anew pays."""
        behind = int(self._starts[-1]) - len(self._parts[0])
        gone = 0 if self._gone[0] is None else int(self._gone[0].sum())
        return behind + gone > max(RAGGED * len(self._parts[0]), NEWER)

    @property
    def words(self) -> WordIndex | None:
        """The words of the large part, for the index of the table that is read anew."""
        return self._parts[0].words

    def places(self, key: Key, ids: Iterable[Hashable], where: Condition | None = None) -> Offsets:
        """Where the rows are whose key is among the ids, in their order."""
        hashes = np.fromiter({hash(name) for name in ids}, np.int64)
        found = self._joined(part.places(key, hashes) for part in self._parts)
        return found if where is None else found[self.mask(where)[found]]

    def values(self, name: str, places: Offsets) -> list[Any]:
        """The values of a column at these places."""
        return self._gathered(places, lambda part, own: part.columns[name].at(own))

    def numbers(self, places: Offsets) -> Offsets | None:
        """The numbers (`_rowid`) that the rows at these places had when they were read; None where one was not read."""
        known = self._parts[0].numbers
        return known[places] if known is not None and len(places) and places.max() < len(known) else None

    def column(self, name: str) -> pl.Series:
        """A column of all rows."""
        values = [part.columns[name].whole() for part in self._parts]
        live = (
            each if gone is None else each.filter(pl.Series(~gone))
            for each, gone in zip(values, self._gone, strict=True)
        )
        return pl.concat([each.cast(values[0].dtype) for each in live])

    def has(self, columns: Iterable[str]) -> bool:
        """Whether all of these columns are in memory."""
        return all(self.spec.has_vectors if name == "vector" else name in self.spec.columns for name in columns)

    def frame(self, places: Offsets, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of the rows at these places."""
        made = {name: self._series(name, places) for name in columns}
        return pl.DataFrame(made)

    def _series(self, name: str, places: Offsets) -> pl.Series:
        if name != "vector":
            return pl.Series(name, self.values(name, places), self._kinds[name])
        vectors = self.vectors(places)
        whole = pl.Series(name, vectors, self._kinds[name]) if len(places) else pl.Series(name, [], self._kinds[name])
        is_there = vectors.any(axis=1)
        if is_there.all():
            return whole
        return pl.select(pl.when(pl.Series(is_there)).then(whole).alias(name))[name]

    def rows(self, places: Offsets, columns: Sequence[str]) -> Sequence[Row]:
        """The rows at these places: these columns, and perhaps others."""
        if len(places) and places.max() < len(self._parts[0]):
            return self._parts[0].rows(places, columns)
        return self._gathered(places, lambda part, own: part.rows(own, columns))

    def vectors(self, places: Offsets) -> Vectors:
        """(m, d) the vectors at these places."""
        if len(places) and places.max() < len(self._parts[0]):
            return self._parts[0].vectors[places]
        found = np.zeros((len(places), self._parts[0].vectors.dims), np.float32)
        for part, which, own in self._of(places):
            found[which] = part.vectors[own]
        return found

    def mask(self, where: Condition) -> Mask:
        """(n,) which rows meet a condition and are not gone; n counts the rows of all parts."""
        masks = []
        for part, gone in zip(self._parts, self._gone, strict=True):
            met = part.meeting(where)[0]
            masks.append(met if gone is None else met & ~gone)
        return masks[0] if len(masks) == 1 else np.concatenate(masks)

    def nearest(self, vector: Vectors, k: int, where: Condition) -> tuple[Offsets, list[float]]:
        """The `k` rows nearest to a unit vector that meet the condition, with their cosines, best first."""
        found = []
        for part, gone, start in zip(self._parts, self._gone, self._starts, strict=False):
            if not len(part):
                continue
            penalties = part.meeting(where)[1]
            if gone is not None:
                penalties = np.where(gone, np.float32(-np.inf), penalties)
            places, cosines = part.vectors.nearest(vector, k, penalties)
            found.append((places + start, cosines))
        if len(found) == 1:
            return found[0][0], found[0][1].tolist()
        if not found:
            return np.zeros(0, np.int64), []
        places, cosines = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.lexsort((places, -cosines))[:k]
        return places[order], cosines[order].tolist()

    def newest(self, time: str, k: int, where: Condition) -> Offsets:
        """The `k` rows with the latest times of those that have a vector and meet the condition, in no order."""
        parts = [part.columns[time].whole().to_physical().fill_null(_BEFORE_ALL).to_numpy() for part in self._parts]
        there = self.mask(where) & np.concatenate([part.vectors.is_there for part in self._parts])
        found = np.flatnonzero(there)
        if not k or len(found) <= k:
            return found[:k]
        times = np.concatenate(parts)[found]
        is_near = times >= np.partition(times, -k)[-k]
        near = found[is_near]
        ranks = sorted(zip(times[is_near].tolist(), self.values("id", near), near.tolist(), strict=True), reverse=True)
        return np.array([place for *_, place in ranks[:k]], np.int64)

    def matching(
        self, query: str, k: int, where: Condition | None, holding: Mapping[str, int] | None = None
    ) -> tuple[Offsets, list[float]]:
        """The `k` rows whose words match a query best (BM25), best first.

        A word is no rarer than if so many rows as `holding` says had it.
        """
        indexes = [part.words for part in self._parts]
        if any(index is None for index in indexes):
            return np.zeros(0, np.int64), []
        pairs = [(index, gone) for index, gone in zip(indexes, self._gone, strict=True) if index is not None]
        scores = np.concatenate(word_scores(query, pairs, holding=holding or {}))
        if where is not None:
            scores[~self.mask(where)] = 0.0
        else:
            scores[~self._live] = 0.0
        near = np.flatnonzero(scores >= max(least_of_best(scores, k), np.finfo(np.float64).tiny))
        best = near[np.lexsort((near, -scores[near]))[:k]]
        return best, scores[best].tolist()

    @contextmanager
    def foreseen(self, vectors: Vectors) -> Iterator[None]:
        """Compare many vectors (m, d) at once with the large part; until the block ends they are looked up."""
        with self._parts[0].vectors.foreseen(vectors):
            yield

    def after(self, step: RowStep) -> Resident:
        """The table after a step."""
        resident = self
        for change in step.changes:
            if isinstance(change, frozenset):
                resident = resident._without(change)
            elif len(change):
                rows = frames.conform(frames.of_arrow(change.select(self.spec.read)), self._read)
                resident = resident._without(rows["id"])._with(rows)
        return resident

    def _without(self, ids: Iterable[str]) -> Resident:
        hashes = np.fromiter({hash(name) for name in ids}, np.int64)
        gone = []
        for part, known in zip(self._parts, self._gone, strict=True):
            places = part.places("id", hashes)
            if len(places):
                known = np.zeros(len(part), np.bool_) if known is None else known.copy()
                known[places] = True
            gone.append(known)
        return self._of_parts(self._parts, gone)

    def _with(self, rows: pl.DataFrame) -> Resident:
        """With more rows: in the last part, which is joined to the one before where it is full, and so on.

        What was worked out of the parts that stay need not be worked out again.
        """
        large, *small = self._parts
        live = [_live(part, gone) for part, gone in zip(small, self._gone[1:], strict=True)]
        if small and len(live[-1]) + len(rows) <= LAST:
            stay, joined = len(small) - 1, [[live[-1], rows]]
        elif len(small) < SMALL:
            stay, joined = len(small), [[rows]]
        else:
            stay = SMALL - 2 if len(live[-2]) + len(live[-1]) <= NEWEST else 0
            joined = [live[stay:], [rows]]
        made = [self._small(each, small[stay:]) for each in joined]
        return self._of_parts([large, *small[:stay], *made], [*self._gone[: 1 + stay], *[None] * len(made)])

    def _of_parts(self, parts: Sequence[Part], gone: Sequence[Mask | None]) -> Resident:
        return Resident(self.spec, self._kinds, parts, gone)

    def _small(self, pieces: Sequence[pl.DataFrame], earlier: Sequence[Part] = ()) -> Part:
        """A small part of these rows; texts of `earlier` ones are not taken apart again."""
        first, *others = [piece for piece in pieces if len(piece)] or pieces[:1]
        frame = first.clone().extend(pl.concat(others)) if others else first
        columns = Columns({name: PlainColumn(frame[name]) for name in self.spec.columns}, len(frame))
        vectors = VectorRows(len(frame), self._parts[0].vectors.dims)
        if self.spec.has_vectors:
            vectors.write(0, _matrix(frame["vector"], vectors.dims))
            if self.spec.is_compared:
                vectors.seal()
        words = None
        if self.spec.words is not None:
            known = [part.words for part in (self._parts[0], *earlier) if part.words is not None]
            words = WordIndex(frame[self.spec.words].fill_null(""), *known)
        return Part(columns, vectors, words, self.spec.end, frame)

    @cached_property
    def _live(self) -> Mask:
        """(n,) the rows that are not gone."""
        both = zip(self._parts, self._gone, strict=True)
        return np.concatenate([np.ones(len(part), np.bool_) if gone is None else ~gone for part, gone in both])

    def _joined(self, found: Iterable[Offsets]) -> Offsets:
        """Places of each part as places of the table, without those that are gone."""
        placed = [
            (own if gone is None else own[~gone[own]]) + start
            for own, gone, start in zip(found, self._gone, self._starts, strict=False)
            if len(own)
        ]
        return np.concatenate(placed) if placed else np.zeros(0, np.int64)

    def _of(self, places: Offsets) -> Iterator[tuple[Part, Mask, Offsets]]:
        """The places by part, of those that have some: which of them are there, and where."""
        owners = np.searchsorted(self._starts[1:], places, "right")
        for number, (part, start) in enumerate(zip(self._parts, self._starts, strict=False)):
            which = owners == number
            if which.any():
                yield part, which, places[which] - start

    def _gathered(self, places: Offsets, read: Callable[[Part, Offsets], Sequence[Any]]) -> list[Any]:
        """What `read` gives of each part, in the order of the places."""
        split = [*self._of(places)]
        if len(split) == 1:
            return [*read(split[0][0], split[0][2])]
        found: list[Any] = [None] * len(places)
        for part, which, own in split:
            for slot, value in zip(np.flatnonzero(which).tolist(), read(part, own), strict=True):
                found[slot] = value
        return found


def _live(part: Part, gone: Mask | None) -> pl.DataFrame:
    """The rows of a small part that are not gone."""
    if part.frame is None:
        return pl.DataFrame()
    return part.frame if gone is None else part.frame.filter(pl.Series(~gone))


def _matrix(vectors: pl.Series, dims: int) -> Vectors:
    """(n, d) of a column of vectors, zeros where there is none."""
    if len(vectors) and not vectors.null_count():
        rows: Vectors = np.nan_to_num(vectors.to_numpy())
        return rows
    found = np.zeros((len(vectors), dims), np.float32)
    arrays = vectors.to_arrow()
    there = arrays.is_valid().to_numpy(zero_copy_only=False)
    if there.any():
        found[there] = arrays.flatten().to_numpy(zero_copy_only=False).reshape(-1, dims)
    return np.nan_to_num(found)
