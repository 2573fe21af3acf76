"""Similarity of two texts or vectors: shared words, containment, cosine (S0-02, S0-03, §6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.settings import DEFAULT_EMBEDDER, EvaluateSettings
from slowwave.text import tokens

Vectors = npt.NDArray[np.float32]
MatchType = Literal["cosine", "containment"]

_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PAIR_BLOCK = 500_000


class Similarity(NamedTuple):
    """The combined measure: its values, and which of the two ways passed, if any."""

    match_type: MatchType | None
    cosine: float
    containment: float | None

    @property
    def is_similar(self) -> bool:
        """Whether one of the two ways passed."""
        return self.match_type is not None


def containment(a: str, b: str) -> float:
    """Share of the shorter text's words that the longer one has; 1.0 if the shorter has none (S0-03)."""
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    words = tokens(shorter)
    return len(words & tokens(longer)) / len(words) if words else 1.0


def jaccard(a: str, b: str) -> float:
    """Shared words over all words; both empty 1.0, one empty 0.0 (S1-03)."""
    first, second = tokens(a), tokens(b)
    both = first | second
    return len(first & second) / len(both) if both else 1.0


def similarity(a: str, b: str, cosine: float, settings: EvaluateSettings | None = None) -> Similarity:
    """The combined measure: cosine, or containment if one text is much longer (S0-03)."""
    settings = settings or EvaluateSettings()
    if cosine >= settings.flag_cosine:
        return Similarity("cosine", cosine, None)
    if max(len(a), len(b)) / max(min(len(a), len(b)), 1) < settings.length_ratio:
        return Similarity(None, cosine, None)
    share = containment(a, b)
    return Similarity("containment" if share >= settings.flag_containment else None, cosine, share)


def is_similar(a: str, b: str, cosine: float, settings: EvaluateSettings | None = None) -> bool:
    """Whether two texts are similar; a signal, never a reason to merge (S0-03, T4)."""
    return similarity(a, b, cosine, settings).is_similar


def word_sets(texts: pl.Series) -> pl.Series:
    """Per text its `text.tokens` as a list of distinct strings."""
    return (
        texts.cast(pl.String)
        .fill_null("")
        .str.to_lowercase()
        .str.extract_all(r"\S+")
        .list.eval(pl.element().str.strip_chars(_PUNCTUATION))
        .list.eval(pl.element().filter(pl.element() != ""))
        .list.unique()
    )


def word_overlap(a: pl.Series, b: pl.Series) -> pl.DataFrame:
    """Columns `jaccard` and `containment` of pairs of texts, row by row."""
    parts = [
        _word_overlap(a.slice(start, _PAIR_BLOCK), b.slice(start, _PAIR_BLOCK))
        for start in range(0, max(len(a), 1), _PAIR_BLOCK)
    ]
    return pl.concat(parts)


def _word_overlap(a: pl.Series, b: pl.Series) -> pl.DataFrame:
    texts = pl.concat([a.alias("text"), b.alias("text")]).cast(pl.String).fill_null("").unique()
    known = pl.DataFrame({"text": texts, "words": word_sets(texts)})
    pairs = pl.DataFrame({"a": a.cast(pl.String).fill_null(""), "b": b.cast(pl.String).fill_null("")})
    pairs = pairs.join(known, left_on="a", right_on="text", how="left", maintain_order="left")
    pairs = pairs.join(known, left_on="b", right_on="text", how="left", maintain_order="left", suffix="_b")
    shared = pl.col("words").list.set_intersection("words_b").list.len().cast(pl.Float64)
    first, second = pl.col("words").list.len().cast(pl.Float64), pl.col("words_b").list.len().cast(pl.Float64)
    shorter = pl.when(pl.col("a").str.len_chars() <= pl.col("b").str.len_chars()).then(first).otherwise(second)
    whole = first + second - shared
    return pairs.select(
        jaccard=pl.when(whole > 0).then(shared / whole).otherwise(1.0),
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
