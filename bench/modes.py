"""Which way of recalling finds most, each tried on the same stores; and what following relations costs in time.

A store that was just read has no use to weigh by, so the weight of use is tried on stores of which every other question
was asked before, half a day apart, and counted as the steward does. What is measured then are the other questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, get_args

from inference.embedding import open_embedder
from slowwave.common.settings import GraphMode, RecallSettings
from slowwave.integrations.python_api import OpenMemory
from tasks.nightly.scoring_and_pruning import count_usage, weigh_entities
from tasks.runtime.runs import new_run

from . import data
from .big_store import build_store
from .figures import Figure, Options, in_fresh_process, measured, percentiles
from .ingest import ingest_files
from .latency import ASKED, LARGEST, P50_BARS, P95_BAR, WARM_UP, K
from .metrics import evidence_recall, mean, named_messages

DEEP = 60  # facts that name twenty distinct messages and more
SEED = 23
QUICK, SIZES = (10_000,), (100_000, 1_000_000)
PAUSE = timedelta(hours=12)
MODES: tuple[str, ...] = get_args(GraphMode)
FRESH: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "search alone": {"graph": "none", "neighbours": 0.0},
    **{f"graph {mode}": {"graph": mode} for mode in MODES},
    **{f"graph {mode}, weight 1": {"graph": mode, "graph_weight": 1.0} for mode in MODES if mode != "none"},
    **{f"neighbours {share}": {"neighbours": share} for share in (0.0, 0.3, 0.7)},
    **{f"diversity {share}": {"diversity": share} for share in (0.3, 0.5)},
}
"""What is tried on fresh stores, beside the defaults."""
USED: Mapping[str, Mapping[str, Any]] = {
    "in use, by use": {"limbic": True},
    "in use, whatever the use": {"limbic": False},
}

Asked = tuple[data.Talk, str]


def run(options: Options) -> Iterable[Figure]:
    """Evidence recall of every way on LoCoMo and BEAM, then latency by size and mode."""
    for name, talks in (("LoCoMo", data.locomo(options.data)), ("BEAM", data.beam(options.data))):
        chosen = talks[:1] if options.is_quick else talks
        stores = [(talk, _learned(options.place / f"{name}-{talk.name}", talk)) for talk in chosen]
        now = datetime.now(UTC)
        yield from _figures(name, stores, FRESH, now)
        later = max(_use(uri, talk.questions[::2], now) for talk, uri in stores)
        others = [(replace(talk, questions=talk.questions[1::2]), uri) for talk, uri in stores]
        yield from _figures(name, others, USED, later)
    for facts in QUICK if options.is_quick else SIZES:
        yield from _latency(str(options.place / str(facts)), facts)


def _learned(place: Path, talk: data.Talk) -> str:
    """A store that has read the conversation without a key."""
    uri = str(place / "store")
    ingest_files([str(data.write_messages(place / "messages.jsonl", talk.messages))], uri)
    return uri


def _use(uri: str, questions: Sequence[data.Asked], now: datetime) -> datetime:
    """Ask these questions, one after the other, and count it; returns when that was done."""
    with OpenMemory.open(uri) as memory:
        for number, question in enumerate(questions):
            memory.recall(question.text, K, now=now + number * PAUSE)
    later = now + len(questions) * PAUSE
    counting = new_run("steward", uri, "default", open_embedder().name, later)
    count_usage(counting)
    weigh_entities(counting)
    return later


def _figures(
    name: str, stores: Sequence[Asked], ways: Mapping[str, Mapping[str, Any]], now: datetime
) -> Iterable[Figure]:
    for way, chosen in ways.items():
        shares = [share for talk, uri in stores for share in _recalls(uri, talk.questions, chosen, now)]
        yield Figure("modes", f"{name}, {way}: R@10", mean(shares), note=f"{len(shares)} questions")


def _recalls(uri: str, questions: Sequence[data.Asked], chosen: Mapping[str, Any], now: datetime) -> list[float]:
    with OpenMemory.open(uri, settings=RecallSettings(**chosen), is_logged=False) as memory:
        return [
            evidence_recall(named_messages(memory.recall(q.text, DEEP, now=now).facts), q.evidence, 10)
            for q in questions
        ]


def _latency(uri: str, facts: int) -> Iterable[Figure]:
    """Milliseconds of a warm recall in each mode, of one store in processes of their own."""
    with measured() as building:
        asked = Random(SEED).sample(build_store(uri, facts, SEED), WARM_UP + ASKED)
    yield Figure("modes", f"{facts:,} facts: building", building.wall_s, "s", better="lower")
    for mode in MODES:
        times = in_fresh_process(ask, uri, asked, mode)
        bars = (P50_BARS[LARGEST], P95_BAR) if facts == LARGEST and mode == "none" else (None, None)
        for what, value, bar in zip(("p50", "p95"), percentiles(times[WARM_UP:]), bars, strict=True):
            yield Figure("modes", f"{facts:,} facts, graph {mode}: {what}", value, "ms", bar, "lower", note=f"k={K}")
        yield Figure("modes", f"{facts:,} facts, graph {mode}: first", times[0], "ms", better="lower")


def ask(uri: str, questions: list[str], mode: GraphMode) -> list[float]:
    """Milliseconds of each question."""
    times = []
    with OpenMemory.open(uri, is_logged=False) as memory:
        for question in questions:
            with measured() as cost:
                memory.recall(question, K, graph=mode)
            times.append(cost.wall_s * 1000)
    return times
