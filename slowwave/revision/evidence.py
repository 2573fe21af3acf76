"""Evidence: one row per fact and message, and the effect of repetition on the fact (S2-57, C13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.entrenchment import entrenchment_named, entrenchment_rank
from slowwave.text import normalise_name, row_id

from .general_words import joined_words


@dataclass(frozen=True, slots=True)
class FactSources:
    """Sources of facts, this batch among them.

    `messages`, `times`: fact id → message ids, times. `speakers`: message id → normalised name. `at`: message id →
    time.
    """

    messages: Mapping[str, frozenset[str]]
    times: Mapping[str, frozenset[datetime]]
    speakers: Mapping[str, str]
    at: Mapping[str, datetime] = field(default_factory=dict)


def fact_sources(
    fresh: pl.DataFrame, duplicates: pl.DataFrame, evidence: pl.DataFrame, messages: pl.DataFrame
) -> FactSources:
    """The sources of each fact; `duplicates` are (id, target_id) of candidates that repeat a fact."""
    again = fresh.join(duplicates.select("id", "target_id"), on="id")
    again = again.select("message_id", fact_id="target_id", occurred_at="said_at")
    first = fresh.select("message_id", fact_id="id", occurred_at="said_at")
    known = evidence.select("message_id", "fact_id", "occurred_at")
    by_fact = pl.concat([known, again, first]).drop_nulls(["fact_id", "message_id"]).group_by("fact_id").agg(pl.all())
    return FactSources(
        {fact: frozenset(ids) for fact, ids in by_fact.select("fact_id", "message_id").iter_rows()},
        {fact: frozenset(times) for fact, times in by_fact.select("fact_id", "occurred_at").iter_rows()},
        {id_: normalise_name(name) for id_, name in messages.select("id", "speaker").iter_rows() if name},
        dict(by_fact.explode("message_id", "occurred_at").select("message_id", "occurred_at").iter_rows()),
    )


def evidence_rows(
    fresh: pl.DataFrame, duplicates: pl.DataFrame, known: pl.DataFrame, facts: pl.DataFrame, again: pl.DataFrame
) -> pl.DataFrame:
    """FACT_EVIDENCE that is not stored yet; evidence of `again_of` moves to the new fact with its id."""
    targets = fresh.join(duplicates.select("id", "target_id"), on="id", how="left", maintain_order="left")
    rows = targets.filter(pl.col("message_id").is_not_null()).select(
        "message_id",
        "confidence",
        "quote",
        candidate="id",
        fact_id=pl.coalesce("target_id", "id"),
        occurred_at="said_at",
    )
    first = facts.filter(pl.col("status") != "candidate").select(fact_id="id", message_id="message_id")
    seen = pl.concat([known.select("fact_id", "message_id"), first])
    rows = rows.unique(["fact_id", "message_id"], keep="first", maintain_order=True).join(
        seen, on=["fact_id", "message_id"], how="anti", maintain_order="left"
    )
    ids = [row_id("v", *pair) for pair in rows.select("fact_id", "message_id").iter_rows()]
    rows = rows.with_columns(id=pl.Series(ids, dtype=pl.String))
    moved = again.select("again_of", candidate="id").join(
        known.select("message_id", again_of="fact_id", moved="id"), on="again_of"
    )
    rows = rows.join(moved.drop("again_of"), on=["candidate", "message_id"], how="left", maintain_order="left")
    rows = rows.with_columns(id=pl.coalesce("moved", "id")).drop("moved", "candidate")
    return frames.conform(rows, frames.FACT_EVIDENCE)


def without_evidence(facts: pl.DataFrame, again: pl.DataFrame) -> pl.DataFrame:
    """The facts with a lower evidence_count, where messages (id, again_of) are facts of their own now."""
    fewer = again.group_by(id="again_of").agg(fewer=pl.len().cast(pl.Int64))
    counted = facts.join(fewer, on="id", how="left", maintain_order="left")
    return counted.with_columns(evidence_count=pl.col("evidence_count") - pl.col("fewer").fill_null(0)).drop("fewer")


def with_evidence(
    facts: pl.DataFrame, fresh: pl.DataFrame, duplicates: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """The facts; repeated ones with the new messages counted, highest confidence, strongest entrenchment (S2-57, C13).

    And with the general words of all their candidates.
    """
    new = evidence.join(fresh.select(fact_id="id", message_id="message_id"), on=["fact_id", "message_id"], how="anti")
    counts = new.group_by(id="fact_id").agg(more=pl.len().cast(pl.Int64))
    repeated = (
        fresh.join(duplicates.select("id", "target_id"), on="id")
        .group_by(id="target_id")
        .agg(surest=pl.col("confidence").max(), rank=entrenchment_rank("entrenchment").max())
    )
    again = (
        fresh.join(duplicates.select("id", "target_id"), on="id").select("search_terms", id="target_id").drop_nulls()
    )
    own = facts.join(again, on="id", how="semi").select("id", "search_terms", "statement")
    words = joined_words(pl.concat([own.select("id", "search_terms"), again.select("id", "search_terms")]), own)
    facts = facts.update(words, on="id")
    joined = facts.join(repeated, on="id", how="left", maintain_order="left").join(
        counts, on="id", how="left", maintain_order="left"
    )
    stronger = pl.col("rank") > entrenchment_rank("entrenchment")
    return joined.with_columns(
        confidence=pl.max_horizontal("confidence", "surest"),
        evidence_count=pl.col("evidence_count").fill_null(1) + pl.col("more").fill_null(0),
        entrenchment=pl.when(stronger.fill_null(False)).then(entrenchment_named("rank")).otherwise("entrenchment"),
    ).drop("surest", "rank", "more")
