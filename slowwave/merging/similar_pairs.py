"""All pairs of texts that look alike, without looking at all pairs (S0-03).

Cosines are products of matrices, block by block. Contained words are looked up: of the k words of a text of which a
share c must stand in the longer one, at least one of any k - ceil(c·k) + 1 does, so its rarest words find every longer
text that may hold it (prefix filtering; Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in
Data Cleaning", ICDE 2006).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from slowwave.settings import EvaluateSettings
from slowwave.similarity import Vectors, word_sets

FOUND = {"a": pl.UInt32(), "b": pl.UInt32(), "cosine": pl.Float64(), "match_type": pl.String()}
_BLOCK = 5_000_000  # cosines that are held at once
_JOIN = 500_000  # looked-up pairs that are held at once
_GATHER = 65_536  # pairs whose vectors are held at once
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class Likeness:
    """When two texts look alike: cosine, else share of contained words where one is much longer; ratios in [0, 1]."""

    cosine: float = 0.85
    containment: float = 0.70
    length_ratio: float = 2.0

    @classmethod
    def of(cls, settings: EvaluateSettings) -> Self:
        """The thresholds of a store's settings."""
        return cls(settings.flag_cosine, settings.flag_containment, settings.length_ratio)


def similar_pairs(
    texts: pl.Series, vectors: Vectors, likeness: Likeness, *, group: pl.Series | None = None, first_new: int = 0
) -> Iterator[pl.DataFrame]:
    """Parts of FOUND: rows a < b that S0-03 calls similar, by which measure, and their cosine; each pair once.

    Only rows of one `group` are compared, and only pairs whose b is at least `first_new`. `vectors` (n, d) are unit
    rows, zero where a text has none. A part holds some million pairs at most, however many there are.
    """
    codes = np.zeros(len(texts), np.uint32) if group is None else group.fill_null("").rank("dense").to_numpy()
    at_border = [pl.DataFrame(schema=FOUND)]
    for near in _by_cosine(vectors, codes, likeness.cosine, first_new):
        at_border.append(near.filter(pl.col("cosine") < likeness.cosine + _ROUNDING))
        yield near
    for pairs in _by_words(texts, codes, likeness, first_new):
        cosines = pl.Series("cosine", _cosines(vectors, pairs), dtype=pl.Float64)
        held = pairs.with_columns(cosines, match_type=pl.lit("containment"))
        # A product of matrices rounds otherwise than a product of vectors: at the border, what it said counts.
        held = held.filter(pl.col("cosine") < likeness.cosine + _ROUNDING)
        yield held.join(pl.concat(at_border), on=["a", "b"], how="anti")


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


def _by_words(texts: pl.Series, codes: np.ndarray, likeness: Likeness, first_new: int) -> Iterator[pl.DataFrame]:
    """(a, b) of which the longer holds enough words of the much shorter one; the earlier of two equals is shorter."""
    sizes = _sizes(texts, codes, likeness)
    spread = _spread(sizes)
    words = spread.group_by("row").agg("word")
    for looked_up in _looked_up(sizes, spread, likeness, first_new):
        both = looked_up.join(words, on="row", how="left").join(
            words, left_on="row_b", right_on="row", how="left", suffix="_b"
        )
        shared = pl.col("word").list.set_intersection("word_b").list.len().fill_null(0)
        enough = both.filter(shared >= pl.col("needed"))
        yield enough.select(a=pl.min_horizontal("row", "row_b"), b=pl.max_horizontal("row", "row_b"))


def _sizes(texts: pl.Series, codes: np.ndarray, likeness: Likeness) -> pl.DataFrame:
    """Per text: row, group, length in characters, words, how many they are, and how many a longer text must have."""
    count = pl.col("words").list.len().cast(pl.Int64)
    needed = (count * likeness.containment - 1e-9).ceil().cast(pl.Int64)
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


def _looked_up(sizes: pl.DataFrame, spread: pl.DataFrame, likeness: Likeness, first_new: int) -> Iterator[pl.DataFrame]:
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
            both = part.join(longer, on=key).filter(_is_longer(likeness, first_new))
            yield both.select("row", "row_b", "needed").unique()


def _is_longer(likeness: Likeness, first_new: int) -> pl.Expr:
    """Whether row_b is so much longer than row, and the later of them is new."""
    ratio = pl.col("length_b") / pl.col("length").clip(lower_bound=1)
    in_order = (pl.col("length_b") > pl.col("length")) | (pl.col("row_b") > pl.col("row"))
    is_new = pl.max_horizontal("row", "row_b") >= first_new
    return (ratio >= likeness.length_ratio) & in_order & (pl.col("row") != pl.col("row_b")) & is_new
