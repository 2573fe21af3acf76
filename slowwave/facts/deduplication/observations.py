"""Observations of an entity: new, known, refused, or flagged as similar (S0-01, S0-02, S0-05, T3, T4).

A flag is a signal for people; it neither hides, merges nor retires a fact.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.similarity import (
    FOUND,
    SimilarityThresholds,
    Vectors,
    connected,
    similar_pairs,
    word_overlap,
)
from slowwave.common.settings import EvaluateSettings
from slowwave.common.text import one_line
from slowwave.common.validity import is_live
from slowwave.facts.revision.candidates import MAX_STATEMENT_BYTES
from slowwave.facts.revision.repetition import ALIKE
from slowwave.reading.filters.injection import injection_reasons
from slowwave.reading.filters.noise import only_acknowledges
from slowwave.reading.filters.redaction import redact_all

KINDS = ("observation", "note", "relation")
MARKS = ("similarity_flag", "similar_to_id", "similarity_score")
LEAST_OF_ID = 6
_TELLS_NOTHING = "It thanks, greets or agrees and says nothing of the entity: state what is worth keeping."
SCREENED: frames.Schema = {
    "content": pl.String(),
    "outcome": pl.String(),
    "reason": pl.String(),
    "has_secret": pl.Boolean(),
}


def similar_observations(
    rows: pl.DataFrame, vectors: Vectors, first_new: int, settings: EvaluateSettings | None = None
) -> pl.DataFrame:
    """ALIKE: each new observation with the earlier ones of its owner that look like it (S0-02).

    `rows` have `id`, `owner` (the id of its entity) and `text`, those from `first_new` on are new; `vectors` are unit
    rows in the same order. A new one without a vector (zero row) is like none.
    """
    thresholds = SimilarityThresholds.of(settings or EvaluateSettings())
    parts = [*similar_pairs(rows["text"], vectors, thresholds, group=rows["owner"], first_new=first_new)]
    if not parts:
        return pl.DataFrame(schema=ALIKE)
    found = pl.concat(parts)
    pairs = found.filter(pl.Series(vectors[found["b"].to_numpy()].any(axis=1), dtype=pl.Boolean))
    a, b = pairs["a"], pairs["b"]
    share = word_overlap(rows["text"].gather(a), rows["text"].gather(b))["containment"]
    alike = {"id": rows["id"].gather(b), "target_id": rows["id"].gather(a), "cosine": pairs["cosine"], "share": share}
    return pl.DataFrame(alike, schema=ALIKE)


def screen(texts: Sequence[str], known: Collection[str]) -> pl.DataFrame:
    """SCREENED: each text as it would be stored, with outcome `new`, `known` or `refused` and the reason.

    `known` are the observations of the entity. A text is known if it is byte-equal to one of them or to an earlier text
    of the call (S0-02). A text that only thanks, greets or agrees is refused. Secrets are redacted first (T39).
    """
    plain = pl.Series([one_line(text) for text in texts], dtype=pl.String)
    clean, kinds = redact_all(plain)
    rows, seen = [], {*known}
    judged = zip(clean, kinds, injection_reasons(clean), only_acknowledges(clean), strict=True)
    for content, found, order, is_empty in judged:
        reason = _TELLS_NOTHING if is_empty else order
        if len(content.encode()) > MAX_STATEMENT_BYTES:
            reason = f"It is longer than {MAX_STATEMENT_BYTES} bytes: say it in several, or ingest it as a document."
        elif not content:
            reason = "It is empty."
        outcome = "refused" if reason else "known" if content in seen else "new"
        seen.add(content)
        rows.append((content, outcome, reason, len(found) > 0))
    return pl.DataFrame(rows, schema=dict(SCREENED), orient="row")


def named_by(prefix: str, ids: Collection[str]) -> list[str]:
    """The ids that equal `prefix`, or begin with it, in whole or after their last `_`.

    A prefix has at least LEAST_OF_ID characters, so that a typing error names nothing.
    """
    if prefix in ids or len(prefix) < LEAST_OF_ID:
        return [prefix] if prefix in ids else []
    return sorted(each for each in ids if each.startswith(prefix) or each.rpartition("_")[2].startswith(prefix))


def stale_flags(facts: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """The live facts whose flag points at a fact that is not live, with the flag cleared (S0-01).

    `facts` are the flagged facts and their partners; a partner that is not there is not live.
    """
    live = facts.filter(is_live(now))["id"].implode()
    flagged = facts.filter(is_live(now) & pl.col("similarity_flag").fill_null(False))
    return cleared(flagged.filter(~pl.col("similar_to_id").is_in(live).fill_null(False)))


def cleared(facts: pl.DataFrame) -> pl.DataFrame:
    """The facts without their similarity flag."""
    none = [pl.lit(None, dtype=facts.schema[name]).alias(name) for name in MARKS if name in facts.columns]
    return facts.with_columns(none).with_columns(similarity_flag=pl.lit(False))


# Review of similar observations of an entity: all pairs and their clusters (S0-04); nothing is merged (T4).


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
class SimilarObservations:
    """Similar pairs among the observations of one entity.

    `pairs` has PAIRS, a said before b, the nearest first and two readings of one sentence last, up to the limit;
    `found` counts all. `clusters` are the ids that all pairs connect, largest first.
    """

    total: int
    found: int
    pairs: pl.DataFrame
    clusters: tuple[tuple[str, ...], ...]


def find_duplicates(
    facts: pl.DataFrame, vectors: Vectors, thresholds: SimilarityThresholds | None = None, limit: int | None = None
) -> SimilarObservations:
    """All unordered similar pairs of one scope (S0-03), flagged or not, and their clusters (S0-04).

    `facts`: id, statement, scope, message_id, valid_from; `vectors`: unit rows in the same order, zero for none.
    """
    order = facts.with_row_index("row").sort("valid_from", "id", nulls_last=False)["row"]
    rows, ordered = facts[order], vectors[order.to_numpy()]
    text, sentence = rows["statement"].fill_null(""), _sentences(rows)
    labels, found, best = np.arange(len(rows)), 0, pl.DataFrame(schema={**FOUND, "one_sentence": pl.Boolean()})
    for part in similar_pairs(text, ordered, thresholds or SimilarityThresholds(), group=rows["scope"]):
        a, b = part["a"].to_numpy(), part["b"].to_numpy()
        labels, found = connected(labels, a, b), found + len(part)
        marked = part.with_columns(one_sentence=pl.Series(sentence[a] == sentence[b], dtype=pl.Boolean))
        ranked = pl.concat([best, marked]).sort("one_sentence", -pl.col("cosine"), "a", "b")
        best = ranked if limit is None else ranked.head(limit)
    share = word_overlap(text[best["a"]], text[best["b"]])["containment"]
    shown = best.with_columns(share, a_id=rows["id"][best["a"]], b_id=rows["id"][best["b"]])
    return SimilarObservations(len(rows), found, shown.select(*PAIRS), _clusters(rows["id"], labels))


def _sentences(rows: pl.DataFrame) -> Rows:
    """A number per row, equal for two readings of one sentence of a message."""
    numbers = pl.struct(pl.coalesce("message_id", "id"), "statement").rank("dense")
    return rows.select(numbers.cast(pl.Int64).alias("sentence"))["sentence"].to_numpy()


def _clusters(ids: pl.Series, labels: Rows) -> tuple[tuple[str, ...], ...]:
    """The ids of each label with more than one row, in the order of the rows; largest first."""
    grouped = (
        pl.DataFrame({"id": ids, "label": labels})
        .group_by("label", maintain_order=True)
        .agg("id")
        .filter(pl.col("id").list.len() > 1)
        .sort(-pl.col("id").list.len().cast(pl.Int64), "label")
    )
    return tuple(tuple(members) for members in grouped["id"].to_list())
