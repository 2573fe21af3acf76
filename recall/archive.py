"""The archive: what faded, was evicted or retired, and can be restored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.errors import UnknownName
from storage.rows import quoted
from storage.snapshots import Snapshot

ARCHIVED = "status = 'archived'"
_LEFT = "action IN ('prune', 'archive')"
_READ = ("id", "statement", "status_reason", "expired_at")


@dataclass(frozen=True, slots=True)
class Archived:
    """A fact that was archived: why, when, and the score that it had then, if it was pruned."""

    id: str
    statement: str
    reason: str
    at: datetime | None
    score: float | None


REASONS = ("pruned", "evicted", "deleted")


def archived(snapshot: Snapshot, reason: str | None = None, limit: int = 50) -> tuple[int, tuple[Archived, ...]]:
    """How many facts are archived, for this reason or any, and those that left last.

    Raises `UnknownName` for a reason for which nothing is archived while there are others.
    """
    where = ARCHIVED if reason is None else f"{ARCHIVED} AND status_reason = {quoted(reason)}"
    parts = [snapshot.frame(name, where, _READ) for name in ("facts", "facts_archive")]
    rows = pl.concat(parts).unique("id", keep="first", maintain_order=True)
    if rows.is_empty() and reason is not None:
        _check_reason(snapshot, reason)
    newest = rows.sort("expired_at", "id", descending=True, nulls_last=True).head(limit)
    told = snapshot.by_ids("decisions", newest["id"], ["subject_id", "at", "measures"], key="subject_id", where=_LEFT)
    scores = told.sort("at").unique("subject_id", keep="last").select(
        id="subject_id", score=pl.col("measures").str.json_path_match("$.score").cast(pl.Float64, strict=False)
    )  # fmt: skip
    both = newest.join(scores, on="id", how="left", maintain_order="left")
    return len(rows), tuple(Archived(*row) for row in both.select(*_READ, "score").iter_rows())


def _check_reason(snapshot: Snapshot, reason: str) -> None:
    known = pl.concat(
        [snapshot.frame(name, ARCHIVED, ["status_reason"])["status_reason"] for name in ("facts", "facts_archive")]
    )
    if len(known) and reason not in REASONS:
        raise UnknownName("reason", reason, known.drop_nulls().unique())
