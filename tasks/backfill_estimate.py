"""The estimate of a backfill: the windows that the run would plan, a sample of its prompts, what calls took so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from inference.estimates import Prices, prices_of, tokens_read
from inference.language import Language
from inference.ledger import MemoryLedger
from prompts.rendering import URGENT, render_extraction
from prompts.responses import WindowExtraction
from slowwave.forecast import CALLS, EXTRACTION, Habits, evenly, followers_cost, habits_of, tokens_by_length
from slowwave.intake.time_windows import TimeWindow, limited, plan_time_windows
from slowwave.intake.windows import COLUMNS, PlannedWindow, plan_windows, with_topics
from slowwave.records import Usage
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

STATEMENT_CHARS = 80
SAMPLED_FACTS = 500
_CONTEXT = pl.col("has_injection").not_() & (pl.col("graph_state") != "skipped_role")
_LEDGER = ["provider", "model", "prompt_name", "role", "run_id", "tokens_in", "tokens_out", "response"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill of one namespace will take: each window with its calls, the night, and what that rests on."""

    namespace: str
    windows: tuple[tuple[TimeWindow, Usage], ...]
    night: Usage
    habits: Habits
    prompts: int
    sampled: int
    is_paid: bool

    @property
    def total(self) -> Usage:
        """All windows and the night."""
        return sum((usage for _, usage in self.windows), self.night)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each window, then the night."""
        named = [(window.name, window.messages, usage) for window, usage in self.windows]
        night = [("sleep", 0, self.night)] if self.night.calls else []
        return [
            {"namespace": self.namespace, "window": name, "messages": n, **_plain(u)} for name, n, u in named + night
        ]


def estimate(run: Run, asked: Asked, found: Found) -> Estimate:
    """What the backfill will take in a namespace; writes nothing and asks nobody."""
    with traceless(run) as shadow:
        snapshot = store_of(shadow).snapshot()
        foreseen = _foreseen(shadow, found, asked)
        waiting = _waiting(snapshot, foreseen, asked)
        windows = (
            limited(plan_time_windows(waiting["occurred_at"], asked.window, asked.start, asked.end), asked.limit)
            if "ingest" in asked.stages
            else []
        )
        planned = [_planned(snapshot, foreseen, waiting, each, asked) for each in windows]
        habits = _habits(run, asked).within(asked.settings.ingest.consolidate.enabled)
        return _estimated(run, asked, windows, planned, habits, _known(snapshot, run, asked.extract))


def _foreseen(run: Run, found: Found, asked: Asked) -> pl.DataFrame:
    """The messages of files that are not stored yet, as they would be: read and gated, but kept nowhere."""
    settings = asked.storing_settings()
    sources = find_new_sources(run, found).new
    parts = [foresee_messages(run, intake, settings) for intake in read_intakes(run, sources, settings)]
    columns = [*COLUMNS, "graph_state", "has_injection", *_vector(asked)]
    empty = store_of(run).snapshot().frame("messages", "false", columns)
    return pl.concat([empty, *(part.select(columns) for part in parts)], how="vertical_relaxed").unique(
        "id", keep="first", maintain_order=True
    )


def _waiting(snapshot: Snapshot, foreseen: pl.DataFrame, asked: Asked) -> pl.DataFrame:
    """Id and time of what would be extracted, in order; foreseen messages have their number in `place`."""
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
) -> list[list[PlannedWindow]]:
    """The prompts of one window of time, batch by batch, as `extract_facts` plans them."""
    size = asked.extract.batch_messages
    at = pl.col("occurred_at")
    mine = waiting.filter(at >= window.since, at < window.until).head(window.messages)
    return [_batch(snapshot, foreseen, mine.slice(first, size)["id"], asked) for first in range(0, len(mine), size)]


def _vector(asked: Asked) -> list[str]:
    """The column of vectors, where topics part the windows."""
    return ["vector"] if asked.extract.by_topic else []


def _batch(snapshot: Snapshot, foreseen: pl.DataFrame, ids: pl.Series, asked: Asked) -> list[PlannedWindow]:
    settings, columns = asked.extract, [*COLUMNS, *_vector(asked)]
    new = foreseen.filter(pl.col("id").is_in(ids.implode()))
    batch = pl.concat([snapshot.by_ids("messages", ids, columns), new.select(columns)], how="vertical_relaxed")
    first = batch.group_by("conversation_id").agg(first=pl.col("ordinal").min())
    before = foreseen.filter(_CONTEXT).join(first, on="conversation_id").filter(pl.col("ordinal") < pl.col("first"))
    stored = earlier_messages(snapshot, batch, settings)
    earlier = pl.concat([stored, before.select(COLUMNS)], how="vertical_relaxed").sort("conversation_id", "ordinal")
    if settings.by_topic:
        batch = with_topics(batch, asked.settings.ingest.noise)
    return plan_windows(batch, earlier.group_by("conversation_id").tail(settings.context_messages), settings)


def _known(snapshot: Snapshot, run: Run, settings: ExtractSettings) -> tuple[int, str]:
    """How many facts memory holds now, and one as long as they are; prompts show those that are near."""
    live = live_sql(run.now)
    said = snapshot.frame("facts", live, ["statement"], SAMPLED_FACTS)["statement"]
    chars = int(said.str.len_chars().sum()) // len(said) if len(said) else STATEMENT_CHARS
    return len(said), "x" * chars


def _habits(run: Run, asked: Asked) -> Habits:
    """What calls of this model were like in this namespace."""
    if run.namespace not in namespaces(run.store):
        return Habits()
    llm = asked.settings.ingest.llm
    model = Language(llm, MemoryLedger()).model("extract")
    log = store_of(run).log("llm_calls", "response != ''", _LEDGER)
    mine = pl.format("{}/{}", "provider", "model") == model
    of_others = pl.col("prompt_name") != EXTRACTION
    told = log.filter(mine | of_others).with_columns(judged=pl.col("response").str.count_matches('"durable":'))
    return habits_of(told.select(CALLS.names()).cast(CALLS))


def _estimated(
    run: Run,
    asked: Asked,
    windows: Sequence[TimeWindow],
    planned: Sequence[Sequence[Sequence[PlannedWindow]]],
    habits: Habits,
    known: tuple[int, str],
) -> Estimate:
    language = Language(asked.settings.ingest.llm, MemoryLedger())
    prices = prices_of(language, URGENT)
    is_paid = prices.of(EXTRACTION, "extract") is not None
    shown = [
        _knowing(each, asked.extract, known, is_first=(number, part) == (0, 0))
        for number, batches in enumerate(planned)
        for part, batch in enumerate(batches)
        for each in batch
    ]
    sample = evenly(len(shown), asked.settings.sample) if is_paid else []
    usages = _extractions(shown, sample, habits, prices, asked.extract)
    ends = [0]
    for batches in planned:
        ends.append(ends[-1] + sum(len(batch) for batch in batches))
    filled = tuple(
        (window, _with_followers(usages[a:b], habits, prices, a) if usages else Usage())
        for window, (a, b) in zip(windows, pairwise(ends), strict=True)
    )
    night = Usage()
    if "sleep" in asked.stages and windows and is_paid:
        night = followers_cost(habits.in_the_night, len(shown), prices.of)
    return Estimate(run.namespace, filled, night, habits, len(shown), len(sample), is_paid)


def _knowing(
    planned: PlannedWindow, settings: ExtractSettings, known: tuple[int, str], *, is_first: bool
) -> PlannedWindow:
    """The window as it will be shown: with as many known facts as fit, once anything is known."""
    count, statement = known
    number = settings.known_facts if not is_first else min(settings.known_facts, count)
    since = planned.window.turns[-1].occurred_at
    return planned.knowing([("", statement, since)] * number)


def _extractions(
    shown: Sequence[PlannedWindow],
    sample: Sequence[int],
    habits: Habits,
    prices: Prices,
    settings: ExtractSettings,
) -> list[Usage]:
    """What extracting each window will take; nothing where no model is paid for it."""
    if not sample:
        return []
    counted = [tokens_read(render_extraction(shown[n].window, settings), WindowExtraction) for n in sample]
    lengths = [_chars(each) for each in shown]
    judged = [len(each.new_ids) for each in shown]
    read = habits.corrected(tokens_by_length(lengths, sample, counted), judged)
    usd_in, usd_out = prices.of(EXTRACTION, "extract") or (0.0, 0.0)
    written = [habits.written(n, _judged_chars(each)) for n, each in zip(judged, shown, strict=True)]
    return [
        Usage(1, 0, round(tokens), round(more), tokens * usd_in + more * usd_out)
        for tokens, more in zip(read, written, strict=True)
    ]


def _chars(planned: PlannedWindow) -> int:
    told = sum(len(turn.text) + len(turn.speaker) for turn in planned.window.turns)
    return told + sum(len(fact.statement) for fact in planned.window.known)


def _judged_chars(planned: PlannedWindow) -> int:
    return sum(len(turn.text) for turn in planned.window.turns if not turn.is_context)


def _with_followers(usages: Sequence[Usage], habits: Habits, prices: Prices, before: int) -> Usage:
    """What a window takes: its extractions, and the calls that follow them; `before` it so many were planned."""
    return sum(usages, followers_cost(habits.after_a_batch, len(usages), prices.of, habits.extractions + before))


def told_estimate(estimates: Sequence[Estimate], asked: Asked, run: str) -> dict[str, Any]:
    """The estimate as a summary: rows of windows, the total, and what a reader must know of it."""
    total = sum((each.total for each in estimates), Usage())
    messages = sum(window.messages for each in estimates for window, _ in each.windows)
    rows = [row for each in estimates for row in each.rows()]
    return {
        "run": run,
        "state": "completed",
        "dry_run": True,
        "counts": {"windows": sum(len(each.windows) for each in estimates), "messages": messages},
        "estimate": {"messages": messages, **_plain(total)},
        "windows": rows,
        "notes": _notes(estimates, asked, total),
        "errors": [],
        "issues": [],
    }


def _notes(estimates: Sequence[Estimate], asked: Asked, total: Usage) -> list[str]:
    notes = ["A dry run: nothing was written and no model was asked."]
    if not any(each.windows for each in estimates):
        return [*notes, "Nothing waits there."]
    if not any(each.is_paid for each in estimates):
        return [*notes, "Rules extract: nothing is paid."]
    prompts, sampled = sum(each.prompts for each in estimates), sum(each.sampled for each in estimates)
    notes.append(f"{sampled} of {prompts} prompts were rendered to count what a model reads.")
    assumed = [each for each in estimates if each.habits.is_assumed]
    calls = sum(each.habits.calls for each in estimates)
    notes.append(
        f"What it writes, and the calls that follow, are as in {calls} calls of the ledger."
        if not assumed
        else "What it writes, and the calls that follow, are assumed: the ledger knows too few calls. A first run with "
        "--limit 100 lets the estimate learn."
    )
    limits = asked.settings
    if limits.max_usd is not None and total.usd > limits.max_usd:
        notes.append(f"The budget of {limits.max_usd:.2f} dollars will be reached before the end.")
    return notes


def _plain(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls, "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out,
        "usd": round(usage.usd, 6),
    }  # fmt: skip
