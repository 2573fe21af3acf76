"""One authoritative fact per concept: everything that a consolidation changes, as one plan (S1-01 … S1-14, S1-20).

Consolidation retires what is redundant, never what is contradicted: that is revision. What it may decide is in
`merges`, what a model is asked in `verdicts`, who absorbs whom in `absorption`, what survivors take over in
`inheritance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.merging.absorption import DEDUP, Absorption, absorb
from slowwave.merging.consolidation_story import decisions_of
from slowwave.merging.inheritance import (
    aspects_of,
    evidence_of,
    inherited,
    lineage_of,
    reworded_facts,
    with_inheritance,
)
from slowwave.merging.merges import Merges, Pool, merge_alike, select_seeds, standing
from slowwave.merging.pair_outcomes import pair_rows
from slowwave.merging.questions import Mode, plan_clusters, plan_pairs, uses_pairs
from slowwave.merging.verdicts import Cluster, ClusterFact, Judged, Verdict, check_verdict, check_verdicts
from slowwave.settings import MergeSettings
from slowwave.text import row_id
from slowwave.validity import is_live

__all__ = [
    "Cluster",
    "ClusterFact",
    "ConsolidationPlan",
    "Judged",
    "Merges",
    "Mode",
    "Pool",
    "Verdict",
    "check_verdict",
    "check_verdicts",
    "merge_alike",
    "only_live",
    "plan_clusters",
    "plan_consolidation",
    "plan_pairs",
    "select_seeds",
    "uses_pairs",
]

MAX_ERROR = 500
_COMPARED = (
    "status status_reason replaced_by expired_at valid_from confidence evidence_count entrenchment aspect_slugs "
    "supersedes_id consolidated_at consolidation_attempts consolidation_error"
).split()


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    """Rows to upsert. `facts` are full rows of facts that change; `reworded` are new ones, without vector."""

    facts: pl.DataFrame
    reworded: pl.DataFrame
    evidence: pl.DataFrame
    lineage: pl.DataFrame
    aspects: pl.DataFrame
    pairs: pl.DataFrame
    batches: pl.DataFrame
    decisions: pl.DataFrame
    looked_at: int

    def summary(self) -> dict[str, int]:
        """How many facts were looked at, absorbed, reworded; questions kept and failed; pairs that wait."""
        actions = self.decisions["action"]
        return {
            "looked_at": self.looked_at,
            "merged": len(self.lineage) - len(self.reworded),
            "reworded": len(self.reworded),
            "kept": int((actions == "keep").sum()),
            "pending": int((self.pairs["outcome"] == "pending").sum()),
            "failed": int((actions == "fail").sum()),
        }


def only_live(
    pool: Pool, merges: Merges, judged: Sequence[Judged], live_ids: pl.Series
) -> tuple[Pool, Merges, tuple[Judged, ...]]:
    """The same without facts that died meanwhile; a question about one of them counts as not asked (T40).

    For rows that changed but live, give the pool the fresh ones first: `replace(pool, facts=…)`.
    """
    there = set(live_ids)
    left = replace(pool, facts=pool.facts.filter(pl.col("id").is_in(live_ids.implode())))
    answers = tuple(each if there.issuperset(each.cluster.ids()) else Judged(each.cluster) for each in judged)
    return left, standing(merges, left.facts), answers


def plan_consolidation(
    pool: Pool,
    merges: Merges,
    judged: Sequence[Judged],
    evidence: pl.DataFrame,
    aspects: pl.DataFrame,
    settings: MergeSettings,
    *,
    prompt_version: str,
    model: str,
    run_id: str,
    now: datetime,
    marks: bool = True,
) -> ConsolidationPlan:
    """Everything that merges and answers change.

    `evidence` is FACT_EVIDENCE and `aspects` FACT_ASPECTS of the pool's facts. `judged` holds every question that was
    planned, also those that were not asked: their facts stay unmarked, for the next run. With an empty
    `prompt_version` nobody could be asked: the best pair of each seed waits. Without `marks` no fact counts as
    consolidated or tried, and no pair as kept that nobody was asked about: a later consolidation decides that (§6.5).
    """
    live = pool.facts.filter(is_live(now))
    pool, merges, judged = only_live(pool, merges, judged, live["id"])
    done = absorb(live, merges, judged)
    worth = inherited(done, evidence)
    facts = with_inheritance(done, worth, now)
    if marks:
        facts = _marked(facts, pool, done, settings, now)
    batch = row_id("p", "consolidate", run_id)
    reworded = reworded_facts(done, worth, facts, batch)
    pairs = pair_rows(pool, merges, done, settings, prompt_version, now, marks)
    return ConsolidationPlan(
        changed_facts(facts, done.facts),
        reworded,
        evidence_of(done, evidence),
        lineage_of(done),
        aspects_of(done, aspects),
        pairs,
        _batches(batch, run_id, done),
        decisions_of(done, merges, settings, prompt_version, model, now),
        len(pool.seeds()),
    )


def _marked(facts: pl.DataFrame, pool: Pool, done: Absorption, settings: MergeSettings, now: datetime) -> pl.DataFrame:
    """The facts with the marks of S1-08: what was decided is not looked at again, what failed counts one attempt more.

    Absorbed facts are done whatever else happens. A seed with an open question is not, even if it absorbed another.
    """
    absorbed, seeds = set(done.steps), set(pool.seeds())
    errors = {id_: each.error for each in done.failed for id_ in each.cluster.ids() if id_ in seeds - absorbed}
    waiting = {id_ for each in done.waiting for id_ in each.cluster.ids() if id_ in seeds}
    answered = {id_ for each in (*done.taken, *done.kept) for id_ in each.cluster.ids()}
    ready = ((seeds | answered | set(done.members()["id"])) - waiting - errors.keys()) | absorbed
    failed = pl.DataFrame(list(errors.items()), schema={"id": pl.String, "error": pl.String}, orient="row")
    attempts, error = pl.col("consolidation_attempts").fill_null(0), pl.col("error")
    is_ready, has_failed = pl.col("id").is_in(list(ready)), error.is_not_null()
    is_given_up = has_failed & (attempts + 1 >= settings.max_attempts)
    marks = facts.join(failed, on="id", how="left", maintain_order="left").with_columns(
        consolidated_at=pl.when((is_ready | is_given_up) & pl.col("consolidated_at").is_null())
        .then(pl.lit(now, dtype=frames.TIME))
        .otherwise("consolidated_at"),
        consolidation_attempts=pl.when(has_failed)
        .then(attempts + 1)
        .when(is_ready & (attempts > 0))
        .then(pl.lit(0, dtype=pl.Int64))
        .otherwise("consolidation_attempts"),
        consolidation_error=pl.when(is_given_up)
        .then(error.str.slice(0, MAX_ERROR))
        .when(~is_ready)
        .then("consolidation_error"),
    )
    return marks.drop("error")


def changed_facts(facts: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The rows that differ from what was there, with the columns of a fact."""
    old = before.select("id", *_COMPARED)
    rows = facts.join(old, on=["id", *_COMPARED], how="anti", nulls_equal=True, maintain_order="left")
    kept = [name for name in ("created_at",) if name in rows.columns]  # when it became known stays as it is
    return rows.select(*frames.FACTS, *kept).sort("id")


def _batches(id_: str, run_id: str, done: Absorption) -> pl.DataFrame:
    """The patch that new wordings come with, applied; none where there are none."""
    roots = done.reworded()["root_id"].to_list()
    row = {
        "id": id_,
        "origin": "consolidate",
        "source_key": run_id,
        "state": "applied",
        "decided_by": "rule" if all(done.how.get(root) == DEDUP for root in roots) else "model",
        "candidates": len(roots),
        "passed": len(roots),
    }
    return pl.DataFrame([row] if roots else [], schema=dict(frames.PATCH_BATCHES))
