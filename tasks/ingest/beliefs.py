"""Beliefs: what is said unsurely is held back in the store until enough messages hint at it (S2-63 … S2-70)."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.revision.candidates import Candidates, quotes
from slowwave.revision.pending_beliefs import BeliefContext, BeliefPlan, plan_beliefs
from slowwave.settings import BeliefSettings
from slowwave.validity import live_sql
from storage.snapshots import Reading
from storage.transactions import Transaction

PENDING = "promoted_at IS NULL"


def plan_unsure(
    reading: Reading, candidates: Candidates, messages: pl.DataFrame, settings: BeliefSettings, now: datetime
) -> BeliefPlan | None:
    """Which candidates of a batch go to the gate and which are held back; None when all go to the gate."""
    if not settings.enabled or candidates.facts.is_empty():
        return None
    return plan_beliefs(candidates, messages, _stored(reading, candidates.facts, now), settings, now)


def write_beliefs(tx: Transaction, plan: BeliefPlan) -> None:
    """Store changed beliefs; the candidates that some of them became are stored with all candidates."""
    stamps = tx.by_ids("pending_beliefs", plan.beliefs["id"], ["id", "created_at"])
    lost = tx.by_ids("belief_evidence", plan.evicted, ["id"], key="belief_id")
    tx.upsert("pending_beliefs", plan.beliefs.join(stamps, on="id", how="left", maintain_order="left"))
    tx.upsert("belief_evidence", plan.evidence)
    tx.delete("pending_beliefs", plan.evicted)
    tx.delete("belief_evidence", lost["id"])
    tx.upsert("fact_evidence", _quoted(tx, plan.support))


def _stored(reading: Reading, facts: pl.DataFrame, now: datetime) -> BeliefContext:
    """What memory holds near the candidates."""
    columns = list(frames.PENDING_BELIEFS)
    near = reading.by_ids("pending_beliefs", facts["subject_id"], columns, key="subject_id")
    pending = reading.frame("pending_beliefs", PENDING, columns)
    became = reading.by_ids("facts", near["promoted_id"], ["id"], where="status = 'candidate'")
    live = reading.by_ids("facts", facts["subject_id"], list(frames.FACTS), key="subject_id", where=live_sql(now))
    return BeliefContext(
        pl.concat([near, pending]).unique("id", keep="first", maintain_order=True).sort("id"),
        reading.by_ids("belief_evidence", near["id"], list(frames.BELIEF_EVIDENCE), key="belief_id"),
        live,
        frozenset(became["id"]),
    )


def _quoted(reading: Reading, support: pl.DataFrame) -> pl.DataFrame:
    """Rows of `fact_evidence` with the words of each message that come nearest to the statement."""
    messages = reading.by_ids("messages", support["message_id"], ["id", "content"]).rename({"id": "message_id"})
    rows = support.join(messages, on="message_id", how="left", maintain_order="left")
    return rows.with_columns(quotes(rows)).select(*frames.FACT_EVIDENCE)
