"""Similarity joins: all pairs above a threshold, exactly, without a comparison of all pairs (S1-03).

Two kinds: sets of words with a large common part, and unit vectors with a large cosine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.words import word_sets

from .similarity import Vectors, cosines, jaccard_of

# All pairs of texts that share most of their words, exactly, by a join on rare words (S1-03). Two sets of words with
# Jaccard ≥ t share at least ⌈t·n⌉ of the n words of either, so of any n − ⌈t·n⌉ + 1 words of one at least one:
# texts are compared if they share one of these rarest words (prefix filtering).


_AT_ONCE = 10_000_000  # rows of one join
_MEASURED = 500_000
OVERLAPS = {"first": pl.Int32, "second": pl.Int32, "jaccard": pl.Float64}


def distinct_words(texts: pl.Series, groups: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """The number of each text's set of words within its group, and the sets: set, group, size, words (rarest first).

    Words are numbers, smaller the rarer they are.
    """
    texts = texts.cast(pl.String).fill_null("")
    known = texts.unique(maintain_order=True).to_frame("text")
    known = known.with_columns(words=word_sets(known["text"]).list.sort())
    key = pl.struct(pl.col("words").list.join(" "), "group").rank("dense").cast(pl.Int32) - 1
    coded_texts = pl.DataFrame({"text": texts, "group": groups}).join(
        known, on="text", how="left", maintain_order="left"
    )
    coded_texts = coded_texts.with_columns(set=key)
    sets = coded_texts.unique("set", keep="first").select("set", "group", "words").sort("set")
    spread = sets.explode("words").drop_nulls("words")
    often = spread.group_by("words").len().sort("len", "words").with_row_index("word")
    coded = spread.join(often, on="words").sort("set", "word").group_by("set", maintain_order=True).agg("word")
    joined = sets.select("set", "group").join(coded, on="set", how="left", maintain_order="left")
    words = joined["word"].fill_null(pl.Series([[]], dtype=pl.List(pl.UInt32)))
    return coded_texts["set"], joined.select("set", "group", size=words.list.len().cast(pl.Int32), words=words)


def shared_words(sets: pl.DataFrame, selected: pl.Series, threshold: float) -> pl.DataFrame:
    """OVERLAPS: pairs of sets of one group with Jaccard ≥ `threshold`, first < second, at least one of them `selected`.

    `sets` as from `distinct_words`, `selected` is boolean in its order. Sets without a common word never pair.
    """
    least = pl.max_horizontal((pl.col("size") * threshold - 1e-9).ceil().cast(pl.Int32), 1)
    filled = sets.with_columns(is_selected=selected).filter(pl.col("size") > 0)
    rarest = pl.col("words").list.head(pl.col("size") - least + 1)
    meetings = filled.select("group", "set", "size", "is_selected", word=rarest).explode("word")
    found = [_overlaps(part, sets, threshold) for part in _met(meetings, threshold)]
    return pl.concat([pl.DataFrame(schema=OVERLAPS), *found]).unique().sort("first", "second")


def overlap_of(first: pl.Series, second: pl.Series) -> pl.Series:
    """Jaccard of two columns of sets of words, row by row; both empty 1.0."""
    sides = pl.DataFrame({"first": first, "second": second})
    return sides.select(jaccard_of(pl.col("first"), pl.col("second"))).to_series()


def _met(meetings: pl.DataFrame, threshold: float) -> Iterator[pl.DataFrame]:
    """Pairs of sets with a common word and similar sizes, a bounded number at once."""
    key = ["group", "word"]
    counts = meetings.with_columns(met=pl.len().over(key)).filter(pl.col("is_selected") & (pl.col("met") > 1))
    selected = counts.with_columns(part=(pl.col("met").cast(pl.Int64).cum_sum() // _AT_ONCE)).drop("met")
    for part in selected.partition_by("part", include_key=False):
        pairs = part.join(meetings, on=key, suffix="_b")
        long_enough = pl.min_horizontal("size", "size_b") >= pl.max_horizontal("size", "size_b") * threshold - 1e-9
        is_new = pl.when("is_selected_b").then(pl.col("set") < pl.col("set_b")).otherwise(True)
        yield (
            pairs.filter(long_enough & is_new & (pl.col("set") != pl.col("set_b")))
            .select(first=pl.min_horizontal("set", "set_b"), second=pl.max_horizontal("set", "set_b"))
            .unique()
        )


def _overlaps(pairs: pl.DataFrame, sets: pl.DataFrame, threshold: float) -> pl.DataFrame:
    words = sets["words"]
    parts = [
        part.with_columns(jaccard=overlap_of(words.gather(part["first"]), words.gather(part["second"]))).filter(
            pl.col("jaccard") >= threshold
        )
        for part in pairs.iter_slices(_MEASURED)
    ]
    return pl.concat([pl.DataFrame(schema=OVERLAPS), *parts])


# All pairs of unit vectors above a cosine, exactly, tile by tile, without the whole matrix of products in memory.


Rows = npt.NDArray[np.int32]

_STRIPE, _TILE = 1024, 4096  # rows and columns of one product of matrices: 16 MiB
_SLACK = 1e-4  # more than float32 loses in a product of a few thousand coordinates
_PENDING = 4_000_000  # pairs in memory before the best are chosen
_LEAST = 1e-6  # orthogonal rows, and zero rows, are never close


class ClosePairs(NamedTuple):
    """Row numbers of pairs, first < second, and their cosines; in the order of the rows."""

    first: Rows
    second: Rows
    cosine: Vectors


def close_pairs(vectors: Vectors, seeds: int, threshold: float, per_seed: int, per_row: int) -> ClosePairs:
    """Pairs with cosine ≥ `threshold`, at least one side among the first `seeds` rows of `vectors` (n, d).

    Each seed keeps its best `per_row` pairs with other rows; a pair of seeds stays if it is among the best `per_seed`
    of either. Best is the higher cosine, then the lower row. Zero rows have no pairs. Memory is bounded by
    (per_seed / 2 + per_row) pairs a seed and a constant.
    """
    kept = _BestPairs(len(vectors), seeds, np.float32(max(threshold, _LEAST)), per_seed, per_row)
    room = np.empty((_STRIPE, _TILE), dtype=np.float32)
    for start in range(0, seeds, _STRIPE):
        rows = slice(start, min(start + _STRIPE, seeds))
        for column in range(start, len(vectors), _TILE):
            kept.take(_tile(rows, slice(column, column + _TILE), vectors, kept, room))
    return kept.best()


class _BestPairs:
    """The best pairs until now, and the least cosine for a further one."""

    def __init__(self, rows: int, seeds: int, threshold: np.float32, per_seed: int, per_row: int) -> None:
        self.seeds, self.threshold = seeds, threshold
        self._limits = (per_seed, per_row)
        self._parts: list[ClosePairs] = []
        self._pending = 0  # since the best were last chosen
        # The least cosine of a row with all its places taken: against seeds, and against other rows.
        self.least = np.full((2, rows), threshold, dtype=np.float32)

    def may_stay(self, first: Rows, second: Rows, cosine: Vectors) -> npt.NDArray[np.bool_]:
        """Whether pairs with about these cosines can still be among the best."""
        among_seeds = np.minimum(self.least[0][first], self.least[0][second])
        least = np.where(second < self.seeds, among_seeds, self.least[1][first])
        passes: npt.NDArray[np.bool_] = cosine >= least - np.float32(_SLACK)
        return passes

    def take(self, found: ClosePairs) -> None:
        """Add pairs; choose the best if too many are in memory."""
        if len(found.first):
            self._parts.append(found)
            self._pending += len(found.first)
        if self._pending > _PENDING:
            self._cut()

    def best(self) -> ClosePairs:
        """The best of all pairs."""
        self._cut()
        return self._parts[0]

    def _cut(self) -> None:
        whole = ClosePairs(
            np.concatenate([np.empty(0, np.int32), *(part.first for part in self._parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.second for part in self._parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.cosine for part in self._parts)]),
        )
        stays = best_of(*whole, self.seeds, *self._limits, self.least)
        self._parts = [ClosePairs(whole.first[stays], whole.second[stays], whole.cosine[stays])]
        self._pending = 0


def best_of(
    first: Rows,
    second: Rows,
    measure: npt.NDArray[np.floating],
    seeds: int,
    per_seed: int,
    per_row: int,
    least: Vectors | None = None,
) -> npt.NDArray[np.int64]:
    """Places of the pairs that stay, ordered by (first, second); the rule of `close_pairs` for any measure.

    Where given, `least` (2, n) is raised to the measure of each row's last place against seeds, and against others.
    """
    stays = np.zeros(len(first), dtype=bool)
    is_inner = second < seeds
    inner, outer = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
    both_ways = (np.concatenate([first[inner], second[inner]]), np.concatenate([second[inner], first[inner]]))
    places = _first_places(*both_ways, np.tile(measure[inner], 2), per_seed, None if least is None else least[0])
    stays[inner[places % len(inner)] if len(inner) else inner] = True
    places = _first_places(first[outer], second[outer], measure[outer], per_row, None if least is None else least[1])
    stays[outer[places]] = True
    chosen = np.flatnonzero(stays)
    return chosen[np.lexsort((second[chosen], first[chosen]))]


def _first_places(
    owner: Rows, other: Rows, measure: npt.NDArray[np.floating], limit: int, least: Vectors | None
) -> npt.NDArray[np.int64]:
    """Places of each owner's best `limit` pairs."""
    order = np.lexsort((other, -measure, owner))
    ordered = owner[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    if least is not None:
        last = order[rank == limit - 1]
        least[owner[last]] = measure[last]
    return order[rank < limit]


def _tile(rows: slice, columns: slice, vectors: Vectors, kept: _BestPairs, room: Vectors) -> ClosePairs:
    """The pairs of some seeds with some rows; `room` is the buffer of their products."""
    others = vectors[columns]
    tile = np.matmul(vectors[rows], others.T, out=room[: rows.stop - rows.start, : len(others)])
    row, column = np.divmod(np.flatnonzero(tile >= kept.threshold - np.float32(_SLACK)), tile.shape[1])
    first, second = (row + rows.start).astype(np.int32), (column + columns.start).astype(np.int32)
    stays = np.flatnonzero((first < second) & kept.may_stay(first, second, tile[row, column]))
    first, second = first[stays], second[stays]
    cosine = cosines(vectors, first, second)  # in full, as everywhere: a product of matrices rounds otherwise
    stays = np.flatnonzero(cosine >= kept.threshold)
    return ClosePairs(first[stays], second[stays], cosine[stays])
