"""Overrides: changes that rank alone prevented, put to a person (§6.6, S1-22).

A weaker source never overrides a stronger one, nor anything what is pinned: a person is asked, and a yes does what the
rules would have done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave.common.decisions import decision_frame
from slowwave.common.settings import ReviseSettings
from slowwave.common.timestamps import in_utc
from slowwave.common.validity import rank_of
from slowwave.facts.revision.application import (
    Surroundings,
    changed_facts,
    known_facts,
    with_supersessions,
)
from slowwave.facts.revision.conflicts import LATE, come_late, replace_fact
from slowwave.facts.revision.revision_state import Fact, RevisionState
from slowwave.facts.revision.supersession import DIRECTIVE, READ, close

from .changes import in_quotes
from .proposals import ProposalNote

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
    closings, losers = board.supersessions(), {each.loser for each in done}
    decided = [
        {**row, "decided_by": "person"} for row in closings.decisions if row["ids_out"] and row["subject_id"] in losers
    ]
    return OverrideRows(
        changed_facts(with_supersessions(near.facts, closings), near.facts),
        closings.lineage,
        decision_frame(decided).unique("id", keep="first", maintain_order=True),
        tuple(_note_of(board, each, before[each.loser]) for each in done),
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


def _note_of(board: RevisionState, each: RefusedChange, before: Fact) -> ProposalNote:
    """The question to a person, and why no rule may decide it."""
    old, winner = board.facts[each.loser], board.facts[each.winner]
    says = {"old": in_quotes(before["statement"] or ""), "new": in_quotes(winner["statement"] or "")}
    question = _ASKS.get(old["status"], "End {old}, as {new} says?").format(**says)
    ranks = [str(row["entrenchment"] or "") for row in (before, {**winner, **each.speaker})]
    is_override = rank_of(ranks[1]) < rank_of(ranks[0]) or ranks[0] == "user_axiom"
    risks = ("override",) if is_override else ()
    by_rank = "is an axiom" if ranks[0] == "user_axiom" else "was stated by a person, the new one was not"
    why = f"The old one {'is pinned' if before['pinned'] else by_rank}."
    return ProposalNote(each.loser, f"{question} {why}", risks)
