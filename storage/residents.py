"""Residents: tables of one state read into memory whole, so that a question to them is arrays and no query at all.

A query of LanceDB takes a millisecond or more however small the table is, and one question makes a dozen of them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from .columns import Columns, WordIndex, column_of, release_unused_memory
from .columns import Row as Row
from .vectors import Penalties, VectorRows, Vectors, least_of_best

if TYPE_CHECKING:
    from lancedb import AsyncTable

    from .warm import Tables

AT_ONCE = 16 << 20
"""Bytes on disk up to which the first question reads the tables into memory: faster than one question by queries.
Larger tables are read at the second question to one state, so that one question after each commit never waits."""
PART = 4_096
"""Vectors that are read at a time."""
CONDITIONS_KEPT = 2
"""Of a table: a question that names a time is put to all that may answer and to what is of that time, in turn."""
ROWS_AT_ONCE = 20_000
"""Rows up to which all rows of a table are built at once; of a larger table only the requested rows and columns."""

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
    """The same condition as a filter of LanceDB and, made when it is needed, of a frame.

    Where it is about what holds `at` a time, `kind` names it without that time: until the next end of a row, the same
    rows meet it.
    """

    sql: str
    expression: Callable[[], pl.Expr]
    kind: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ResidentSpec:
    """The parts of a table that are kept in memory: columns, the column for word search, vectors, and the end of rows.

    Vectors without `is_compared` serve only rows that were found in another way.
    """

    columns: tuple[str, ...]
    words: str | None = None
    has_vectors: bool = False
    end: str | None = None
    is_compared: bool = True


class Resident:
    """One table at one version. Rows that are handed out are shared: they are to be read only."""

    def __init__(self, columns: Columns, vectors: VectorRows, words: WordIndex | None = None, end: str | None = None):
        self.columns, self.vectors, self.words = columns, vectors, words
        self._ends = [] if end is None else columns[end].whole().drop_nulls().unique().sort().to_list()
        self._rows: list[Row] | None = None
        self._keys: dict[Key, tuple[Offsets, Offsets]] = {}
        self._met: dict[tuple[str, int], tuple[Mask, Penalties]] = {}

    def places(self, key: Key, ids: Iterable[Hashable], where: Condition | None = None) -> Offsets:
        """Where the rows are whose key is among the ids, in their order."""
        if not len(self.columns):
            return np.zeros(0, np.int64)
        hashes, order = self._by(key)
        wanted = np.fromiter({hash(name) for name in ids}, np.int64)
        first = np.searchsorted(hashes, wanted)
        counts = np.searchsorted(hashes, wanted, "right") - first
        slots = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        found: Offsets = np.sort(order[slots])
        return found if where is None else found[self.mask(where)[found]]

    def rows(self, places: Offsets, columns: Sequence[str]) -> Sequence[Row]:
        """The rows at these places: these columns, and perhaps others."""
        if len(self.columns) > ROWS_AT_ONCE:
            return self.columns.rows(places, columns)
        if self._rows is None:
            self._rows = self.columns.rows(np.arange(len(self.columns)))
        return [self._rows[place] for place in places.tolist()]

    def mask(self, where: Condition) -> Mask:
        """(n,) which rows meet a condition."""
        return self._meeting(where)[0]

    def nearest(self, vector: Vectors, k: int, where: Condition) -> tuple[Offsets, list[float]]:
        """The `k` rows nearest to a unit vector that meet the condition, with their cosines, best first."""
        places, cosines = self.vectors.nearest(vector, k, self._meeting(where)[1])
        return places, cosines.tolist()

    def matching(self, query: str, k: int, where: Condition | None) -> tuple[Offsets, list[float]]:
        """The `k` rows whose words match a query best (BM25), best first."""
        if self.words is None:
            return np.zeros(0, np.int64), []
        scores = self.words.scores(query)
        if where is not None:
            scores[~self.mask(where)] = 0.0
        near = np.flatnonzero(scores >= max(least_of_best(scores, k), np.finfo(np.float64).tiny))
        best = near[np.lexsort((near, -scores[near]))[:k]]
        return best, scores[best].tolist()

    def _meeting(self, where: Condition) -> tuple[Mask, Penalties]:
        """A mask of the rows that meet a condition, and penalties for all other rows and for rows without a vector."""
        key = (where.sql, 0) if where.at is None else (where.kind, bisect_right(self._ends, where.at))
        if key not in self._met:
            condition = where.expression().fill_null(False)
            read = self.columns.frame(dict.fromkeys(condition.meta.root_names()))
            met = read.select(condition.alias("met"))["met"].to_numpy()
            if len(self._met) == CONDITIONS_KEPT:
                del self._met[next(iter(self._met))]
            self._met[key] = met, np.where(met & self.vectors.is_there, np.float32(0), np.float32(-np.inf))
        return self._met[key]

    def _by(self, key: Key) -> tuple[Offsets, Offsets]:
        """The hashes of a key, sorted, and the place of each: a tenth of the memory of a dict."""
        if key not in self._keys:
            frame = self.columns.frame([key] if isinstance(key, str) else key)
            values: Iterable[Hashable] = frame[key] if isinstance(key, str) else frame.iter_rows()
            hashes = np.fromiter(map(hash, values), np.int64, len(self.columns))
            order = np.argsort(hashes, kind="stable")
            self._keys[key] = hashes[order], order
        return self._keys[key]


class Residents:
    """The tables in memory, by name, at the state of the last question; none if they take more than `most` bytes.

    Tables that a commit left alone are kept. Belongs to one event loop.
    """

    def __init__(self, wanted: Mapping[str, ResidentSpec], most: int) -> None:
        self._wanted, self._most = wanted, most
        self._read: dict[str, tuple[int, Resident]] = {}
        self._tables: Mapping[str, Resident] = {}
        self._at: Mapping[str, int] = {}
        self._requested: Mapping[str, int] = {}
        self._loading = asyncio.Lock()

    def current(self, tables: Tables) -> Mapping[str, Resident] | None:
        """The tables of this state; None if `of` must first decide whether to read them."""
        return self._tables if self._at == self._versions(tables) else None

    async def of(self, tables: Tables, *, is_eager: bool = False) -> Mapping[str, Resident]:
        """The tables of this state; with `is_eager` they are read at the first question."""
        versions = self._versions(tables)
        async with self._loading:
            if versions == self._at:
                return self._tables
            stats = await asyncio.gather(*(tables[name].stats() for name in self._wanted))
            size = sum(int(each["total_bytes"]) for each in stats)
            if self._most >= size > AT_ONCE and not is_eager and versions != self._requested:
                self._requested = versions
                return {}
            if size > self._most:
                self._read, self._tables, self._at = {}, {}, versions
                return self._tables
            for name, version in versions.items():
                if self._read.get(name, (0,))[0] != version:
                    self._read[name] = version, await self._loaded(tables, name)
                    release_unused_memory()
            self._tables, self._at = {name: table for name, (_, table) in self._read.items()}, versions
        return self._tables

    def _versions(self, tables: Tables) -> Mapping[str, int]:
        return {name: tables.versions[name] for name in self._wanted}

    async def _loaded(self, tables: Tables, name: str) -> Resident:
        spec = self._wanted[name]
        table, size = tables[name], await tables[name].count_rows()
        # one column at a time: of several that are read at once, all are in memory twice
        columns = {column: column_of(await tables.column(name, column)) for column in spec.columns}
        vectors = await _vectors(table, size, spec.is_compared) if spec.has_vectors else VectorRows(size, 0)
        earlier = self._read[name][1].words if name in self._read else None
        texts = await tables.column(name, spec.words) if spec.words else None
        words = await asyncio.to_thread(WordIndex, texts.fill_null(""), earlier) if texts is not None else None
        return Resident(Columns(columns, size), vectors, words, spec.end)


async def _vectors(table: AsyncTable, count: int, is_compared: bool) -> VectorRows:
    """The vectors of a table, zeros where there is none.

    Read in parts and apart from other columns: what LanceDB reads at once it keeps for as long as any column lives.
    """
    query = table.query().select(["vector"])
    dims = (await table.schema()).field("vector").type.list_size
    vectors = VectorRows(count, dims)
    for start in range(0, count, PART):
        begun = start
        for chunk in (await query.limit(PART).offset(start).to_arrow())["vector"].chunks:
            own = np.zeros((len(chunk), dims), np.float32)
            own[chunk.is_valid().to_numpy(zero_copy_only=False)] = chunk.flatten().to_numpy().reshape(-1, dims)
            vectors.write(begun, own)
            begun += len(chunk)
    if is_compared:
        await asyncio.to_thread(vectors.seal)
    return vectors
