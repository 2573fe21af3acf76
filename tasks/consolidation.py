"""Consolidation: what says the same becomes one fact, by rule or as a model says (S1-01 … S1-14).

Reading, comparing, asking and embedding happen outside the lease; inside it the plan is made again without whatever
another run retired meanwhile, and written as one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from inference.language import Language
from prompts.rendering import prompt_version
from slowwave.merging.consolidation import ConsolidationPlan, plan_consolidation
from slowwave.merging.questions import Mode, uses_pairs
from slowwave.merging.verdicts import Judged
from slowwave.settings import MergeSettings
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction

from .asking import PROMPT, Asked, judge, rounds
from .comparison import View, as_now, seeds_of, view_of
from .engine import report_progress, task
from .runs import Run, embed_rows, store_of
from .tellings import Telling, told_of


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What became of the facts that were looked at."""

    looked_at: int = 0
    merged: int = 0
    reworded: int = 0
    kept: int = 0
    pending: int = 0
    failed: int = 0
    left: int = 0
    would_ask: int = 0
    told: tuple[Telling, ...] = ()
    errors: tuple[str, ...] = ()


@task("consolidate facts")
async def consolidate_facts(
    run: Run,
    settings: MergeSettings,
    language: Language,
    *,
    since: datetime | None = None,
    scope: str | None = None,
    mode: Mode = "auto",
    dry_run: bool = False,
) -> Consolidated:
    """Compare what was not compared yet (or was learned `since`) with what is known; one commit, or none."""
    snapshot = store_of(run).snapshot()
    has_model = not language.is_keyless("consolidate")
    seeds = seeds_of(snapshot, run, settings, since, scope, has_model)
    if seeds.is_empty():
        return Consolidated()
    await report_progress("facts to compare", len(seeds))
    view = view_of(run, snapshot, seeds, settings, prompt_version(PROMPT) if has_model else "")
    ask = rounds(view, settings, run, by_pairs=uses_pairs(len(seeds), mode, settings))
    if dry_run:
        questions = ask([]) if has_model else ()
        plan = plan_of(run, snapshot, view, [Judged(cluster) for cluster in questions], settings, "")
        return replace(counted(plan, view, Asked()), would_ask=len(questions))
    asked = await judge(language, ask, view, settings) if has_model else Asked()
    model = language.model("consolidate") if has_model else ""
    plan = plan_of(run, snapshot, view, asked.judged, settings, model)
    vectors = embedded_wordings(run, plan)
    with store_of(run).commit(run.id, "consolidate.facts", run.now) as tx:
        if is_overtaken(tx, snapshot):
            plan = plan_of(run, tx, as_now(tx, run, view), asked.judged, settings, model)
        write_plan(tx, run, plan, vectors)
    return counted(written_of(run, plan), view, asked)


def plan_of(
    run: Run,
    reading: Reading,
    view: View,
    judged: Sequence[Judged],
    settings: MergeSettings,
    model: str,
    *,
    marks: bool = True,
) -> ConsolidationPlan:
    """What is to be written, given what the store holds about the facts concerned."""
    merged = [view.merges.losers["loser_id"], view.merges.losers["winner_id"]]
    told = pl.Series([fact for each in judged if each.verdict for fact in each.cluster.ids()], dtype=pl.String)
    concerned = pl.concat([*merged, told]).unique()
    return plan_consolidation(
        view.pool,
        view.merges,
        judged,
        reading.by_ids("fact_evidence", concerned, key="fact_id"),
        reading.by_ids("fact_aspects", concerned, key="fact_id"),
        settings,
        prompt_version=prompt_version(PROMPT) if model else "",
        model=model,
        run_id=run.id,
        now=run.now,
        marks=marks,
    )


def embedded_wordings(run: Run, plan: ConsolidationPlan) -> pl.DataFrame:
    """The vectors of new wordings (statement, vector), found outside the lease: they are those of the words alone."""
    texts = plan.reworded.select(id="statement").unique(maintain_order=True)
    return embed_rows(run, texts, texts.select("id", text="id")).select("vector", statement="id")


def is_overtaken(later: Transaction | Snapshot, snapshot: Snapshot) -> bool:
    """Whether facts, or what is known of pairs, changed since the snapshot."""
    return any(later.versions[name] != snapshot.versions[name] for name in ("facts", "pair_decisions"))


def write_plan(tx: Transaction, run: Run, plan: ConsolidationPlan, embedded: pl.DataFrame) -> None:
    """Write all rows of a plan; `embedded` are the vectors of new wordings."""
    changed = plan.facts
    vectors = tx.by_ids("facts", changed["id"], ["id", "vector"])
    tx.upsert("facts", changed.join(vectors, on="id", how="left", maintain_order="left"))
    fresh = plan.reworded.drop("vector", strict=False).join(embedded, on="statement", how="left", maintain_order="left")
    tx.upsert("facts", fresh.with_columns(embed_model=pl.lit(run.embedder)))
    tx.upsert("fact_evidence", plan.evidence)
    tx.upsert("lineage", plan.lineage)
    tx.upsert("fact_aspects", plan.aspects)
    tx.upsert("pair_decisions", plan.pairs)
    tx.upsert("patch_batches", plan.batches)
    tx.upsert("decisions", plan.decisions)


def written_of(run: Run, plan: ConsolidationPlan) -> ConsolidationPlan:
    """The plan as far as it does not wait for a person."""
    if run.proposes is None:
        return plan
    snapshot = store_of(run).snapshot()

    def there(name: str, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(pl.col("id").is_in(snapshot.by_ids(name, rows["id"], ["id"])["id"].implode()))

    return replace(
        plan,
        reworded=there("facts", plan.reworded),
        lineage=there("lineage", plan.lineage),
        decisions=there("decisions", plan.decisions),
    )


def counted(plan: ConsolidationPlan, view: View, asked: Asked) -> Consolidated:
    """What a plan comes to."""
    counts = plan.summary()
    return Consolidated(
        looked_at=counts["looked_at"],
        merged=counts["merged"],
        reworded=counts["reworded"],
        kept=counts["kept"],
        pending=counts["pending"],
        failed=counts["failed"],
        left=len(asked.left),
        told=told_of(plan, view.pool.facts),
        errors=tuple(sorted(asked.errors)),
    )
