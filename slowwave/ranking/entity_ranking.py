"""Which entities a query means, by meaning, words and use together (S0-26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from slowwave.ranking.fusion import RANK_CONSTANT, fuse_ranks

TEXT_FLOOR, TEXT_SPAN = 0.2, 0.6


def base_scores(cosines: Mapping[str, float], by_words: Sequence[str], k: int = RANK_CONSTANT) -> dict[str, float]:
    """How well each candidate fits by itself, in [0, 1], in the order of their fused ranks.

    `cosines` are the hits by meaning, best first, `by_words` those by words. A hit by meaning has its cosine, at least
    0; one by words alone 0.2 + 0.6 × where its fused rank lies between the worst and the best of all candidates; where
    all are equal, it is the best.
    """
    ranks = fuse_ranks([list(cosines), by_words], k=k)
    low, high = min(ranks.values(), default=0.0), max(ranks.values(), default=0.0)

    def by_text(rank: float) -> float:
        return TEXT_FLOOR + TEXT_SPAN * ((rank - low) / (high - low) if high > low else 1.0)

    return {name: max(cosines[name], 0.0) if name in cosines else by_text(rank) for name, rank in ranks.items()}


def rank_entities(base: Mapping[str, float], factors: pl.DataFrame) -> pl.DataFrame:
    """The factors (`limbic_factors`) with `base` and `score` = base × limbic, sorted by that (T22), ties by id."""
    fits = pl.DataFrame({"id": list(base), "base": list(base.values())}, {"id": pl.String, "base": pl.Float64})
    scored = factors.join(fits, on="id").with_columns(score=pl.col("base") * pl.col("limbic"))
    return scored.sort("score", "id", descending=[True, False])
