"""How long a warm process takes to recall, through the same door that agents use."""

from __future__ import annotations

import time
from collections.abc import Iterable
from random import Random

from recall.memory import Memory

from .big_store import build_store
from .figures import Figure, Options, in_fresh_process, measured, percentiles

SEED = 23
K = 10
WARM_UP = 30
ASKED = 300
BARRED = 100_000
P50_BAR, P95_BAR = 20.0, 50.0


def run(options: Options) -> Iterable[Figure]:
    """Questions about facts drawn from all of the store, one at a time."""
    for facts in (10_000,) if options.is_quick else (10_000, 100_000):
        with measured() as building:
            uri = str(options.place / str(facts))
            questions = build_store(uri, facts, SEED)
        yield Figure(
            "latency", f"{facts:,} facts: building", facts / building.wall_s, "facts/s", note=f"{building.wall_s:.0f} s"
        )
        asked = Random(SEED).sample(questions, WARM_UP + ASKED)
        times, named = in_fresh_process(ask, uri, asked)
        median, slow = percentiles(times[WARM_UP:])
        bars = (P50_BAR, P95_BAR) if facts == BARRED else (None, None)
        yield Figure("latency", f"{facts:,} facts: p50", median, "ms", bars[0], "lower", f"k={K}, {ASKED} questions")
        yield Figure("latency", f"{facts:,} facts: p95", slow, "ms", bars[1], "lower")
        yield Figure(
            "latency", f"{facts:,} facts: first", times[0], "ms", note=f"{named / len(asked):.1f} facts an answer"
        )


def ask(uri: str, questions: list[str]) -> tuple[list[float], int]:
    """Milliseconds of each question, and how many facts were named in all."""
    times, named = [], 0
    with Memory.open(uri) as memory:
        for question in questions:
            started = time.perf_counter()
            named += len(memory.recall(question, K).facts)
            times.append((time.perf_counter() - started) * 1000)
    return times, named
