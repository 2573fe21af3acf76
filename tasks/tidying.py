"""Tidying: what was fragmented is compacted and what has grown is indexed."""

from __future__ import annotations

from storage.upkeep import UpkeepReport, tend

from .engine import task
from .limits import WHOLE_MEMORY
from .runs import Run, store_of


@task("tidy up")
def tidy(run: Run) -> tuple[str, ...]:
    """After a run: compact and index where it is due; returns the tables compacted."""
    return tend(store_of(run), run.id, run.now).compacted


@task("tend all tables", tags=[WHOLE_MEMORY])
def tend_all(run: Run) -> UpkeepReport:
    """Compact and index every table, and drop the versions beyond the days of undo."""
    return tend(store_of(run), run.id, run.now, thorough=True)
