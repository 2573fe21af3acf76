"""The estimate of a backfill: the windows that the run would plan, their prompts, and what calls took so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from inference.budget import price_of, tokens_read
from inference.language import Language
from inference.ledger import MemoryLedger
from inference.providers import FREE, choose
from inference.remote import BATCH_SHARE
from inference.request_batch import ROLES, Role
from prompts.rendering import URGENT, render_extraction
from prompts.responses import WindowExtraction
from slowwave.ingestion.windows import (
    COLUMNS,
    PlannedWindow,
    TimeWindow,
    brief_windows,
    limited,
    plan_time_windows,
    plan_windows,
    with_topics,
)
from slowwave.records import KnownFact, Usage
from slowwave.settings import ExtractSettings
from slowwave.text import as_json
from slowwave.validity import live_sql
from storage.connection import namespaces
from storage.snapshots import Snapshot
from tasks.ingest.admission import foresee_messages
from tasks.ingest.candidate_rows import to_extract
from tasks.ingest.extraction import earlier_messages
from tasks.ingest.reading import FoundFiles, find_new_sources, read_intakes
from tasks.runtime.runs import Run, store_of, traceless

from .backfilling import BackfillRequest

# What a model reads is counted in the prompts. What it writes is a share of that, and the calls that follow (names,
# reconciliation, summaries) are so many for each extraction: as the newest calls of the ledger show.


EXTRACTION = "extract_facts"
WRITTEN = 0.35
"""Tokens written for each token read by an extraction, unless the ledger tells."""
TRUSTED_CALLS = 5
RECENT_CALLS = 50
CALLS = pl.Schema(
    {"prompt_name": pl.String, "role": pl.String, "run_id": pl.String, "tokens_in": pl.Int64, "tokens_out": pl.Int64}
)
Price = Callable[[str, Any], tuple[float, float] | None]
"""Dollars per token read and written of a prompt in a role; nothing where rules answer."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A prompt that follows extraction: calls and tokens for each extraction, in the run itself or in the night."""

    prompt: str
    role: str
    calls: float
    tokens_in: float
    tokens_out: float
    in_the_night: bool = False


ASSUMED = (
    Follower("reconcile_facts", "consolidate", 0.3, 600.0, 80.0),
    Follower("summarize_communities", "summarize", 0.1, 200.0, 30.0, in_the_night=True),
)


@dataclass(frozen=True, slots=True)
class Habits:
    """What calls were like so far: the share that extractions write, and what follows each; `calls` tell it."""

    written: float = WRITTEN
    followers: tuple[Follower, ...] = ASSUMED
    calls: int = 0

    def after(self, extractions: int, price: Price, *, in_the_night: bool = False) -> Usage:
        """What the calls after so many extractions will take."""
        total = Usage()
        for each in self.followers if extractions else ():
            dollars = price(each.prompt, each.role)
            if each.in_the_night is in_the_night and dollars is not None:
                read, written = each.tokens_in * extractions, each.tokens_out * extractions
                usd = read * dollars[0] + written * dollars[1]
                total += Usage(max(round(each.calls * extractions), 1), 0, round(read), round(written), usd)
        return total


def habits_of(calls: pl.DataFrame) -> Habits:
    """The habits that the calls of a ledger (CALLS) show; the flow that paid is the first word of `run_id`."""
    extractions = calls.filter(pl.col("prompt_name") == EXTRACTION).sort("run_id")
    if len(extractions) < TRUSTED_CALLS:
        return Habits()
    newest, count = extractions.tail(RECENT_CALLS), len(extractions)
    in_the_night = ~pl.col("run_id").str.starts_with("ingest-")
    others = calls.filter(pl.col("prompt_name") != EXTRACTION).group_by("prompt_name", "role", night=in_the_night)
    sums = others.agg(pl.len(), pl.col("tokens_in").sum(), pl.col("tokens_out").sum()).sort("prompt_name", "night")
    followers = [
        Follower(name, role, asks / count, read / count, written / count, night)
        for name, role, night, asks, read, written in sums.iter_rows()
    ]
    share = float(newest["tokens_out"].sum()) / max(float(newest["tokens_in"].sum()), 1.0)
    return Habits(share, tuple(followers), len(calls))


