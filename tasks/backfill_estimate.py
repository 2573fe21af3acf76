"""The estimate of a backfill: the windows that the run would plan, a sample of its prompts, what calls took so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import polars as pl

from inference.estimates import prices_of, tokens_read
from inference.language import Language
from inference.ledger import MemoryLedger
from prompts.rendering import URGENT, render_extraction
from prompts.responses import WindowExtraction
from slowwave.forecast import CALLS, EXTRACTION, Habits, evenly, habits_of, tokens_of_all
from slowwave.intake.time_windows import TimeWindow, limited, plan_time_windows
from slowwave.intake.windows import COLUMNS, PlannedWindow, brief_windows, plan_windows, with_topics
from slowwave.records import KnownFact, Usage, Window
from slowwave.settings import ExtractSettings
from slowwave.validity import live_sql
from storage.connection import namespaces
from storage.snapshots import Snapshot

from .admission import foresee_messages
from .backfilling import Asked
from .candidates import to_extract
from .extraction import earlier_messages
from .intake import Found, find_new_sources, read_intakes
from .runs import Run, store_of, traceless

STATEMENT = "x" * 80
_LEDGER = ["provider", "model", *CALLS]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill of one namespace will take: each window with its calls, the night, and what that rests on.

    So many of the `prompts` were `sampled`, and so many `calls` of the ledger told what is usual.
    """

    namespace: str
    windows: tuple[tuple[TimeWindow, Usage], ...]
    night: Usage
    prompts: int
    sampled: int
    calls: int

    @property
    def total(self) -> Usage:
        """All windows and the night."""
        return sum((usage for _, usage in self.windows), self.night)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each window, then the night."""
        found = [(window.name, window.messages, usage) for window, usage in self.windows]
        found += [("sleep", 0, self.night)] if self.night.calls else []
        return [{"namespace": self.namespace, "window": name, "messages": n, **_plain(u)} for name, n, u in found]


def estimate(run: Run, asked: Asked, found: Found) -> Estimate:
    """What the backfill will take in a namespace; writes nothing and asks nobody."""
    with traceless(run) as shadow:
        snapshot = store_of(shadow).snapshot()
        foreseen = _foreseen(shadow, found, asked)
        waiting = _waiting(snapshot, foreseen, asked)
        windows: list[TimeWindow] = []
        if "ingest" in asked.stages:
            windows = plan_time_windows(waiting["occurred_at"], asked.window, asked.start, asked.end)
            windows = limited(windows, asked.limit)
        planned = [_planned(snapshot, foreseen, waiting, each, asked) for each in windows]
        known = snapshot.count("facts", live_sql(run.now))
        return _estimated(run, asked, windows, planned, known)


def _foreseen(run: Run, found: Found, asked: Asked) -> pl.DataFrame:
    """The messages of files that are not stored yet, as they would be: read and gated, but kept nowhere."""
    settings = asked.storing_settings()
    sources = find_new_sources(run, found).new
    parts = [foresee_messages(run, intake, settings) for intake in read_intakes(run, sources, settings)]
    columns = [*COLUMNS, "graph_state", "has_injection", *_vector(asked.extract)]
    empty = store_of(run).snapshot().frame("messages", "false", columns)
    return pl.concat([empty, *(part.select(columns) for part in parts)], how="vertical_relaxed").unique(
        "id", keep="first", maintain_order=True
    )


def _vector(settings: ExtractSettings) -> list[str]:
    """The column of vectors, where topics part the windows."""
    return ["vector"] if settings.by_topic else []


def _waiting(snapshot: Snapshot, foreseen: pl.DataFrame, asked: Asked) -> pl.DataFrame:
    """Id and time of what would be extracted, in order."""
    stored = snapshot.frame("messages", to_extract(snapshot, asked.extract), ["id", "occurred_at"])
    states = ["pending", "skipped_injection"] if asked.force else ["pending"]
    new = foreseen.filter(pl.col("graph_state").is_in(states)).select("id", "occurred_at")
    both = pl.concat([stored, new], how="vertical_relaxed").unique("id", keep="first", maintain_order=True)
    at = pl.col("occurred_at")
    inside = [at >= asked.start] if asked.start is not None else []
    inside += [at < asked.end] if asked.end is not None else []
    return both.filter(*inside).sort("occurred_at", "id")


def _planned(
    snapshot: Snapshot, foreseen: pl.DataFrame, waiting: pl.DataFrame, window: TimeWindow, asked: Asked
) -> list[PlannedWindow]:
    """The prompts of one window of time as `extract_facts` plans them, all at once."""
    settings, at = asked.extract, pl.col("occurred_at")
    ids = waiting.filter(at >= window.since, at < window.until).head(window.messages)["id"]
    columns = [*COLUMNS, *_vector(settings)]
    new = foreseen.filter(pl.col("id").is_in(ids.implode())).select(columns)
    batch = pl.concat([snapshot.by_ids("messages", ids, columns), new], how="vertical_relaxed")
    earlier = earlier_messages(snapshot, batch, settings)
    if settings.by_topic:
        batch = with_topics(batch, asked.settings.ingest.noise)
    return brief_windows(plan_windows(batch, earlier, settings), settings)


def _habits(run: Run, asked: Asked) -> Habits:
    """What calls of this model were like in this namespace."""
    if run.namespace not in namespaces(run.store):
        return Habits()
    model = Language(asked.settings.ingest.llm, MemoryLedger()).model("extract")
    log = store_of(run).log("llm_calls", "response != ''", _LEDGER)
    mine = pl.format("{}/{}", "provider", "model") == model
    return habits_of(log.filter(mine | (pl.col("prompt_name") != EXTRACTION)).select(CALLS.names()).cast(CALLS))


def _estimated(
    run: Run, asked: Asked, windows: Sequence[TimeWindow], planned: Sequence[Sequence[PlannedWindow]], known: int
) -> Estimate:
    prices, habits = prices_of(Language(asked.settings.ingest.llm, MemoryLedger()), URGENT), _habits(run, asked)
    usd_in, usd_out = prices.of(EXTRACTION, "extract") or (0.0, 0.0)
    shown = [each for group in planned for each in group if each.speaking_ids]
    before = accumulate((len(each.speaking_ids) for each in shown), initial=known)
    shown = [_knowing(each, min(asked.extract.known_facts, n)) for each, n in zip(shown, before, strict=False)]
    is_paid = prices.of(EXTRACTION, "extract") is not None
    sample = evenly(len(shown), asked.settings.sample) if is_paid else []
    counted = [_tokens(shown[n].window, asked.extract) for n in sample]
    fixed = _tokens(Window("", "", ()), asked.extract)
    read = iter(tokens_of_all([_chars(each) for each in shown], sample, counted, fixed) if sample else ())
    filled: list[tuple[TimeWindow, Usage]] = []
    leaves_out = set() if asked.settings.ingest.consolidate.enabled else {"consolidate"}
    for window, group in zip(windows, planned, strict=True):
        asks = sum(bool(each.speaking_ids) for each in group) if is_paid else 0
        tokens = sum(next(read) for _ in range(asks))
        more = habits.after(asks, lambda name, role: None if role in leaves_out else prices.of(name, role))
        usd = tokens * usd_in + tokens * habits.written * usd_out
        filled.append((window, Usage(asks, 0, round(tokens), round(tokens * habits.written), usd) + more))
    night = Usage()
    if "sleep" in asked.stages and is_paid:
        night = habits.after(len(shown), prices.of, in_the_night=True)
    return Estimate(run.namespace, tuple(filled), night, len(shown), len(sample), habits.calls)


def _tokens(window: Window, settings: ExtractSettings) -> int:
    return tokens_read(render_extraction(window, settings), WindowExtraction)


def _knowing(planned: PlannedWindow, count: int) -> PlannedWindow:
    """The window with so many known facts."""
    return planned.knowing([KnownFact(n, "", STATEMENT, planned.window.turns[-1].occurred_at) for n in range(count)])


def _chars(planned: PlannedWindow) -> int:
    spoken = sum(len(turn.text) + len(turn.speaker) for turn in planned.window.turns)
    return spoken + len(STATEMENT) * len(planned.window.known)


def told_estimate(estimates: Sequence[Estimate], asked: Asked, run: str) -> dict[str, Any]:
    """The estimate as a summary: rows of windows, the total, and what a reader must know of it."""
    total = sum((each.total for each in estimates), Usage())
    messages = sum(window.messages for each in estimates for window, _ in each.windows)
    return {
        "run": run,
        "state": "completed",
        "dry_run": True,
        "counts": {"windows": sum(len(each.windows) for each in estimates), "messages": messages},
        "estimate": {"messages": messages, **_plain(total)},
        "windows": [row for each in estimates for row in each.rows()],
        "notes": ["A dry run: nothing was written and no model was asked.", *_notes(estimates, asked, total)],
        "errors": [],
        "issues": [],
    }


def _notes(estimates: Sequence[Estimate], asked: Asked, total: Usage) -> list[str]:
    if not any(each.windows for each in estimates):
        return ["Nothing waits there."]
    prompts, sampled, calls = (
        sum(getattr(each, name) for each in estimates) for name in ("prompts", "sampled", "calls")
    )
    if not sampled:
        return ["Rules extract: nothing is paid."]
    learned = f"as in {calls} calls of the ledger."
    assumed = "assumed: the ledger knows too few calls. A first run with --limit 100 lets the estimate learn."
    notes = [
        f"{sampled} of {prompts} prompts were rendered to count what a model reads.",
        "What it writes, and the calls that follow, are "
        + (learned if all(each.calls for each in estimates) else assumed),
    ]
    if asked.settings.max_usd is not None and total.usd > asked.settings.max_usd:
        notes.append(f"The budget of {asked.settings.max_usd:.2f} dollars will be reached before the end.")
    return notes


def _plain(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls, "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out,
        "usd": round(usage.usd, 6),
    }  # fmt: skip
