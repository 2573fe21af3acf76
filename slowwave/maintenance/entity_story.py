"""The decisions that tell of entities put right: what people said, and what became of facts because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.application.belief_merges import JoinedBeliefs
from slowwave.maintenance.entity_conflicts import Conflict
from slowwave.maintenance.entity_holdings import ENDS
from slowwave.text import as_json, timed_id

VOID = "It said something between two entities that are one now."
_BOTH_STAY = "Its relation allows one object at a time, and both were known of what is one entity now: both stay."

Row = dict[str, Any]


def about_entities(
    loser: Row,
    winner: Row,
    moved: int,
    archived: Sequence[tuple[str, str]],
    conflicts: Sequence[Conflict],
    now: datetime,
) -> list[Row]:
    """The merge as each of the two tells of it."""
    seen = {"facts": moved, "archived": [id_ for id_, _ in archived], "conflicts": len(conflicts)}
    types = {"types": [loser["entity_type"], winner["entity_type"]]}
    names = {"names": [loser["name"], winner["name"]]}
    told = {
        loser["id"]: f"A person said that it is {winner['name']!r}; all of it belongs to that one now.",
        winner["id"]: f"A person said that {loser['name']!r} is the same; all of that one belongs to it now.",
    }
    ids = [loser["id"], winner["id"]]
    return [
        decision("merge_entity", subject, ids, [winner["id"]], reason, now, {**seen, **types, **names})
        for subject, reason in told.items()
    ]


def about_moves(facts: pl.DataFrame, loser: Row, winner: Row, now: datetime) -> list[Row]:
    """For each fact which of its ends is another entity now."""
    pair = (loser["id"], winner["id"])
    reason = f"{loser['name']!r} was merged into {winner['name']!r}: it is about that one now."
    ends = [(end, facts[end].to_list()) for end in ENDS]
    return [
        decision(
            "move", id_, list(pair), [id_], reason, now, {end: list(pair) for end, was in ends if was[row] == pair[0]}
        )
        for row, id_ in enumerate(facts["id"])
    ]


def about_beliefs(joined: JoinedBeliefs, now: datetime) -> list[Row]:
    same = "Both beliefs say the same of what is one entity now: their evidence is counted together."
    rows = [decision("join", left, [gone, left], [left], same, now) for gone, left in joined.joined]
    void = [decision("evict", id_, [id_], [], VOID, now, {"statement": words}) for id_, words in joined.void]
    return [*rows, *void]


def about_conflicts(conflicts: Sequence[Conflict], now: datetime) -> list[Row]:
    return [
        decision(
            "refuse", each.known[0], [each.known[0], each.moved[0]], [], _BOTH_STAY, now, {"relation": each.predicate},
            decided_by="rule",
        )
        for each in conflicts
    ]  # fmt: skip


def decision(
    action: str,
    subject: str,
    ids_in: Sequence[str],
    ids_out: Sequence[str],
    reason: str,
    now: datetime,
    seen: Mapping[str, object] | None = None,
    *,
    decided_by: str = "person",
) -> Row:
    """A row of `decisions`."""
    return {
        "id": timed_id("d", now, action, subject, ids_in),
        "action": action,
        "subject_id": subject,
        "ids_in": list(ids_in),
        "ids_out": list(ids_out),
        "measures": as_json(seen or {}),
        "decided_by": decided_by,
        "model": None,
        "reason": reason,
        "at": now,
    }
