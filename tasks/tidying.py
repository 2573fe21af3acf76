"""Tidying: after a run, what it fragmented is compacted and what has grown is indexed."""

from __future__ import annotations

from storage.upkeep import tend

from .engine import task
from .runs import Run, store_of


@task("tidy up")
def tidy(run: Run) -> tuple[str, ...]:
    """Compact and index where it is due; returns the tables compacted."""
    return tend(store_of(run), run.id, run.now).compacted
