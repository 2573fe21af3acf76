"""Similarity joins: all pairs above a threshold, exactly, without a comparison of all pairs (S1-03).

Two kinds: sets of words with a large common part, and unit vectors with a large cosine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.words import word_sets

from .similarity import Vectors, cosines, jaccard_of

# All pairs of texts that share most of their words, exactly, by a join on rare words (S1-03). Two sets of words with
# Jaccard ≥ t share at least ⌈t·n⌉ of the n words of either. So of any n − ⌈t·n⌉ + l words of one, l are shared: texts
# are compared if they share l of these rarest words. With l = 1 this is prefix filtering; if few distinct words occur
# in very many texts, two or three together are rare although each alone is not.


_MEETINGS = 30  # per set of words; above it, combinations of more words are tried
_MOST_WORDS = 3
_AT_ONCE = 10_000_000  # rows of one join
_MEASURED = 500_000
_SPREAD = 2_654_435_761  # an odd number: a hash of combinations of words
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
    filled = sets.with_columns(is_selected=selected, least=least).filter(pl.col("size") > 0)
    meetings = _cheapest_meetings(filled)
    found = [_overlaps(part, sets, threshold) for part in _met(meetings, threshold)]
    return pl.concat([pl.DataFrame(schema=OVERLAPS), *found]).unique().sort("first", "second")


def overlap_of(first: pl.Series, second: pl.Series) -> pl.Series:
    """Jaccard of two columns of sets of words, row by row; both empty 1.0."""
    sides = pl.DataFrame({"first": first, "second": second})
    return sides.select(jaccard_of(pl.col("first"), pl.col("second"))).to_series()


def _cheapest_meetings(filled: pl.DataFrame) -> pl.DataFrame:
    """Join keys of sets (group, key, set, size, is_selected), with the number of words that costs least."""
    best: tuple[int, pl.DataFrame] | None = None
    for together in range(1, _MOST_WORDS + 1):
        if best and (best[0] <= _MEETINGS * len(filled) or _combinations(filled, together) >= best[0]):
            break
        meetings = _meetings(filled, together)
        work = len(meetings) + _comparisons(meetings)
        if best is None or work < best[0]:
            best = work, meetings
    assert best is not None
    return best[1]


def _combinations(filled: pl.DataFrame, together: int) -> int:
    """Number of combinations of `together` words among the rarest words of all sets."""
    ways = pl.lit(1.0)
    for drawn in range(together):
        ways = ways * (_width(together).cast(pl.Float64) - drawn) / (drawn + 1)
    return int(filled.select(ways.clip(0).sum()).item())


def _comparisons(meetings: pl.DataFrame) -> int:
    met = meetings.group_by("group", "key").agg(
        pl.len().cast(pl.Int64), selected=pl.col("is_selected").sum().cast(pl.Int64)
    )
    return int(met.select((pl.col("len") * pl.col("selected")).sum()).item())


def _width(together: int) -> pl.Expr:
    """How many of the rarest words of a set to look at: every set that overlaps enough has `together` of them."""
    return pl.min_horizontal(pl.col("size") - pl.col("least") + together, "size")


def _meetings(filled: pl.DataFrame, together: int) -> pl.DataFrame:
    """Combinations of `together` words, and of fewer for sets that may pair with fewer shared words."""
    parts = [_combined(filled.filter(pl.col("least") <= fewer), fewer) for fewer in range(1, together)]
    return pl.concat([*parts, _combined(filled, together)])


def _combined(filled: pl.DataFrame, together: int) -> pl.DataFrame:
    about = ["group", "set", "size", "is_selected"]
    spread = (
        filled.select(*about, word=pl.col("words").list.head(_width(together)))
        .explode("word")
        .select(*about, place=pl.int_range(pl.len(), dtype=pl.Int32), word=pl.col("word").cast(pl.UInt64))
    )
    found = spread.rename({"word": "key"})
    for _ in range(together - 1):
        more = found.join(spread.select("set", "place", "word"), on="set", suffix="_next")
        # Equal keys of different words do no harm: the overlap is measured later.
        found = more.filter(pl.col("place_next") > pl.col("place")).select(
            *about, place="place_next", key=pl.col("key") * _SPREAD + pl.col("word") + 1
        )
    return found.select(*about, key=pl.col("key") * _MOST_WORDS + (together - 1))


def _met(meetings: pl.DataFrame, threshold: float) -> Iterator[pl.DataFrame]:
    """Pairs of sets with a common key and similar sizes, a bounded number at once."""
    key = ["group", "key"]
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


# All pairs of unit vectors above a cosine, exactly, without the whole matrix of products in memory. Rows are rotated so
# that their first few coordinates have most of their length. The rest adds at most the product of the two remaining
# lengths (Cauchy–Schwarz), which is one more coordinate: a narrow matrix product gives an upper bound of every cosine,
# and only pairs with a bound above the threshold are computed in full.


Rows = npt.NDArray[np.int32]

_STRIPE, _TILE = 1024, 4096  # rows and columns of one product of matrices: 16 MiB
_SLACK = 1e-4  # more than float32 loses in a product of a few thousand coordinates
_PENDING = 4_000_000  # pairs in memory before the best are chosen
_DENSE = 0.05  # share of a tile above which its whole product is cheaper than single pairs
_LEAST = 1e-6  # orthogonal rows, and zero rows, are never close
_SMALL = 4_000_000  # number of products below which the search for the best bound costs more than it saves
_SAMPLE = 20_000
_PREFIXES = (31, 47, 63, 95, 127, 191)
# Nanoseconds of a product per coordinate, and of one pair in full: only their ratio matters.
_COORDINATE_NS, _PAIR_NS = 0.0115, 200.0


class ClosePairs(NamedTuple):
    """Row numbers of pairs, first < second, and their cosines; in the order of the rows."""

    first: Rows
    second: Rows
    cosine: Vectors


def close_pairs(vectors: Vectors, seeds: int, threshold: float, per_seed: int, per_row: int) -> ClosePairs:
    """Pairs with cosine ≥ `threshold`, at least one side among the first `seeds` rows of `vectors` (n, d).

    Each seed keeps its best `per_row` pairs with other rows; a pair of seeds stays if it is among the best `per_seed`
    of either. Best is the higher cosine, then the lower row. Zero rows have no pairs. Memory is bounded by the narrow
    copy, (per_seed / 2 + per_row) pairs a seed, and a constant.
    """
    kept = _BestPairs(len(vectors), seeds, np.float32(max(threshold, _LEAST)), per_seed, per_row)
    bounds = _upper_bounds(vectors, seeds, threshold)
    room = np.empty((_STRIPE, _TILE), dtype=np.float32)
    for start in range(0, seeds, _STRIPE):
        rows = slice(start, min(start + _STRIPE, seeds))
        for column in range(start, len(vectors), _TILE):
            kept.take(_tile(rows, slice(column, column + _TILE), vectors, bounds, kept, room))
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

    def may_stay(self, first: Rows, second: Rows, bound: Vectors) -> npt.NDArray[np.bool_]:
        """Whether pairs with these upper bounds of the cosine can still be among the best."""
        among_seeds = np.minimum(self.least[0][first], self.least[0][second])
        least = np.where(second < self.seeds, among_seeds, self.least[1][first])
        passes: npt.NDArray[np.bool_] = bound >= least - np.float32(_SLACK)
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


def _tile(
    rows: slice, columns: slice, vectors: Vectors, bounds: Vectors, kept: _BestPairs, room: Vectors
) -> ClosePairs:
    """The pairs of some seeds with some rows; `room` is the buffer of their products."""
    whole = bounds[columns]
    limit = kept.threshold - np.float32(_SLACK)
    room = room[: rows.stop - rows.start, : len(whole)]
    tile = np.matmul(bounds[rows], whole.T, out=room)
    places = _passing(tile, limit)
    if len(places[0]) > _DENSE * tile.size and bounds.shape[1] < vectors.shape[1]:
        tile = np.matmul(vectors[rows], vectors[columns].T, out=room)
        places = _passing(tile, limit)
    first = (places[0] + rows.start).astype(np.int32)
    second = (places[1] + columns.start).astype(np.int32)
    stays = np.flatnonzero((first < second) & kept.may_stay(first, second, tile[places]))
    first, second = first[stays], second[stays]
    cosine = cosines(vectors, first, second)
    stays = np.flatnonzero(cosine >= kept.threshold)
    return ClosePairs(first[stays], second[stays], cosine[stays])


def _passing(tile: Vectors, limit: np.float32) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of the values that reach the limit."""
    row, column = np.divmod(np.flatnonzero(tile >= limit), tile.shape[1])
    return row, column


