"""Backfilling: which windows of a namespace are left, and one run of `ingest` for each of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import polars as pl

from slowwave.common.errors import RecallFell, SlowwaveError, UnusableInput
from slowwave.common.records import Usage
from slowwave.common.run_counts import RunCount, effects
from slowwave.common.settings import BackfillSettings, ExtractSettings, IngestSettings, SpendingLimits
from slowwave.common.timestamps import in_utc
from slowwave.reading.ingestion.windows import Period, TimeWindow, limited, plan_time_windows
from storage.connection import check_namespace, namespaces
from tasks.ingest.application import OPEN
from tasks.ingest.candidate_rows import to_extract
from tasks.runtime.engine import is_inline, log, report_progress, tell
from tasks.runtime.runs import Run, existing_run, new_run, store_of

from .tallies import Tally

LEARNED = (RunCount.FACTS_LEARNED, RunCount.FACTS_CONFIRMED)
TAKEN = (RunCount.MESSAGES_EXTRACTED, RunCount.MESSAGES_FAILED)
WORST = ("completed", "incomplete", "stopped")
"""States from good to bad: of several, the worst is the state of the whole."""
Stage = Literal["ingest", "sleep"]
Work = Callable[..., Awaitable[dict[str, Any]]]
GIVE_UP_AFTER = 3
"""So many windows that fail, in a row or as half of all that were tried, are no accident: the backfill ends."""
_COST = ("calls", "tokens_in", "tokens_out", "usd")
_ANSWERED = ("completed", "incomplete", "stopped")


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What a backfill was asked to do; `start` and `end` are times in UTC, [start, end)."""

    start: datetime | None
    end: datetime | None
    paths: tuple[str, ...]
    window: Period
    limit: int | None
    force: bool
    stages: tuple[str, ...]
    settings: BackfillSettings

    @property
    def extract(self) -> ExtractSettings:
        """Which messages all windows together are about."""
        update = {"since": self.start, "until": self.end, "limit": self.limit, "force": self.force}
        return self.settings.ingest.extract.model_copy(update={**update, "community_refresh_interval": 0})

    def parameters(self) -> dict[str, Any]:
        """What the row of the run says of it."""
        whole = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "settings"}
        return {**whole, "settings": self.settings.model_dump()}

    def window_settings(self, window: TimeWindow, left: SpendingLimits) -> IngestSettings:
        """How one window is read: its own times, as many messages and as much money as are left for it."""
        limit = window.messages if self.limit is not None else None
        extract = self.extract.model_copy(update={"since": window.since, "until": window.until, "limit": limit})
        ingest = self.settings.ingest
        return ingest.model_copy(update={"extract": extract, "llm": ingest.llm.within(left)})

    def storing_settings(self) -> IngestSettings:
        """How files are read: their messages are stored, nothing is extracted."""
        extract = self.extract.model_copy(update={"enabled": False, "since": None, "until": None, "limit": None})
        return self.settings.ingest.model_copy(update={"extract": extract})


def backfill_run(store: str, namespace: str, request: BackfillRequest, now: datetime | None) -> Run:
    """The run of a backfill; a memory is made only for files."""
    name, retention = check_namespace(namespace), request.settings.ingest.retention
    if name in namespaces(store) or not request.paths:
        return existing_run("backfill", store, name, now, retention)
    return new_run("backfill", store, name, request.settings.embedder, now, retention)


def windows_left(run: Run, request: BackfillRequest) -> list[TimeWindow]:
    """The windows that hold messages which wait, oldest first.

    Where none waits, but what a run had read before it died is not applied yet, one window without messages is left.
    """
    snapshot = store_of(run).snapshot()
    times = snapshot.frame("messages", to_extract(snapshot, request.extract), ["occurred_at"])["occurred_at"]
    windows = limited(plan_time_windows(times, request.window, request.start, request.end), request.limit)
    if not windows and snapshot.count("patch_batches", OPEN):
        return [TimeWindow(run.now, run.now, messages=0)]
    return windows


def _span(parameters: str | None) -> tuple[datetime, datetime] | None:
    """The window that a run of `ingest` was about."""
    extract = json.loads(parameters or "{}").get("settings", {}).get("extract", {})
    since, until = extract.get("since"), extract.get("until")
    if not since or not until or not extract.get("enabled"):
        return None
    return in_utc(datetime.fromisoformat(since)), in_utc(datetime.fromisoformat(until))


async def fill_windows(
    run: Run, request: BackfillRequest, windows: Sequence[TimeWindow], tally: BackfillTally, ingest: Work
) -> bool:
    """One run of `ingest` per window, in order; True when all of them came to an end.

    Where the budget is reached the rest is left for the same command.
    """
    failures = 0
    for number, window in enumerate(windows, 1):
        name = window.name
        left = request.settings.less(tally.usage)
        try:
            settings = request.window_settings(window, left)
            summary = await ingest([], namespace=run.namespace, store=run.store, settings=settings, now=run.now)
            tally.child(name, summary, is_window=True)
            failures = 0
        except Exception as error:
            log.exception("The window %s failed.", name)
            reason = error.message if isinstance(error, SlowwaveError) else f"{type(error).__name__}: {error}"
            tally.lost(name, reason, _paid_in_vain(run, window))
            failures += 1
        await report_progress("windows", number, len(windows))
        tell(f"Window {number} of {len(windows)}, {tally.newest()}")
        if tally.state == "stopped" or is_hopeless(tally.counts[RunCount.WINDOWS_FAILED], failures, number):
            break
    return tally.state != "stopped" and not tally.counts[RunCount.WINDOWS_FAILED]


