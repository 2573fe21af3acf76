"""The state of a memory at a glance: what it holds, what it cost, what it refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from slowwave.validity import live_sql
from storage.snapshots import Snapshot
from storage.store import Store

CLOSED = ("candidate", "rejected", "superseded", "retracted", "archived")
COMMON_WORDS = 15


def stats(store: Store, now: datetime) -> dict[str, Any]:
    """The contract of `stats --json`: counts of messages, facts by status, entities, commits, and model costs."""
    snapshot = store.snapshot()
    calls = store.log("llm_calls", columns=["id", "created_at", "tokens_in", "tokens_out", "usd"])
    calls = calls.sort("created_at").unique("id", keep="last")  # an entry carries the cost of those before it
    by_status = dict(snapshot.frame("facts", columns=["status"])["status"].value_counts().iter_rows())
    return {
        "messages": snapshot.count("messages"),
        "facts": {
            "live": snapshot.count("facts", live_sql(now)),
            **{status: by_status.get(status, 0) for status in CLOSED},
        },
        "entities": snapshot.count("entities", "status IS NULL OR status != 'archived'"),
        "communities": 0,
        "commits": snapshot.sequence,
        "llm": {
            "calls": len(calls),
            "tokens_in": _total(calls, "tokens_in"),
            "tokens_out": _total(calls, "tokens_out"),
            "usd": round(float(calls["usd"].sum() or 0.0), 6),
        },
    }


def _total(frame: pl.DataFrame, column: str) -> int:
    return int(frame[column].sum() or 0)


def quality(store: Store) -> dict[str, Any]:
    """What was refused, by gate with examples, and the state of every message (S4-17, COMMANDS S4)."""
    snapshot = store.snapshot()
    refusals = snapshot.frame("refusals")
    messages = snapshot.frame("messages", columns=["graph_state", "content_score"])
    events = store.log("retrieval_events", columns=["id"])
    gates = refusals.group_by("gate").agg(
        refused=pl.len(),
        example=pl.col("excerpt").first(),
        reason=pl.col("reason").first(),
        mean_length=pl.col("excerpt").str.len_chars().mean(),
    )
    firsts = refusals.select(pl.col("excerpt").str.to_lowercase().str.extract(r"(\w+)").alias("word")).drop_nulls()
    common = firsts["word"].value_counts(sort=True).head(COMMON_WORDS)
    return {
        "messages": dict(messages["graph_state"].value_counts(sort=True).iter_rows()),
        "gates": gates.sort("refused", "gate", descending=[True, False]).to_dicts(),
        "refusals": refusals.select("gate", "subject_kind", "subject_id", "reason", "measure", "threshold", "excerpt")
        .sort("gate", "subject_id")
        .to_dicts(),
        "common_first_words": dict(common.iter_rows()),
        "learned_prototypes": snapshot.count("scorer_state"),
        "retrieval_events": len(events),
    }


def changes(snapshot: Snapshot, limit: int = 20) -> list[dict[str, Any]]:
    """What stopped being true: the old statement, the new one where there is one, when, and why; newest first.

    What was absorbed by a fact that says the same did not stop being true.
    """
    closed = snapshot.frame(
        "facts",
        "valid_to IS NOT NULL OR status = 'retracted'",
        ["id", "statement", "status_reason", "valid_from", "valid_to", "replaced_by"],
    )
    winners = snapshot.by_ids("facts", closed["replaced_by"], ["id", "statement"]).rename({"statement": "now"})
    both = closed.join(winners, left_on="replaced_by", right_on="id", how="left")
    told_once = both.unique(["statement", "now"], keep="first")
    newest = told_once.sort("valid_to", "id", descending=[True, False], nulls_last=True).head(limit)
    return newest.rename({"statement": "before", "status_reason": "reason"}).to_dicts()


def repeated(snapshot: Snapshot, limit: int = 6) -> list[dict[str, Any]]:
    """Facts that several messages say: `statement`, and `said_in`, names of messages or documents.

    What people said comes before what documents say, then what most messages say.
    """
    told = snapshot.frame("facts", "status = 'active' AND evidence_count > 1", ["id", "statement", "evidence_count"])
    evidence = snapshot.by_ids("fact_evidence", told["id"], ["fact_id", "message_id", "occurred_at"], key="fact_id")
    messages = snapshot.by_ids("messages", evidence["message_id"], ["id", "message_id", "conversation_id", "role"])
    named = messages.with_columns(
        is_read=pl.col("role") == "document",
        name=pl.when(pl.col("role") == "document")
        .then(pl.col("conversation_id").str.split("/").list.last())
        .otherwise("message_id"),
    ).select("id", "is_read", "name")
    said = evidence.join(named, left_on="message_id", right_on="id").sort("occurred_at", "name")
    names = said.group_by("fact_id", maintain_order=True).agg(
        "is_read", said_in=pl.col("name").unique(maintain_order=True)
    )
    both = told.join(names.with_columns(pl.col("is_read").list.any()), left_on="id", right_on="fact_id")
    first = both.sort("is_read", "evidence_count", "id", descending=[False, True, False]).head(limit)
    return first.select("statement", "said_in").to_dicts()


def runs(store: Store) -> list[dict[str, Any]]:
    """All runs, newest first, with their commits."""
    snapshot = store.snapshot()
    commits = (
        snapshot.frame("commits")
        .group_by("run_id")
        .agg(commits=pl.len(), kinds=pl.col("kind").unique().sort(), first=pl.col("sequence").min())
    )
    listed = snapshot.frame(
        "runs",
        columns=[
            "id",
            "flow",
            "state",
            "summary",
            "started_at",
            "ended_at",
            "calls",
            "tokens_in",
            "tokens_out",
            "usd",
        ],
    )
    both = listed.join(commits, left_on="id", right_on="run_id", how="left")
    return both.sort("started_at", "id", descending=True).to_dicts()
