"""Similarity of two texts or vectors, and pairs of similar texts: words, containment, cosine (S0-02, S0-03).

Cosines are products of matrices, block by block. Containment uses prefix filtering: if a share c of the k words of a
text must be in the longer one, at least one of any k - ceil(c·k) + 1 words is, so its rarest words find every longer
text that may contain it (Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in Data Cleaning",
ICDE 2006).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

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


def top_of(products: Vectors, width: int) -> tuple[npt.NDArray[np.int64], Vectors]:
    """Columns and values of the `width` largest of each row, best first, ties by column; width ≤ columns."""
    count, available = products.shape
    if width < available:
        chosen = np.argpartition(-products, width - 1, axis=1)[:, :width]
        least = np.take_along_axis(products, chosen, axis=1).min(axis=1)
        # Rows with a tie at the cut are sorted whole, so that the choice is deterministic.
        for row in np.flatnonzero((products >= least[:, None]).sum(axis=1) > width):
            chosen[row] = np.argsort(-products[row], kind="stable")[:width]
    else:
        chosen = np.tile(np.arange(available), (count, 1))
    chosen = np.sort(chosen, axis=1)
    values = np.take_along_axis(products, chosen, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1)


# Thresholds by embedding model, because cosines of different models are not comparable (§6.2, T45).


@dataclass(frozen=True, slots=True)
class SimilarityProfile:
    """Thresholds of one embedding model: `resolve` is the least cosine for a question to a model (§6.2 S7)."""

    resolve: float = 0.60


_PROFILES: Mapping[str, SimilarityProfile] = {
    # Where as many unrelated pairs of sentences pass as .60 lets pass for all-MiniLM-L6-v2, of which the vectors are
    # distilled: 3.3 of 1,000 on LoCoMo, 2.1 on BEAM. Of SICK's near-identical entailments (relatedness >= 4.8) 96 %
    # are above it, of all its entailments 83 % (the transformer: 100 % and 96 %). A lower threshold passes
    # too many: at .64, which keeps 95 % of the entailments, 70 of 1,000 unrelated LoCoMo pairs pass.
    DEFAULT_EMBEDDER: SimilarityProfile(resolve=0.77),
}


def has_profile(model: str) -> bool:
    """Whether thresholds were measured for this embedding model."""
    return model in _PROFILES


def profile_of(model: str) -> SimilarityProfile:
    """The thresholds of an embedding model; the default, for unknown ones, fits a transformer."""
    return _PROFILES.get(model, SimilarityProfile())


# All pairs of rows above a cosine by plain products of matrices, block by block: right where groups are small, or only
# neighbours in time are compared. `similarity_joins.close_pairs` does it for a whole memory.


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
_JOIN = 500_000  # pairs in memory at once
_FEW = 4_000  # pairs up to which all are compared
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
    if 0 < (len(texts) - first_new) * len(texts) <= _FEW:
        yield _each_pair(texts, vectors, thresholds, codes, first_new)
        return
    at_border = [pl.DataFrame(schema=FOUND)]
    for pairs in near_rows(vectors, thresholds.cosine, codes, first_new):
        near = pairs.with_columns(match_type=pl.lit("cosine"))
        at_border.append(near.filter(pl.col("cosine") < thresholds.cosine + _ROUNDING))
        yield near
    for pairs in contained_pairs(texts, codes, thresholds, first_new):
        measured = cosines(vectors, pairs["a"].to_numpy(), pairs["b"].to_numpy())
        contained = pairs.with_columns(cosine=pl.Series(measured, dtype=pl.Float64), match_type=pl.lit("containment"))
        # Products of matrices and of vectors round differently: at the threshold the former decides.
        contained = contained.filter(pl.col("cosine") < thresholds.cosine + _ROUNDING)
        yield contained.join(pl.concat(at_border), on=["a", "b"], how="anti")


def _each_pair(
    texts: pl.Series, vectors: Vectors, thresholds: SimilarityThresholds, codes: np.ndarray, first_new: int
) -> pl.DataFrame:
    """FOUND of few texts, compared one by one."""
    b, a = np.nonzero(np.tril(np.ones((len(texts) - first_new, len(texts)), np.bool_), first_new - 1))
    one_group = codes[a] == codes[b + first_new]
    a, b = a[one_group], b[one_group]
    products = vectors[first_new:] @ vectors.T
    pairs = pl.DataFrame({"a": a, "b": b + first_new, "cosine": products[b, a]})
    first, second = (texts.cast(pl.String).gather(pairs[end]) for end in ("a", "b"))
    lengths = pl.DataFrame({"first": first.str.len_chars(), "second": second.str.len_chars()})
    ratio = lengths.select(pl.max_horizontal("first", "second") / pl.min_horizontal("first", "second").clip(1))
    is_near = pairs["cosine"].cast(pl.Float64) >= thresholds.cosine
    may = ~is_near & (ratio.to_series().fill_null(0.0) >= thresholds.length_ratio)
    rows = may.arg_true()
    share = word_overlap(first.gather(rows), second.gather(rows))["containment"]
    contained = pairs[rows].filter(share >= thresholds.containment).with_columns(match_type=pl.lit("containment"))
    found = pl.concat([pairs.filter(is_near).with_columns(match_type=pl.lit("cosine")), contained])
    return found.cast(pl.Schema(FOUND))


def contained_pairs(
    texts: pl.Series, codes: np.ndarray, thresholds: SimilarityThresholds, first_new: int
) -> Iterator[pl.DataFrame]:
    """Parts of (a, b), rows a < b of one group: the longer text has enough words of the much shorter, b ≥ `first_new`.

    `codes` (n,) are the numbers of the groups. The earlier of two equals is the shorter.
    """
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
    is_new, is_new_b = pl.col("row") >= first_new, pl.col("row_b") >= first_new
    for rows, longer, key in ((prefix, having, ["group", "word"]), (wordless, everyone, ["group"])):
        # never old ones with old ones: an entity may have thousands
        for some, others in ((rows.filter(is_new), longer), (rows.filter(~is_new), longer.filter(is_new_b))):
            costs = some.group_by("row").agg(cost=pl.col("often").sum()).sort("row")
            parts = costs.select("row", part=pl.col("cost").cum_sum() // _JOIN)
            if len(others) < len(longer):
                parts = parts.with_columns(part=pl.lit(0))
            for (_,), part in some.join(parts, on="row").group_by("part", maintain_order=True):
                both = part.join(others, on=key).filter(_is_longer(thresholds, first_new))
                yield both.select("row", "row_b", "needed").unique()


def _is_longer(thresholds: SimilarityThresholds, first_new: int) -> pl.Expr:
    """Whether row_b is so much longer than row, and the later of them is new."""
    ratio = pl.col("length_b") / pl.col("length").clip(lower_bound=1)
    in_order = (pl.col("length_b") > pl.col("length")) | (pl.col("row_b") > pl.col("row"))
    is_new = pl.max_horizontal("row", "row_b") >= first_new
    return (ratio >= thresholds.length_ratio) & in_order & (pl.col("row") != pl.col("row_b")) & is_new
