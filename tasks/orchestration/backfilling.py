"""Backfilling: which windows of a namespace are left, one run of `ingest` for each, and what that would cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from math import ceil
from typing import Any

import polars as pl

from inference.budget import price_of, tokens_read
from inference.language import Language
from inference.providers import FREE, choose
from inference.remote import BATCH_SHARE
from inference.request_batch import MemoryLedger
from prompts.rendering import render_extraction
from prompts.responses import WindowExtraction
from slowwave.common.errors import RecallFell, UnusableInput
from slowwave.common.records import KnownFact, Usage
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import BackfillSettings, ExtractSettings, IngestSettings, SpendingLimits
from slowwave.common.text import as_json
from slowwave.common.validity import live_sql
from slowwave.reading.ingestion.windows import (
    COLUMNS,
    Period,
    PlannedWindow,
    TimeWindow,
    brief_windows,
    limited,
    plan_time_windows,
    plan_windows,
)
from storage.connection import check_namespace, namespaces
from storage.snapshots import Snapshot
from tasks.ingest.admission import foresee_messages
from tasks.ingest.application import OPEN
from tasks.ingest.candidate_rows import to_extract
from tasks.ingest.extraction import KNOWN_FACTS, earlier_messages
from tasks.ingest.reading import FoundFiles, find_new_sources, read_intakes
from tasks.runtime.engine import report_progress
from tasks.runtime.runs import Run, existing_run, new_run, store_of, traceless

from .tallies import WORST, WholeTally, part_row

TAKEN = (RunCount.MESSAGES_EXTRACTED, RunCount.MESSAGES_FAILED)
Work = Callable[..., Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What a backfill was asked to do; `start` and `end` are times in UTC, [start, end)."""

    start: datetime | None
    end: datetime | None
    paths: tuple[str, ...]
    window: Period
    limit: int | None
    force: bool
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
    windows = _windows(times, request)
    if not windows and snapshot.count("patch_batches", OPEN):
        return [TimeWindow(run.now, run.now, messages=0)]
    return windows


def _windows(times: pl.Series, request: BackfillRequest) -> list[TimeWindow]:
    return limited(plan_time_windows(times, request.window, request.start, request.end), request.limit)


async def fill_windows(
    run: Run, request: BackfillRequest, windows: Sequence[TimeWindow], tally: BackfillTally, ingest: Work
) -> bool:
    """One run of `ingest` per window, in order; True when all of them came to an end, and not that of a budget."""
    for number, window in enumerate(windows, 1):
        settings = request.window_settings(window, request.settings.less(tally.usage))
        summary = await ingest([], namespace=run.namespace, store=run.store, settings=settings, now=run.now)
        tally.child(window.name, summary, is_window=True)
        await report_progress("windows", number, len(windows))
        if tally.state == "stopped":
            return False
    return True


def check(request: BackfillRequest) -> None:
    """Raise for what no backfill can mean, before anything is made."""
    if request.start is not None and request.end is not None and request.start >= request.end:
        raise UnusableInput(
            f"Nothing lies between {request.start:%Y-%m-%d %H:%M} and {request.end:%Y-%m-%d %H:%M}.",
            "The end must come after the start; what is said at the end itself is not part of it.",
        )
    if not request.settings.ingest.extract.enabled:
        raise UnusableInput("Extraction is switched off: [ingest.extract] enabled = false.", "Switch it on.")


# The tally of a backfill: what its windows and its night did, window by window.


@dataclass
class BackfillTally(WholeTally):
    """Counts of one backfill in one namespace."""

    namespace: str = ""
    windows: list[dict[str, Any]] = field(default_factory=list)
    night: dict[str, Any] = field(default_factory=dict)
    idle: str = ""

    def child(self, what: str, summary: Mapping[str, Any], *, is_window: bool = False) -> None:
        """What a run did that is a part of this one."""
        counts = summary["counts"]
        self.part(what, summary)
        self.counts.update({name: number for name, number in counts.items() if isinstance(number, int)})
        self.issues += summary["issues"]
        if is_window:
            self.counts[RunCount.WINDOWS] += 1
            messages = sum(counts.get(each, 0) for each in TAKEN)
            self.windows.append({"window": what, "messages": messages, **part_row(summary)})
        elif what == "sleep":
            self.night = part_row(summary)

    def fell(self, error: RecallFell) -> None:
        """A phase of the night was taken back because recall fell."""
        if "counts" in error.measured:
            self.child("sleep", {**error.measured, "errors": (), "issues": ()})
        self.remarks.append(f"sleep: {error.message}")
        self.state = max(self.state, "incomplete", key=WORST.index)

    def summary(self) -> dict[str, Any]:
        """Everything counted, with a row for each window and the run of each part."""
        more = {"namespace": self.namespace, "windows": self.windows, "runs": self.runs}
        return {**super().summary(), **more, "night": self.night}


# The estimate: the windows that the run would plan, and their prompts. What a model reads is counted in the prompts;
# what it writes is assumed as a share of that, and the calls that follow (reconciliation, summaries) for each of them.


