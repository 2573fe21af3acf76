"""How a memory grew, and what its models cost, over time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from storage.snapshots import Snapshot
from storage.store import Store

from .facts import ALL

POINTS = 60


def believed_over_time(facts: pl.DataFrame, now: datetime, points: int = POINTS) -> pl.DataFrame:
    """How many facts the store believed at evenly spaced times from the first fact to `now`: columns at, believed.

    `facts` has created_at and expired_at of all facts that were ever active. A single time where everything is new.
    """
    began = facts.filter(pl.col("created_at") <= now)["created_at"].sort()
    ended = facts["expired_at"].drop_nulls().sort()
    if began.is_empty() or (start := began[0]) == now:
        return pl.DataFrame({"at": [now], "believed": [len(began)]})
    times = [start + (now - start) * step / (points - 1) for step in range(points)]
    at = pl.Series("at", times, dtype=began.dtype)
    believed = began.search_sorted(at, side="right") - ended.search_sorted(at, side="right")
    return pl.DataFrame({"at": at, "believed": believed.cast(pl.Int64)})


def growth(snapshot: Snapshot, now: datetime, points: int = POINTS) -> list[dict[str, Any]]:
    """At evenly spaced times since the first fact: `at`, `facts` that were believed, and `entities` that were known."""
    stored = "status NOT IN ('candidate', 'rejected')"
    facts = pl.concat([snapshot.frame(name, stored, ["created_at", "expired_at"]) for name in ALL])
    line = believed_over_time(facts, now, points).rename({"believed": "facts"})
    made = snapshot.frame("entities", "merged_into IS NULL", ["created_at"])["created_at"].drop_nulls().sort()
    known = made.search_sorted(line["at"].cast(made.dtype), side="right").cast(pl.Int64)
    return line.with_columns(entities=known).to_dicts()


def costs_by_day(store: Store) -> list[dict[str, Any]]:
    """What models were paid for, the newest day first: `day`, `model`, `calls`, `tokens_in`, `tokens_out`, `usd`."""
    calls = store.log("llm_calls", columns=["id", "created_at", "provider", "model", "tokens_in", "tokens_out", "usd"])
    last = calls.sort("created_at").unique("id", keep="last")  # an entry carries the cost of those before it
    named = last.with_columns(
        day=pl.col("created_at").dt.date(),
        model=pl.concat_str("provider", "model", separator="/", ignore_nulls=True),
    )
    sums = [pl.col(name).sum() for name in ("tokens_in", "tokens_out", "usd")]
    by_day = named.group_by("day", "model").agg(pl.len().alias("calls"), *sums)
    return by_day.sort("day", "model", descending=[True, False]).to_dicts()
