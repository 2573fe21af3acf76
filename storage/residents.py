"""Residents: tables of one state read into memory whole, so that a question to them is arrays and no query at all.

A query of LanceDB takes a millisecond or more however small the table is, and one question makes a dozen of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .word_index import WordIndex

if TYPE_CHECKING:
    from .warm import Tables

AT_ONCE = 16 << 20
"""Bytes on disk up to which tables are read when they are first asked: that takes less than one question by queries.
Of more, only a state that is asked a second time is read, so that who asks once after each commit never waits."""
MOST = 320 << 20
"""Bytes on disk of the tables that are held at most: those of some 150,000 facts. In memory it is about as much."""
ROWS_KEPT = 20_000
_SLACK = 1e-5  # products of one vector and of many differ in their last digits
_STRETCH = 64

Row = Mapping[str, Any]
Places = npt.NDArray[np.intp]
Vectors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Key = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Rows with their vectors (n, d), zeros where there is none."""

    rows: Sequence[Row]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Condition:
    """The same condition as a filter of LanceDB and of a frame."""

    sql: str
    expression: pl.Expr


@dataclass(frozen=True, slots=True)
class Held:
    """What is read of a table: columns, the column that is searched by words, and whether vectors are."""

    columns: tuple[str, ...]
    words: str | None = None
    has_vectors: bool = False


class Resident:
    """One table at one version. Rows that are handed out are shared: they are to be read only."""

    def __init__(
        self, frame: pl.DataFrame, vectors: Vectors, has_vector: npt.NDArray[np.bool_], words: WordIndex | None
    ) -> None:
        self.frame, self.vectors, self.words = frame, vectors, words
        self._has_vector = has_vector
        self._rows: dict[int, Row] = {}
        self._keys: dict[Key, dict[Hashable, list[int]]] = {}
        self._mask: tuple[str, npt.NDArray[np.bool_]] = ("", has_vector)
        self._foreseen: dict[bytes, Vectors] = {}

    def places(self, key: Key, ids: Iterable[Hashable], where: Condition | None = None) -> list[int]:
        """Where the rows are whose key is among the ids, in their order."""
        held = self._by(key)
        found = sorted({place for name in ids for place in held.get(name, ())})
        if where is None or not found:
            return found
        mask = self.mask(where)
        return [place for place in found if mask[place]]

    def rows(self, places: Sequence[int]) -> Sequence[Row]:
        """The rows at these places."""
        held = self._rows
        missing = [place for place in places if place not in held]
        if missing:
            if len(held) + len(missing) > ROWS_KEPT:
                held = self._rows = {place: held[place] for place in places if place in held}
            held.update(zip(missing, self.frame[missing].rows(named=True), strict=True))
        return [held[place] for place in places]

    def mask(self, where: Condition) -> npt.NDArray[np.bool_]:
        """(n,) which rows meet a condition."""
        if self._mask[0] != where.sql:
            met = self.frame.select(where.expression.fill_null(False).alias("met"))["met"]
            self._mask = (where.sql, met.to_numpy())
        return self._mask[1]

    def foresee(self, vectors: Vectors) -> None:
        """Compare many vectors at once; each is then looked up by `nearest`."""
        products = vectors @ self.vectors.T
        self._foreseen = {vector.tobytes(): row for vector, row in zip(vectors, products, strict=True)}

    def nearest(self, vector: Vectors, k: int, where: Condition) -> tuple[list[int], list[float]]:
        """The `k` rows nearest to a unit vector that meet the condition, with their cosines, best first."""
        foreseen = self._foreseen.get(vector.tobytes())
        products = self.vectors @ vector if foreseen is None else foreseen
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

    def _by(self, key: Key) -> dict[Hashable, list[int]]:
        if key not in self._keys:
            values = self.frame[key].to_list() if isinstance(key, str) else self.frame.select(key).rows()
            found: dict[Hashable, list[int]] = {}
            for place, value in enumerate(values):
                found.setdefault(value, []).append(place)
            self._keys[key] = found
        return self._keys[key]


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
    """The tables that are held of the state that was asked last, by name; none where they would take too much memory.

    Tables that a commit left alone are kept. Belongs to one event loop.
    """

    def __init__(self, wanted: Mapping[str, Held], most: int = MOST) -> None:
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
        columns = [*held.columns, *([held.words] if held.words else []), *(["vector"] if held.has_vectors else [])]
        rows = await tables[name].query().select(columns).to_arrow()
        earlier = self._read[name][1].words if name in self._read else None
        return await asyncio.to_thread(_resident, rows, held, earlier)


def _resident(rows: pa.Table, held: Held, earlier: WordIndex | None) -> Resident:
    vectors, has_vector = _vectors(rows)
    frame = pl.from_arrow(rows.drop_columns(["vector"]) if held.has_vectors else rows)
    assert isinstance(frame, pl.DataFrame)
    words = WordIndex(frame[held.words].fill_null("").to_list(), earlier) if held.words else None
    return Resident(frame.select(held.columns).rechunk(), vectors, has_vector, words)


def _vectors(rows: pa.Table) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    if "vector" not in rows.column_names:
        return np.zeros((len(rows), 0), np.float32), np.zeros(len(rows), np.bool_)
    column = rows["vector"]
    has_vector = column.is_valid().to_numpy()
    matrix = np.zeros((len(rows), column.type.list_size), np.float32)
    flat = column.drop_null().combine_chunks().flatten() if has_vector.any() else None
    if flat is not None:
        matrix[has_vector] = flat.to_numpy().reshape(-1, matrix.shape[1])
    return matrix, has_vector
