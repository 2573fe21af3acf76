"""Similarity joins: all pairs of similar texts, without a comparison of all pairs (S0-03).

Cosines are products of matrices, block by block. Containment uses prefix filtering: if a share c of the k words of a
text must be in the longer one, at least one of any k - ceil(c·k) + 1 words is, so its rarest words find every longer
text that may contain it ( Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in
Data Cleaning", ICDE 2006).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.settings import EvaluateSettings

from .similarity import Vectors, word_sets

FOUND = {"a": pl.UInt32(), "b": pl.UInt32(), "cosine": pl.Float64(), "match_type": pl.String()}
_BLOCK = 5_000_000  # cosines in memory at once
_JOIN = 500_000  # pairs in memory at once
_GATHER = 65_536  # pairs with vectors in memory at once
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class SimilarityThresholds:
    """Least cosine; else least share of contained words (0 to 1) and least ratio of lengths."""

    cosine: float = 0.85
    containment: float = 0.70
    length_ratio: float = 2.0

    @classmethod
    def of(cls, settings: EvaluateSettings) -> Self:
        """The thresholds of a store's settings."""
        return cls(settings.flag_cosine, settings.flag_containment, settings.length_ratio)


def similar_pairs(
    texts: pl.Series,
    vectors: Vectors,
    thresholds: SimilarityThresholds,
    *,
    group: pl.Series | None = None,
    first_new: int = 0,
) -> Iterator[pl.DataFrame]:
    """Parts of FOUND: similar pairs of rows a < b (S0-03), the measure that passed, and the cosine; each pair once.

    Only rows of one `group` are compared, and only pairs with b ≥ `first_new`. `vectors` (n, d) are unit rows, zero if
    a text has none. A part has some million pairs at most.
    """
    codes = np.zeros(len(texts), np.uint32) if group is None else group.fill_null("").rank("dense").to_numpy()
    at_border = [pl.DataFrame(schema=FOUND)]
    for near in _by_cosine(vectors, codes, thresholds.cosine, first_new):
        at_border.append(near.filter(pl.col("cosine") < thresholds.cosine + _ROUNDING))
        yield near
    for pairs in _by_words(texts, codes, thresholds, first_new):
        cosines = pl.Series("cosine", _cosines(vectors, pairs), dtype=pl.Float64)
        contained = pairs.with_columns(cosines, match_type=pl.lit("containment"))
        # Products of matrices and of vectors round differently: at the threshold the former decides.
        contained = contained.filter(pl.col("cosine") < thresholds.cosine + _ROUNDING)
        yield contained.join(pl.concat(at_border), on=["a", "b"], how="anti")


