"""Reads of entities so far: what is counted, and what was logged since and waits to be counted (S0-23, T5)."""

from __future__ import annotations

import polars as pl

from slowwave import frames
from slowwave.maintenance.entity_usage import entity_usage_of, fold_reads
from storage.rows import CREATED
from storage.snapshots import Reading

LOG = "entity_access_log"
_MANY = 2000  # entities; beyond, one look at everything is faster than naming each


def reads_so_far(reading: Reading) -> pl.DataFrame:
    """ENTITY_USAGE of every entity that was ever read, with what it took over from those merged into it.

    A read counts whether or not the steward has run since; nothing is written.
    """
    usage = reading.frame("entity_usage", columns=list(frames.ENTITY_USAGE))
    merged = dict(reading.frame("entities", "merged_into IS NOT NULL", ["id", "merged_into"]).iter_rows())
    unread = _uncounted(reading)
    days = _days(reading, [*merged, *merged.values(), *unread["entity_id"]])
    fresh, fresh_days = fold_reads(usage, days, unread)
    whole, all_days = (
        pl.concat([held.join(newer, on="id", how="anti"), newer])
        for held, newer in ((usage, fresh), (days, fresh_days))
    )
    return entity_usage_of(whole, all_days, merged)


def _uncounted(reading: Reading) -> pl.DataFrame:
    """Reads that were logged after those that are counted: all, of a log that was made anew since."""
    marks = reading.by_ids("log_marks", [LOG], ["version"])["version"].to_list()
    mark = marks[0] if marks and marks[0] <= reading.handle(LOG).version else 0
    return reading.frame(LOG, f"{CREATED} > {mark}", ["entity_id", "query_hash", "at"])


def _days(reading: Reading, entities: list[str]) -> pl.DataFrame:
    columns = list(frames.ENTITY_DAYS)
    if len(set(entities)) > _MANY:
        return reading.frame("entity_days", columns=columns)
    return reading.by_ids("entity_days", entities, columns, key="entity_id")
