"""Near-duplicates: what the steward finds to say the same becomes one fact, that of more use (S4-08 … S4-10).

As in a consolidation, but without its marks: only pairs very close in meaning, only facts that neither of the two
has compared yet. A later consolidation sees the others as if the steward had never looked (§6.5).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from inference.language import Language
from prompts.rendering import prompt_version
from slowwave.common import frames
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import MergeSettings, StewardSettings
from slowwave.facts.deduplication.blocking import find_nearest_pairs
from slowwave.facts.deduplication.duplicates import CandidateSet, by_use, merge_by
from slowwave.facts.deduplication.pairs_for_a_model import uses_pairs
from slowwave.facts.deduplication.reconciliation_plan import ReconciliationPlan
from storage.rows import ROW
from storage.search import FOUND, by_scope, nearest, unit_matrix
from storage.snapshots import Snapshot
from storage.transactions import Transaction
from tasks.runtime.engine import report_progress, task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S, WHOLE_MEMORY
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, store_of

from .fact_reconciliation import (
    COMPARED,
    PROMPT,
    Comparison,
    PairAnswers,
    ask_about_pairs,
    asks_model,
    carried_out,
    comparable,
    counted,
    decided_pairs,
    plan_of,
    waiting_facts,
    whole_facts,
    whole_scopes,
)
from .scoring_and_pruning import counted_use

FEW = 200  # so many new facts are looked up one by one, beyond that everything of their scopes is compared at once


@task("merge duplicates", longest_s=LONGEST_WAIT_FOR_A_MODEL_S, tags=(ASKS_MODEL, WHOLE_MEMORY))
async def merge_duplicates(
    run: Run, settings: StewardSettings, language: Language, *, dry_run: bool = False
) -> TaskResult:
    """Compare what nobody compared yet with everything live; one commit, or none.

    What guards keep apart is asked of a model where there is one, and waits as a pair where there is none.
    """
    snapshot = store_of(run).snapshot()
    seeds = _uncompared(snapshot, run, settings)
    if seeds.is_empty():
        return TaskResult()
    await report_progress("facts to compare", len(seeds))
    limits = _merge_settings(settings)
    has_model = asks_model(limits, language)
    comparison = _near_comparison(run, snapshot, seeds, settings, prompt_version(PROMPT) if has_model else "")
    by_pairs = uses_pairs(len(seeds), "auto", limits)
    answers, would_ask = await ask_about_pairs(
        run, snapshot, comparison, limits, language if has_model else None, by_pairs, dry_run
    )
    if dry_run:
        plan = plan_of(run, snapshot, comparison, answers.judged, limits, "", marks=False)
        return _of(len(seeds), counted(plan, comparison, PairAnswers(), would_ask))
    model = language.model("consolidate") if has_model else ""
    looked = seeds.filter(~pl.col("id").is_in([*answers.waiting, *comparison.merges.duplicates["loser_id"]]))["id"]

    def mark(tx: Transaction, plan: ReconciliationPlan) -> None:
        left = looked.filter(~looked.is_in(plan.lineage["old_id"].implode()))
        _mark(tx, run, pl.concat([left, plan.reworded["id"]]))

    done = carried_out(run, "steward.merge", snapshot, comparison, answers, limits, model, marks=False, also=mark)
    return _of(len(seeds), done)


def _of(looked_at: int, done: TaskResult) -> TaskResult:
    return replace(done, counts={**done.counts, RunCount.FACTS_COMPARED: looked_at})


def _merge_settings(settings: StewardSettings) -> MergeSettings:
    """The settings of the steps that consolidation shares: pairs matter from one cosine on, with any words."""
    least = settings.merge_threshold
    return MergeSettings(
        resolve_cosine=least, merge_cosine=least, text_dedup=1.0, max_existing_matches=settings.merge_neighbors
    )


def _uncompared(snapshot: Snapshot, run: Run, settings: StewardSettings) -> pl.DataFrame:
    """(id, scope) of live facts that neither consolidation nor the steward compared, oldest first.

    Nor such as wait for a person, who is asked once.
    """
    where = f"{comparable(run, None)} AND consolidated_at IS NULL"
    fresh = snapshot.frame("facts", where, ["id", "scope", "created_at"])
    known = snapshot.by_ids_or_all("fact_scores", fresh["id"], where="compared_at IS NOT NULL")
    seen = pl.concat([known["id"], waiting_facts(snapshot)]).implode()
    oldest = fresh.filter(~pl.col("id").is_in(seen)).sort("created_at", "id").select("id", "scope")
    return oldest.head(settings.merge_scan) if settings.merge_scan else oldest


def _near_comparison(
    run: Run, snapshot: Snapshot, seeds: pl.DataFrame, settings: StewardSettings, version: str
) -> Comparison:
    """The seeds that have a near fact, and these, compared."""
    compared = _compared(run, snapshot, seeds, settings).with_columns(is_seed=pl.col("id").is_in(seeds["id"].implode()))
    matrix, compared = unit_matrix(compared["vector"], snapshot.dims), compared.drop("vector")
    pairs = find_nearest_pairs(compared, matrix, settings.merge_threshold, settings.merge_neighbors)
    met = pl.concat([pairs["a_id"], pairs["b_id"]]).unique()
    rows = compared.select(is_met=pl.col("id").is_in(met.implode()))["is_met"].arg_true()
    near, vectors = compared.select("id", "is_seed")[rows], matrix[rows.to_numpy()]
    facts = whole_facts(run, snapshot, near.join(_used(snapshot, met), on="id", how="left", maintain_order="left"))
    pool = CandidateSet(facts, pairs, decided_pairs(snapshot, met), version)
    rule = by_use(settings, near["id"], vectors)
    return Comparison(pool, vectors, replace(merge_by(pool, rule), joins_notes=True), rule)


def _compared(run: Run, snapshot: Snapshot, seeds: pl.DataFrame, settings: StewardSettings) -> pl.DataFrame:
    """What pairs are found among, by id: of few facts they and their nearest, else all of their scopes."""
    if len(seeds) > FEW:
        return whole_scopes(run, snapshot, seeds["scope"])
    live, own = comparable(run, None), snapshot.by_ids("facts", seeds["id"], COMPARED)
    embedded = own.filter(pl.col("vector").is_not_null())
    vectors, wanted = unit_matrix(embedded["vector"], snapshot.dims), settings.merge_neighbors + len(seeds) + 1

    def search(places: npt.NDArray[np.uint32], inside: str) -> pl.DataFrame:
        return nearest(snapshot, "facts", vectors[places], wanted, inside)

    near = by_scope(embedded["scope"], live, search, FOUND)[ROW].unique().sort()
    return pl.concat([own, snapshot.by_numbers("facts", near, COMPARED)]).unique("id").sort("id")


def _used(snapshot: Snapshot, ids: pl.Series) -> pl.DataFrame:
    """(id, hit_count, avg_retrieval_score) of facts that were recalled, they or what they absorbed."""
    if ids.is_empty():
        return pl.DataFrame(schema={"id": pl.String, "hit_count": pl.Int64, "avg_retrieval_score": pl.Float64})
    return counted_use(snapshot).select("id", "hit_count", "avg_retrieval_score")


def _mark(tx: Transaction, run: Run, ids: pl.Series) -> None:
    """Remember that the steward compared these facts; what else it thinks of them stays."""
    known = tx.by_ids_or_all("fact_scores", ids)
    rows = ids.rename("id").to_frame().join(known, on="id", how="left", maintain_order="left")
    tx.upsert("fact_scores", rows.with_columns(compared_at=pl.lit(run.now, dtype=frames.TIME)))
