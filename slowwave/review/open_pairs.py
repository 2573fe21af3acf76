"""Open pairs: close in meaning but kept apart by a guard, for a person to decide where no model is asked (§6.2).

A person may say that two statements are one although they differ in a number or a name: one may be wrong, or say no
more. Nobody may merge what is about two things, of two scopes, or of two times, nor what the guards of `ATTRIBUTION`
say is of two persons: both may well be so. Whoever says yes gets the merge that a model's verdict would have made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.comparison.guards import GUARDS, guards_pass
from slowwave.deduplication.cluster_merge import (
    aspects_of,
    evidence_of,
    lineage_of,
    merge_clusters,
    merge_provenance,
    reworded_facts,
    with_merge_provenance,
)
from slowwave.deduplication.merging import NOT_SIMILAR, Merges, best_first, by_words, is_redundancy
from slowwave.deduplication.outcomes import SUPERSEDE
from slowwave.deduplication.reconciliation import ReconciliationPlan, changed_facts
from slowwave.settings import ConsolidateSettings
from slowwave.text import as_json, timed_id

from .descriptions import in_quotes
from .proposing import ProposalNote

ATTRIBUTION = tuple(guard for guard in GUARDS if guard.name in ("person", "owner"))
"""Guards of whom something is said, or whose it is."""
_ATTRIBUTED = [guard.name for guard in ATTRIBUTION]
OPEN_PAIRS: frames.Schema = {**frames.PAIR_DECISIONS, "loser_id": frames.TEXT, "winner_id": frames.TEXT}
_SAME = ("scope", "polarity", "valid_to", "subject_id")
_DIFFERENCES: Mapping[str, str] = {
    "polarity": "One of them says no.",
    "quantity": "They differ in a number.",
    "time": "They differ in a time.",
    "day": "They were said of different days.",
    "person": "They differ in who is meant.",
    "modality": "They differ in what is so and what may or must be so.",
    "name": "They differ in a name.",
    "owner": "They differ in whose it is.",
    "question": "One of them asks.",
    "antonym": "They use opposite words.",
    "list": "They list different things.",
    "word": "They differ in a word.",
    "order": "They differ in the order of their words.",
    "identity": "One is a relation, the other is not.",
    "rank": "Both are fixed: pinned, or axioms.",
}


def open_pairs(
    pairs: pl.DataFrame, facts: pl.DataFrame, taken: frozenset[str], settings: ConsolidateSettings
) -> pl.DataFrame:
    """OPEN_PAIRS that a person should see, nearest first, with who would survive by the rule of consolidation.

    `pairs` are PAIR_DECISIONS, `facts` the live FACTS among them, with created_at. No fact is in two pairs, nor in one
    of the proposals that wait (`taken`: the ids that those touch), and no more than `propose_pairs` wait at a time.
    """
    close = pairs.filter(
        is_redundancy(), pl.col("outcome") == "pending", pl.col("cosine") >= settings.propose_cosine
    ).filter((pl.col("guard") != NOT_SIMILAR).fill_null(False))
    sides = frames.conform(facts, frames.FACTS).select(
        "id", *_SAME, "statement", "object_id", is_relation=pl.col("kind") == "relation"
    )
    both = frames.beside(close, sides)
    about_one = both.filter(*(pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in _SAME), ~_are_two_relations())
    of_one = guards_pass(about_one["statement"], about_one["statement_b"], ATTRIBUTION)["passes"]
    nearest = about_one.filter(of_one, ~pl.col("guard").is_in(_ATTRIBUTED)).sort(-pl.col("cosine"), "a_id", "b_id")
    left = settings.propose_pairs - len(taken.intersection(pairs["id"]))
    chosen = nearest.filter(pl.col("id").is_in(list(_apart(nearest, taken)))).head(max(left, 0))
    return _with_survivors(chosen, facts, settings)


def _are_two_relations() -> pl.Expr:
    """Relations of two kinds or objects, read from one sentence perhaps: with one of them knowledge would be lost."""
    other = (pl.col("object_id") != pl.col("object_id_b")).fill_null(False)
    return other | (pl.col("is_relation") & pl.col("is_relation_b") & (pl.col("guard") == "identity"))


def _apart(pairs: pl.DataFrame, taken: frozenset[str]) -> Iterator[str]:
    """Ids of pairs of which none has a fact of another one before it: no answer changes what another is about."""
    busy = set(taken)
    for id_, a, b in pairs.select("id", "a_id", "b_id").iter_rows():
        if not busy & {id_, a, b}:
            busy |= {a, b}
            yield id_


def _with_survivors(pairs: pl.DataFrame, facts: pl.DataFrame, settings: ConsolidateSettings) -> pl.DataFrame:
    ranked = best_first(facts.with_columns(pl.col("statement").fill_null("")), by_words(settings))
    # A relation goes on before what merely has its words: it says between whom.
    ranked = ranked.sort(~pl.col("pinned").fill_null(False), pl.col("kind") != "relation", maintain_order=True)
    places = ranked.select("id", place=pl.int_range(pl.len()))
    is_first = pl.col("place") < pl.col("place_b")
    ends = frames.beside(pairs, places).with_columns(
        loser_id=pl.when(is_first).then("b_id").otherwise("a_id"),
        winner_id=pl.when(is_first).then("a_id").otherwise("b_id"),
    )
    return frames.conform(ends, OPEN_PAIRS).select(*OPEN_PAIRS)


def plan_open_pairs(
    pairs: pl.DataFrame, facts: pl.DataFrame, evidence: pl.DataFrame, aspects: pl.DataFrame, now: datetime
) -> ReconciliationPlan:
    """The merge of each of OPEN_PAIRS, as consolidation writes it where a model says that they are one.

    `facts` are FACTS with created_at, `evidence` FACT_EVIDENCE and `aspects` FACT_ASPECTS of theirs.
    """
    done = merge_clusters(facts, Merges(), pairs.select("loser_id", "winner_id").iter_rows())
    mine = pairs.filter(pl.col("loser_id").is_in(list(done.steps)))
    worth = merge_provenance(done, evidence)
    after = with_merge_provenance(done, worth, now)
    return ReconciliationPlan(
        changed_facts(after, done.facts),
        reworded_facts(done, worth, after, ""),
        evidence_of(done, evidence),
        lineage_of(done),
        aspects_of(done, aspects),
        _answered(mine, now),
        frames.empty(frames.PATCH_BATCHES),
        _decisions(mine, now),
        len(facts),
    )


def _answered(pairs: pl.DataFrame, now: datetime) -> pl.DataFrame:
    return pairs.select(*frames.PAIR_DECISIONS).with_columns(
        outcome=pl.lit(SUPERSEDE), decided_by=pl.lit("person"), at=pl.lit(now, dtype=frames.TIME)
    )


def _decisions(pairs: pl.DataFrame, now: datetime) -> pl.DataFrame:
    rows = [
        {
            "id": timed_id("d", now, "absorb", row["winner_id"], [row["winner_id"], row["loser_id"]]),
            "action": "absorb",
            "subject_id": row["winner_id"],
            "ids_in": [row["winner_id"], row["loser_id"]],
            "ids_out": [row["winner_id"], row["loser_id"]],
            "measures": as_json({name: row[name] for name in ("cosine", "jaccard", "guard")}),
            "decided_by": "person",
            "reason": f"Close in meaning ({row['cosine']:.2f}); no rule merges them. {_difference(row['guard'])}",
            "at": now,
        }
        for row in pairs.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=dict(frames.DECISIONS))


def titles_of_pairs(pairs: pl.DataFrame, facts: pl.DataFrame) -> tuple[ProposalNote, ...]:
    """The question to a person about each pair: which fact merges into which, and the guard between them."""
    says = dict(facts.select("id", pl.col("statement").fill_null("")).iter_rows())
    return tuple(
        ProposalNote(loser, f"Merge {in_quotes(says[loser])} into {in_quotes(says[winner])}? {_difference(guard)}")
        for loser, winner, guard in pairs.select("loser_id", "winner_id", "guard").iter_rows()
    )


def _difference(guard: str) -> str:
    return _DIFFERENCES.get(guard, "A guard kept them apart.")
