"""Quotations: which ones go once a model has read what they were taken from.

A quotation was never wrong and nothing in the world ended it: what the model read of the same messages takes its
place. So it is deleted, not closed; history shows no change, the ledger tells what became of it, and undo brings it
back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import polars as pl

from slowwave.common.decisions import decision, decision_frame

QUOTATIONS = ("id", "message_id", "pinned", "replaced_by")
REREAD = "reread"
"""The action of the decision about a quotation that was replaced."""


def quoted_messages(count: int) -> str:
    """How many messages nobody has read yet, in words."""
    return "1 message is kept as a quotation" if count == 1 else f"{count:,} messages are kept as quotations"


def plan_replacement(
    quotations: pl.DataFrame, evidence: pl.DataFrame, waiting: pl.Series, kept: pl.Series
) -> pl.DataFrame:
    """(id, message_ids) of the quotations that go, by id.

    `quotations` has QUOTATIONS, `evidence` fact_id and message_id. One stays while a message that says it is among
    those `waiting` for a reader or for a person; and for good if it is pinned, or among `held`: a person decided about
    it, or something that was read became a part of it; and where something that was read took its place.
    """
    said = pl.concat([quotations.select(fact_id="id", message_id="message_id"), evidence]).drop_nulls().unique()
    waits = said.filter(pl.col("message_id").is_in(waiting.implode()))["fact_id"]
    is_among_them = pl.col("replaced_by").is_null() | pl.col("replaced_by").is_in(quotations["id"].implode())
    gone = quotations.filter(
        ~pl.col("pinned").fill_null(False), is_among_them, ~pl.col("id").is_in(pl.concat([waits, kept]).implode())
    )
    messages = said.group_by(id="fact_id").agg(message_ids=pl.col("message_id").sort())
    return gone.select("id").join(messages, on="id", how="left").sort("id")


def replacement_decisions(
    gone: pl.DataFrame, read: Mapping[str, Sequence[str]], model: str, now: datetime
) -> pl.DataFrame:
    """One decision for each quotation that goes (id, message_ids); `read` has the facts of each message since."""
    reason = f"It was a quotation. {model} has read the message since, and what it read takes its place."
    rows = (
        decision(
            REREAD,
            quotation,
            messages,
            sorted({fact for message in messages for fact in read.get(message, ())}),
            reason,
            now,
            decided_by="model",
            model=model,
            key=(),
        )
        for quotation, messages in gone.iter_rows()
    )
    return decision_frame(rows)
