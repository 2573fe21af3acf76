"""Residents: tables of one state read into memory whole, so that a question to them is arrays and no query at all.

A query of LanceDB takes a millisecond or more however small the table is, and one question makes a dozen of them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .word_index import WordIndex

if TYPE_CHECKING:
    from lancedb import AsyncTable

    from .warm import Tables

AT_ONCE = 16 << 20
"""Bytes on disk up to which tables are read when they are first asked: that takes less than one question by queries.
Of more, only a state that is asked a second time is read, so that who asks once after each commit never waits."""
ROWS_KEPT = 8_000
"""Rows of a large table that are kept as they are handed out."""
PART = 4_096
"""Vectors that are read at a time."""
ROWS_AT_ONCE = 20_000
"""Rows up to which all of a table are made at once; of a larger one, those that are asked for."""
_SLACK = 1e-5  # products of one vector and of many differ in their last digits
_STRETCH = 64

Row = Mapping[str, Any]
Vectors = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Key = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
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
class Held:
    """What is read of a table: columns, that which is searched by words, whether vectors are, and when rows end."""

    columns: tuple[str, ...]
    words: str | None = None
    has_vectors: bool = False
    end: str | None = None


class Resident:
    """One table at one version. Rows that are handed out are shared: they are to be read only."""

    def __init__(
        self, frame: pl.DataFrame, vectors: Vectors, words: WordIndex | None = None, ends: pl.Series | None = None
    ) -> None:
        self.frame, self.vectors, self.words = frame, vectors, words
        self._has_vector: Mask = np.asarray(vectors.any(axis=1), np.bool_)
        self._ends = [] if ends is None else ends.drop_nulls().unique().sort().to_list()
        self._rows: dict[int, Row] = {}
        self._keys: dict[Key, tuple[Offsets, Offsets]] = {}
        self._mask: tuple[tuple[str, int], Mask] = (("", 0), self._has_vector)
        self._foreseen: dict[bytes, Vectors] = {}

    def places(self, key: Key, ids: Iterable[Hashable], where: Condition | None = None) -> list[int]:
        """Where the rows are whose key is among the ids, in their order."""
        hashes, order = self._by(key)
        asked = np.fromiter({hash(name) for name in ids}, np.int64)
        first = np.searchsorted(hashes, asked)
        counts = np.searchsorted(hashes, asked, "right") - first
        slots = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        found = np.sort(order[slots])
        places: list[int] = (found if where is None else found[self.mask(where)[found]]).tolist()
        return places

    def rows(self, places: Sequence[int]) -> Sequence[Row]:
        """The rows at these places."""
        held = self._rows
        missing = [place for place in places if place not in held]
        if missing and len(self.frame) <= ROWS_AT_ONCE:
            held.update(enumerate(_rows_of(self.frame)))
        elif missing:
            if len(held) + len(missing) > ROWS_KEPT:
                held = self._rows = {place: held[place] for place in places if place in held}
            held.update(zip(missing, _rows_of(self.frame[missing]), strict=True))
        return [held[place] for place in places]

    def mask(self, where: Condition) -> Mask:
        """(n,) which rows meet a condition."""
        key = (where.sql, 0) if where.at is None else (where.kind, bisect_right(self._ends, where.at))
        if self._mask[0] != key:
            met = self.frame.select(where.expression().fill_null(False).alias("met"))["met"]
            self._mask = (key, met.to_numpy())
        return self._mask[1]

    def foresee(self, vectors: Vectors) -> None:
        """Compare many vectors at once; each is then looked up by `nearest`."""
        products = vectors @ self.vectors.T
        self._foreseen = {vector.tobytes(): row for vector, row in zip(vectors, products, strict=True)}

    def nearest(self, vector: Vectors, k: int, where: Condition) -> tuple[list[int], list[float]]:
        """The `k` rows nearest to a unit vector that meet the condition, with their cosines, best first."""
        foreseen = self._foreseen.get(vector.tobytes())
        # one vector by einsum: threads that wait for each other would cost more processor time than the product
        products = np.einsum("ij,j->i", self.vectors, vector) if foreseen is None else foreseen
        is_met = self.mask(where) & self._has_vector
        near = np.flatnonzero(is_met & (products >= least_of_best(np.where(is_met, products, -np.inf), k) - _SLACK))
        cosines = self.vectors[near].astype(np.float64) @ vector.astype(np.float64)
        best = np.lexsort((near, -cosines))[:k]
        return near[best].tolist(), cosines[best].tolist()

    def matching(self, query: str, k: int, where: Condition | None) -> tuple[list[int], list[float]]:
        """The `k` rows whose words match a query best (BM25), best first."""
        if self.words is None:
            return [], []
        scores = self.words.scores(query)
        if where is not None:
            scores[~self.mask(where)] = 0.0
        near = np.flatnonzero(scores >= max(least_of_best(scores, k), np.finfo(np.float64).tiny))
        best = np.lexsort((near, -scores[near]))[:k]
        return near[best].tolist(), scores[near[best]].tolist()

    def _by(self, key: Key) -> tuple[Offsets, Offsets]:
        """The hashes of a key, sorted, and the place of each: a tenth of the memory of a dict."""
        if key not in self._keys:
            values: Iterable[Hashable] = self.frame[key] if isinstance(key, str) else self.frame.select(key).iter_rows()
            hashes = np.fromiter(map(hash, values), np.int64, len(self.frame))
            order = np.argsort(hashes, kind="stable")
            self._keys[key] = hashes[order], order
        return self._keys[key]


def _rows_of(frame: pl.DataFrame) -> Iterator[Row]:
    """The rows, made by columns: twice as fast as by polars where some are times."""
    return (dict(zip(frame.columns, row, strict=True)) for row in zip(*(each.to_list() for each in frame), strict=True))


def least_of_best(values: npt.NDArray[Any], k: int) -> float:
    """At most the `k`-th largest of the values (n,), and near it; −∞ where there are no more than k.

    Of many, it is the k-th largest of the maxima of stretches, found much faster than by partition of the whole.
    """
    if len(values) <= k:
        return float("-inf")
    if len(values) > 4 * k * _STRETCH:
        values = values[: len(values) // _STRETCH * _STRETCH].reshape(-1, _STRETCH).max(axis=1)
    return float(np.partition(values, -k)[-k])


class Residents:
    """The tables that are held of the state that was asked last, by name; none where they take more than `most` bytes.

    Tables that a commit left alone are kept. Belongs to one event loop.
    """

    def __init__(self, wanted: Mapping[str, Held], most: int) -> None:
        self._wanted, self._most = wanted, most
        self._read: dict[str, tuple[int, Resident]] = {}
        self._held: Mapping[str, Resident] = {}
        self._at: Mapping[str, int] = {}
        self._asked: Mapping[str, int] = {}
        self._loading = asyncio.Lock()

    async def of(self, tables: Tables, *, is_asked_often: bool = False) -> Mapping[str, Resident]:
        """Those of this state; where it `is_asked_often`, it is not waited for a second question."""
        versions = {name: tables.versions[name] for name in self._wanted}
        if versions == self._at:
            return self._held
        async with self._loading:
            if versions == self._at:
                return self._held
            stats = await asyncio.gather(*(tables[name].stats() for name in self._wanted))
            size = sum(int(each["total_bytes"]) for each in stats)
            if self._most >= size > AT_ONCE and not is_asked_often and versions != self._asked:
                self._asked = versions
                return {}
            if size > self._most:
                self._read, self._held, self._at = {}, {}, versions
                return self._held
            for name, version in versions.items():
                if self._read.get(name, (0,))[0] != version:
                    self._read[name] = version, await self._loaded(tables, name)
            self._held, self._at = {name: table for name, (_, table) in self._read.items()}, versions
        return self._held

    async def _loaded(self, tables: Tables, name: str) -> Resident:
        held = self._wanted[name]
        columns = [*held.columns, *([held.words] if held.words else [])]
        frame = pl.DataFrame(await tables[name].query().select(columns).to_arrow())
        vectors = np.zeros((len(frame), 0), np.float32)
        if held.has_vectors:
            vectors = await _vectors(tables[name], len(frame))
        earlier = self._read[name][1].words if name in self._read else None
        return await asyncio.to_thread(_resident, frame, vectors, held, earlier)


async def _vectors(table: AsyncTable, count: int) -> Vectors:
    """The vectors of a table, (count, d), zeros where there is none.

    Read in parts and apart from other columns: what LanceDB reads at once it keeps for as long as any column lives.
    """
    query = table.query().select(["vector"])
    vectors = np.zeros((count, (await table.schema()).field("vector").type.list_size), np.float32)
    for start in range(0, count, PART):
        begun = start
        for chunk in (await query.limit(PART).offset(start).to_arrow())["vector"].chunks:
            own = vectors[begun : begun + len(chunk)]
            own[chunk.is_valid().to_numpy(zero_copy_only=False)] = chunk.flatten().to_numpy().reshape(-1, own.shape[1])
            begun += len(chunk)
    return vectors


def _resident(frame: pl.DataFrame, vectors: Vectors, held: Held, earlier: WordIndex | None) -> Resident:
    words = WordIndex(frame[held.words].fill_null(""), earlier) if held.words else None
    ends = frame[held.end] if held.end else None
    return Resident(frame.select(held.columns).rechunk(), vectors, words, ends)
