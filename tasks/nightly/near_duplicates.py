"""Near-duplicates: what the steward finds to say the same becomes one fact, that of more use (S4-08 … S4-10).

As in a consolidation, but without its marks: only pairs very close in meaning, only facts that neither of the two
has compared yet. A later consolidation sees the others as if the steward had never looked (§6.5).
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from inference.language import Language
from prompts.rendering import prompt_version
from slowwave.common import frames
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import MergeSettings, StewardSettings
from slowwave.facts.deduplication.duplicates import by_use
from slowwave.facts.deduplication.pairs_for_a_model import uses_pairs
from slowwave.facts.deduplication.reconciliation_plan import ReconciliationPlan
from storage.snapshots import Snapshot
from storage.transactions import Transaction
from tasks.runtime.engine import report_progress, task
from tasks.runtime.retrying import ASKS_MODEL, LONGEST_WAIT_FOR_A_MODEL_S, WHOLE_MEMORY
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, store_of

from .fact_reconciliation import PROMPT, PairAnswers, asks_model, comparable, comparison_of, settle, waiting_facts
from .scoring_and_pruning import counted_use


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
    least = settings.merge_threshold
    limits = MergeSettings(
        resolve_cosine=least, merge_cosine=least, text_dedup=1.0, max_existing_matches=settings.merge_neighbors
    )
    version = prompt_version(PROMPT) if asks_model(limits, language) else ""
    usage = counted_use(snapshot).select("id", "hit_count", "avg_retrieval_score")
    comparison = comparison_of(run, snapshot, seeds, limits, version, by_use(settings), usage)

    def mark(tx: Transaction, plan: ReconciliationPlan, answers: PairAnswers) -> None:
        left = [*answers.waiting, *comparison.merges.duplicates["loser_id"], *plan.lineage["old_id"]]
        _mark(tx, run, pl.concat([seeds.filter(~seeds.is_in(left)), plan.reworded["id"]]))

    by_pairs = uses_pairs(len(seeds), "auto", limits)
    done = await settle(
        run, "steward.merge", comparison, limits, language, by_pairs, dry_run=dry_run, marks=False, also=mark
    )
    return replace(done, counts={**done.counts, RunCount.FACTS_COMPARED: len(seeds)})


def _uncompared(snapshot: Snapshot, run: Run, settings: StewardSettings) -> pl.Series:
    """Ids of live facts that neither consolidation nor the steward compared, oldest first.

    Nor such as wait for a person, who is asked once.
    """
    where = f"{comparable(run, None)} AND consolidated_at IS NULL"
    fresh = snapshot.frame("facts", where, ["id", "created_at"])
    known = snapshot.by_ids_or_all("fact_scores", fresh["id"], where="compared_at IS NOT NULL")
    seen = pl.concat([known["id"], waiting_facts(snapshot)]).implode()
    oldest = fresh.filter(~pl.col("id").is_in(seen)).sort("created_at", "id")["id"]
    return oldest.head(settings.merge_scan) if settings.merge_scan else oldest


def _mark(tx: Transaction, run: Run, ids: pl.Series) -> None:
    """Remember that the steward compared these facts; what else it thinks of them stays."""
    known = tx.by_ids_or_all("fact_scores", ids)
    rows = ids.rename("id").to_frame().join(known, on="id", how="left", maintain_order="left")
    tx.upsert("fact_scores", rows.with_columns(compared_at=pl.lit(run.now, dtype=frames.TIME)))
