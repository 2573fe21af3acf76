"""Who said a fact: one row per fact and message, and what repeated saying does to the fact (S2-57, C13)."""

from __future__ import annotations

import polars as pl

from slowwave import frames
from slowwave.repeats import entrenchment_rank
from slowwave.text import row_id

_NAMES = ("user_axiom", "user_stated", "system_inferred")


def messages_of(fresh: pl.DataFrame, repeats: pl.DataFrame, evidence: pl.DataFrame) -> dict[str, frozenset[str]]:
    """The messages that said each fact, those of this batch among them."""
    again = fresh.join(repeats.select("id", "target_id"), on="id").select(fact_id="target_id", message_id="message_id")
    said = pl.concat([evidence.select("fact_id", "message_id"), again]).drop_nulls()
    return {fact: frozenset(heard) for fact, heard in said.group_by("fact_id").agg("message_id").iter_rows()}


def evidence_rows(fresh: pl.DataFrame, repeats: pl.DataFrame, known: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """One row per fact and message that is not there yet."""
    targets = fresh.join(repeats.select("id", "target_id"), on="id", how="left", maintain_order="left")
    rows = targets.filter(pl.col("message_id").is_not_null()).select(
        "message_id", "confidence", "quote", fact_id=pl.coalesce("target_id", "id"), occurred_at="said_at"
    )
    first = facts.filter(pl.col("status") != "candidate").select(fact_id="id", message_id="message_id")
    seen = pl.concat([known.select("fact_id", "message_id"), first])
    rows = rows.unique(["fact_id", "message_id"], keep="first", maintain_order=True).join(
        seen, on=["fact_id", "message_id"], how="anti", maintain_order="left"
    )
    ids = [row_id("v", *pair) for pair in rows.select("fact_id", "message_id").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.FACT_EVIDENCE)


def with_evidence(
    facts: pl.DataFrame, fresh: pl.DataFrame, repeats: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """Repeated facts with one more message each, the highest confidence, the strongest speaker (S2-57, C13)."""
    new = evidence.join(fresh.select(fact_id="id", message_id="message_id"), on=["fact_id", "message_id"], how="anti")
    counts = new.group_by(id="fact_id").agg(more=pl.len().cast(pl.Int64))
    repeated = (
        fresh.join(repeats.select("id", "target_id"), on="id")
        .group_by(id="target_id")
        .agg(surest=pl.col("confidence").max(), rank=entrenchment_rank("entrenchment").max())
    )
    joined = facts.join(repeated, on="id", how="left", maintain_order="left").join(
        counts, on="id", how="left", maintain_order="left"
    )
    stronger = pl.col("rank") > entrenchment_rank("entrenchment")
    named = pl.col("rank").replace_strict(
        {2: _NAMES[0], 1: _NAMES[1], 0: _NAMES[2]}, default=None, return_dtype=pl.String
    )
    return joined.with_columns(
        confidence=pl.max_horizontal("confidence", "surest"),
        evidence_count=pl.col("evidence_count").fill_null(1) + pl.col("more").fill_null(0),
        entrenchment=pl.when(stronger.fill_null(False)).then(named).otherwise("entrenchment"),
    ).drop("surest", "rank", "more")
