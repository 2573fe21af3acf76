"""Aspect scores: how well each aspect of a life is known, written down after a run that learned or forgot (S3-19)."""

from __future__ import annotations

import polars as pl

from recall.aspects import scored
from slowwave.aspects import COUNTED, changed_scores
from storage.snapshots import Reading

from .engine import task
from .runs import Run, store_of


@task("refresh aspects")
def refresh_aspects(run: Run) -> int:
    """Score all fourteen aspects anew by what is live now; returns how many say something else than before.

    Where none does nothing is written; else all of them are, so that they speak of one time.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    fresh, changed = _changes(snapshot, run)
    if not changed:
        return 0
    with store.commit(run.id, "aspects", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:  # another run has changed something meanwhile
            fresh, changed = _changes(tx, run)
        if changed:
            tx.upsert("aspect_scores", fresh.rename({"slug": "id"}).with_columns(scored_at=pl.lit(run.now)))
    return changed


def _changes(reading: Reading, run: Run) -> tuple[pl.DataFrame, int]:
    """Slug and COUNTED of the fourteen aspects, and how many of them are stored otherwise."""
    fresh = scored(reading, run.now)
    stored = reading.frame("aspect_scores", columns=["id", *COUNTED])
    return fresh, len(changed_scores(fresh, stored))
