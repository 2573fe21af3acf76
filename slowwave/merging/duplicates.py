"""Observations of an entity that look alike, for a person to review: pairs, and the clusters they form (S0-04).

What a flag says when an observation comes in, this says of all that are there; neither ever merges anything (T4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave import frames
from slowwave.merging.similar_pairs import FOUND, Likeness, similar_pairs
from slowwave.similarity import Vectors, word_overlap

Rows = npt.NDArray[np.int64]
PAIRS: frames.Schema = {
    "a_id": pl.String(),
    "b_id": pl.String(),
    "cosine": pl.Float64(),
    "containment": pl.Float64(),
    "match_type": pl.String(),
    "one_sentence": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class Duplicates:
    """What looks alike among the observations of one entity.

    `pairs` has PAIRS, a said before b, the nearest first and two readings of one sentence last; it holds at most as
    many as were asked for, `found` counts all. `clusters` are the ids that all pairs together connect, largest first.
    """

    total: int
    found: int
    pairs: pl.DataFrame
    clusters: tuple[tuple[str, ...], ...]


def find_duplicates(
    facts: pl.DataFrame, vectors: Vectors, likeness: Likeness | None = None, limit: int | None = None
) -> Duplicates:
    """All unordered pairs of one scope that S0-03 calls similar, flagged or not, and their clusters (S0-04).

    `facts`: id, statement, scope, message_id, valid_from; `vectors`: unit rows in the same order, zero for none.
    """
    order = facts.with_row_index("row").sort("valid_from", "id", nulls_last=False)["row"]
    rows, ordered = facts[order], vectors[order.to_numpy()]
    text, sentence = rows["statement"].fill_null(""), _sentences(rows)
    labels, found, best = np.arange(len(rows)), 0, pl.DataFrame(schema={**FOUND, "one_sentence": pl.Boolean()})
    for part in similar_pairs(text, ordered, likeness or Likeness(), group=rows["scope"]):
        a, b = part["a"].to_numpy(), part["b"].to_numpy()
        labels, found = connected(labels, a, b), found + len(part)
        told = part.with_columns(one_sentence=pl.Series(sentence[a] == sentence[b], dtype=pl.Boolean))
        ranked = pl.concat([best, told]).sort("one_sentence", -pl.col("cosine"), "a", "b")
        best = ranked if limit is None else ranked.head(limit)
    share = word_overlap(text[best["a"]], text[best["b"]])["containment"]
    shown = best.with_columns(share, a_id=rows["id"][best["a"]], b_id=rows["id"][best["b"]])
    return Duplicates(len(rows), found, shown.select(*PAIRS), _clusters(rows["id"], labels))


def _sentences(rows: pl.DataFrame) -> Rows:
    """A number for each sentence of a message: two readings of it have the same."""
    told = pl.struct(pl.coalesce("message_id", "id"), "statement").rank("dense")
    return rows.select(told.cast(pl.Int64).alias("sentence"))["sentence"].to_numpy()


def connected(labels: Rows, a: Rows, b: Rows) -> Rows:
    """The partition of rows by `labels` (each the smallest row of its part), joined where a pair (a, b) connects it."""
    joined = labels.copy()
    while True:
        before, lowest = joined.copy(), np.minimum(joined[a], joined[b])
        for end in (a, b):
            np.minimum.at(joined, before[end], lowest)
        joined = joined[joined]
        if np.array_equal(joined, before):
            return joined


def _clusters(ids: pl.Series, labels: Rows) -> tuple[tuple[str, ...], ...]:
    """The ids of each label that more than one row has, in the order of the rows; largest first."""
    grouped = (
        pl.DataFrame({"id": ids, "label": labels})
        .group_by("label", maintain_order=True)
        .agg("id")
        .filter(pl.col("id").list.len() > 1)
        .sort(-pl.col("id").list.len().cast(pl.Int64), "label")
    )
    return tuple(tuple(members) for members in grouped["id"].to_list())
