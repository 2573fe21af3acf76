"""The night: which phases are left, what watches over them, and how it is told in the morning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import polars as pl

from slowwave.settings import GateSettings
from slowwave.validity import time_sql

from .charts import publish_charts
from .gate import Frozen, freeze_probes
from .maintenance_tallies import NightTally
from .runs import Run, store_of
from .summaries import publish_summary

RESUMED_FOR = timedelta(hours=20)
"""An interrupted night that began longer ago is over: what it left is done by the next one from the start."""
UNFINISHED = ("interrupted", "failed")


@dataclass(frozen=True, slots=True)
class Night:
    """One night: the phases that are left, the summaries of those that an interrupted run did, the frozen questions."""

    left: tuple[str, ...]
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    resumes: str = ""
    frozen: Frozen | None = None


def begin_night(run: Run, phases: Sequence[str], gate: GateSettings, *, dry_run: bool = False) -> Night:
    """The night that this run begins, or goes on with where the one before was interrupted."""
    if dry_run:
        return Night(tuple(phase for phase in phases if phase != "upkeep"))
    broken, commit = _interrupted(run)
    done = _done_since(run, broken["id"], phases) if broken else {}
    left = tuple(phase for phase in phases if phase not in done)
    if broken:
        _adopt(run, broken["id"])
    return Night(left, done, broken["id"] if broken else "", freeze_probes(run, gate, commit=commit))


def _adopt(run: Run, broken: str) -> None:
    """Make the interrupted run a part of this one, so that undo of the night takes back all of it."""
    with store_of(run).commit(run.id, "run", run.now) as tx:
        tx.upsert("runs", tx.by_ids("runs", [broken]).with_columns(parent_id=pl.lit(run.id)))


def _interrupted(run: Run) -> tuple[dict[str, Any] | None, int | None]:
    """The last night if it did not end and is not long ago, and the commit that it began with."""
    snapshot = store_of(run).snapshot()
    since = f"flow = 'sleep' AND id != '{run.id}' AND started_at > {time_sql(run.now - RESUMED_FOR)}"
    nights = snapshot.frame("runs", since).sort("started_at", "id")
    if nights.is_empty() or nights["state"][-1] not in UNFINISHED:
        return None, None
    last = nights.row(-1, named=True)
    first = snapshot.frame("commits", f"run_id = '{last['id']}'", ["sequence"])["sequence"].min()
    return last, int(str(first)) if first is not None else None


def _done_since(run: Run, night: str, phases: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Summaries of phases that were completed since that night began; one that was undone is not among them."""
    snapshot = store_of(run).snapshot()
    began = snapshot.by_ids("runs", [night], ["started_at"])["started_at"][0]
    runs = snapshot.frame("runs", f"state = 'completed' AND started_at >= {time_sql(began)}")
    newest = runs.sort("started_at", "id").unique("flow", keep="last")
    ended = {row["flow"]: json.loads(row["summary"] or "{}") for row in newest.iter_rows(named=True)}
    return {phase: ended[phase] for phase in phases if phase in ended}


async def close_night(run: Run, tally: NightTally) -> dict[str, Any]:
    """Show the night in the morning; raises `RecallFell` where a phase was taken back for it."""
    await publish_summary(run, tally)
    await publish_charts(run)
    for verdict in tally.verdicts.values():
        verdict.enforce()
    return tally.summary()
