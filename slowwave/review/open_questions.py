"""Open questions: pairs that a guard kept apart, and changes that rank alone prevented (§6.2, §6.6, S1-22).

A person may say that two statements are one although they differ in a number or a name. Nobody may merge what is of two
scopes or times, or by the guards of `ATTRIBUTION` about two persons. A weaker source never overrides a stronger one,
nor anything what is pinned: a person is asked, and a yes does what the rules would have done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.common import frames
from slowwave.common.comparison.guards import GUARDS, guards_pass
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.entrenchment import rank_of
from slowwave.common.settings import ConsolidateSettings, ReviseSettings
from slowwave.common.timestamps import in_utc
from slowwave.facts.deduplication.duplicates import NOT_SIMILAR, Merges, best_first, by_words, is_redundancy
from slowwave.facts.deduplication.merged_facts import (
    aspects_of,
    evidence_of,
    lineage_of,
    merge_clusters,
    merged_facts,
)
from slowwave.facts.deduplication.reconciliation_plan import SUPERSEDE, ReconciliationPlan, changed_rows
from slowwave.facts.revision.application import (
    Surroundings,
    changed_facts,
    dependents_of,
    known_facts,
    with_marks,
    with_supersessions,
)
from slowwave.facts.revision.conflicts import LATE, come_late, replace_fact
from slowwave.facts.revision.revision_state import Fact, RevisionState, Supersessions
from slowwave.facts.revision.supersession import DIRECTIVE, READ, close

from .changes import in_quotes
from .proposals import ProposalNote

ATTRIBUTION = tuple(guard for guard in GUARDS if guard.name in ("person", "owner"))
"""Guards for the person a statement is about, and for the owner of a thing."""
_ATTRIBUTED = [guard.name for guard in ATTRIBUTION]
OPEN_PAIRS: frames.Schema = {**frames.PAIR_DECISIONS, "loser_id": frames.TEXT, "winner_id": frames.TEXT}
_SAME = ("scope", "polarity", "valid_to", "subject_id")
_DIFFERENCES: Mapping[str, str] = {
    "polarity": "One of them says no.",
    "quantity": "They differ in a number.",
    "time": "They differ in a time.",
    "day": "They were said of different days.",
    "person": "They differ in who is meant.",
    "name": "They differ in a name.",
    "owner": "They differ in whose it is.",
    "question": "One of them asks.",
    "word": "They differ in a word, or in the order of their words.",
    "identity": "One is a relation, the other is not.",
    "rank": "Both are fixed: pinned, or axioms.",
}


PAIRS_AT_A_TIME = 50
ASKED_FROM = 0.88  # cosine from which a person is asked about a pair (§6.2 S8)


def open_pairs(
    pairs: pl.DataFrame, facts: pl.DataFrame, taken: frozenset[str], settings: ConsolidateSettings
) -> pl.DataFrame:
    """OPEN_PAIRS that a person should see, nearest first, with who would survive by the rule of consolidation.

    `pairs` are PAIR_DECISIONS, `facts` the live FACTS among them, with created_at. No fact is in two pairs, nor in a
    proposal that waits (`taken`), and no more than PAIRS_AT_A_TIME wait at a time.
    """
    close = pairs.filter(is_redundancy(), pl.col("outcome") == "pending", pl.col("cosine") >= ASKED_FROM).filter(
        (pl.col("guard") != NOT_SIMILAR).fill_null(False)
    )
    sides = frames.conform(facts, frames.FACTS).select(
        "id", *_SAME, "statement", "object_id", is_relation=pl.col("kind") == "relation"
    )
    both = frames.beside(close, sides)
    about_one = both.filter(*(pl.col(name).eq_missing(pl.col(f"{name}_b")) for name in _SAME), ~_are_two_relations())
    of_one = guards_pass(about_one["statement"], about_one["statement_b"], ATTRIBUTION)["passes"]
    nearest = about_one.filter(of_one, ~pl.col("guard").is_in(_ATTRIBUTED)).sort(-pl.col("cosine"), "a_id", "b_id")
    left = PAIRS_AT_A_TIME - len(taken.intersection(pairs["id"]))
    chosen = nearest.filter(pl.col("id").is_in(list(_apart(nearest, taken)))).head(max(left, 0))
    return _with_survivors(chosen, facts, settings)


def _are_two_relations() -> pl.Expr:
    """Relations of two kinds or objects, read from one sentence perhaps: with one of them knowledge would be lost."""
    other = (pl.col("object_id") != pl.col("object_id_b")).fill_null(False)
    return other | (pl.col("is_relation") & pl.col("is_relation_b") & (pl.col("guard") == "identity"))


def _apart(pairs: pl.DataFrame, taken: frozenset[str]) -> Iterator[str]:
    """Ids of pairs without a fact of an earlier pair, so that no answer changes the question of another."""
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
    """The merge of each of OPEN_PAIRS, as consolidation writes it where a model says that they are one."""
    done = merge_clusters(facts, Merges(), pairs.select("loser_id", "winner_id").iter_rows())
    mine = pairs.filter(pl.col("loser_id").is_in(list(done.steps)))
    return ReconciliationPlan(
        changed_rows(merged_facts(done, evidence, now), done.facts),
        evidence_of(done, evidence),
        lineage_of(done),
        aspects_of(done, aspects),
        _answered(mine, now),
        _decisions(mine, now),
        len(facts),
    )


def _answered(pairs: pl.DataFrame, now: datetime) -> pl.DataFrame:
    return pairs.select(*frames.PAIR_DECISIONS).with_columns(
        outcome=pl.lit(SUPERSEDE), decided_by=pl.lit("person"), at=pl.lit(now, dtype=frames.TIME)
    )


def _decisions(pairs: pl.DataFrame, now: datetime) -> pl.DataFrame:
    rows = [
        decision(
            "absorb",
            row["winner_id"],
            [row["winner_id"], row["loser_id"]],
            [row["winner_id"], row["loser_id"]],
            f"Close in meaning ({row['cosine']:.2f}); no rule merges them. {_difference(row['guard'])}",
            now,
            {name: row[name] for name in ("cosine", "jaccard", "guard")},
            decided_by="person",
        )
        for row in pairs.iter_rows(named=True)
    ]
    return decision_frame(rows)


def titles_of_pairs(pairs: pl.DataFrame, facts: pl.DataFrame) -> tuple[ProposalNote, ...]:
    """The question to a person about each pair: which fact merges into which, and the guard between them."""
    says = dict(facts.select("id", pl.col("statement").fill_null("")).iter_rows())
    return tuple(
        ProposalNote(loser, f"Merge {in_quotes(says[loser])} into {in_quotes(says[winner])}? {_difference(guard)}")
        for loser, winner, guard in pairs.select("loser_id", "winner_id", "guard").iter_rows()
    )


def _difference(guard: str) -> str:
    return _DIFFERENCES.get(guard, "A guard kept them apart.")


_ASKS = {"superseded": "Replace {old} by {new}?", "retracted": "Take {old} back, because of {new}?"}


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A change that rank alone prevented: which fact would end which, by which rule, and the source with its time.

    `speaker` are the columns of the fact that said it where they are not the winner's own, `directive` what it said.
    """

    loser: str
    winner: str
    rule: str
    speaker: Mapping[str, object]
    directive: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OverrideRows:
    """Rows to upsert if a person approves, and the titles of the proposals."""

    facts: pl.DataFrame
    lineage: pl.DataFrame
    decisions: pl.DataFrame
    titles: tuple[ProposalNote, ...]