def _by_cosine(vectors: Vectors, codes: np.ndarray, cosine: float, first_new: int) -> Iterator[pl.DataFrame]:
    height = max(_BLOCK // max(len(vectors), 1), 1)
    for start in range(first_new, len(vectors), height):
        end = min(start + height, len(vectors))
        products = vectors[start:end] @ vectors[:end].T
        is_near = (products.astype(np.float64) >= cosine) & (codes[start:end, None] == codes[None, :end])
        b, a = np.nonzero(np.tril(is_near, start - 1))
        found = pl.DataFrame({"a": a, "b": b + start, "cosine": products[b, a]})
        yield found.with_columns(match_type=pl.lit("cosine")).cast(pl.Schema(FOUND))


def _cosines(vectors: Vectors, pairs: pl.DataFrame) -> np.ndarray:
    a, b = pairs["a"].to_numpy(), pairs["b"].to_numpy()
    cosines = np.empty(len(pairs))
    for start in range(0, len(pairs), _GATHER):
        part = slice(start, start + _GATHER)
        cosines[part] = np.einsum("ij,ij->i", vectors[a[part]], vectors[b[part]])
    return cosines


def _by_words(
    texts: pl.Series, codes: np.ndarray, thresholds: SimilarityThresholds, first_new: int
) -> Iterator[pl.DataFrame]:
    """(a, b) where the longer text has enough words of the much shorter; the earlier of two equals is shorter."""
    sizes = _sizes(texts, codes, thresholds)
    spread = _spread(sizes)
    words = spread.group_by("row").agg("word")
    for looked_up in _looked_up(sizes, spread, thresholds, first_new):
        both = looked_up.join(words, on="row", how="left").join(
            words, left_on="row_b", right_on="row", how="left", suffix="_b"
        )
        shared = pl.col("word").list.set_intersection("word_b").list.len().fill_null(0)
        enough = both.filter(shared >= pl.col("needed"))
        yield enough.select(a=pl.min_horizontal("row", "row_b"), b=pl.max_horizontal("row", "row_b"))


def _sizes(texts: pl.Series, codes: np.ndarray, thresholds: SimilarityThresholds) -> pl.DataFrame:
    """Per text: row, group, length in characters, words, their count, and the count that a longer text needs."""
    count = pl.col("words").list.len().cast(pl.Int64)
    needed = (count * thresholds.containment - 1e-9).ceil().cast(pl.Int64)
    return (
        pl.DataFrame({"text": texts.cast(pl.String), "group": codes})
        .select(
            pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"),
            "group",
            length=pl.col("text").str.len_chars().cast(pl.Int64),
            words=word_sets(texts),
        )
        .with_columns(count=count, needed=needed.clip(lower_bound=0))
    )


def _spread(sizes: pl.DataFrame) -> pl.DataFrame:
    """One row per text and word, the rarest words of each text first; words are numbers."""
    spread = sizes.explode("words").drop_nulls("words").with_columns(often=pl.len().over("group", "words"))
    return (
        spread.with_columns(word=pl.col("words").rank("dense").cast(pl.UInt32))
        .drop("words")
        .sort("row", "often", "word")
    )


def _looked_up(
    sizes: pl.DataFrame, spread: pl.DataFrame, thresholds: SimilarityThresholds, first_new: int
) -> Iterator[pl.DataFrame]:
    """Parts of (row, row_b, needed): a text, and a longer one that has at least one of its rarest words.

    A text that needs no shared word is contained in every longer one (S0-03).
    """
    place = pl.int_range(pl.len()).over("row")
    prefix = spread.filter((place < pl.col("count") - pl.col("needed") + 1) & (pl.col("needed") > 0))
    having = spread.select("group", "word", row_b="row", length_b="length")
    everyone = sizes.select("group", row_b="row", length_b="length")
    wordless = sizes.filter(pl.col("needed") == 0).with_columns(often=pl.lit(len(sizes)))
    for rows, longer, key in ((prefix, having, ["group", "word"]), (wordless, everyone, ["group"])):
        costs = rows.group_by("row").agg(cost=pl.col("often").sum()).sort("row")
        parts = costs.select("row", part=pl.col("cost").cum_sum() // _JOIN)
        for (_,), part in rows.join(parts, on="row").group_by("part", maintain_order=True):
            both = part.join(longer, on=key).filter(_is_longer(thresholds, first_new))
            yield both.select("row", "row_b", "needed").unique()


def _is_longer(thresholds: SimilarityThresholds, first_new: int) -> pl.Expr:
    """Whether row_b is so much longer than row, and the later of them is new."""
    ratio = pl.col("length_b") / pl.col("length").clip(lower_bound=1)
    in_order = (pl.col("length_b") > pl.col("length")) | (pl.col("row_b") > pl.col("row"))
    is_new = pl.max_horizontal("row", "row_b") >= first_new
    return (ratio >= thresholds.length_ratio) & in_order & (pl.col("row") != pl.col("row_b")) & is_new


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
    """OVERLAPS: pairs of sets of one group with Jaccard ≥ `threshold`, first < second, at least one of them `asked`.

    `sets` as from `distinct_words`, `asked` is boolean in its order. Sets without a common word never pair, whatever
    the threshold.
    """
    least = pl.max_horizontal((pl.col("size") * threshold - 1e-9).ceil().cast(pl.Int32), 1)
    filled = sets.with_columns(is_selected=selected, least=least).filter(pl.col("size") > 0)
    meetings = _cheapest_meetings(filled)
    found = [_overlaps(part, sets, threshold) for part in _met(meetings, threshold)]
    return pl.concat([pl.DataFrame(schema=OVERLAPS), *found]).unique().sort("first", "second")


def overlap_of(first: pl.Series, second: pl.Series) -> pl.Series:
    """Jaccard of two columns of sets of words, row by row; both empty 1.0."""
    shared = first.list.set_intersection(second).list.len().cast(pl.Float64)
    whole = first.list.len().cast(pl.Float64) + second.list.len() - shared
    found: pl.Series = pl.select(pl.when(whole > 0).then(shared / whole).otherwise(1.0)).to_series()
    return found


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
    """Number of rarest words of a set of which `together` are in every set that overlaps enough."""
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
_GATHERED = 2048  # pairs computed in full at once: their vectors fit in the cache
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


def cosines(vectors: Vectors, first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Vectors:
    """Cosines of pairs of unit rows; the value of a pair does not depend on its position."""
    found = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _GATHERED):
        part = slice(start, start + _GATHERED)
        np.vecdot(vectors.take(first[part], axis=0), vectors.take(second[part], axis=0), out=found[part])
    return found


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
