"""Keyless ingest through the real flow: messages per second, where the time goes, and the peak of memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from . import data, synthetic
from .figures import Absent, Figure, Options, in_fresh_process, measured, peak_memory_mib

SEED = 11
BAR = 500.0
START_BAR = 3.0
ORCHESTRATION_BAR = 15.0

STAGES: Mapping[str, tuple[str, ...]] = {
    "reading files": ("tasks.ingest.reading:read_source",),
    "redaction and injection": (
        "slowwave.reading.ingestion.conversations:redact_all", "tasks.ingest.admission:injection_flags",
    ),
    "gates": ("tasks.ingest.admission:gate", "tasks.ingest.admission:learn_noise"),
    "embedding": ("inference.embedding:StaticEmbedder.embed",),
    "windows and prompts": ("tasks.ingest.extraction:plan_windows", "tasks.ingest.extraction:render_extraction"),
    "extraction": ("inference.language:Language.ask_many",),
    "claims, names and candidates": (
        "tasks.ingest.candidate_rows:collect",
        "tasks.ingest.extraction:resolve_names",
        "tasks.ingest.candidate_rows:build_candidates",
    ),
    "neighbours": ("tasks.ingest.surroundings:nearest", "tasks.ingest.surroundings:nearest_among"),
    "evaluation and application plans": (
        "tasks.ingest.application:evaluate",
        "tasks.ingest.application:plan_application",
    ),
    "reading the store": ("storage.snapshots:read_rows", "storage.store:Store.snapshot"),
    "writing the store": (
        "storage.transactions:Transaction.upsert", "storage.transactions:Transaction.delete",
        "storage.transactions:Transaction.publish", "storage.transactions:Transaction.recover",
        "storage.lease:HeadRow.acquire", "storage.lease:HeadRow.release",
    ),
    "tidying up": ("flows.ingest:tidy.fn",),
    "tasks, the rest": (
        "flows.ingest:find_new_sources", "flows.ingest:read_intakes", "flows.ingest:admit_messages.fn",
        "flows.ingest:extract_facts.fn", "flows.ingest:apply_patches.fn",
    ),
    "opening the store": ("tasks.runtime.runs:open_store",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ingested:
    """One run of the flow in a process of its own."""

    messages: int
    facts: int
    start_s: float
    wall_s: float
    cpu_s: float
    stages: Mapping[str, float]
    peak_mib: float
    is_inline: bool

    @property
    def outside(self) -> float:
        """Percent of the time spent outside the work of any task."""
        return 100 * (1 - sum(self.stages.values()) / self.wall_s)


def ingest_files(
    paths: list[str], store: str, *, now: datetime | None = None, namespace: str = "default", **chosen: Any
) -> dict[str, Any]:
    """Run the flow `ingest` without a key, with these settings, at this time; returns its summary."""
    from flows.ingest import ingest
    from slowwave.common.settings import IngestSettings

    settings = IngestSettings.model_validate({"llm": {"model": "quotes"}, **chosen})
    found: dict[str, Any] = asyncio.run(ingest(paths, store=store, namespace=namespace, settings=settings, now=now))
    return found


def ingest_measured(path: str, store: str) -> Ingested:
    """Run the flow and take its time apart; to be called in a fresh process, whose start is counted apart."""
    with measured() as start:
        import lancedb  # noqa: F401

        import flows.ingest  # noqa: F401
        from inference.embedding import open_embedder

        open_embedder().embed(["load the model"])
    from tasks.runtime.engine import is_inline

    from .probe import Stopwatch

    with Stopwatch().watching(STAGES) as watch, measured() as cost:
        summary = ingest_files([path], store)
    counts: Counter[str] = Counter(summary["counts"])
    seconds = start.wall_s, cost.wall_s, cost.cpu_s
    return Ingested(
        counts["messages stored"],
        counts["facts learned"],
        *seconds,
        dict(watch.seconds),
        peak_memory_mib(),
        is_inline(),
    )


def run(options: Options) -> Iterable[Figure]:
    """Synthetic messages at two sizes, and the text of LoCoMo and BEAM."""
    for size in (1_000,) if options.is_quick else (1_000, 10_000):
        source = data.write_messages(options.place / f"synthetic-{size}.jsonl", synthetic.messages(size, SEED))
        yield from _figures(f"synthetic {size}", source, options.place, is_barred=size == 10_000)
    readers: Mapping[str, Callable[[Path], list[data.Talk]]] = {"LoCoMo": data.locomo, "BEAM": data.beam}
    for name, read in readers.items():
        try:
            talks = read(options.data)
        except Absent as reason:
            print(f"ingest of {name} skipped: {reason}")
            continue
        rows = (row for talk in talks for row in talk.messages)
        yield from _figures(name, data.write_messages(options.place / f"{name}.jsonl", rows), options.place)


def _figures(name: str, source: Path, place: Path, *, is_barred: bool = False) -> Iterable[Figure]:
    done = in_fresh_process(ingest_measured, str(source), str(place / f"store of {name}"))
    size = source.stat().st_size / 1e6
    note = f"{done.messages} messages, {size:.1f} MB, {done.facts} facts, {'inline' if done.is_inline else 'Prefect'}"

    def figure(
        what: str, value: float, unit: str, bar: float | None = None, *, note: str = "", low: bool = False
    ) -> Figure:
        limit = bar if is_barred else None
        return Figure("ingest", f"{name}: {what}", value, unit, limit, "lower" if low else "higher", note)

    yield figure("rate", done.messages / done.wall_s, "messages/s", BAR, note=note)
    yield figure("rate by processor time", done.messages / done.cpu_s, "messages/s")
    yield figure("text", size / done.wall_s, "MB/s")
    yield figure("start to first work", done.start_s, "s", START_BAR, note="imports and the model", low=True)
    yield figure("time", done.wall_s, "s", note=f"{done.cpu_s:.1f} s of processor time")
    yield figure("orchestration", done.outside, "% of time", ORCHESTRATION_BAR, low=True)
    for stage, seconds in sorted(done.stages.items(), key=lambda pair: -pair[1]):
        yield figure(stage, seconds, "s", note=f"{100 * seconds / done.wall_s:.0f} %")
    yield figure("peak memory", done.peak_mib, "MiB")
