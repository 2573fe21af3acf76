"""All changes of a reconciliation, as one plan (S1-01 … S1-14, S1-20).

Rules retire duplicates, never contradictions; a model's verdicts may also end facts that newer ones update or correct.
Merges by rule are in `duplicates`, questions and verdicts in `pairs_for_a_model`, clusters and merge provenance in
`merged_facts`. `tasks/nightly/fact_reconciliation` carries the plan out, for the flow `consolidate` and after each
ingest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.records import CONSOLIDATED, DEDUP, REDUNDANT
from slowwave.common.settings import MergeSettings
from slowwave.common.validity import is_live, is_out_of_order
from slowwave.facts.revision.application import Surroundings, known_facts, with_supersessions
from slowwave.facts.revision.conflicts import KIND as CONFLICT
from slowwave.facts.revision.mutual_exclusion import is_lasting
from slowwave.facts.revision.revision_state import Fact, RevisionState, Supersessions
from slowwave.facts.revision.supersession import KNOWN, close

from .duplicates import BY_USE, BY_WORDS, MAX_ATTEMPTS, CandidateSet, Merges, is_redundancy
from .merged_facts import (
    ClusterMerge,
    aspects_of,
    evidence_of,
    lineage_of,
    merge_clusters,
    merged_facts,
)
from .pairs_for_a_model import CONTRADICTS, CORRECTS, COVERS, SAME, UPDATES, JudgedPair, with_merges

# What follows from the verdicts of a model about pairs (S1-13, S2-14, S2-58): facts that newer ones update or correct
# end, contradictions stay, and each pair has an outcome.


_REASONS = {UPDATES: "temporal_change", CORRECTS: "correction"}
_CLASH = "A model says that both cannot be true, and nothing tells which is wrong: both stay."


@dataclass(frozen=True, slots=True)
class Endings:
    """Facts that verdicts close, and the pairs that contradict each other and stay."""

    supersessions: Supersessions
    decisions: tuple[Row, ...]
    clashes: frozenset[tuple[str, str]]


def end_by_verdicts(
    judged: Sequence[JudgedPair], roots: Mapping[str, str], near: Surroundings, model: str, now: datetime
) -> Endings:
    """End the facts that newer facts update or correct, the earliest change first.

    `roots`: duplicate → last representative, which takes its place. If rank forbids the change (S1-22), or the older
    fact was repeated since, both stay as a contradiction for a person.
    """
    known = known_facts(near, now)
    facts: dict[str, Fact] = {row["id"]: row for row in known.select(KNOWN).iter_rows(named=True)}
    state, clashes, clash_rows = RevisionState(now, facts), set[tuple[str, str]](), list[Row]()
    by_model = partial(decision, now=now, decided_by="model", model=model)
    pairs = [
        each for each in judged if each.verdict in (UPDATES, CORRECTS, CONTRADICTS) and {*each.ids} <= facts.keys()
    ]
    for each in sorted(pairs, key=lambda each: (facts[each.second]["said_at"], facts[each.first]["said_at"], each.ids)):
        old, new = (facts[roots.get(id_, id_)] for id_ in (each.first, each.second))
        if old is new or not (state.is_open(old) and state.is_open(new)):
            continue
        if each.verdict == CONTRADICTS or is_out_of_order(facts[each.second]["said_at"], old["said_at"]):
            clash_rows.append(by_model("contradict", old["id"], [old["id"], new["id"]], [], _CLASH))
        else:
            own = {name: facts[each.second][name] for name in ("said_at", "valid_from", "entrenchment")}
            if (
                own["valid_from"] <= old["valid_from"]
            ):  # a later message about an earlier time: the old fact held until that message
                own["valid_from"] = own["said_at"]
            kind = CORRECTS if is_lasting(old["predicate"] or "") else each.verdict  # nobody is born twice
            directive = {"action": "supersede", "reason": _REASONS[kind]}
            close(state, directive, {**new, **own}, new, old)
        if state.is_open(old) and state.is_open(new):
            clashes.add((min(old["id"], new["id"]), max(old["id"], new["id"])))
    supersessions = state.supersessions()
    judged_by = {"decided_by": "model", "model": model}
    closed = [{**row, **judged_by} if row["ids_out"] else row for row in supersessions.decisions]
    return Endings(supersessions, (*closed, *clash_rows), frozenset(clashes))


# The outcome of each pair, as it is stored.


SUPERSEDE, KEEP_ALL, PENDING, FAILED = "supersede", "keep_all", "pending", "failed"
_OUTCOMES = {"a_id": pl.String, "b_id": pl.String, "kind": pl.String, "outcome": pl.String}


def pair_rows(
    candidates: CandidateSet,
    merges: Merges,
    done: ClusterMerge,
    judged: Sequence[JudgedPair],
    ended: Endings,
    settings: MergeSettings,
    prompt_version: str,
    now: datetime,
) -> pl.DataFrame:
    """PAIR_DECISIONS that are new or change: verdicts, failures, and, without a model, pairs that wait for one."""
    measured = _measures(candidates, merges)
    answered = _judged_pairs(candidates, judged, ended).join(measured, on=["a_id", "b_id"], how="left")
    answered = answered.with_columns(decided_by=pl.lit("model"), prompt_version=pl.lit(prompt_version))
    left = (
        pl.DataFrame(schema=answered.schema) if prompt_version else _waiting_pairs(candidates, merges, done, settings)
    )
    known = candidates.decided.filter(is_redundancy())
    there = pl.concat([part.select("a_id", "b_id") for part in (known, answered)])
    fresh = frames.conform(left, answered.schema).join(there, on=["a_id", "b_id"], how="anti")
    rest = known.join(answered, on=["a_id", "b_id"], how="anti").filter(pl.col("outcome").is_in([PENDING, FAILED]))
    is_merged = pl.any_horizontal(pl.col("a_id", "b_id").is_in(pl.Series([*done.steps], dtype=pl.String).implode()))
    settled = rest.filter(is_merged).with_columns(  # they need not wait any longer
        kind=pl.lit("redundant"), outcome=pl.lit(SUPERSEDE), decided_by=pl.lit("rule")
    )
    rows = pl.concat([part.select(*answered.columns) for part in (answered, fresh, settled)]).sort(
        "a_id", "b_id", "kind"
    )
    stamped = frames.with_ids(rows, "pd", "a_id", "b_id", "kind").with_columns(at=pl.lit(now, dtype=frames.TIME))
    return frames.conform(stamped, frames.PAIR_DECISIONS).select(*frames.PAIR_DECISIONS)


def _measures(candidates: CandidateSet, merges: Merges) -> pl.DataFrame:
    """(a_id, b_id, cosine, jaccard, guard) of every measured pair."""
    a, b = pl.min_horizontal("a_id", "b_id"), pl.max_horizontal("a_id", "b_id")
    columns = ["a_id", "b_id", "cosine", "jaccard"]
    every = pl.concat([part.select(*columns) for part in (candidates.pairs, candidates.topics)])
    pairs = every.group_by(a.alias("a_id"), b.alias("b_id")).agg(pl.col("cosine", "jaccard").max())
    return pairs.join(merges.undecided.select("a_id", "b_id", "guard"), on=["a_id", "b_id"], how="left")


def _judged_pairs(candidates: CandidateSet, judged: Sequence[JudgedPair], ended: Endings) -> pl.DataFrame:
    """(a_id, b_id, kind, outcome) of the pairs with an answer.

    A contradiction waits until something settles it; one that a rule left open is settled by a verdict.
    """
    closed = set(ended.supersessions.facts["id"])
    rows: dict[tuple[str, str, str], str] = {(*pair, CONFLICT): PENDING for pair in ended.clashes}
    flagged = candidates.decided.filter(kind=CONFLICT, outcome=PENDING)
    open_ = set(flagged.select("a_id", "b_id").iter_rows())
    for each in judged:
        if each.verdict:
            is_change = each.verdict in (UPDATES, CORRECTS) and not closed.isdisjoint(each.ids)
            outcome = SUPERSEDE if each.representative or is_change else KEEP_ALL
            rows[*each.ids, "redundant"] = outcome
            if each.ids in open_:
                rows.setdefault((*each.ids, CONFLICT), outcome)
        elif each.error:
            rows[*each.ids, "redundant"] = FAILED
    return pl.DataFrame([(*key, outcome) for key, outcome in rows.items()], schema=_OUTCOMES, orient="row")


def _waiting_pairs(
    candidates: CandidateSet, merges: Merges, done: ClusterMerge, settings: MergeSettings
) -> pl.DataFrame:
    """The best undecided pair of each seed, with the guard that prevented the merge."""
    gone, seeds = pl.Series(list(done.steps), dtype=pl.String).implode(), candidates.seeds()
    alike = (pl.col("cosine") >= (settings.resolve_cosine or 0.0)) | (pl.col("jaccard") >= settings.text_dedup)
    there = merges.undecided.filter(alike.fill_null(False), ~pl.col("a_id").is_in(gone), ~pl.col("b_id").is_in(gone))
    both = pl.concat([there.with_columns(seed="a_id"), there.with_columns(seed="b_id")])
    mine = both.filter(pl.col("seed").is_in(seeds.implode()))
    best = mine.sort(-pl.col("cosine").fill_null(-1.0), -pl.col("jaccard").fill_null(-1.0), "a_id", "b_id")
    rows = best.unique("seed", keep="first", maintain_order=True).unique(["a_id", "b_id"], maintain_order=True)
    return rows.drop("seed").with_columns(
        kind=pl.lit("redundant"), outcome=pl.lit(PENDING), decided_by=pl.lit("rule"), prompt_version=pl.lit("")
    )


# The plan.


MAX_REASON = 500
_WHY = {
    SAME: "A model says that they say the same.",
    COVERS: "The model that read the messages says that this one contains the other.",
}


def decisions_of(
    done: ClusterMerge,
    merges: Merges,
    judged: Sequence[JudgedPair],
    ended: Endings,
    settings: MergeSettings,
    prompt_version: str,
    model: str,
    now: datetime,
) -> pl.DataFrame:
    """DECISIONS: one per representative of a rule, one per pair that a model merged, ended or could not judge, or whose
    merge a guard refused. Pairs that are kept apart are only in PAIR_DECISIONS."""
    by_model = partial(decision, now=now, decided_by="model", model=model)
    seen: dict[str, object] = {"prompt_version": prompt_version}
    rows: list[Row] = _merged(done, merges, settings, now)

    def by_whom(each: JudgedPair) -> Callable[..., Row]:
        """Of what the reading of the messages found, neither model nor prompt of this run is the author."""
        return partial(by_model, model="") if each.verdict == COVERS else partial(by_model, measures=seen)

    for each in judged:
        both, goes, stays = [each.first, each.second], each.duplicate, each.representative
        if done.how.get(goes) == CONSOLIDATED and done.steps[goes] == stays:
            rows.append(by_whom(each)("absorb", stays, [stays, goes], [stays, goes], _WHY[each.verdict]))
        if each.guard:
            reason = f"{_WHY[each.verdict][:-1]}, but a guard keeps them apart ({each.guard})."
            rows.append(by_whom(each)("keep", both[0], both, [], reason))
        if each.error:
            tried = done.facts.filter(pl.col("id").is_in(each.ids))["consolidation_attempts"].fill_null(0).max()
            counted = {"attempts": 1 + int(str(tried or 0)), "max_attempts": MAX_ATTEMPTS}
            reason = f"No usable answer: {each.error}"[:MAX_REASON]
            rows.append(by_model("fail", both[0], both, [], reason, measures=counted | seen))
    made = decision_frame(rows).unique("id", keep="last", maintain_order=True)
    closed = decision_frame(ended.decisions).unique("id", keep="first", maintain_order=True)
    return pl.concat([made, closed])


def _merged(done: ClusterMerge, merges: Merges, settings: MergeSettings, now: datetime) -> list[Row]:
    """One row per representative of a rule, with thresholds, and the hit counts where these ordered the facts."""
    taken = [id_ for id_, how in done.how.items() if how == DEDUP]
    groups = merges.duplicates.filter(pl.col("loser_id").is_in(taken)).sort("winner_id", "loser_id")
    hits = dict(done.facts.select("id", "hit_count").iter_rows()) if "hit_count" in done.facts.columns else {}
    grouped = groups.group_by("winner_id", maintain_order=True).agg("loser_id", "cosine", "jaccard", "stage")
    rows = []
    for representative, losers, cosines, jaccards, stages in grouped.iter_rows():
        ids = [representative, *losers]
        limits: dict[str, object] = {"merge_cosine": settings.merge_cosine, "text_dedup": settings.text_dedup}
        if {*stages} == {BY_USE}:
            limits = {"merge_threshold": settings.merge_cosine, "hit_count": [hits[id_] or 0 for id_ in ids]}
        measures = {"cosine": cosines, "jaccard": jaccards, **limits, "stage": sorted({*stages})}
        reason = _REASON.get("".join({*stages}), "The same meaning, and every guard agrees.")
        rows.append(decision("absorb", representative, ids, ids, reason, now, measures))
    return rows


_REASON = {
    BY_USE: "The same meaning, and every guard agrees; what was recalled more stays, then what is older.",
    BY_WORDS: "The same in nearly the same words, and every guard agrees.",
}
MAX_ERROR = 500
_NOWHERE = Surroundings()
MARKS = ("consolidated_at", "consolidation_attempts", "consolidation_error")
"""The columns of a fact that say whether it was compared."""
_COMPARED = (
    *"status status_reason replaced_by expired_at valid_from valid_to confidence evidence_count entrenchment".split(),
    *"aspect_slugs supersedes_id search_terms".split(),
    *MARKS,
)


@dataclass(frozen=True, slots=True)
class ReconciliationPlan:
    """Rows to upsert; `facts` are full rows of changed facts."""

    facts: pl.DataFrame
    evidence: pl.DataFrame
    lineage: pl.DataFrame
    aspects: pl.DataFrame
    pairs: pl.DataFrame
    decisions: pl.DataFrame
    looked_at: int

    @property
    def only_marks(self) -> bool:
        """Whether nothing comes of it but that facts count as compared."""
        return all(part.is_empty() for part in (self.evidence, self.lineage, self.aspects, self.decisions))

    def summary(self) -> dict[str, int]:
        """Number of facts looked at, merged, ended; of pairs clashing, kept, failed, pending."""
        ends, outcomes = self.lineage["reason"], self.pairs["outcome"]
        actions, by_model = self.decisions["action"], self.pairs["decided_by"] == "model"
        redundant = self.pairs["kind"] == "redundant"
        return {
            "looked_at": self.looked_at,
            "merged": int(ends.is_in(REDUNDANT).sum()),
            "ended": int(ends.is_in(["temporal_change", "correction"]).sum()),
            "clashing": int((actions == "contradict").sum()),
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
    judged = with_merges(judged, live)
    same = [(each.duplicate, each.representative) for each in judged if each.representative]
    done = merge_clusters(live, merges, same)
    ended = end_by_verdicts(judged, done.roots(), near, model, now)
    facts = merged_facts(done, evidence, now)
    if marks:
        facts = _marked(facts, candidates, done, judged, now)
    facts = with_supersessions(facts, ended.supersessions)
    return ReconciliationPlan(
        changed_rows(facts, done.facts),
        evidence_of(done, evidence),
        pl.concat([lineage_of(done).select(*frames.LINEAGE), ended.supersessions.lineage.select(*frames.LINEAGE)]),
        aspects_of(done, aspects),
        pair_rows(candidates, merges, done, judged, ended, settings, prompt_version, now),
        decisions_of(done, merges, judged, ended, settings, prompt_version, model, now),
        len(candidates.seeds()),
    )


def _marked(
    facts: pl.DataFrame,
    candidates: CandidateSet,
    done: ClusterMerge,
    judged: Sequence[JudgedPair],
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
