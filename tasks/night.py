"""The night: which phases are left, whether what an interrupted one did may stand, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from slowwave.errors import RecallFell
from slowwave.maintenance.probe_outcomes import Verdict
from slowwave.settings import SleepSettings
from slowwave.validity import time_sql
from storage.rows import quoted
from storage.snapshots import Snapshot

from .events import NIGHT_FINISHED, announce
from .gate import check_recall, freeze_probes
from .maintenance_tallies import NightTally
from .runs import Run, store_of
from .summaries import publish_charts, publish_summary

RESUMED_FOR = timedelta(hours=20)
"""An interrupted night that began longer ago is over: what it left is done by the next one from the start."""
UNFINISHED = ("interrupted", "failed")


@dataclass(frozen=True, slots=True)
class Night:
    """One night: the phases that are left, and of an interrupted one its run, what it did, and whether that held."""

    left: tuple[str, ...]
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    resumes: str = ""
    verdict: Verdict | None = None


def begin_night(run: Run, phases: Sequence[str], settings: SleepSettings, *, dry_run: bool = False) -> Night:
    """The night that this run begins, or goes on with where the one before was interrupted.

    Nobody watched over the end of that one: if recall is worse than before it, all of it is taken back and done anew.
    """
    if dry_run:
        return Night(tuple(phase for phase in phases if phase != "upkeep"))
    snapshot = store_of(run).snapshot()
    broken = _interrupted(snapshot, run)
    if broken is None:
        return Night(tuple(phases))
    verdict = _checked(run, snapshot, broken, settings)
    done = {} if verdict is not None and verdict.undone else _done(snapshot, broken, phases)
    _adopt(run, broken)
    return Night(tuple(phase for phase in phases if phase not in done), done, broken, verdict)


def _interrupted(snapshot: Snapshot, run: Run) -> str | None:
    """The last night, if it did not end and is not long ago by the clock on the wall."""
    since = f"flow = 'sleep' AND id != {quoted(run.id)} AND started_at > {time_sql(datetime.now(UTC) - RESUMED_FOR)}"
    nights = snapshot.frame("runs", since, ["id", "state", "started_at"]).sort("started_at", "id")
    return nights["id"][-1] if len(nights) and nights["state"][-1] in UNFINISHED else None


def _checked(run: Run, snapshot: Snapshot, broken: str, settings: SleepSettings) -> Verdict | None:
    """Whether recall is as it was before the interrupted night; if not, that night is undone."""
    began = snapshot.frame("commits", f"run_id = {quoted(broken)}", ["sequence"])["sequence"].min()
    if not isinstance(began, int) or began < 2:
        return None
    frozen = freeze_probes(run, settings.gate, steward=settings.steward, commit=began - 1)
    return check_recall(run, frozen, settings.gate, [broken])


def _done(snapshot: Snapshot, night: str, phases: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Summaries of the phases that the interrupted night, or the one that it went on with, completed."""
    found: dict[str, Mapping[str, Any]] = {}
    nights = [night]
    for each in nights:
        theirs = snapshot.by_ids("runs", [each], ["id", "flow", "state", "summary"], key="parent_id")
        nights += theirs.filter(pl.col("flow") == "sleep")["id"].to_list()
        for row in theirs.filter(pl.col("state") == "completed").iter_rows(named=True):
            found[row["flow"]] = json.loads(row["summary"] or "{}")
    return {phase: found[phase] for phase in phases if phase in found}


def _adopt(run: Run, broken: str) -> None:
    """Make the interrupted run a part of this one, so that undo of the night takes back all of it."""
    with store_of(run).commit(run.id, "run", run.now) as tx:
        tx.upsert("runs", tx.by_ids("runs", [broken]).with_columns(parent_id=pl.lit(run.id)))


async def close_night(run: Run, tally: NightTally) -> dict[str, Any]:
    """Show the night in the morning; raises `RecallFell` where a phase was taken back for it."""
    await publish_summary(run, tally)
    await publish_charts(run)
    if not tally.dry_run:
        announce(NIGHT_FINISHED, run, state=tally.state, **tally.counts)
    if tally.fallen:
        first = tally.fallen[0]
        raise RecallFell(first.message, first.remedy, tally.summary())
    return tally.summary()