def is_hopeless(lost: int, in_a_row: int, tried: int) -> bool:
    """Whether so many windows failed, of those that were tried, that the others need not be tried."""
    return in_a_row >= GIVE_UP_AFTER or lost >= max(GIVE_UP_AFTER, tried / 2)


def _paid_in_vain(run: Run, window: TimeWindow) -> Usage:
    """What the runs of a window cost that have failed in this backfill."""
    rows = store_of(run).snapshot().by_ids("runs", [run.id], key="parent_id", where="flow = 'ingest'")
    mine = [row for row in rows.iter_rows(named=True) if _span(row["parameters"]) == window.span]
    ended = [row for row in mine if row["state"] not in _ANSWERED]
    killed = [row["id"] for row in ended if row["usd"] is None]  # what they paid is in the ledger alone
    log = store_of(run).log("llm_calls", columns=[*_COST, "run_id"]) if killed else None
    paid = [] if log is None else log.filter(pl.col("run_id").is_in(killed)).to_dicts()
    rest = [*(row for row in ended if row["id"] not in killed), *paid]
    calls, tokens_in, tokens_out, usd = (sum(row[name] or 0 for row in rest) for name in _COST)
    return Usage(calls, 0, tokens_in, tokens_out, usd)


def check(request: BackfillRequest) -> None:
    """Raise for what no backfill can mean, before anything is made."""
    if request.start is not None and request.end is not None and request.start >= request.end:
        raise UnusableInput(
            f"Nothing lies between {request.start:%Y-%m-%d %H:%M} and {request.end:%Y-%m-%d %H:%M}.",
            "The end must come after the start; what is said at the end itself is not part of it.",
        )
    if "ingest" in request.stages and not request.settings.ingest.extract.enabled:
        raise UnusableInput(
            "Extraction is switched off: [ingest.extract] enabled = false.", "Switch it on, or leave out the stage."
        )


# The tally of a backfill: what its windows and its night did, window by window.


@dataclass
class BackfillTally(Tally):
    """Counts of one backfill in one namespace."""

    namespace: str = ""
    windows: list[dict[str, Any]] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    night: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def child(self, what: str, summary: Mapping[str, Any], *, is_window: bool = False) -> None:
        """What a run did that is a part of this one."""
        llm, counts = summary["llm"], summary["counts"]
        self.spent(llm)
        self.counts.update({name: number for name, number in counts.items() if isinstance(number, int)})
        self.errors += [f"{what}: {error}" for error in summary["errors"]]
        self.issues += summary["issues"]
        self.runs[what] = summary["run"]
        if summary.get("stopped_by"):
            self.stopped_by = self.stopped_by or f"{what}: {summary['stopped_by']}"
        self.state = max(self.state, _known(summary["state"]), key=WORST.index)
        if is_window:
            self.counts[RunCount.WINDOWS] += 1
            self._row(what, summary["state"], counts, llm, summary["run"])
        elif what == "sleep":
            self.night = {"run": summary["run"], "state": summary["state"], "changed": effects(counts)}

    def lost(self, what: str, error: str, paid: Usage) -> None:
        """A window that failed while the others went on, and what it had cost by then."""
        self.usage += paid
        self.counts[RunCount.WINDOWS_FAILED] += 1
        self.errors.append(f"{what}: {error}")
        self.state = "incomplete"
        self._row(what, "failed", {}, {"calls": paid.calls, "usd": paid.usd}, "")

    def fell(self, error: RecallFell) -> None:
        """A phase of the night was taken back because recall fell."""
        if "counts" in error.measured:
            self.child("sleep", {**error.measured, "errors": (), "issues": ()})
        self.remarks.append(f"sleep: {error.message}")
        self.state = max(self.state, "incomplete", key=WORST.index)

    @property
    def has_written(self) -> bool:
        """Whether the backfill changed what is remembered."""
        return bool(self.windows or self.counts[RunCount.MESSAGES_STORED])

    def summary(self) -> dict[str, Any]:
        """Everything counted, with a row for each window and the run of each part."""
        more = {"namespace": self.namespace, "windows": self.windows, "runs": self.runs}
        return {**super().summary(), **more, "night": self.night}

    def newest(self) -> str:
        """What became of the window that ended last, in a line."""
        row = self.windows[-1]
        done = ", ".join(f"{row[what]:,} {what if row[what] != 1 else what[:-1]}" for what in ("messages", "facts"))
        paid = f", {row['calls']:,} call{'s' * (row['calls'] != 1)}, {row['usd']:.4f} dollars" if row["calls"] else ""
        return f"{row['window']}: {done}{paid}, {row['state']}"

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Remarks on the counts, for a reader."""
        idle = (
            []
            if self.windows or "sleep" in self.runs or self.errors
            else ["Nothing waits there: nothing was extracted."]
        )
        return [*idle, *self.remarks]

    def _row(self, name: str, state: str, counts: Mapping[str, int], llm: Mapping[str, Any], run: str) -> None:
        taken = sum(counts.get(what, 0) for what in TAKEN)
        self.windows.append(
            {
                "namespace": self.namespace,
                "window": name,
                "messages": taken,
                "facts": sum(counts.get(what, 0) for what in LEARNED),
                "calls": llm["calls"],
                "usd": round(llm["usd"], 6),
                "state": state,
                "run": run,
            }
        )


def night_line(night: Mapping[str, Any]) -> str:
    """What became of the night, in a line."""
    return f"sleep: {', '.join(night['changed']) or 'nothing changed'}, {night['state']}"


def _known(state: str) -> str:
    return state if state in WORST else "incomplete"


async def publish_windows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show the windows on the run's page, as a table."""
    if is_inline() or not rows:
        return
    from prefect.artifacts import acreate_table_artifact

    await acreate_table_artifact([dict(row) for row in rows], key="backfill-windows", description="Window by window")
