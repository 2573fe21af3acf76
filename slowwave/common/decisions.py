"""Rows of the table `decisions`: what changed the memory, or was refused, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.text import as_json, timed_id

Row = dict[str, object]


def decision(
    action: str,
    subject: str,
    ids_in: Sequence[str] | None,
    ids_out: Sequence[str] | None,
    reason: str,
    now: datetime,
    measures: Mapping[str, object] | None = None,
    *,
    decided_by: str = "rule",
    model: str | None = None,
    key: Sequence[object] | None = None,
) -> Row:
    """One row: `action` about `subject`, which looked at the rows `ids_in` and made or changed `ids_out`.

    `key` tells it from other decisions of this action about this subject at this time; by default `ids_in` does.
    """
    parts = [ids_in] if key is None else key
    return {
        "id": timed_id("d", now, action, subject, *parts),
        "action": action,
        "subject_id": subject,
        "ids_in": None if ids_in is None else list(ids_in),
        "ids_out": None if ids_out is None else list(ids_out),
        "measures": as_json(measures or {}),
        "decided_by": decided_by,
        "model": model or None,
        "reason": reason,
        "at": now,
    }


def decision_frame(rows: Iterable[Row]) -> pl.DataFrame:
    """DECISIONS of these rows; columns that a row lacks are null."""
    return pl.DataFrame(list(rows), schema=dict(frames.DECISIONS))


def each_decided(
    action: str, measures: Mapping[str, Mapping[str, object]], reason: str, now: datetime, *, decided_by: str = "rule"
) -> pl.DataFrame:
    """DECISIONS: one about each of these ids, with its measures, all for one reason."""
    return decision_frame(
        decision(action, id_, [id_], [id_], reason, now, seen, decided_by=decided_by, key=())
        for id_, seen in measures.items()
    )
