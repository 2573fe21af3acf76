"""A sweep of the steward over a large store: time, memory, and how much more than merely reading its columns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from flows.maintenance import Sweep, steward
from inference.embedding import open_embedder
from slowwave.common.settings import StewardSettings
from slowwave.common.validity import live_sql
from storage.store import Store
from storage.upkeep import tend

from .figures import Figure, Options, in_fresh_process, measured, peak_memory_mib

SEED = 29
QUICK, SIZES = (10_000,), (100_000, 1_000_000)
BATCH = 100_000
RECALLED = 0.3
DAYS = 400
NOW = datetime(2026, 10, 1, tzinfo=UTC)
READ = {
    "facts": [
        "id", "kind", "subject_id", "object_id", "owner_entity_id", "created_at", "content_score", "entrenchment",
        "pinned",
    ],
    "fact_usage": ["id", "hit_count", "cosine_sum", "cosine_count", "last_retrieved_at"],
    "fact_scores": ["id", "quality_score"],
}  # fmt: skip
"""What a sweep must look at of every fact."""
RATIO_BAR, MEMORY_BAR = 2.0, 2048.0


@dataclass(frozen=True, slots=True)
class Swept:
    """One sweep in a process of its own."""

    wall_s: float
    cpu_s: float
    read_s: float
    peak_mib: float
    counts: Mapping[str, int]


def run(options: Options) -> Iterable[Figure]:
    """The first sweep, which writes every score; one an hour later, which writes few; and one that prunes."""
    for facts in QUICK if options.is_quick else SIZES:
        uri = str(options.place / str(facts))
        build(uri, facts)
        sweeps: dict[str, tuple[datetime, tuple[Sweep, ...]]] = {
            "first": (NOW, ("score",)),
            "an hour later": (NOW + timedelta(hours=1), ("score",)),
        }
        if facts < SIZES[-1]:  # pruning half a million facts in commits of 500 takes an hour and says nothing new
            sweeps["pruning"] = (NOW + timedelta(hours=2), ("score", "prune"))
        for name, (at, phases) in sweeps.items():
            is_barred = facts == SIZES[-1] and name == "an hour later"
            yield from _figures(f"{facts:,} facts, {name}", in_fresh_process(sweep, uri, at, phases), is_barred)


def build(uri: str, facts: int) -> None:
    """Facts of all ages and worth with random vectors, and recalls of a third of them; no messages."""
    seat = open_embedder()
    store, random = Store.create(uri, "default", (seat.name, seat.dims)), np.random.default_rng(SEED)
    for start in range(0, facts, BATCH):
        rows = _facts(start, min(BATCH, facts - start), seat.dims, seat.name, random)
        with store.commit("bench", "bench", NOW) as tx:
            tx.upsert("facts", rows)
        some = rows["id"].sample(fraction=RECALLED, seed=start)
        store.append("retrieval_events", _events(some, start, random), NOW)
    tend(store, "bench", NOW, thorough=False)


def _facts(start: int, count: int, dims: int, model: str, random: np.random.Generator) -> pl.DataFrame:
    vectors = random.standard_normal((count, dims), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ages = random.random(count) * DAYS
    at = pl.Series([NOW - timedelta(days=float(age)) for age in ages], dtype=pl.Datetime("us", "UTC"))
    return pl.DataFrame({"number": np.arange(start, start + count)}).select(
        id=pl.format("f_{}", pl.col("number").cast(pl.String).str.zfill(12)),
        subject_id=pl.format("e_{}", pl.col("number") // 10),
        owner_entity_id=pl.format("e_{}", pl.col("number") // 10),
        statement=pl.format("Fact number {} says that thing {} has a value.", "number", "number"),
        kind=pl.lit("observation"), predicate=pl.lit("says"), scope=pl.lit("global"), polarity=pl.lit("affirmed"),
        status=pl.lit("active"), confidence=pl.lit(0.9), evidence_count=pl.lit(1), embed_model=pl.lit(model),
        content_score=pl.Series(random.random(count)), consolidated_at=pl.lit(NOW), valid_from=at, created_at=at,
        vector=pl.Series(vectors, dtype=pl.Array(pl.Float32, dims)),
    )  # fmt: skip


def _events(facts: pl.Series, start: int, random: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame({"fact_id": facts}).with_row_index("rank").select(
        "fact_id", pl.col("rank").cast(pl.Int64), id=pl.format("r_{}_{}", pl.lit(start), "rank"),
        cosine=pl.Series(random.random(len(facts))), query_hash=pl.lit("q"), at=pl.lit(NOW - timedelta(days=1)),
    )  # fmt: skip


def sweep(uri: str, at: datetime, phases: tuple[Sweep, ...]) -> Swept:
    """Read the columns, then run the flow; to be called in a fresh process."""
    snapshot = Store.open(uri).snapshot()
    with measured() as reading:
        for name, columns in READ.items():
            snapshot.frame(name, live_sql(at) if name == "facts" else None, columns)
    settings = StewardSettings.model_validate({"llm": {"model": "quotes"}})
    with measured() as cost:
        summary = asyncio.run(steward(store=uri, phases=phases, settings=settings, now=at))
    return Swept(cost.wall_s, cost.cpu_s, reading.wall_s, peak_memory_mib(), summary["counts"])


def _figures(what: str, swept: Swept, is_barred: bool) -> Iterator[Figure]:
    counted = ", ".join(f"{number} {thing}" for thing, number in swept.counts.items())
    yield Figure("steward", f"{what}: whole flow", swept.wall_s, "s", note=counted)
    yield Figure("steward", f"{what}: processor time", swept.cpu_s, "s")
    yield Figure(
        "steward", f"{what}: time over reading its columns", swept.wall_s / swept.read_s, "x",
        bar=RATIO_BAR if is_barred else None, better="lower", note=f"reading {swept.read_s:.2f} s",
    )  # fmt: skip
    yield Figure("steward", f"{what}: peak memory", swept.peak_mib, "MiB", bar=MEMORY_BAR, better="lower")