def refused_by_rank(decisions: pl.DataFrame) -> tuple[RefusedChange, ...]:
    """The changes that were refused for rank according to DECISIONS, oldest first; the last one of each pair."""
    found: dict[tuple[str, str], RefusedChange] = {}
    rows = decisions.filter(pl.col("action") == "refuse").sort("at", "id").select("subject_id", "measures")
    for loser, measures in rows.iter_rows():
        if would := json.loads(measures or "{}").get("would"):
            times = {name: in_utc(datetime.fromisoformat(would[name])) for name in ("said_at", "valid_from")}
            speaker = {"id": would["speaker"], "entrenchment": would["entrenchment"], **times}
            directive = {name: would[name] for name in ("action", "reason") if name in would}
            found[loser, would["winner"]] = RefusedChange(loser, would["winner"], would["rule"], speaker, directive)
    return tuple(found.values())


def apart(refused: Iterable[RefusedChange]) -> Iterator[tuple[RefusedChange, ...]]:
    """The changes in parts that name no fact twice, so that each change is decided by itself."""
    left = tuple(refused)
    while left:
        busy: set[str] = set()
        part: list[RefusedChange] = []
        for each in left:
            if not busy & {each.loser, each.winner}:
                part.append(each)
                busy |= {each.loser, each.winner}
        yield tuple(part)
        left = tuple(each for each in left if each not in part)


