"""Aspect scores: how well each aspect of a life is known, written down after a run that learned or forgot (S3-19)."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial

import polars as pl

from recall.aspects import scored
from slowwave.aspects import COUNTED, changed_scores
from slowwave.validity import time_sql
from storage.rows import quoted
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction

from .engine import task
from .runs import Run, Writing, store_of

KIND = "aspects"
_MADE_OF = ("facts", "fact_aspects")


@task("refresh aspects")
def refreshed_aspects(run: Run) -> Writing | None:
    """Score all fourteen aspects anew by what is live now; what writes them in the commit that ends the run.

    None where none says something else than before; else all of them are written, so that they speak of one time.
    Where no fact was written since the last time nothing is read either.
    """
    snapshot = store_of(run).snapshot()
    if _is_fresh(snapshot, run):
        return None
    fresh, changed = _changes(snapshot, run)
    return Writing(KIND, partial(_write, run=run, fresh=fresh, scored_at=snapshot.sequence)) if changed else None


def _write(tx: Transaction, run: Run, fresh: pl.DataFrame, scored_at: int) -> None:
    """Store the scores of the commit `scored_at`, or those of now where another run has changed something since."""
    changed = len(fresh)
    if tx.sequence != scored_at + 1:
        fresh, changed = _changes(tx, run)
    if changed:
        tx.upsert("aspect_scores", fresh.rename({"slug": "id"}).with_columns(scored_at=pl.lit(run.now)))


def _is_fresh(snapshot: Snapshot, run: Run) -> bool:
    """Whether the facts are those of the commit that last wrote scores, and none of them has ended since."""
    told = snapshot.frame("commits", f"kind = {quoted(KIND)}", ["sequence", "versions"]).sort("sequence").tail(1)
    scored_at = snapshot.frame("aspect_scores", columns=["scored_at"])["scored_at"].max()
    versions = json.loads(told["versions"][0]) if len(told) else {}
    if not isinstance(scored_at, datetime) or any(
        versions.get(name, 1) != snapshot.versions.get(name, 1) for name in _MADE_OF
    ):
        return False
    first, last = sorted((scored_at, run.now))
    return not snapshot.count("facts", f"valid_to > {time_sql(first)} AND valid_to <= {time_sql(last)}")


def _changes(reading: Reading, run: Run) -> tuple[pl.DataFrame, int]:
    """Slug and COUNTED of the fourteen aspects, and how many of them are stored otherwise."""
    fresh = scored(reading, run.now)
    stored = reading.frame("aspect_scores", columns=["id", *COUNTED])
    return fresh, len(changed_scores(fresh, stored))
