"""How a belief grows: Noisy-OR of its evidence, decay without any, and its surest claim (S2-64 … S2-66)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.application.belief_routes import Held
from slowwave.application.patches import DIRECTIVES
from slowwave.settings import BeliefSettings
from slowwave.text import as_json, row_id

CLAMPED = 0.99
"""What evidence counts for that claims to be certain (S2-64, T11)."""

_ALMOST_ONE = math.nextafter(1.0, 0.0)
_DAY = timedelta(days=1)
_TIMES = [name for name, kind in frames.FACTS.items() if kind == frames.TIME]

Row = dict[str, Any]


def noisy_or(prior: float, evidence: float) -> float:
    """Probability after independent evidence, 1 − (1 − prior)(1 − evidence), never quite 1 (S2-65)."""
    return min(prior + min(evidence, CLAMPED) * (1.0 - prior), _ALMOST_ONE)


def decayed(probability: float, age_days: float, rate: float) -> float:
    """Probability after so many days without evidence, probability / (1 + days · rate); no age is negative (S2-66)."""
    return probability / (1.0 + max(age_days, 0.0) * rate)


def decayed_at(now: datetime, rate: float) -> pl.Expr:
    """`decayed` of the columns `probability` and `last_at` at a moment."""
    days = (pl.lit(now, dtype=frames.TIME) - pl.col("last_at")).dt.total_microseconds() / (_DAY / timedelta.resolution)
    return pl.col("probability") / (1.0 + pl.max_horizontal(days, pl.lit(0.0)) * rate)


@dataclass(frozen=True, slots=True)
class Grown:
    """Beliefs after new evidence (PENDING_BELIEFS), that evidence, and those of them that became sure, as rows."""

    beliefs: pl.DataFrame
    evidence: pl.DataFrame
    sure: Sequence[Row]


def grow(
    mentions: pl.DataFrame, directives: pl.DataFrame, held: Held, settings: BeliefSettings, now: datetime
) -> Grown:
    """Every belief that is hinted at, after its hints in order of time."""
    known = {row["id"]: row for row in held.beliefs.iter_rows(named=True)}
    said: dict[str, list[Row]] = {}
    for row in frames.conform(directives, DIRECTIVES).select(*DIRECTIVES).iter_rows(named=True):
        said.setdefault(row.pop("candidate_id"), []).append(row)
    beliefs, evidence, sure = [], [], []
    for (belief_id,), rows in mentions.group_by("belief_id", maintain_order=True):
        hints = rows.to_dicts()
        before = known.get(str(belief_id)) or _new_belief(hints[0])
        belief, steps = _after(before, hints, settings.decay_rate)
        claim = _claim(before, hints, said)
        belief |= {"claim": as_json(claim), "statement": claim["fact"]["statement"]}
        if before["promoted_at"] is None and (place := _first_sure(hints, steps, settings)) is not None:
            belief |= {"promoted_at": now, "promoted_id": claim["fact"]["id"]}
            surest = max(step["posterior"] for step in steps[place:])
            sure.append({**belief, "confidence": surest, "conversation_id": hints[place]["conversation_id"]})
        beliefs.append(belief)
        evidence += steps
    return Grown(frame_of(beliefs, frames.PENDING_BELIEFS), frame_of(evidence, frames.BELIEF_EVIDENCE), sure)


def _new_belief(hint: Row) -> Row:
    """A belief that nothing hinted at yet."""
    ends = ("subject_id", "predicate", "object_id", "object_text", "edge_type", "scope")
    times = {"first_at": hint["said_at"], "last_at": hint["said_at"], "promoted_at": None, "promoted_id": None}
    start = {"id": hint["belief_id"], "probability": 0.0, "evidence_count": 0, "claim": None}
    return {**start, **times, **{name: hint[name] for name in ends}}


def _after(before: Row, hints: Sequence[Row], rate: float) -> tuple[Row, list[Row]]:
    """The belief after these hints, and the step that each made (S2-65); one that comes late finds it as it is now."""
    belief, steps = dict(before), []
    for hint in hints:
        at = hint["said_at"]
        prior = decayed(belief["probability"], (at - belief["last_at"]) / _DAY, rate)
        posterior = noisy_or(prior, hint["confidence"])
        belief["probability"] = posterior
        belief["evidence_count"] += 1
        belief["first_at"], belief["last_at"] = min(belief["first_at"], at), max(belief["last_at"], at)
        step = {"prior": prior, "evidence": min(hint["confidence"], CLAMPED), "posterior": posterior, "at": at}
        source = {name: hint[name] for name in ("belief_id", "message_id", "episode_id")}
        steps.append({"id": row_id("be", belief["id"], hint["message_id"]), **source, **step})
    return belief, steps


def _claim(before: Row, hints: Sequence[Row], said: Mapping[str, Sequence[Row]]) -> Row:
    """The surest hint as the candidate to be, the earliest of equals, and everything that any hint does away with."""
    if before["promoted_at"] is not None:
        return dict(json.loads(before["claim"]))
    known = [json.loads(before["claim"])] if before["claim"] else []
    told = [{"fact": {n: hint[n] for n in frames.FACTS}, "directives": said.get(hint["id"], [])} for hint in hints]
    surest = max([*known, *told], key=lambda each: each["fact"]["confidence"])
    directives = {as_json(each): each for claim in (*known, *told) for each in claim["directives"]}
    return {"fact": _as_text(surest["fact"]), "directives": list(directives.values())}


def _as_text(fact: Row) -> Row:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fact.items()}


def _first_sure(hints: Sequence[Row], steps: Sequence[Row], settings: BeliefSettings) -> int | None:
    """The place of the hint with which the belief was sure enough; a sure claim is enough by itself."""
    for place, (hint, step) in enumerate(zip(hints, steps, strict=True)):
        if max(step["posterior"], hint["confidence"]) >= settings.promote_threshold:
            return place
    return None


def frame_of(rows: Sequence[Row], schema: frames.Schema) -> pl.DataFrame:
    """Rows as a frame of exactly these columns."""
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=dict(schema))


def restored(belief: Row) -> tuple[Row, list[Row]]:
    """The candidate and the directives of a belief's claim; its ends are those of the row, which merges may move."""
    claim = json.loads(belief["claim"])
    times = {name: datetime.fromisoformat(claim["fact"][name]) for name in _TIMES if claim["fact"][name]}
    ends = {"subject_id": belief["subject_id"], "object_id": belief["object_id"]}
    return {**claim["fact"], **times, **ends, "owner_entity_id": belief["subject_id"]}, claim["directives"]
