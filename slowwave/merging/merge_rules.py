"""Rules of merging: how alike facts must be, and which of two that say the same survives (S1-04, S1-10, S4-08)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from slowwave.frames import beside
from slowwave.merging.close_vectors import Vectors, cosines
from slowwave.settings import MergeSettings, StewardSettings
from slowwave.similarity import word_overlap

BY_WORDS, BY_MEANING, BY_USE = "text", "meaning", "use"
Measure = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True, eq=False)
class MergeRule:
    """When nothing but guards keeps two facts apart, and who survives among those of one rank.

    `is_alike`, over PAIRS: worth showing to the guards. `order`, over FACTS with created_at: best survivor first; what
    is pinned, then what is better entrenched, comes before all of it. `measure`: pairs (a_id, b_id, cosine where it is
    known, statement, statement_b) that nobody compared before, with cosine and jaccard. `stage`, over PAIRS: what the
    ledger says the merge was made by.
    """

    is_alike: pl.Expr
    order: tuple[pl.Expr, ...]
    measure: Measure
    stage: pl.Expr


def by_words(settings: MergeSettings) -> MergeRule:
    """Consolidation: alike in words or in meaning; more evidence survives, then what is surer, shorter, older.

    Neither says more than the other, the guards see to that: of "By the way: X" and "X" the plain one stays.
    """
    has_same_words = pl.col("jaccard") >= settings.text_dedup
    return MergeRule(
        (has_same_words | (pl.col("cosine") >= settings.merge_cosine)).fill_null(False),
        (
            -pl.col("evidence_count").fill_null(0),
            -pl.col("confidence").fill_null(0.0),
            pl.col("statement").str.len_chars(),
            pl.col("created_at"),
            pl.col("id"),
        ),
        _with_words,
        pl.when(has_same_words).then(pl.lit(BY_WORDS)).otherwise(pl.lit(BY_MEANING)),
    )


def by_use(settings: StewardSettings, ids: pl.Series, vectors: Vectors) -> MergeRule:
    """The steward: alike in meaning alone; what was recalled more survives, then what fitted better, then the older.

    Facts need hit_count and avg_retrieval_score, null where they were never recalled (S4-08). `vectors` (n, d) are the
    unit rows of the facts `ids`.
    """
    rows = pl.DataFrame({"id": ids, "row": pl.int_range(len(ids), eager=True)})

    def measured(pairs: pl.DataFrame) -> pl.DataFrame:
        places = beside(pairs, rows)
        exact = cosines(vectors, places["row"].to_numpy(), places["row_b"].to_numpy())
        return _with_words(places.with_columns(cosine=pl.Series(exact, dtype=pl.Float64)))

    return MergeRule(
        (pl.col("cosine") >= settings.merge_threshold).fill_null(False),
        (
            -pl.col("hit_count").fill_null(0),
            -pl.col("avg_retrieval_score").fill_null(-float("inf")),
            pl.col("created_at"),
            pl.col("id"),
        ),
        measured,
        pl.lit(BY_USE),
    )


def _with_words(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.with_columns(word_overlap(pairs["statement"], pairs["statement_b"])["jaccard"])
