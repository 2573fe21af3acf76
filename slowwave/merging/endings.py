"""What a model's verdicts end: facts that something newer updates or corrects, and clashes that stay (S2-14, S2-58)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.application.application import Surroundings, known_facts
from slowwave.application.board import Board, Closings, Fact
from slowwave.application.closing import KNOWN, READ, close
from slowwave.application.rivals import is_lasting, names_of
from slowwave.application.suspects import mark_suspects
from slowwave.merging.verdicts import CONTRADICTS, CORRECTS, UPDATES, Judged, Merge
from slowwave.validity import is_out_of_order

_REASONS = {UPDATES: "temporal_change", CORRECTS: "correction"}
_CLASH = "A model says that both cannot be true, and nothing tells which is wrong: both stay."
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Endings:
    """What verdicts close, what becomes suspect with it, and the pairs that clash and stay.

    `marks`: (id, suspect_of). `decisions` are rows for the ledger as a board notes them.
    """

    closings: Closings
    marks: pl.DataFrame
    decisions: tuple[Row, ...]
    clashes: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Settled:
    """The pairs that a model was asked about: its verdicts, the merges among them, and what they end."""

    judged: tuple[Judged, ...]
    same: tuple[Merge, ...]
    ended: Endings


def carry_out(
    judged: Sequence[Judged], roots: Mapping[str, str], near: Surroundings, model: str, now: datetime
) -> Endings:
    """End what newer facts update or correct, the earliest change first.

    `roots` lead from absorbed facts to their last survivor, which is meant in their place. What rank keeps from being
    closed (S1-22) and what was said again since clashes with the other fact: both stay, and a person is asked.
    """
    known = known_facts(near, now)
    facts: dict[str, Fact] = {row["id"]: row for row in known.select(KNOWN).iter_rows(named=True)}
    board, clashes, clash_rows = Board(now, facts), set[tuple[str, str]](), list[Row]()
    pairs = [
        each for each in judged if each.verdict in (UPDATES, CORRECTS, CONTRADICTS) and {*each.ids} <= facts.keys()
    ]
    for each in sorted(pairs, key=lambda each: (facts[each.second]["said_at"], facts[each.first]["said_at"], each.ids)):
        old, new = (facts[roots.get(id_, id_)] for id_ in (each.first, each.second))
        if old is new or not (board.is_open(old) and board.is_open(new)):
            continue
        if each.verdict == CONTRADICTS or is_out_of_order(facts[each.second]["said_at"], old["said_at"]):
            clash_rows.append(_clash(old, new, model))
        else:
            own = {name: facts[each.second][name] for name in ("said_at", "valid_from", "entrenchment")}
            if own["valid_from"] <= old["valid_from"]:  # told later of a time before: it held until that was said
                own["valid_from"] = own["said_at"]
            kind = CORRECTS if is_lasting(old["predicate"] or "") else each.verdict  # nobody is born twice
            directive = {"action": "supersede", "reason": _REASONS[kind]}
            close(board, directive, {**new, **own}, new, old)
        if board.is_open(old) and board.is_open(new):
            clashes.add((min(old["id"], new["id"]), max(old["id"], new["id"])))
    closings = board.closings()
    gone = [*closings.facts["id"], *roots]
    marks, suspects = mark_suspects(
        closings.retired,
        known.select(READ),
        known.filter("is_live", ~pl.col("id").is_in(gone)).select(READ),
        near.facts,
        near.lineage,
        frames.empty(frames.FACT_EVIDENCE),
        names_of(near.entities, near.aliases),
    )
    by_model = {"decided_by": "model", "model": model}
    closed = [{**row, **by_model} if row["ids_out"] else row for row in closings.decisions]
    return Endings(closings, marks, (*closed, *clash_rows, *suspects), frozenset(clashes))


def _clash(old: Fact, new: Fact, model: str) -> Row:
    ids = [old["id"], new["id"]]
    return {
        "action": "contradict", "subject_id": old["id"], "ids_in": ids, "ids_out": [], "measures": {}, "reason": _CLASH,
        "decided_by": "model", "model": model,
    }  # fmt: skip
