"""What may hold between two entities while nothing is known: pending beliefs, never mixed with facts (S2-66, S2-69)."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from slowwave.answers import Provenance, UncertainFact
from slowwave.settings import BeliefSettings
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Snapshot

_KNOWLEDGE = "kind IN ('relation', 'observation', 'note')"


def uncertain(
    snapshot: Snapshot, entity_a: str, entity_b: str, now: datetime, settings: BeliefSettings, limit: int
) -> tuple[UncertainFact, ...]:
    """The most probable pending beliefs about two entities (ids), in either direction, at most `limit`.

    Empty when a live fact relates the two: what is known is never mixed with what is not.
    """
    from slowwave.application.belief_growth import decayed_at  # slow to import: all that patches are read by

    pair = _between(entity_a, entity_b)
    if snapshot.count("facts", f"({pair}) AND {_KNOWLEDGE} AND {live_sql(now)}"):
        return ()
    pending = snapshot.frame("pending_beliefs", f"({pair}) AND promoted_at IS NULL")
    likely = pending.with_columns(probability=decayed_at(now, settings.decay_rate)).sort(
        "probability", "last_at", "id", descending=[True, True, False]
    )
    rows = likely.head(limit)
    said = _evidence(snapshot, rows)
    return tuple(
        UncertainFact(
            row["id"], row["statement"], row["predicate"], row["scope"], row["probability"],
            tuple(said.get(row["id"], ())), row["first_at"], row["last_at"],
        )
        for row in rows.iter_rows(named=True)
    )  # fmt: skip


def _between(a: str, b: str) -> str:
    one, other = quoted(a), quoted(b)
    return f"(subject_id = {one} AND object_id = {other}) OR (subject_id = {other} AND object_id = {one})"


def _evidence(snapshot: Snapshot, beliefs: pl.DataFrame) -> dict[str, list[Provenance]]:
    """By belief: the messages that hint at it with the words that come nearest to it, in order of time."""
    from slowwave.application.patches import quotes

    hints = snapshot.by_ids("belief_evidence", beliefs["id"], ["belief_id", "message_id", "at"], key="belief_id")
    said = snapshot.by_ids("messages", hints["message_id"], ["id", "conversation_id", "message_id", "content"])
    rows = hints.join(beliefs.select("statement", belief_id="id"), on="belief_id").join(
        said.rename({"message_id": "name"}), left_on="message_id", right_on="id", how="left"
    )
    rows = rows.with_columns(quotes(rows)).sort("at", "message_id")
    found: dict[str, list[Provenance]] = {}
    for row in rows.iter_rows(named=True):
        shown = Provenance(
            row["conversation_id"] or "", row["name"] or row["message_id"], row["quote"] or "", row["at"]
        )
        found.setdefault(row["belief_id"], []).append(shown)
    return found
