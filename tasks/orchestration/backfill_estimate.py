"""The estimate of a backfill: the windows that the run would plan, their prompts, and what calls took so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from inference.budget import price_of, tokens_read
from inference.language import Language
from inference.ledger import MemoryLedger
from inference.providers import FREE, choose
from inference.remote import BATCH_SHARE
from prompts.rendering import render_extraction
from prompts.responses import WindowExtraction
from slowwave.common.records import KnownFact, Usage
from slowwave.common.settings import ExtractSettings
from slowwave.common.text import as_json
from slowwave.common.validity import live_sql
from slowwave.reading.ingestion.windows import (
    COLUMNS,
    PlannedWindow,
    TimeWindow,
    brief_windows,
    limited,
    plan_time_windows,
    plan_windows,
    with_topics,
)
from storage.snapshots import Snapshot
from tasks.ingest.admission import foresee_messages
from tasks.ingest.candidate_rows import to_extract
from tasks.ingest.extraction import KNOWN_FACTS, earlier_messages
from tasks.ingest.reading import FoundFiles, find_new_sources, read_intakes
from tasks.runtime.runs import Run, store_of, traceless

from .backfilling import BackfillRequest

# What a model reads is counted in the prompts. What it writes is assumed as a share of that, and the calls that follow
# (reconciliation, summaries) as so many for each extraction.


WRITTEN = 0.35
"""Tokens written for each token read by an extraction."""
RECONCILIATION, SUMMARIES = (0.3, 600.0, 80.0), (0.1, 200.0, 30.0)
"""For each extraction, in the run itself and in the night: calls, tokens read, tokens written."""
STATEMENT = "x" * 80


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill of one namespace will take: each window with its calls, the night, and how many prompts."""

    namespace: str
    windows: tuple[tuple[TimeWindow, Usage], ...]
    night: Usage
    prompts: int

    @property
    def total(self) -> Usage:
        """All windows and the night."""
        return sum((usage for _, usage in self.windows), self.night)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each window, then the night."""
        found = [(window.name, window.messages, usage) for window, usage in self.windows]
        found += [("sleep", 0, self.night)] if self.night.calls else []
        return [{"namespace": self.namespace, "window": name, "messages": n, **_plain(u)} for name, n, u in found]


def estimate(run: Run, request: BackfillRequest, found: FoundFiles) -> Estimate:
    """What the backfill will take in a namespace; writes nothing and asks nobody."""
    with traceless(run) as shadow:
        snapshot = store_of(shadow).snapshot()
        foreseen = _foreseen(shadow, found, request)
        waiting = _waiting(snapshot, foreseen, request)
        windows: list[TimeWindow] = []
        if "ingest" in request.stages:
            windows = plan_time_windows(waiting["occurred_at"], request.window, request.start, request.end)
            windows = limited(windows, request.limit)
        planned = [_planned(snapshot, foreseen, waiting, each, request) for each in windows]
        known = snapshot.count("facts", live_sql(run.now))
        return _estimated(run, request, windows, planned, known)


def _foreseen(run: Run, found: FoundFiles, request: BackfillRequest) -> pl.DataFrame:
    """The messages of files that are not stored yet, as they would be: read and gated, but kept nowhere."""
    settings = request.storing_settings()
    sources = find_new_sources(run, found).new
    parts = [foresee_messages(run, intake, settings) for intake in read_intakes(run, sources, settings)]
    columns = [*COLUMNS, "graph_state", "has_injection", *_vector(request.extract)]
    empty = store_of(run).snapshot().frame("messages", "false", columns)
    return pl.concat([empty, *(part.select(columns) for part in parts)], how="vertical_relaxed").unique(
        "id", keep="first", maintain_order=True
    )


def _vector(settings: ExtractSettings) -> list[str]:
    """The column of vectors, where topics part the windows."""
    return ["vector"] if settings.by_topic else []


def _waiting(snapshot: Snapshot, foreseen: pl.DataFrame, request: BackfillRequest) -> pl.DataFrame:
    """Id and time of what would be extracted, in order."""
    stored = snapshot.frame("messages", to_extract(snapshot, request.extract), ["id", "occurred_at"])
    states = ["pending", "skipped_injection"] if request.force else ["pending"]
    new = foreseen.filter(pl.col("graph_state").is_in(states)).select("id", "occurred_at")
    both = pl.concat([stored, new], how="vertical_relaxed").unique("id", keep="first", maintain_order=True)
    at = pl.col("occurred_at")
    inside = [at >= request.start] if request.start is not None else []
    inside += [at < request.end] if request.end is not None else []
    return both.filter(*inside).sort("occurred_at", "id")


def _planned(
    snapshot: Snapshot, foreseen: pl.DataFrame, waiting: pl.DataFrame, window: TimeWindow, request: BackfillRequest
) -> list[PlannedWindow]:
    """The prompts of one window of time as `extract_facts` plans them, all at once."""
    settings, at = request.extract, pl.col("occurred_at")
    ids = waiting.filter(at >= window.since, at < window.until).head(window.messages)["id"]
    columns = [*COLUMNS, *_vector(settings)]
    new = foreseen.filter(pl.col("id").is_in(ids.implode())).select(columns)
    batch = pl.concat([snapshot.by_ids("messages", ids, columns), new], how="vertical_relaxed")
    earlier = earlier_messages(snapshot, batch, settings)
    if settings.by_topic:
        batch = with_topics(batch, request.settings.ingest.noise)
    return brief_windows(plan_windows(batch, earlier, settings), settings)


def _estimated(
    run: Run,
    request: BackfillRequest,
    windows: Sequence[TimeWindow],
    planned: Sequence[Sequence[PlannedWindow]],
    known: int,
) -> Estimate:
    price = price_of_reading(Language(request.settings.ingest.llm, MemoryLedger()))
    usd_in, usd_out = price or (0.0, 0.0)
    filled: list[tuple[TimeWindow, Usage]] = []
    asks = 0
    for window, group in zip(windows, planned, strict=True):
        before, tokens = asks, 0
        for each in group if price is not None else ():
            if each.speaking_ids:
                tokens += _tokens(each, known, request.extract)
                known += len(each.speaking_ids)
                asks += 1
        usage = Usage(asks - before, 0, tokens, round(tokens * WRITTEN), tokens * (usd_in + WRITTEN * usd_out))
        if request.settings.ingest.consolidate.enabled:
            usage += _following(asks - before, RECONCILIATION, (usd_in, usd_out))
        filled.append((window, usage))
    night = _following(asks, SUMMARIES, (usd_in, usd_out)) if "sleep" in request.stages else Usage()
    return Estimate(run.namespace, tuple(filled), night, asks)


def _following(extractions: int, share: tuple[float, float, float], price: tuple[float, float]) -> Usage:
    """What the calls that follow so many extractions will take."""
    if not extractions:
        return Usage()
    calls, read, written = (part * extractions for part in share)
    return Usage(max(round(calls), 1), 0, round(read), round(written), read * price[0] + written * price[1])


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


def estimate_summary(found: Estimate, request: BackfillRequest, run: str) -> dict[str, Any]:
    """The estimate as a summary: rows of windows, the total, and what a reader must know of it."""
    total, messages = found.total, sum(window.messages for window, _ in found.windows)
    return {
        "run": run,
        "state": "completed",
        "dry_run": True,
        "counts": {"windows": len(found.windows), "messages": messages},
        "estimate": {"messages": messages, **_plain(total)},
        "windows": found.rows(),
        "notes": ["A dry run: nothing was written and no model was asked.", *_notes(found, request, total)],
        "errors": [],
        "issues": [],
    }


def _notes(found: Estimate, request: BackfillRequest, total: Usage) -> list[str]:
    if not found.windows:
        return ["Nothing waits there."]
    if not found.prompts:
        return ["Words are kept as quotations: nothing is paid."]
    notes = [
        f"{found.prompts} prompts were rendered to count what a model reads.",
        "What it writes, and the calls that follow, are assumed. A first run with --limit 100 shows them.",
    ]
    if request.settings.max_usd is not None and total.usd > request.settings.max_usd:
        notes.append(f"The budget of {request.settings.max_usd:.2f} dollars will be reached before the end.")
    return notes


def _plain(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls, "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out,
        "usd": round(usage.usd, 6),
    }  # fmt: skip
