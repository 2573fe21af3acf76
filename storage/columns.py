"""Columns: a table in memory of which a few rows at a time are made, in microseconds and in little memory.

Polars holds 16 bytes for each text, even for one that is not there, and takes longer to gather thirty rows than a
question needs to rank them. To take a text apart costs a quarter of a millisecond, to look for a few words in it a
thousandth of that: where no index has the texts, only those that say most of a query are taken apart.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import count as count_from
from types import MappingProxyType
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slowwave.common.text import segmented

Places = npt.NDArray[np.int64]
Row = Mapping[str, Any]

REPEATED = 8
"""Rows for each distinct value from which on a column is held as numbers of its values."""
_MOST_CODED = 1 << 16
_TIME = pl.Datetime("us", "UTC")
_FIRST_TIME = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))


class Column(Protocol):
    """One column of n rows."""

    def at(self, places: Places) -> list[Any]:
        """The values at these places."""

    def whole(self) -> pl.Series:
        """All values."""


@dataclass(frozen=True, slots=True)
class Coded:
    """Few values, each many times: (n,) the number of the value of each row."""

    values: npt.NDArray[np.object_]
    codes: npt.NDArray[Any]
    kind: pl.DataType

    def at(self, places: Places) -> list[Any]:
        """The values at these places."""
        found: list[Any] = self.values[self.codes[places]].tolist()
        return found

    def whole(self) -> pl.Series:
        """All values."""
        return pl.Series(self.values.tolist(), dtype=self.kind).gather(self.codes.astype(np.uint32))


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of which most differ."""

    array: pa.LargeStringArray

    def at(self, places: Places) -> list[Any]:
        """The values at these places."""
        found: list[Any] = self.array.take(pa.array(places)).to_pylist()
        return found

    def whole(self) -> pl.Series:
        """All values."""
        return pl.Series(self.array)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers or times of which most differ: `numbers` (n,) are the values, times as microseconds since 1970."""

    values: pl.Series
    numbers: npt.NDArray[Any]
    is_missing: npt.NDArray[np.bool_] | None

    def at(self, places: Places) -> list[Any]:
        """The values at these places."""
        found = self.numbers[places].tolist()
        if self.values.dtype == _TIME:
            found = [_FIRST_TIME + timedelta(microseconds=number) for number in found]
        return found if self.is_missing is None else _without(found, self.is_missing[places])

    def whole(self) -> pl.Series:
        """All values."""
        return self.values


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """Anything else."""

    values: pl.Series

    def at(self, places: Places) -> list[Any]:
        """The values at these places."""
        return self.values[places].to_list()  # `gather` is a lazy query, which takes three times as long

    def whole(self) -> pl.Series:
        """All values."""
        return self.values


class Columns:
    """n rows by columns."""

    def __init__(self, columns: Mapping[str, Column], size: int) -> None:
        self._columns, self._size = columns, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> Column:
        """One column."""
        return self._columns[name]

    def items(self) -> Iterable[tuple[str, Column]]:
        """All columns by name."""
        return self._columns.items()

    def frame(self, names: Iterable[str]) -> pl.DataFrame:
        """Some of the columns as a frame."""
        return pl.DataFrame([self._columns[name].whole().alias(name) for name in names])

    def rows(self, places: Places, names: Sequence[str] | None = None) -> list[Row]:
        """The rows at these places, with these columns if they exist; by default with all."""
        wanted = [name for name in (self._columns if names is None else names) if name in self._columns]
        parts = [self._columns[name].at(places) for name in wanted]
        return [dict(zip(wanted, row, strict=True)) for row in zip(*parts, strict=True)]


def column_of(series: pl.Series) -> Column:
    """A column in the form that takes least."""
    distinct = series.unique(maintain_order=True)
    if REPEATED * len(distinct) <= len(series) and len(distinct) <= _MOST_CODED:
        return _coded(series, distinct)
    if series.dtype == pl.String:
        return Texts(series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()))
    is_number = series.dtype.is_numeric() or series.dtype == _TIME
    return _numbers(series.rechunk()) if is_number else PlainColumn(series.rechunk())


def _numbers(series: pl.Series) -> Numbers:
    is_missing = series.is_null().to_numpy() if series.null_count() else None
    return Numbers(series, series.to_physical().fill_null(0).to_numpy(), is_missing)


def _without(values: list[Any], is_missing: npt.NDArray[np.bool_]) -> list[Any]:
    return [None if is_gone else value for value, is_gone in zip(values, is_missing.tolist(), strict=True)]


def _coded(series: pl.Series, distinct: pl.Series) -> Coded:
    numbered = distinct.to_frame("value").with_row_index("code")
    coded = series.to_frame("value").join(numbered, on="value", how="left", nulls_equal=True, maintain_order="left")
    values = np.empty(len(distinct), np.object_)
    values[:] = distinct.to_list()
    return Coded(values, coded["code"].to_numpy().astype(np.min_scalar_type(len(distinct))), series.dtype)


# Word index: BM25 over a column in memory, with the words, the weights and so the scores of LanceDB's own index.


Scores = npt.NDArray[np.float64]
Words = npt.NDArray[np.int32]
K1, B = 1.2, 0.75


class WordIndex:
    """n texts, and for each word the texts that say it: `places[starts[j]:starts[j + 1]]`, so often as `counts` say.

    `words` are the numbers of the words, in order. Indexes of `earlier` texts share their numbers with it, the first of
    them, and only texts that none of them has are taken apart.
    """

    def __init__(self, texts: Iterable[str], *earlier: WordIndex) -> None:
        self._numbers: dict[str, int] = earlier[0]._numbers if earlier else {}
        self._next: Iterator[int] = earlier[0]._next if earlier else count_from(0)
        self._known: dict[int, Words] = {}  # by hash: the texts themselves would be held twice
        known = [index._known for index in earlier]
        parts = []
        for text in texts:
            key = hash(text)
            if key not in self._known:
                found = next((words[key] for words in known if key in words), None)
                self._known[key] = self._taken_apart(text) if found is None else found
            parts.append(self._known[key])
        self.size = len(parts)
        self.lengths = np.fromiter(map(len, parts), np.int32, len(parts))
        words = np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int64)
        where = words * max(self.size, 1) + np.repeat(np.arange(self.size), self.lengths)
        pairs, counts = np.unique(where, return_counts=True)
        word, places = np.divmod(pairs, max(self.size, 1))
        self.words, first = np.unique(word, return_index=True)
        self.starts = np.append(first, len(word))
        self.places: Words = places.astype(np.int32)
        self.counts = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))

    def saying(self, word: str) -> tuple[Words, npt.NDArray[Any]]:
        """Where the texts are that say a word, and how often each does."""
        number = self._numbers.get(word, -1)
        slot = int(np.searchsorted(self.words, number))
        is_said = slot < len(self.words) and self.words[slot] == number
        span = slice(self.starts[slot], self.starts[slot + 1]) if is_said else slice(0, 0)
        return self.places[span], self.counts[span]

    def scores(self, query: str) -> Scores:
        """(n,) `word_scores` of these texts alone."""
        return word_scores(query, [(self, None)])[0]

    def _taken_apart(self, text: str) -> Words:
        words = index_terms(text)
        return np.array([self._numbers.setdefault(word, next(self._next)) for word in words], np.int32)


def word_scores(
    query: str,
    parts: Sequence[tuple[WordIndex, npt.NDArray[np.bool_] | None]],
    of: int = 0,
    holding: Mapping[str, int] = MappingProxyType({}),
) -> list[Scores]:
    """BM25 of each text of each part, 0 where it has no word of the query; a word that stands there twice counts twice.

    A part may have texts that are `gone` and count no more (their scores mean nothing). Where the texts are only some
    `of` more, words are as rare as in all of them; `holding` says how many texts have a word, where others have it too.
    """
    here = [index.size if gone is None else index.size - int(gone.sum()) for index, gone in parts]
    long = [int(i.lengths.sum()) if gone is None else int(i.lengths[~gone].sum()) for i, gone in parts]
    size, mean = sum(here), max(sum(long) / max(sum(here), 1), 1.0)
    scores = [np.zeros(index.size) for index, _ in parts]
    for word in index_terms(query):
        found = [index.saying(word) for index, _ in parts]
        said = sum(
            len(places) if gone is None else len(places) - int(gone[places].sum())
            for (places, _), (_, gone) in zip(found, parts, strict=True)
        )
        said = max(said, holding.get(word, 0))
        rarity = np.log1p((max(size, of, said) - said + 0.5) / (said + 0.5))
        for (index, _), (places, counts), total in zip(parts, found, scores, strict=True):
            damping = K1 * (1.0 - B + B * index.lengths[places] / mean)
            total[places] += rarity * counts * (K1 + 1.0) / (counts + damping)
    return scores


def index_terms(text: str) -> list[str]:
    """The words of a text as the full-text index of a column has them: folded, stemmed, without stop words.

    Beyond that index, which takes a sentence without spaces for one word, such a sentence is `segmented`.
    """
    from lancedb import tokenize

    return [token.text for token in tokenize(segmented(text))]


# Memory that was freed, given back to the system. Reading a table leaves free pieces all over the C library's heap,
# which keeps them: some 50 MB of 600 after the tables of 100,000 facts were read.


def release_unused_memory() -> None:
    """Give back what the C library keeps free; nothing where it has no such call (musl, macOS, Windows)."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> ctypes._FuncPointer | None:
    try:
        found: ctypes._FuncPointer | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # where a library must be named
        return None
    return found


