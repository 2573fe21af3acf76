"""Beliefs of entities that became one: what hinted at either hints at both (S2-63, S2-65, S2-70).

A belief is found by its key, so those of the entity that went get the key that they have from now on. Where the other
one is believed the same, the evidence of both is put together, each message once, and counted anew in order of time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.application.belief_growth import decayed, noisy_or
from slowwave.application.belief_routes import belief_ids
from slowwave.text import as_json, row_id

_DAY = timedelta(days=1)
Row = dict[str, Any]


@dataclass(slots=True)
class JoinedBeliefs:
    """Whole rows to upsert, by id, and the ids of rows that go.

    `joined` are the pairs of beliefs that became one, as (gone, left); `void` those that came to be about an entity
    and itself, as (id, statement).
    """

    beliefs: dict[str, Row] = field(default_factory=dict)
    evidence: dict[str, Row] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    gone_evidence: set[str] = field(default_factory=set)
    joined: list[tuple[str, str]] = field(default_factory=list)
    void: list[tuple[str, str]] = field(default_factory=list)


def join_beliefs(
    beliefs: pl.DataFrame, evidence: pl.DataFrame, loser: str, winner: str, waiting: frozenset[str], decay_rate: float
) -> JoinedBeliefs:
    """What becomes of the beliefs about `loser`, which is `winner` from now on.

    `beliefs` holds those that name the loser and all of the subjects that these have afterwards, `evidence` theirs,
    `waiting` the candidates that beliefs became and that nobody decided about. A belief that became something which is
    decided stays beside a later one of its key. Nothing is promoted: the next hint does that.
    """
    made = JoinedBeliefs()
    hints: dict[str, list[Row]] = {}
    for row in evidence.sort("at", "id").iter_rows(named=True):
        hints.setdefault(row["belief_id"], []).append(row)
    names_loser = (pl.col("subject_id") == loser) | (pl.col("object_id") == loser)
    moving = beliefs.filter(names_loser.fill_null(False)).sort("first_at", "id")
    known = {row["id"]: row for row in beliefs.join(moving.select("id"), on="id", how="anti").iter_rows(named=True)}
    over = {id_: row["promoted_id"] for id_, row in known.items() if _is_decided(row, waiting)}
    for old in moving.iter_rows(named=True):
        row = {**old, **{end: winner for end in ("subject_id", "object_id") if old[end] == loser}}
        if row["subject_id"] == row["object_id"]:
            made.void.append((old["id"], old["statement"]))
            _drop(made, old["id"], hints)
            continue
        target = _target(row, over)
        if target not in known:
            known[target] = _moved(made, row, target, hints)
        elif row["promoted_at"] is not None:
            made.beliefs[row["id"]] = known[row["id"]] = row
        else:
            known[target] = _joined(made, known[target], row, hints, decay_rate)
        if _is_decided(known[target], waiting):
            over[target] = known[target]["promoted_id"]
    return made


def _is_decided(belief: Row, waiting: frozenset[str]) -> bool:
    return belief["promoted_id"] is not None and belief["promoted_id"] not in waiting


def _target(belief: Row, over: dict[str, str]) -> str:
    """The id under which the next hint will look for it."""
    told = json.loads(belief["claim"])["fact"] if belief["claim"] else {}
    ends = {name: belief[name] for name in ("subject_id", "object_id", "predicate", "edge_type", "scope")}
    fact = {name: value for name, value in told.items() if frames.FACTS.get(name) == frames.TEXT} | ends
    return belief_ids(frames.conform(pl.DataFrame([fact]), frames.FACTS), over)[0]


def _moved(made: JoinedBeliefs, belief: Row, target: str, hints: dict[str, list[Row]]) -> Row:
    """The belief under its new key, with its evidence."""
    if belief["id"] != target:
        steps = [_step(row, target) for row in hints.get(belief["id"], [])]
        _drop(made, belief["id"], hints)
        hints[target] = steps
        made.evidence |= {step["id"]: step for step in steps}
        made.gone_evidence -= made.evidence.keys()
    moved = {**belief, "id": target}
    made.beliefs[target] = moved
    made.gone.discard(target)
    return moved


def _joined(made: JoinedBeliefs, left: Row, gone: Row, hints: dict[str, list[Row]], decay_rate: float) -> Row:
    """The belief that is left with the evidence of both, its probability counted anew (S2-65)."""
    own, more = hints.get(left["id"], []), hints.get(gone["id"], [])
    steps = _counted([*own, *(_step(row, left["id"]) for row in more)], decay_rate)
    _drop(made, gone["id"], hints)
    hints[left["id"]] = steps
    made.evidence |= {step["id"]: step for step in steps}
    made.gone_evidence -= made.evidence.keys()
    made.joined.append((gone["id"], left["id"]))
    row = {
        **left,
        "evidence_count": len(steps) or (left["evidence_count"] or 0) + (gone["evidence_count"] or 0),
        "probability": steps[-1]["posterior"] if steps else max(left["probability"], gone["probability"]),
        "first_at": min(left["first_at"], gone["first_at"]),
        "last_at": max(left["last_at"], gone["last_at"]),
    }
    if row["promoted_at"] is None and left["claim"] and gone["claim"]:
        claim = _claim(json.loads(left["claim"]), json.loads(gone["claim"]))
        row |= {"claim": as_json(claim), "statement": claim["fact"]["statement"]}
    made.beliefs[row["id"]] = row
    return row


def _claim(left: Row, gone: Row) -> Row:
    """The surer of two claims, the first of equals, with everything that either does away with."""
    surest = max((left, gone), key=lambda claim: claim["fact"]["confidence"] or 0.0)
    directives = {as_json(each): each for claim in (left, gone) for each in claim["directives"]}
    return {"fact": surest["fact"], "directives": list(directives.values())}


def _step(row: Row, belief: str) -> Row:
    return {**row, "id": row_id("be", belief, row["message_id"]), "belief_id": belief}


def _counted(rows: Sequence[Row], decay_rate: float) -> list[Row]:
    """The steps in order of time, each message once by its surest hint, with what was believed before and after."""
    surest: dict[str, Row] = {}
    for row in rows:
        known = surest.get(row["id"])
        if known is None or row["evidence"] > known["evidence"]:
            surest[row["id"]] = row
    steps: list[Row] = []
    for row in sorted(surest.values(), key=lambda row: (row["at"], row["id"])):
        before = steps[-1] if steps else None
        prior = decayed(before["posterior"], (row["at"] - before["at"]) / _DAY, decay_rate) if before else 0.0
        steps.append({**row, "prior": prior, "posterior": noisy_or(prior, row["evidence"])})
    return steps


def _drop(made: JoinedBeliefs, belief: str, hints: dict[str, list[Row]]) -> None:
    """A belief that is no longer there under this id, with its evidence; what this merge made of it goes, too."""
    made.gone.add(belief)
    made.beliefs.pop(belief, None)
    for row in hints.pop(belief, []):
        made.gone_evidence.add(row["id"])
        made.evidence.pop(row["id"], None)