STATEMENT = "x" * 80
_LEDGER = ["provider", "model", *CALLS]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill of one namespace will take: each window with its calls, the night, and what that rests on.

    So many `prompts` will be paid for, and so many `calls` of the ledger told what is usual.
    """

    namespace: str
    windows: tuple[tuple[TimeWindow, Usage], ...]
    night: Usage
    prompts: int
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


def _habits(run: Run, request: BackfillRequest) -> Habits:
    """What calls of this model were like in this namespace."""
    if run.namespace not in namespaces(run.store):
        return Habits()
    model = Language(request.settings.ingest.llm, MemoryLedger()).model("extract")
    log = store_of(run).log("llm_calls", "response != ''", _LEDGER)
    mine = pl.format("{}/{}", "provider", "model") == model
    return habits_of(log.filter(mine | (pl.col("prompt_name") != EXTRACTION)).select(CALLS.names()).cast(CALLS))


def _estimated(
    run: Run,
    request: BackfillRequest,
    windows: Sequence[TimeWindow],
    planned: Sequence[Sequence[PlannedWindow]],
    known: int,
) -> Estimate:
    prices, habits = prices_of(Language(request.settings.ingest.llm, MemoryLedger()), URGENT), _habits(run, request)
    price = prices.of(EXTRACTION, "extract")
    usd_in, usd_out = price or (0.0, 0.0)
    leaves_out = set() if request.settings.ingest.consolidate.enabled else {"consolidate"}
    filled: list[tuple[TimeWindow, Usage]] = []
    asks = 0
    for window, group in zip(windows, planned, strict=True):
        before, tokens = asks, 0
        for each in group if price is not None else ():
            if each.speaking_ids:
                tokens += _tokens(each, known, request.extract)
                known += len(each.speaking_ids)
                asks += 1
        more = habits.after(asks - before, lambda name, role: None if role in leaves_out else prices.of(name, role))
        usd = tokens * usd_in + tokens * habits.written * usd_out
        filled.append((window, Usage(asks - before, 0, tokens, round(tokens * habits.written), usd) + more))
    night = Usage()
    if "sleep" in request.stages and price is not None:
        night = habits.after(asks, prices.of, in_the_night=True)
    return Estimate(run.namespace, tuple(filled), night, asks, habits.calls)


@cache
def _schema_chars() -> int:
    return len(as_json(WindowExtraction.model_json_schema()))


def _tokens(planned: PlannedWindow, known: int, settings: ExtractSettings) -> int:
    """Tokens of a prompt, when so many facts are known."""
    at, count = planned.window.turns[-1].occurred_at, min(settings.known_facts, known)
    window = planned.knowing([KnownFact(n, "", STATEMENT, at) for n in range(count)]).window
    return tokens_read(render_extraction(window, settings), _schema_chars())


def estimate_summary(estimates: Sequence[Estimate], request: BackfillRequest, run: str) -> dict[str, Any]:
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
        "notes": ["A dry run: nothing was written and no model was asked.", *_notes(estimates, request, total)],
        "errors": [],
        "issues": [],
    }


def _notes(estimates: Sequence[Estimate], request: BackfillRequest, total: Usage) -> list[str]:
    if not any(each.windows for each in estimates):
        return ["Nothing waits there."]
    prompts, calls = (sum(getattr(each, name) for each in estimates) for name in ("prompts", "calls"))
    if not prompts:
        return ["Words are kept as quotations: nothing is paid."]
    learned = f"as in {calls} calls of the ledger."
    assumed = "assumed: the ledger knows too few calls. A first run with --limit 100 lets the estimate learn."
    notes = [
        f"{prompts} prompts were rendered to count what a model reads.",
        "What it writes, and the calls that follow, are "
        + (learned if all(each.calls for each in estimates) else assumed),
    ]
    if request.settings.max_usd is not None and total.usd > request.settings.max_usd:
        notes.append(f"The budget of {request.settings.max_usd:.2f} dollars will be reached before the end.")
    return notes


def _plain(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls, "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out,
        "usd": round(usage.usd, 6),
    }  # fmt: skip


# Prices of those who are asked.


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per input token and per output token of each paid role; 0 if no price is known.

    In batches half of it, except for prompts that are sent live there, too.
    """

    live: Mapping[Role, tuple[float, float]]
    is_batched: bool
    urgent: Collection[str]

    def of(self, prompt: str, role: Role) -> tuple[float, float] | None:
        """The price of a token of such a prompt, read and written; None where rules answer."""
        if role not in self.live:
            return None
        share = BATCH_SHARE if self.is_batched and prompt not in self.urgent else 1.0
        read, written = self.live[role]
        return share * read, share * written


def prices_of(language: Language, urgent: Collection[str]) -> Prices:
    """The prices of everyone whom this asks; `urgent` are names of prompts that do not wait for a batch."""
    found: dict[Role, tuple[float, float]] = {}
    for role in ROLES:
        choice = choose(language.model(role))
        if choice.provider not in FREE:
            price = price_of(choice.provider, choice.model)
            found[role] = (price.usd(1, 0), price.usd(0, 1)) if price else (0.0, 0.0)
    return Prices(found, language.settings.mode == "batch", urgent)
