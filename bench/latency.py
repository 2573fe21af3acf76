"""How long a warm process takes to recall, through the same door that agents use."""

from __future__ import annotations

import time
from collections.abc import Iterable
from random import Random

from slowwave.common.settings import RecallSettings
from slowwave.integrations.python_api import OpenMemory

from .big_store import build_store
from .figures import Figure, Options, in_fresh_process, measured, peak_memory_mib, percentiles

SEED = 23
K = 10
WARM_UP = 30
ASKED = 300
MANY = 200
P50_BARS = {500: 5.0, 10_000: 8.0, 100_000: 15.0}
P95_BAR, MEMORY_BAR = 50.0, 600.0
LARGEST = 100_000


def run(options: Options) -> Iterable[Figure]:
    """Questions about facts drawn from all of the store: one at a time, many in one call, and without what is held."""
    for facts, bar in P50_BARS.items():
        if options.is_quick and facts == LARGEST:
            continue
        with measured() as building:
            uri = str(options.place / str(facts))
            questions = build_store(uri, facts, SEED)
        name = f"{facts:,} facts"
        note = f"{building.wall_s:.0f} s"
        yield Figure("latency", f"{name}: building", facts / building.wall_s, "facts/s", note=note)
        asked = Random(SEED).sample(questions, WARM_UP + ASKED)
        times, named = in_fresh_process(ask, uri, asked)
        median, slow = percentiles(times[WARM_UP:])
        is_largest = facts == LARGEST
        yield Figure("latency", f"{name}: p50", median, "ms", bar, "lower", f"k={K}, {ASKED} questions")
        yield Figure("latency", f"{name}: p95", slow, "ms", P95_BAR if is_largest else None, "lower")
        yield Figure("latency", f"{name}: first", times[0], "ms", note=f"{named / len(asked):.1f} facts an answer")
        alone, many, peak = in_fresh_process(ask_many, uri, asked)
        by_queries, _, _ = in_fresh_process(ask_many, uri, asked, 0)
        yield Figure("latency", f"{name}: a question", alone, "cpu ms")
        yield Figure("latency", f"{name}: by queries", by_queries / alone, "times that", note="with held_mb = 0")
        yield Figure("latency", f"{name}: {MANY} in one call", many / alone, "times that", note="a question")
        memory_bar = MEMORY_BAR if is_largest else None
        yield Figure("latency", f"{name}: memory", peak, "MiB", memory_bar, "lower", "most that the process held")


def ask(uri: str, questions: list[str]) -> tuple[list[float], int]:
    """Milliseconds of each question, and how many facts were named in all."""
    times, named = [], 0
    with OpenMemory.open(uri) as memory:
        for question in questions:
            started = time.perf_counter()
            named += len(memory.recall(question, K).facts)
            times.append((time.perf_counter() - started) * 1000)
    return times, named


def ask_many(uri: str, questions: list[str], held_mb: int = RecallSettings().held_mb) -> tuple[float, float, float]:
    """Milliseconds of processor time of a question when asked alone and as one of many, and MiB of memory."""
    asked = questions[WARM_UP : WARM_UP + MANY]
    with OpenMemory.open(uri, is_logged=False, settings=RecallSettings(held_mb=held_mb)) as memory:
        for question in questions[:WARM_UP]:
            memory.recall(question, K)
        with measured() as alone:
            for question in asked:
                memory.recall(question, K)
        with measured() as together:
            memory.recall_many(asked, K)
    return 1000 * alone.cpu_s / MANY, 1000 * together.cpu_s / MANY, peak_memory_mib()
