"""All changes of a reconciliation, as one plan (S1-01 … S1-14, S1-20).

Rules retire duplicates, never contradictions; a model's verdicts may also end facts that newer ones update or correct.
Merges by rule are in `duplicates`, questions and verdicts in `pairs_for_a_model`, clusters and merge provenance in
`merged_facts`, ended facts and pair decisions in `verdicts`. `tasks/nightly/fact_reconciliation` carries the plan out,
for the flow `consolidate` and after each ingest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.records import CONSOLIDATED, DEDUP, REDUNDANT
from slowwave.common.settings import MergeSettings
from slowwave.common.text import row_id
from slowwave.common.validity import is_live
from slowwave.facts.revision.application import Surroundings, ledger_rows, with_marks, with_supersessions

from .duplicates import BY_USE, BY_WORDS, MAX_ATTEMPTS, CandidateSet, Merges
from .merged_facts import (
    ClusterMerge,
    aspects_of,
    evidence_of,
    lineage_of,
    merge_clusters,
    merge_provenance,
    reworded_facts,
    with_merge_provenance,
)
from .pairs_for_a_model import JudgedPair, Merge, allowed_merges
from .verdicts import Settled, end_by_verdicts, pair_rows

MAX_REASON = 500
_Named = tuple[str, str, list[str], list[str], str]  # action, subject, ids in, ids out, reason


def decisions_of(
    done: ClusterMerge,
    merges: Merges,
    answers: Settled,
    settings: MergeSettings,
    prompt_version: str,
    model: str,
    now: datetime,
) -> pl.DataFrame:
    """DECISIONS: one per representative of a rule, one per pair that a model merged, ended or could not judge, or whose
    merge a guard refused, one per new wording. Pairs that are kept apart are only in PAIR_DECISIONS."""
    new = dict(done.reworded().select("root_id", "target_id").iter_rows())
    taken = {
        (duplicate, representative)
        for duplicate, representative in done.steps.items()
        if done.how[duplicate] == CONSOLIDATED
    }
    by_model = partial(decision, now=now, decided_by="model", model=model)
    seen = {"prompt_version": prompt_version}
    one_note = "One note says what it and those it absorbed say."
    rows = [
        *_merged(done, merges, settings, new, now),
        *(
            by_model(*_absorbed(each, new), measures=seen)
            for each in answers.same
            if (each.duplicate, each.representative) in taken
        ),
        *(by_model(*_kept(each), measures=seen) for each in answers.same if each.guard),
        *(by_model(*_failed(each), measures=_attempts(each, done) | seen) for each in answers.judged if each.error),
        *(
            decision("create", target, [root], [target], one_note, now, {"reason": DEDUP})
            for root, target in new.items()
        ),
    ]
    ended = ledger_rows(list(answers.ended.decisions), now)
    made = decision_frame(rows).unique("id", keep="last", maintain_order=True)
    return pl.concat([made, ended.select(*frames.DECISIONS)])


def _merged(
    done: ClusterMerge, merges: Merges, settings: MergeSettings, new: dict[str, str], now: datetime
) -> list[Row]:
    taken = [id_ for id_, how in done.how.items() if how == DEDUP]
    groups = merges.duplicates.filter(pl.col("loser_id").is_in(taken)).sort("winner_id", "loser_id")
    return [
        decision(
            "absorb",
            new.get(representative, representative),
            [representative, *duplicates],
            [new.get(representative, representative), *duplicates],
            _reason(set(stages)),
            now,
            {
                "cosine": cosines,
                "jaccard": jaccards,
                **_seen(set(stages), [representative, *duplicates], done, settings),
                "stage": sorted(set(stages)),
            },
        )
        for representative, duplicates, cosines, jaccards, stages in groups.group_by("winner_id", maintain_order=True)
        .agg("loser_id", "cosine", "jaccard", "stage")
        .iter_rows()
    ]


def _seen(stages: set[str], ids: list[str], done: ClusterMerge, settings: MergeSettings) -> dict[str, object]:
    """The thresholds of the rule, and the hit counts that ordered the facts, which are not in FACTS."""
    if stages != {BY_USE}:
        return {"merge_cosine": settings.merge_cosine, "text_dedup": settings.text_dedup}
    hits = dict(done.facts.filter(pl.col("id").is_in(ids)).select("id", pl.col("hit_count").fill_null(0)).iter_rows())
    return {"merge_threshold": settings.merge_cosine, "hit_count": [hits[id_] for id_ in ids]}


def _reason(stages: set[str]) -> str:
    if stages == {BY_USE}:
        return "The same meaning, and every guard agrees; what was recalled more stays, then what is older."
    if stages == {BY_WORDS}:
        return "The same in nearly the same words, and every guard agrees."
    return "The same meaning, and every guard agrees."


def _absorbed(each: Merge, new: dict[str, str]) -> _Named:
    representative = new.get(each.representative, each.representative)
    same = "A model says that they say the same."
    return "absorb", representative, [each.representative, each.duplicate], [representative, each.duplicate], same


def _kept(each: Merge) -> _Named:
    reason = f"A model says that they say the same, but a guard keeps them apart ({each.guard})."
    return "keep", each.judged.first, [each.judged.first, each.judged.second], [], reason


def _failed(each: JudgedPair) -> _Named:
    return "fail", each.first, [each.first, each.second], [], f"No usable answer: {each.error}"[:MAX_REASON]


def _attempts(each: JudgedPair, done: ClusterMerge) -> dict[str, object]:
    tried = done.facts.filter(pl.col("id").is_in(list(each.ids)))["consolidation_attempts"].fill_null(0).max()
    return {"attempts": 1 + int(str(tried or 0)), "max_attempts": MAX_ATTEMPTS}


MAX_ERROR = 500
_NOWHERE = Surroundings()
_COMPARED = (
    "status status_reason replaced_by expired_at valid_from valid_to confidence evidence_count entrenchment "
    "aspect_slugs supersedes_id search_terms suspect_of consolidated_at consolidation_attempts consolidation_error"
).split()


@dataclass(frozen=True, slots=True)
class ReconciliationPlan:
    """Rows to upsert: `facts` are full rows of changed facts, `reworded` are new ones without vector."""

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
        """Number of facts looked at, merged, ended, reworded; of pairs clashing, kept, failed, pending."""
        ends, outcomes = self.lineage["reason"], self.pairs["outcome"]
        actions, by_model = self.decisions["action"], self.pairs["decided_by"] == "model"
        redundant = self.pairs["kind"] == "redundant"
        return {
            "looked_at": self.looked_at,
            "merged": int(ends.is_in(REDUNDANT).sum()) - len(self.reworded),
            "ended": int(ends.is_in(["temporal_change", "correction"]).sum()),
            "clashing": int((actions == "contradict").sum()),
            "reworded": len(self.reworded),
            "kept": int((redundant & by_model & (outcomes == "keep_all")).sum()),
            "pending": int((redundant & (outcomes == "pending")).sum()),
            "failed": int((redundant & (outcomes == "failed")).sum()),
        }


def plan_reconciliation(
    candidates: CandidateSet,
    merges: Merges,
    judged: Sequence[JudgedPair],
    evidence: pl.DataFrame,
    aspects: pl.DataFrame,
    settings: MergeSettings,
    *,
    prompt_version: str,
    model: str,
    run_id: str,
    now: datetime,
    near: Surroundings = _NOWHERE,
    marks: bool = True,
) -> ReconciliationPlan:
    """All changes by merges and verdicts.

    `evidence` is FACT_EVIDENCE and `aspects` FACT_ASPECTS of the candidate set, `near` the stored rows near the facts
    of verdicts. `judged` has every planned question, also unasked ones, whose facts stay unmarked for the next run;
    one about a fact that is no longer live does not count (T40).
    With an empty `prompt_version` there is no model: the best pair of each seed waits. Without `marks` no fact counts
    as consolidated or tried: a later consolidation decides that (§6.5).
    """
    live = candidates.facts.filter(is_live(now))
    there, candidates = set(live["id"]), replace(candidates, facts=live)
    judged = tuple(each if there.issuperset(each.ids) else JudgedPair(each.first, each.second) for each in judged)
    same = allowed_merges(judged, live)
    done = merge_clusters(live, merges, [(each.duplicate, each.representative) for each in same if each.representative])
    ended = end_by_verdicts(judged, done.roots(), near, model, now)
    answers = Settled(judged, same, ended)
    worth = merge_provenance(done, evidence)
    facts = with_merge_provenance(done, worth, now)
    if marks:
        facts = _marked(facts, candidates, done, judged, settings, now)
    facts = with_marks(with_supersessions(facts, ended.supersessions), ended.marks)
    others = frames.conform(near.facts, frames.FACTS).join(facts, on="id", how="anti")
    batch = row_id("p", "consolidate", run_id)
    reworded = reworded_facts(done, worth, facts, batch)
    return ReconciliationPlan(
        pl.concat(
            [changed_rows(facts, done.facts), changed_rows(with_marks(others, ended.marks), others)],
            how="diagonal_relaxed",
        ),
        reworded,
        evidence_of(done, evidence),
        pl.concat([lineage_of(done).select(*frames.LINEAGE), ended.supersessions.lineage.select(*frames.LINEAGE)]),
        aspects_of(done, aspects),
        pair_rows(candidates, merges, done, answers, settings, prompt_version, now, marks),
        _batches(batch, run_id, done),
        decisions_of(done, merges, answers, settings, prompt_version, model, now),
        len(candidates.seeds()),
    )


def _marked(
    facts: pl.DataFrame,
    candidates: CandidateSet,
    done: ClusterMerge,
    judged: Sequence[JudgedPair],
    settings: MergeSettings,
    now: datetime,
) -> pl.DataFrame:
    """The facts with the marks of S1-08: decided facts are not seeds again, failed ones count one more attempt.

    Duplicates are always done. A seed with an open question is not done, even if it absorbed another fact.
    """
    absorbed, seeds = set(done.steps), set(candidates.seeds())
    errors = {id_: each.error for each in judged if each.error for id_ in each.ids if id_ in seeds - absorbed}
    waiting = {id_ for each in judged if not (each.verdict or each.error) for id_ in each.ids if id_ in seeds}
    answered = {id_ for each in judged if each.verdict for id_ in each.ids}
    ready = ((seeds | answered | set(done.members()["id"])) - waiting - errors.keys()) | absorbed
    failed = pl.DataFrame(list(errors.items()), schema={"id": pl.String, "error": pl.String}, orient="row")
    attempts, error = pl.col("consolidation_attempts").fill_null(0), pl.col("error")
    is_ready, has_failed = pl.col("id").is_in(list(ready)), error.is_not_null()
    is_given_up = has_failed & (attempts + 1 >= MAX_ATTEMPTS)
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


def changed_rows(facts: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The rows that differ from `before`, with the columns of FACTS."""
    old = before.select("id", *_COMPARED)
    rows = facts.join(old, on=["id", *_COMPARED], how="anti", nulls_equal=True, maintain_order="left")
    kept = [name for name in ("created_at",) if name in rows.columns]  # keep the time when the fact became known
    return rows.select(*frames.FACTS, *kept).sort("id")


def _batches(id_: str, run_id: str, done: ClusterMerge) -> pl.DataFrame:
    """PATCH_BATCHES: the applied batch of new wordings, if there are any."""
    count = len(done.reworded())
    row = {
        "id": id_,
        "origin": "consolidate",
        "source_key": run_id,
        "state": "applied",
        "decided_by": "rule",
        "candidates": count,
        "passed": count,
    }
    return pl.DataFrame([row] if count else [], schema=dict(frames.PATCH_BATCHES))