def plan_overrides(
    refused: Iterable[RefusedChange], near: Surroundings, settings: ReviseSettings, now: datetime
) -> OverrideRows:
    """The effect of these changes without the check of rank; no fact may be named twice.

    `near` holds their facts and what else is known of the same subjects. What came to an end since is left out.
    """
    changes = tuple(refused)
    known = known_facts(near, now)
    facts = {row["id"]: row for row in known.select(*READ, "is_live").iter_rows(named=True)}
    before = {each.loser: dict(facts[each.loser]) for each in changes if each.loser in facts}
    board = RevisionState(now, facts, permitted=frozenset((each.winner, each.loser) for each in changes))
    for each in changes:
        _change(board, each, settings)
    board.close_late()
    done = [each for each in changes if each.loser in board.changes]
    return OverrideRows(
        *_rows(board, done, known, near, now), tuple(_note_of(board, each, before[each.loser]) for each in done)
    )


def _change(board: RevisionState, each: RefusedChange, settings: ReviseSettings) -> None:
    loser, winner = board.facts.get(each.loser), board.facts.get(each.winner)
    if loser is None or winner is None or not (board.is_open(loser) and board.is_open(winner)):
        return
    winner["place"] = 0  # it came after what it would have ended
    if each.rule == DIRECTIVE:
        close(board, dict(each.directive), {**winner, **each.speaker}, winner, loser)
    elif each.rule == LATE:
        come_late(board, loser, winner, settings)
    else:
        replace_fact(board, loser, winner, settings, each.rule)


def _rows(
    board: RevisionState, done: list[RefusedChange], known: pl.DataFrame, near: Surroundings, now: datetime
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Facts, lineage and decisions: the approved changes, and the facts that become suspect with them."""
    closings, losers = board.supersessions(), {each.loser for each in done}
    going_on = known.filter(pl.col("is_live"), ~pl.col("id").is_in(list(losers)))
    marks, suspicions = dependents_of(closings, near, known.select(READ), going_on.select(READ), now)
    facts = changed_facts(with_marks(with_supersessions(near.facts, closings), marks), near.facts)
    decided = decision_frame([*_by_a_person(closings, losers), *suspicions])
    decisions = decided.unique("id", keep="first", maintain_order=True)
    return facts, closings.lineage, decisions


def _by_a_person(closings: Supersessions, losers: set[str]) -> Iterator[Row]:
    for row in closings.decisions:
        if row["ids_out"] and (row["subject_id"] in losers or row["action"] == "prefer"):
            yield {**row, "decided_by": "person"}


def _note_of(board: RevisionState, each: RefusedChange, before: Fact) -> ProposalNote:
    """The question to a person, and why no rule may decide it."""
    old, winner = board.facts[each.loser], board.facts[each.winner]
    says = {"old": in_quotes(before["statement"] or ""), "new": in_quotes(winner["statement"] or "")}
    question = _ASKS.get(old["status"], "End {old}, as {new} says?").format(**says)
    ranks = [str(row["entrenchment"] or "") for row in (before, {**winner, **each.speaker})]
    is_override = rank_of(ranks[1]) < rank_of(ranks[0]) or ranks[0] == "user_axiom"
    risks = ("override",) if is_override else ()
    return ProposalNote(each.loser, f"{question} {_why(before, ranks)}", risks)


def _why(before: Fact, ranks: list[str]) -> str:
    if before["pinned"]:
        return "The old one is pinned."
    if ranks[0] == "user_axiom":
        return "The old one is an axiom."
    return "The old one was stated by a person, the new one was not."
