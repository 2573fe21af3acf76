"""What follows from the verdicts of a model about pairs (S1-13, S2-14, S2-58).

`end_by_verdicts` ends the facts that newer ones update or correct, and keeps contradictions. `pair_rows` says what
became of each pair: judged, failed, still waiting, or no longer waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import noted
from slowwave.common.settings import MergeSettings
from slowwave.common.text import row_id
from slowwave.common.validity import is_out_of_order
from slowwave.facts.revision.application import Surroundings, known_facts
from slowwave.facts.revision.conflicts import KIND as CONFLICT
from slowwave.facts.revision.mutual_exclusion import is_lasting, names_of
from slowwave.facts.revision.revision_state import Fact, RevisionState, Supersessions
from slowwave.facts.revision.supersession import KNOWN, READ, close, mark_dependents

from .duplicates import CandidateSet, Merges, is_redundancy
from .merged_facts import ClusterMerge
from .pairs_for_a_model import CONTRADICTS, CORRECTS, UPDATES, JudgedPair, Merge

_REASONS = {UPDATES: "temporal_change", CORRECTS: "correction"}
_CLASH = "A model says that both cannot be true, and nothing tells which is wrong: both stay."
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Endings:
    """Facts that verdicts close, their suspect dependents, and the pairs that contradict each other and stay.

    `marks`: (id, suspect_of). `decisions` are rows as `RevisionState` notes them.
    """

    supersessions: Supersessions
    marks: pl.DataFrame
    decisions: tuple[Row, ...]
    clashes: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Settled:
    """The answers of a model about pairs: all verdicts, the merges among them, and the facts that they end."""

    judged: tuple[JudgedPair, ...]
    same: tuple[Merge, ...]
    ended: Endings


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
    pairs = [
        each for each in judged if each.verdict in (UPDATES, CORRECTS, CONTRADICTS) and {*each.ids} <= facts.keys()
    ]
    for each in sorted(pairs, key=lambda each: (facts[each.second]["said_at"], facts[each.first]["said_at"], each.ids)):
        old, new = (facts[roots.get(id_, id_)] for id_ in (each.first, each.second))
        if old is new or not (state.is_open(old) and state.is_open(new)):
            continue
        if each.verdict == CONTRADICTS or is_out_of_order(facts[each.second]["said_at"], old["said_at"]):
            clash_rows.append(noted("contradict", old["id"], [old["id"], new["id"]], [], _CLASH, model=model))
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
    gone = [*supersessions.facts["id"], *roots]
    marks, suspects = mark_dependents(
        supersessions.retired,
        known.select(READ),
        known.filter("is_live", ~pl.col("id").is_in(gone)).select(READ),
        near.facts,
        near.lineage,
        frames.empty(frames.FACT_EVIDENCE),
        names_of(near.entities, near.aliases),
    )
    by_model = {"decided_by": "model", "model": model}
    closed = [{**row, **by_model} if row["ids_out"] else row for row in supersessions.decisions]
    return Endings(supersessions, marks, (*closed, *clash_rows, *suspects), frozenset(clashes))


# The outcome of each pair, as it is stored.


SUPERSEDE, KEEP_ALL, PENDING, FAILED = "supersede", "keep_all", "pending", "failed"
_OUTCOMES = {"a_id": pl.String, "b_id": pl.String, "kind": pl.String, "outcome": pl.String}


def pair_rows(
    candidates: CandidateSet,
    merges: Merges,
    done: ClusterMerge,
    answers: Settled,
    settings: MergeSettings,
    prompt_version: str,
    now: datetime,
    parts: bool = True,
) -> pl.DataFrame:
    """PAIR_DECISIONS that are new or change: verdicts, failures, and, without a model, pairs that wait for one.

    With `parts` a waiting pair counts as kept if a model judged both its facts in other pairs, but not this pair.
    """
    measured = _measures(candidates, merges)
    judged = _judged_pairs(candidates, answers).join(measured, on=["a_id", "b_id"], how="left")
    judged = judged.with_columns(decided_by=pl.lit("model"), prompt_version=pl.lit(prompt_version))
    left = pl.DataFrame(schema=judged.schema) if prompt_version else _waiting_pairs(candidates, merges, done, settings)
    known = candidates.decided.filter(is_redundancy())
    fresh = frames.conform(left, judged.schema).join(known, on=["a_id", "b_id"], how="anti")
    rest = known.join(judged, on=["a_id", "b_id"], how="anti")
    settled = _no_longer_pending(rest, candidates, done, answers.judged, parts and bool(prompt_version))
    rows = pl.concat([part.select(*judged.columns) for part in (judged, fresh, settled)]).sort("a_id", "b_id", "kind")
    ids = [row_id("pd", *key) for key in rows.select("a_id", "b_id", "kind").iter_rows()]
    stamped = rows.with_columns(id=pl.Series(ids, dtype=pl.String), at=pl.lit(now, dtype=frames.TIME))
    return frames.conform(stamped, frames.PAIR_DECISIONS).select(*frames.PAIR_DECISIONS)


def _measures(candidates: CandidateSet, merges: Merges) -> pl.DataFrame:
    """(a_id, b_id, cosine, jaccard, guard) of every measured pair."""
    a, b = pl.min_horizontal("a_id", "b_id"), pl.max_horizontal("a_id", "b_id")
    columns = ["a_id", "b_id", "cosine", "jaccard"]
    every = pl.concat([part.select(*columns) for part in (candidates.pairs, candidates.topics)])
    pairs = every.group_by(a.alias("a_id"), b.alias("b_id")).agg(pl.col("cosine", "jaccard").max())
    return pairs.join(merges.undecided.select("a_id", "b_id", "guard"), on=["a_id", "b_id"], how="left")


def _judged_pairs(candidates: CandidateSet, answers: Settled) -> pl.DataFrame:
    """(a_id, b_id, kind, outcome) of the pairs with an answer.

    A contradiction waits until something settles it; one that a rule left open is settled by a verdict.
    """
    merged = {each.judged.ids for each in answers.same if each.representative}
    closed = set(answers.ended.supersessions.facts["id"])
    rows: dict[tuple[str, str, str], str] = {(*pair, CONFLICT): PENDING for pair in answers.ended.clashes}
    flagged = candidates.decided.filter(kind=CONFLICT, outcome=PENDING)
    open_ = set(flagged.select("a_id", "b_id").iter_rows())
    for each in answers.judged:
        if each.verdict:
            outcome = SUPERSEDE if each.ids in merged or closed & {*each.ids} else KEEP_ALL
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


def _no_longer_pending(
    known: pl.DataFrame, candidates: CandidateSet, done: ClusterMerge, judged: Sequence[JudgedPair], parts: bool
) -> pl.DataFrame:
    """Pairs that need not wait any longer: a side was merged, or other pairs of both sides were judged."""
    gone = pl.Series(list(done.supersessions()["id"]), dtype=pl.String).implode()
    waiting = known.filter(pl.col("outcome").is_in([PENDING, FAILED]))
    is_gone = pl.col("a_id").is_in(gone) | pl.col("b_id").is_in(gone)
    open_ = [id_ for each in judged if not each.verdict for id_ in each.ids]
    looked = candidates.seeds().filter(~candidates.seeds().is_in(open_)).implode()
    is_parted = pl.lit(parts) & pl.col("a_id").is_in(looked) & pl.col("b_id").is_in(looked)
    return waiting.filter(is_gone | is_parted).with_columns(
        kind=pl.lit("redundant"),
        outcome=pl.when(is_gone).then(pl.lit(SUPERSEDE)).otherwise(pl.lit(KEEP_ALL)),
        decided_by=pl.lit("rule"),
    )