WRITTEN = 0.35
"""Tokens written for each token read by an extraction."""
FOLLOWING = (0.4, 800.0, 110.0)
"""For each extraction, in reconciliations and the night: calls, tokens read, tokens written."""
STATEMENT = "x" * 80


def estimate(run: Run, request: BackfillRequest, found: FoundFiles) -> dict[str, Any]:
    """The summary of a dry run: a row for each window, for what follows, and the total; writes nothing, asks nobody."""
    settings, price = request.extract, price_of_reading(Language(request.settings.ingest.llm, MemoryLedger()))
    usd_in, usd_out = price or (0.0, 0.0)
    rows, total, messages, prompts = [], Usage(), 0, 0
    with traceless(run) as shadow:
        snapshot = store_of(shadow).snapshot()
        waiting, known = _waiting(shadow, snapshot, found, request), snapshot.count("facts", live_sql(run.now))
        for window in _windows(waiting["occurred_at"], request):
            at = pl.col("occurred_at")
            batch = waiting.filter(at >= window.since, at < window.until).head(window.messages)
            planned = plan_windows(batch, earlier_messages(snapshot, batch, settings), settings)
            calls = tokens = 0
            for each in brief_windows(planned, settings) if price is not None else ():
                if each.speaking_ids:
                    tokens += _tokens(each, known, settings)
                    known += len(each.speaking_ids)
                    calls += 1
            usage = Usage(calls, 0, tokens, round(tokens * WRITTEN), tokens * (usd_in + WRITTEN * usd_out))
            rows.append({"window": window.name, **_plain(window.messages, usage)})
            total, messages, prompts = total + usage, messages + window.messages, prompts + calls
    counted = {"windows": len(rows), "messages": messages}
    if prompts:
        asked, read, written = (part * prompts for part in FOLLOWING)
        after = Usage(ceil(asked), 0, round(read), round(written), read * usd_in + written * usd_out)
        total += after
        rows.append({"window": "afterwards", **_plain(0, after)})
    notes = ["A dry run: nothing was written and no model was asked.", *_notes(rows, prompts, request, total)]
    estimated = _plain(messages, total)
    head = {"run": run.id, "state": "completed", "dry_run": True, "counts": counted, "estimate": estimated}
    return {**head, "windows": rows, "notes": notes, "errors": [], "issues": []}


def _waiting(run: Run, snapshot: Snapshot, found: FoundFiles, request: BackfillRequest) -> pl.DataFrame:
    """COLUMNS of what would be extracted, in order: what is stored, and what files hold, read and filtered."""
    settings, at = request.storing_settings(), pl.col("occurred_at")
    sources = find_new_sources(run, found)
    states = ["pending", "skipped_injection"] if request.force else ["pending"]
    new = [foresee_messages(run, intake, settings) for intake in read_intakes(run, sources, settings)]
    stored = snapshot.frame("messages", to_extract(snapshot, request.extract), [*COLUMNS])
    parts = [part.filter(pl.col("graph_state").is_in(states)).select(COLUMNS) for part in new]
    inside = [at >= request.start] if request.start is not None else []
    inside += [at < request.end] if request.end is not None else []
    every = pl.concat([stored, *parts], how="vertical_relaxed").unique("id", keep="first", maintain_order=True)
    return every.filter(*inside).sort("occurred_at", "id")


def price_of_reading(language: Language) -> tuple[float, float] | None:
    """Dollars per token that an extraction reads and writes, 0 if no price is known; None where nothing is paid."""
    choice = choose(language.model("extract"))
    if choice.provider in FREE:
        return None
    price, share = price_of(choice.provider, choice.model), BATCH_SHARE if language.settings.mode == "batch" else 1.0
    return (share * price.usd(1, 0), share * price.usd(0, 1)) if price else (0.0, 0.0)


@cache
def _schema_chars() -> int:
    return len(as_json(WindowExtraction.model_json_schema()))


def _tokens(planned: PlannedWindow, known: int, settings: ExtractSettings) -> int:
    """Tokens of a prompt, when so many facts are known."""
    at, count = planned.window.turns[-1].occurred_at, min(KNOWN_FACTS, known)
    window = planned.knowing([KnownFact(n, "", STATEMENT, at) for n in range(count)]).window
    return tokens_read(render_extraction(window, settings), _schema_chars())


def _notes(rows: Sequence[object], prompts: int, request: BackfillRequest, total: Usage) -> list[str]:
    if not rows:
        return ["Nothing waits there."]
    if not prompts:
        return ["Words are kept as quotations: nothing is paid."]
    notes = [
        f"{prompts} prompts were rendered to count what a model reads.",
        "What it writes, and the calls that follow, are assumed. A first run with --limit 100 shows them.",
    ]
    most = request.settings.max_usd
    if most is not None and total.usd > most:
        notes.append(f"The budget of {most:.2f} dollars will be reached before the end.")
    return notes


def _plain(messages: int, usage: Usage) -> dict[str, Any]:
    return {"messages": messages, **usage.paid, "usd": round(usage.usd, 6)}
