"""Similarity of two texts or vectors, and pairs of similar texts: words, containment, cosine (S0-02, S0-03).

Cosines are products of matrices, block by block. Containment uses prefix filtering: if a share c of the k words of a
text must be in the longer one, at least one of any k - ceil(c·k) + 1 words is, so its rarest words find every longer
text that may contain it (Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in Data Cleaning",
ICDE 2006).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.settings import DEFAULT_EMBEDDER, EvaluateSettings
from slowwave.common.words import word_sets

Vectors = npt.NDArray[np.float32]

_PAIR_BLOCK = 500_000


def jaccard_of(first: pl.Expr, second: pl.Expr) -> pl.Expr:
    """Jaccard of two columns of lists without repetitions, row by row; both empty 1.0, one empty 0.0 (S1-03)."""
    shared = first.list.set_intersection(second).list.len().cast(pl.Float64)
    whole = first.list.len().cast(pl.Float64) + second.list.len() - shared
    return pl.when(whole > 0).then(shared / whole).otherwise(1.0)


def word_overlap(a: pl.Series, b: pl.Series) -> pl.DataFrame:
    """Columns `jaccard` and `containment` of pairs of texts, row by row (S0-03, S1-03).

    Containment is the share of the shorter text's words that the longer one has; of two equally long texts `a` counts
    as the shorter.
    """
    parts = [
        _word_overlap(a.slice(start, _PAIR_BLOCK), b.slice(start, _PAIR_BLOCK))
        for start in range(0, max(len(a), 1), _PAIR_BLOCK)
    ]
    return pl.concat(parts)


def _word_overlap(a: pl.Series, b: pl.Series) -> pl.DataFrame:
    texts = pl.concat([a.alias("text"), b.alias("text")]).cast(pl.String).fill_null("")
    distinct = texts.unique().sort()  # a text is compared with many
    words = word_sets(distinct).gather(distinct.search_sorted(texts))
    pairs = pl.DataFrame({"text": texts[: len(a)], "text_b": texts[len(a) :]}).with_columns(
        words[: len(a)].alias("words"), words[len(a) :].alias("words_b")
    )
    shared = pl.col("words").list.set_intersection("words_b").list.len().cast(pl.Float64)
    is_first = pl.col("text").str.len_chars() <= pl.col("text_b").str.len_chars()
    shorter = pl.when(is_first).then("words").otherwise("words_b").list.len().cast(pl.Float64)
    return pairs.select(
        jaccard=jaccard_of(pl.col("words"), pl.col("words_b")),
        containment=pl.when(shorter > 0).then(shared / shorter).otherwise(1.0),
    )


# Thresholds by embedding model, because cosines of different models are not comparable (§6.2, T45).


TRANSFORMER = 0.60  # fits most embedding models
_RESOLVE: Mapping[str, float] = {
    # Where as many unrelated pairs of sentences pass as .60 lets pass for all-MiniLM-L6-v2, of which the vectors are
    # distilled: 3.3 of 1,000 on LoCoMo, 2.1 on BEAM. Of SICK's near-identical entailments (relatedness >= 4.8) 96 %
    # are above it, of all its entailments 83 % (the transformer: 100 % and 96 %). A lower threshold passes
    # too many: at .64, which keeps 95 % of the entailments, 70 of 1,000 unrelated LoCoMo pairs pass.
    DEFAULT_EMBEDDER: 0.77,
}


def has_profile(model: str) -> bool:
    """Whether thresholds were measured for this embedding model."""
    return model in _RESOLVE


def resolve_cosine_of(model: str) -> float:
    """The least cosine for a question to a model, by embedding model; for unknown ones that of a transformer (S7)."""
    return _RESOLVE.get(model, TRANSFORMER)


# All pairs of rows above a cosine by plain products of matrices, block by block: right where groups are small, or only
# neighbours in time are compared. `close_pairs` does it for a whole memory.


_BLOCK = 5_000_000  # cosines in memory at once
_WINDOWED = 128  # rows of a block at least, where only rows within a window are compared
DIGITS = 6  # a cosine of float32 is known no better, and processors differ in the next
_GATHERED = 2048  # pairs computed in full at once: their vectors fit in the cache
NEAR = {"a": pl.UInt32(), "b": pl.UInt32(), "cosine": pl.Float64()}


def near_rows(
    vectors: Vectors, least: float, groups: np.ndarray, first_new: int = 0, window: int | None = None
) -> Iterator[pl.DataFrame]:
    """Parts of NEAR: pairs of rows a < b of one group with cosine ≥ `least`, b ≥ `first_new`, b − a ≤ `window`.

    `vectors` (n, d) are unit rows, `groups` (n,) their numbers.
    """
    height = max(_BLOCK // max(len(vectors), 1), 1)
    height = height if window is None else min(height, max(window, _WINDOWED))
    for start in range(first_new, len(vectors), height):
        begin, end = 0 if window is None else max(start - window, 0), min(start + height, len(vectors))
        products = vectors[start:end] @ vectors[begin:end].T
        is_near = (products.astype(np.float64) >= least) & (groups[start:end, None] == groups[None, begin:end])
        b, a = np.nonzero(np.tril(is_near, start - begin - 1))
        found = pl.DataFrame({"a": a + begin, "b": b + start, "cosine": products[b, a]}).cast(pl.Schema(NEAR))
        yield found if window is None else found.filter(pl.col("b") - pl.col("a") <= window)


def cosines(vectors: Vectors, first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Vectors:
    """Cosines of pairs of unit rows to six digits, the same on every processor and wherever a pair stands."""
    found = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _GATHERED):
        part = slice(start, start + _GATHERED)
        one, other = (vectors.take(rows[part], axis=0).astype(np.float64) for rows in (first, second))
        found[part] = np.vecdot(one, other).round(DIGITS)
    return found


FOUND = {"a": pl.UInt32(), "b": pl.UInt32(), "cosine": pl.Float64(), "match_type": pl.String()}
_JOIN = 20_000  # words that are looked up at once
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
    for pairs in near_rows(vectors, thresholds.cosine, codes, first_new):
        if len(pairs):
            near = pairs.with_columns(match_type=pl.lit("cosine"))
            at_border.append(near.filter(pl.col("cosine") < thresholds.cosine + _ROUNDING))
            yield near
    pairs = contained_pairs(texts, codes, thresholds, first_new)
    if pairs.is_empty():
        return
    measured = cosines(vectors, pairs["a"].to_numpy(), pairs["b"].to_numpy())
    contained = pairs.with_columns(cosine=pl.Series(measured, dtype=pl.Float64), match_type=pl.lit("containment"))
    # Products of matrices and of vectors round differently: at the threshold the former decides.
    contained = contained.filter(pl.col("cosine") < thresholds.cosine + _ROUNDING)
    yield contained.join(pl.concat(at_border), on=["a", "b"], how="anti")


def contained_pairs(
    texts: pl.Series, codes: np.ndarray, thresholds: SimilarityThresholds, first_new: int
) -> pl.DataFrame:
    """(a, b), rows a < b of one group: the longer text has enough words of the much shorter, b ≥ `first_new`.

    `codes` (n,) are the numbers of the groups. The earlier of two equals is the shorter. A text without words is
    contained in every longer one (S0-03).
    """
    if not _has_much_longer(texts, codes, thresholds.length_ratio, first_new):
        return pl.DataFrame(schema={"a": pl.UInt32(), "b": pl.UInt32()})
    words = pl.DataFrame({"words": word_sets(texts)}).with_row_index("row")
    count = words["words"].list.len().cast(pl.Int64)
    sizes = words.select("row", group=pl.Series(codes), length=texts.cast(pl.String).str.len_chars().cast(pl.Int64),
                         count=count, needed=(count * thresholds.containment - 1e-9).ceil().cast(pl.Int64))  # fmt: skip
    spread = sizes.join(words.explode("words"), on="row").with_columns(often=pl.len().over("group", "words"))
    place = pl.int_range(pl.len()).over("row")
    rarest = spread.sort("row", "often", "words").filter(place < pl.col("count") - pl.col("needed") + 1)
    longer, everyone = (each.select(pl.all().name.suffix("_b")) for each in (spread, sizes))
    met = [sizes.filter(pl.col("count") == 0).join(everyone, left_on="group", right_on="group_b")]
    # Never old ones with old ones: an entity may have thousands.
    is_new, is_new_b = pl.col("row") >= first_new, pl.col("row_b") >= first_new
    for some, others in ((rarest.filter(is_new), longer), (rarest.filter(~is_new), longer.filter(is_new_b))):
        for part in some.iter_slices(_JOIN):
            both = part.join(others, left_on=["group", "words"], right_on=["group_b", "words_b"])
            met.append(both.filter(_is_longer(thresholds, first_new)))
    pairs = pl.concat([part.filter(_is_longer(thresholds, first_new)).select("row", "row_b", "needed") for part in met])
    known = pairs.unique().join(words, on="row").join(words, left_on="row_b", right_on="row", suffix="_b")
    enough = known.filter(pl.col("words").list.set_intersection("words_b").list.len() >= pl.col("needed"))
    return enough.select(a=pl.min_horizontal("row", "row_b"), b=pl.max_horizontal("row", "row_b"))


def _has_much_longer(texts: pl.Series, codes: np.ndarray, ratio: float, first_new: int) -> bool:
    """Whether among these rows is a new one, and another of its group of which one is that much longer."""
    lengths, new = texts.str.len_chars().fill_null(0).to_numpy().clip(1), slice(first_new, None)
    if len(lengths[new]) * len(lengths) > _BLOCK:
        return True  # most likely, and not worth a look
    one, other = lengths[new, None], lengths[None, :]
    is_longer = np.maximum(one, other) / np.minimum(one, other) >= ratio
    return bool((is_longer & (codes[new, None] == codes[None, :])).any())


def _is_longer(thresholds: SimilarityThresholds, first_new: int) -> pl.Expr:
    """Whether row_b is so much longer than row, and the later of them is new."""
    ratio = pl.col("length_b") / pl.col("length").clip(lower_bound=1)
    in_order = (pl.col("length_b") > pl.col("length")) | (pl.col("row_b") > pl.col("row"))
    is_new = pl.max_horizontal("row", "row_b") >= first_new
    return (ratio >= thresholds.length_ratio) & in_order & (pl.col("row") != pl.col("row_b")) & is_new


# All pairs of unit vectors above a cosine, exactly, tile by tile, without the whole matrix of products in memory.


Rows = npt.NDArray[np.int32]

_STRIPE, _TILE = 1024, 4096  # rows and columns of one product of matrices: 16 MiB
_SLACK = np.float32(1e-4)  # more than float32 loses in a product of a few thousand coordinates
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
    bound = np.float32(max(threshold, _LEAST))
    least = np.full((2, len(vectors)), bound)  # of a row with all its places taken, by seeds and by others
    room = np.empty((_STRIPE, _TILE), dtype=np.float32)
    parts = [ClosePairs(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]

    def best() -> ClosePairs:
        first, second, cosine = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        stays = _best_of(first, second, cosine, seeds, (per_seed, per_row), least)
        return ClosePairs(first[stays], second[stays], cosine[stays])

    for start in range(0, seeds, _STRIPE):
        rows = slice(start, min(start + _STRIPE, seeds))
        for column in range(start, len(vectors), _TILE):
            parts.append(_tile(rows, slice(column, column + _TILE), vectors, seeds, bound, least, room))
            if sum(len(part.first) for part in parts[1:]) > _PENDING:
                parts[:] = [best()]
    return best()


def _tile(
    rows: slice, columns: slice, vectors: Vectors, seeds: int, threshold: np.float32, least: Vectors, room: Vectors
) -> ClosePairs:
    """The pairs of some seeds with some rows that may stay; `room` is the buffer of their products."""
    others = vectors[columns]
    tile = np.matmul(vectors[rows], others.T, out=room[: rows.stop - rows.start, : len(others)])
    row, column = np.divmod(np.flatnonzero(tile >= threshold - _SLACK), tile.shape[1])
    first, second = (row + rows.start).astype(np.int32), (column + columns.start).astype(np.int32)
    bound = np.where(second < seeds, np.minimum(least[0][first], least[0][second]), least[1][first])
    stays = np.flatnonzero((first < second) & (tile[row, column] >= bound - _SLACK))
    first, second = first[stays], second[stays]
    cosine = cosines(vectors, first, second)  # in full, as everywhere: a product of matrices rounds otherwise
    stays = np.flatnonzero(cosine >= threshold)
    return ClosePairs(first[stays], second[stays], cosine[stays])


def _best_of(
    first: Rows, second: Rows, cosine: Vectors, seeds: int, limits: tuple[int, int], least: Vectors
) -> npt.NDArray[np.int64]:
    """Places of the pairs that stay, ordered by (first, second).

    `least` (2, n) is raised to the cosine of each row's last place against seeds, and against others.
    """
    inner, outer = np.flatnonzero(second < seeds), np.flatnonzero(second >= seeds)
    owner, other = np.concatenate([first[inner], second[inner]]), np.concatenate([second[inner], first[inner]])
    places = _first_places(owner, other, np.tile(cosine[inner], 2), limits[0], least[0])
    with_seeds = np.concatenate([inner, inner])[places]
    with_others = outer[_first_places(first[outer], second[outer], cosine[outer], limits[1], least[1])]
    chosen = np.unique(np.concatenate([with_seeds, with_others]))
    return chosen[np.lexsort((second[chosen], first[chosen]))]


def _first_places(owner: Rows, other: Rows, cosine: Vectors, limit: int, least: Vectors) -> npt.NDArray[np.int64]:
    """Places of each owner's best `limit` pairs."""
    order = np.lexsort((other, -cosine, owner))
    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    last = order[rank == limit - 1]
    least[owner[last]] = cosine[last]
    return order[rank < limit]


Numbers = npt.NDArray[np.int64]


def connected(labels: Numbers, a: Numbers, b: Numbers) -> Numbers:
    """The partition of rows by `labels` (each the smallest row of its part), joined where a pair (a, b) connects it."""
    joined = labels.copy()
    while True:
        before, lowest = joined.copy(), np.minimum(joined[a], joined[b])
        for end in (a, b):
            np.minimum.at(joined, before[end], lowest)
        joined = joined[joined]
        if np.array_equal(joined, before):
            return joined
