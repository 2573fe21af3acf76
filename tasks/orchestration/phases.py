"""Phases: the parts of a maintenance run, each on its own feet, and the gate that watches over how the run ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from inference.language import Language
from inference.request_batch import Role
from slowwave.common.errors import NoRoom, RecallFell, SlowwaveError
from slowwave.common.run_counts import RunCount, by_label
from slowwave.common.settings import GateSettings, LanguageSettings, SleepSettings, StewardSettings
from slowwave.common.validity import time_sql
from slowwave.lifecycle.probes import GateVerdict
from storage.rows import quoted
from storage.upkeep import UpkeepReport, tend
from tasks.nightly.gate import Frozen, check_recall, freeze_probes
from tasks.runtime.engine import NIGHT_FINISHED, announce, task
from tasks.runtime.retrying import WHOLE_MEMORY
from tasks.runtime.run_pages import DecisionSummary
from tasks.runtime.runs import Run, language_of, store_of
from tasks.runtime.writing import titles_of

from .tallies import Tally, WholeTally, publish_summary

T = TypeVar("T")

log = logging.getLogger("slowwave")


class Gate:
    """The questions of one run: frozen before what it watches over, and asked again however the run ends."""

    def __init__(self, run: Run, settings: GateSettings, is_open: bool) -> None:
        self._run, self._settings, self._is_open = run, settings, is_open
        self._frozen: Frozen | None = None

    def freeze(self, steward: StewardSettings = StewardSettings()) -> None:  # noqa: B008 (frozen)
        """Draw and ask the questions now; what fades by these settings is not asked about."""
        if not self._is_open:
            self._frozen = freeze_probes(self._run, self._settings, steward=steward)

    def check(self, tally: Tally) -> None:
        """Ask again, and take the run back if recall fell."""
        tally.gated(check_recall(self._run, self._frozen, self._settings, [self._run.id]))


@asynccontextmanager
async def gated(run: Run, tally: Tally, settings: GateSettings, *, dry_run: bool = False) -> AsyncIterator[Gate]:
    """Watch over a run, which must be recorded inside: one that is still going on cannot be undone.

    A run that failed is checked as well, for what it had committed by then.
    """
    gate = Gate(run, settings, is_open=dry_run)
    try:
        yield gate
    except Exception as error:
        gate.check(tally)
        if tally.verdict is not None:
            error.add_note(tally.verdict.reason())
        raise
    gate.check(tally)


async def attempt(tally: Tally, phase: str, work: Callable[[], T | Awaitable[T]]) -> T | None:
    """What a phase returns, or None where it failed: the others go on, and the run ends as incomplete (S4-04)."""
    try:
        done = work()
        return await done if inspect.isawaitable(done) else done
    except (RecallFell, NoRoom):  # on a full disk the others would only fail as well
        raise
    except Exception as error:
        log.exception("The phase %r failed.", phase)
        reason = error.message if isinstance(error, SlowwaveError) else f"{type(error).__name__}: {error}"
        tally.failed(phase, " ".join([reason, *getattr(error, "__notes__", [])]))
        return None


@asynccontextmanager
async def asking(run: Run, tally: Tally, settings: LanguageSettings, role: Role) -> AsyncIterator[Language]:
    """The language model of a run; the tally learns what it cost, however the run ends."""
    async with language_of(run, settings) as language:
        try:
            yield language
        finally:
            tally.paid(language, role)


def finish(run: Run, tally: Tally) -> None:
    """After the work of a run that is no dry one: tell what it proposed, and tidy up where it wrote."""
    if not tally.dry_run:
        tally.proposed(titles_of(run))
        if tally.has_written:
            tidy(run)


async def conclude(run: Run, tally: Tally) -> dict[str, Any]:
    """Show what the run did, and fail with `RecallFell` where its gate took it back."""
    await publish_summary(run, tally)
    if tally.verdict is not None:
        tally.verdict.enforce()
    return tally.summary()


# The night: whether the work of an interrupted one may stand, and its summary.


LOOKED_BACK = timedelta(hours=20)
"""A night that was interrupted longer ago is no longer looked at."""
UNFINISHED = ("interrupted", "failed")


def check_interrupted(run: Run, settings: SleepSettings) -> GateVerdict | None:
    """Whether recall is as it was before a night that was interrupted a short time ago; if not, it is undone.

    No gate checked the end of that night. What of it stands is found done by the phases of this one.
    """
    snapshot = store_of(run).snapshot()
    since = f"flow = 'sleep' AND id != {quoted(run.id)} AND started_at > {time_sql(datetime.now(UTC) - LOOKED_BACK)}"
    nights = snapshot.frame("runs", since, ["id", "state", "started_at"]).sort("started_at", "id")
    if nights.is_empty() or nights["state"][-1] not in UNFINISHED:
        return None
    broken = nights["id"][-1]
    began = snapshot.frame("commits", f"run_id = {quoted(broken)}", ["sequence"])["sequence"].min()
    if not isinstance(began, int) or began < 2:
        return None
    frozen = freeze_probes(run, settings.gate, steward=settings.steward, commit=began - 1)
    return check_recall(run, frozen, settings.gate, [broken])


async def close_night(run: Run, tally: NightTally) -> dict[str, Any]:
    """Show the night in the morning; raises `RecallFell` where a phase was taken back for it."""
    await publish_summary(run, tally)
    if not tally.dry_run:
        announce(NIGHT_FINISHED, run, state=tally.state, **by_label(tally.counts))
    if tally.fallen:
        first = tally.fallen[0]
        raise RecallFell(first.message, first.remedy, tally.summary())
    return tally.summary()


# Tidying: what was fragmented is compacted and what has grown is indexed.


@task("tidy up")
def tidy(run: Run, *, after_little: bool = False) -> tuple[str, ...]:
    """After a run, which may have written little: compact and index where it is due; returns the tables compacted."""
    return tend(store_of(run), run.id, run.now, after_little=after_little).compacted


@task("tend all tables", tags=[WHOLE_MEMORY])
def tend_all(run: Run) -> UpkeepReport:
    """Compact and index every table, and drop the versions beyond the days of undo."""
    return tend(store_of(run), run.id, run.now, thorough=True)


SHOWN_EACH = 4
"""Decisions of each phase that the summary of a night tells."""


@dataclass
class NightTally(WholeTally):
    """Counts of one night: those of its phases, each under its name."""

    decided: dict[str, Sequence[DecisionSummary]] = field(default_factory=dict)
    """Decisions of each phase, by its run."""
    gates: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    fallen: list[RecallFell] = field(default_factory=list)
    idle: str = ""

    def phase(self, phase: str, summary: Mapping[str, Any] | None) -> None:
        """What a phase did; None where it failed."""
        if summary is None:
            return
        self.part(phase, summary)
        for what, number in summary["counts"].items():
            self.counts[f"{phase}: {what}"] += number
        if "gate" in summary:
            self.gates[phase] = summary["gate"]
            self.remarks.append(f"{phase}: {summary['notes'][-1]}")
        rows = [DecisionSummary(row["decision"], row["fact"], row["reason"]) for row in summary["decisions"]]
        self.decisions += self.decided.get(summary["run"], rows)[:SHOWN_EACH]

    def fell(self, phase: str, error: RecallFell) -> None:
        """A phase after which recall fell."""
        self.fallen.append(error)
        self.gates[phase] = error.measured
        self.counts[RunCount.PHASES_TAKEN_BACK] += len(error.measured.get("undone", ()))
        self.remarks.append(f"{phase}: {error.message}")
        self.state = "incomplete"

    @property
    def has_written(self) -> bool:
        """Whether the night changed what is remembered."""
        return bool(self.counts)

    def summary(self) -> dict[str, Any]:
        """Everything counted, with the run of each phase."""
        return {**super().summary(), "phases": self.runs, "gates": self.gates}
