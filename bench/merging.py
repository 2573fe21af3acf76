"""The steward's merge phase: pairs and guards over planted repetitions, beside SemHash on the same vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from inference.embedding import open_embedder
from slowwave.common import frames
from slowwave.common.settings import MergeSettings, StewardSettings
from slowwave.facts.deduplication.duplicates import CandidateSet, by_use, find_pairs, merge_by

from .big_store import fact_rows
from .consolidation import FACTS, QUICK, SEED, Planted, plant
from .figures import Figure, Options, in_fresh_process, measured, peak_memory_mib

SETTINGS = StewardSettings()
WALL_BAR, MEMORY_BAR = 1.0, 1.0  # of SemHash

Merged = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Swept:
    """One pass in a process of its own: each merged statement with the one that speaks for it."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    pairs: int
    merged: Merged


def run(options: Options) -> Iterable[Figure]:
    """Time and memory of both, then what each merged: planted repetitions, and planted contradictions."""
    planted = plant(QUICK if options.is_quick else FACTS, SEED)
    vectors = open_embedder().embed([fact.statement for fact in planted.texts])
    np.save(options.place / "vectors.npy", vectors)
    _rows(planted).write_ipc(options.place / "facts.arrow")
    size = f"{len(planted.texts):,} facts"
    ours = in_fresh_process(_swept, _by_steward, str(options.place))
    yield from _cost(f"{size}: slowwave", ours)
    yield from _quality("slowwave", planted, ours.merged)
    if not find_spec("semhash"):
        yield Figure("merging", f"{size}: beside SemHash", float("nan"), note="not measured: pip install -e .[bench]")
        return
    theirs = in_fresh_process(_swept, _by_semhash, str(options.place))
    yield from _cost(f"{size}: SemHash", theirs)
    yield from _quality("SemHash", planted, theirs.merged)
    yield Figure("merging", f"{size}: time beside SemHash", ours.wall_s / theirs.wall_s, "×", WALL_BAR, "lower")
    ratio = ours.cpu_s / theirs.cpu_s
    yield Figure(
        "merging", f"{size}: processor time beside SemHash", ratio, "×", better="lower", note="when others run"
    )
    ratio = ours.peak_mib / theirs.peak_mib
    yield Figure("merging", f"{size}: peak memory beside SemHash", ratio, "×", MEMORY_BAR, "lower")


def _rows(planted: Planted) -> pl.DataFrame:
    """Facts as the merge phase reads them: all of them new, some of them recalled."""
    random = np.random.default_rng(SEED)
    facts = frames.conform(fact_rows(planted.texts, SEED), frames.FACTS)
    return facts.with_columns(
        created_at="valid_from", is_seed=pl.lit(True),
        hit_count=pl.Series(random.poisson(0.5, len(facts))), avg_retrieval_score=pl.Series(random.random(len(facts))),
    )  # fmt: skip


def _swept(sweep: Callable[[pl.DataFrame, Any], tuple[int, Merged]], place: str) -> Swept:
    """A sweep over stored facts and vectors, measured; arrays are loaded and libraries imported before."""
    facts, vectors = pl.read_ipc(Path(place, "facts.arrow")), np.load(Path(place, "vectors.npy"))
    if sweep is _by_semhash:
        import semhash  # noqa: F401
    with measured() as cost:
        pairs, merged = sweep(facts, vectors)
    return Swept(cost.wall_s, cost.cpu_s, peak_memory_mib(), pairs, merged)


def _by_steward(facts: pl.DataFrame, vectors: Any) -> tuple[int, Merged]:
    limits = MergeSettings(max_existing_matches=SETTINGS.merge_neighbors)
    pairs = find_pairs(facts, vectors, limits, SETTINGS.merge_threshold)
    met = pl.concat([pairs["a_id"], pairs["b_id"]]).unique()
    rows = facts.select(is_met=pl.col("id").is_in(met.implode()))["is_met"].arg_true()
    near = facts[rows]
    found = merge_by(CandidateSet(near, pairs), by_use(SETTINGS)).duplicates
    said = dict(near.select("id", "statement").iter_rows())
    return len(pairs), {said[a]: said[b] for a, b in found.select("loser_id", "winner_id").iter_rows()}


def _by_semhash(facts: pl.DataFrame, vectors: Any) -> tuple[int, Merged]:
    from semhash import SemHash

    class Seat:
        def encode(self, inputs: Any, **_: Any) -> Any:
            raise AssertionError("the vectors are given")

    index = SemHash.from_embeddings(vectors, facts["statement"].to_list(), model=Seat())
    rows = index.self_deduplicate(threshold=SETTINGS.merge_threshold).filtered
    merged = {row.record: row.duplicates[0][0] for row in rows if row.duplicates}
    return sum(len(row.duplicates) for row in rows), merged


def _cost(name: str, swept: Swept) -> Iterator[Figure]:
    note = f"{swept.pairs:,} pairs, {len(swept.merged):,} merges, {swept.cpu_s:.1f} s of processor time"
    yield Figure("merging", f"{name}: time", swept.wall_s, "s", note=note)
    yield Figure("merging", f"{name}: peak memory", swept.peak_mib, "MiB")


def _quality(system: str, planted: Planted, merged: Merged) -> Iterator[Figure]:
    """Precision of all merges, recall of the planted ones, contradictions merged."""
    cluster = planted.cluster
    right = sum(a in cluster and cluster[a] == cluster.get(b) for a, b in merged.items())
    lost = len(planted.contradictions & {*merged, *merged.values()})
    found, wrong = right / max(len(planted.kind), 1), lost / max(len(planted.contradictions), 1)
    yield Figure(
        "merging", f"{system}: precision of merges", right / max(len(merged), 1), note=f"{len(merged):,} merges"
    )
    yield Figure("merging", f"{system}: recall of repetitions", found, note=f"{len(planted.kind):,} planted")
    yield Figure(
        "merging", f"{system}: contradictions merged", wrong, bar=0.01 if system == "slowwave" else None,
        better="lower", note=f"{lost:,} of {len(planted.contradictions):,}",
    )  # fmt: skip