def _upper_bounds(vectors: Vectors, seeds: int, threshold: float) -> Vectors:
    """(n, m) rows whose products are upper bounds of the cosines: narrow if that saves time, else the vectors."""
    rows, dims = vectors.shape
    prefixes = [width for width in _PREFIXES if width < dims - 1]
    if seeds * rows < _SMALL or not prefixes:
        return vectors
    axes = _main_axes(vectors)[:, : prefixes[-1]]
    sample = vectors[:: max(1, rows // _TILE)]
    turned, lengths = sample @ axes, np.einsum("ij,ij->i", sample, sample)
    costs = {dims: dims * _COORDINATE_NS}
    for width in prefixes:
        narrow = _with_rest(turned[:, :width], lengths)
        passing = float(np.mean(narrow[::8] @ narrow.T >= threshold))
        costs[width] = width * _COORDINATE_NS + passing * _PAIR_NS
    best = min(costs, key=lambda width: (costs[width], width))
    return vectors if best == dims else _narrowed(vectors, axes[:, :best])


def _main_axes(vectors: Vectors) -> Vectors:
    """(d, d) directions, the longest of the rows first."""
    sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
    _, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    return np.ascontiguousarray(axes[:, ::-1], dtype=np.float32)


def _narrowed(vectors: Vectors, axes: Vectors) -> Vectors:
    narrow = np.empty((len(vectors), axes.shape[1] + 1), dtype=np.float32)
    for start in range(0, len(vectors), _SAMPLE):
        part = vectors[start : start + _SAMPLE]
        narrow[start : start + _SAMPLE] = _with_rest(part @ axes, np.einsum("ij,ij->i", part, part))
    return narrow


def _with_rest(turned: Vectors, lengths: Vectors) -> Vectors:
    """The first coordinates, and the length of the rest."""
    rest = np.sqrt(np.maximum(lengths - np.einsum("ij,ij->i", turned, turned), 0.0))
    return np.column_stack([turned, rest]).astype(np.float32, copy=False)