_RAREST = 16
"""Words of a query by which texts are chosen; all count in the scores."""


def best_scores(texts: pl.Series, queries: Sequence[str], of: int, most: int) -> list[Scores]:
    """For each query the BM25 of each of n texts, (n,): at most `most` texts of a query are above 0.

    Those are the texts that say its rarest words; the words are as rare as in `of` texts.
    """
    texts = texts.fill_null("")
    if len(texts) <= most:
        whole = WordIndex(texts)
        return [word_scores(query, [(whole, None)], of)[0] for query in queries]
    sought = pl.DataFrame(
        [(number, word) for number, query in enumerate(queries) for word in _telling(index_terms(query))],
        schema={"query": pl.Int64, "word": pl.String},
        orient="row",
    )
    if sought.is_empty():
        return [np.zeros(len(texts)) for _ in queries]
    said = (
        texts.str.to_lowercase()
        .str.extract_many(sought["word"].unique(maintain_order=True).to_list(), overlapping=True)
        .list.unique()
        .rename("word")
        .to_frame()
        .with_row_index("place")
        .explode("word")
        .drop_nulls()
    )
    saying = said.group_by("word").len()
    rarity = (1 + (max(of, len(texts)) - pl.col("len") + 0.5).clip(0.5) / (pl.col("len") + 0.5)).log()
    rarest = sought.join(saying.with_columns(rarity=rarity), on="word").sort("rarity", "word", descending=[True, False])
    sums = said.join(rarest.group_by("query").head(_RAREST), on="word")
    sums = sums.group_by("query", "place").agg(pl.col("rarity").sum().round(9))
    kept = sums.sort("query", "rarity", "place", descending=[False, True, True]).group_by("query").head(most)
    places = kept["place"].unique().sort()
    others = {word for query in queries for word in index_terms(query)} - {*saying["word"]}
    holding = {word: int(texts.str.contains(word, literal=True).sum()) for word in sorted(others)}
    index, number_of = WordIndex(texts.gather(places)), holding | dict(saying.iter_rows())
    own = {number: rows["place"] for (number,), rows in kept.group_by("query")}
    found = []
    for number, query in enumerate(queries):
        scores = np.zeros(len(texts))
        scores[places.to_numpy()] = word_scores(query, [(index, None)], of, number_of)[0]
        mask = np.zeros(len(texts), bool)
        mask[own.get(number, pl.Series([], dtype=pl.UInt32)).to_numpy()] = True
        found.append(np.where(mask, scores, 0.0))
    return found


def _telling(words: Sequence[str]) -> list[str]:
    """The distinct words, without those of one character where there are longer ones."""
    return [*dict.fromkeys(word for word in words if len(word) > 1)] or [*dict.fromkeys(words)]
