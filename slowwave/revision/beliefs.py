"""Pending beliefs: unsure claims gather evidence until a belief is sure enough for a candidate (S2-63 … S2-70).

A belief is a triple with its scope and polarity; each message counts once for it. At the threshold it becomes a
candidate, and evaluation decides about that as about any other (S2-67).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.settings import BeliefSettings
from slowwave.text import as_json, row_id, timed_id

from .belief_growth import (
    BeliefContext,
    Grown,
    belief_ids,
    decayed,
    decayed_at,
    frame_of,
    grow,
    noisy_or,
    restored,
    routes,
)
from .patches import DIRECTIVES, Candidates

SUPPORT: frames.Schema = {**frames.FACT_EVIDENCE, "statement": pl.String()}
_CROWDED = "More beliefs about its subject and relation are pending than are kept, and it is the least probable."
_FULL = "More beliefs are pending than are kept, and nothing has hinted at it for the longest time."


@dataclass(frozen=True, slots=True)
class BeliefPlan:
    """`candidates` go to the gate: the sure ones unchanged, and those from promoted beliefs (origin `belief`).

    `beliefs` and `evidence` are rows to upsert, `evicted` ids of beliefs to delete with their evidence. `support`
    (SUPPORT, without quote) are the other messages behind the promoted candidates. `counts`: claims that were held,
    too unsure or counted before; beliefs that were promoted or evicted.
    """

    candidates: Candidates
    beliefs: pl.DataFrame
    evidence: pl.DataFrame
    support: pl.DataFrame
    evicted: tuple[str, ...]
    decisions: pl.DataFrame
    counts: Mapping[str, int]


def plan_beliefs(
    candidates: Candidates, messages: pl.DataFrame, context: BeliefContext, settings: BeliefSettings, now: datetime
) -> BeliefPlan:
    """Send sure candidates to the gate, and count the others as evidence of their beliefs.

    `messages` needs id, conversation_id and occurred_at: a belief ages by message time. A sure candidate settles the
    belief that it repeats. A belief is promoted once; when its candidate has a decision, the next hint begins a new
    belief. The same batch again, with the outcome in `context`, changes nothing (S2-70).
    """
    routed = routes(candidates.facts, messages, context, settings)
    mentions = routed.filter(pl.col("route") == "belief")
    grown = grow(mentions, candidates.directives, context, settings, now)
    promoted = _promoted(grown)
    pending = pl.concat([context.beliefs.join(grown.beliefs, on="id", how="anti"), grown.beliefs], how="diagonal")
    evicted = crowded_out(pending.filter(pl.col("promoted_at").is_null()), settings, now)
    gone = evicted["id"].to_list()
    return BeliefPlan(
        _to_gate(candidates, routed.filter(pl.col("route") == "gate"), promoted),
        grown.beliefs.filter(~pl.col("id").is_in(gone)),
        grown.evidence.filter(~pl.col("belief_id").is_in(gone)),
        _support(grown, context.evidence),
        tuple(context.beliefs.filter(pl.col("id").is_in(gone))["id"]),
        pl.concat([_promotions(grown, settings, now), eviction_rows(evicted, settings, now)]),
        {
            "held": mentions.height,
            "promoted": promoted.facts.height,
            "too unsure": routed.filter(pl.col("route") == "ignored").height,
            "counted before": routed.filter(pl.col("route") == "seen").height,
            "evicted": evicted.height,
        },
    )


def _promoted(grown: Grown) -> Candidates:
    """Candidates of promoted beliefs, one patch for each conversation that promoted some (S2-67)."""
    sources: dict[str, list[str]] = {}
    for belief in grown.sure:
        sources.setdefault(belief["conversation_id"] or "", []).append(belief["id"])
    patches = {source: row_id("p", "belief", source, sorted(ids)) for source, ids in sources.items()}
    facts, directives = [], []
    for belief in grown.sure:
        patch = patches[belief["conversation_id"] or ""]
        fact, given = restored(belief)
        facts.append(
            {
                **fact,
                "confidence": belief["confidence"],
                "patch_batch_id": patch,
                "evidence_count": belief["evidence_count"],
            }
        )
        directives += [{**each, "candidate_id": fact["id"]} for each in given]
    batches = [
        {"id": patches[source], "origin": "belief", "source_key": source, "state": "open", "candidates": len(ids),
         "passed": 0, "decided_by": "rule"}
        for source, ids in sources.items()
    ]  # fmt: skip
    named = frame_of(directives, DIRECTIVES).unique(maintain_order=True)
    return Candidates(frame_of(facts, frames.FACTS), named, frame_of(batches, frames.PATCH_BATCHES), (), {})


def _to_gate(candidates: Candidates, sure: pl.DataFrame, promoted: Candidates) -> Candidates:
    """The sure candidates, in their order and their patches, and those of promoted beliefs."""
    facts = candidates.facts.join(sure.select("id"), on="id", how="semi", maintain_order="left")
    counts = facts.group_by(id="patch_batch_id").agg(candidates=pl.len().cast(pl.Int64))
    batches = candidates.batches.drop("candidates").join(counts, on="id", maintain_order="left")
    directives = candidates.directives.join(facts.select(candidate_id="id"), on="candidate_id", how="semi")
    return Candidates(
        pl.concat([facts, promoted.facts]),
        pl.concat([directives, promoted.directives]),
        pl.concat([frames.conform(batches, frames.PATCH_BATCHES), promoted.batches]),
        candidates.unmapped,
        candidates.dropped,
    )


def _support(grown: Grown, before: pl.DataFrame) -> pl.DataFrame:
    """SUPPORT: messages behind promoted candidates, without its own; of an earlier promotion only new ones."""
    now_sure = [belief["id"] for belief in grown.sure]
    beliefs = grown.beliefs.filter(pl.col("promoted_id").is_not_null())
    sources = [json.loads(claim)["fact"]["message_id"] for claim in beliefs["claim"]]
    became = beliefs.select("statement", belief_id="id", fact_id="promoted_id").with_columns(
        pl.Series("told_by", sources, dtype=pl.String)
    )
    earlier = frames.conform(before, frames.BELIEF_EVIDENCE).filter(pl.col("belief_id").is_in(now_sure))
    hints = pl.concat([earlier.select(*frames.BELIEF_EVIDENCE), grown.evidence]).join(became, on="belief_id")
    others = hints.filter(pl.col("message_id") != pl.col("told_by")).sort("fact_id", "at", "message_id")
    ids = [row_id("v", *pair) for pair in others.select("fact_id", "message_id").iter_rows()]
    rows = others.select(
        pl.Series("id", ids, dtype=pl.String), "fact_id", "message_id", "statement",
        confidence="evidence", occurred_at="at",
    )  # fmt: skip
    return frames.conform(rows, SUPPORT).select(*SUPPORT)


def crowded_out(pending: pl.DataFrame, settings: BeliefSettings, now: datetime) -> pl.DataFrame:
    """Pending beliefs beyond the caps: the least probable of a group, then those with the oldest hints (S2-68).

    `pending` are rows of PENDING_BELIEFS; adds `current`, the decayed probability (S2-66), and `reason`.
    """
    current = pending.with_columns(current=decayed_at(now, settings.decay_rate))
    likely = current.sort("current", "last_at", "id", descending=[True, True, False])
    place = pl.int_range(pl.len()).over("subject_id", "predicate")
    kept = likely.filter(place < settings.max_per_group)
    recent = kept.sort("last_at", "current", "id", descending=[True, True, False])
    crowded = likely.filter(place >= settings.max_per_group).with_columns(reason=pl.lit(_CROWDED))
    return pl.concat([crowded, recent.slice(settings.max_pending).with_columns(reason=pl.lit(_FULL))])


def _promotions(grown: Grown, settings: BeliefSettings, now: datetime) -> pl.DataFrame:
    threshold = settings.promote_threshold
    rows = [
        {
            "id": timed_id("d", now, "promote", belief["promoted_id"]),
            "action": "promote",
            "subject_id": belief["promoted_id"],
            "ids_in": [belief["id"]],
            "ids_out": [belief["promoted_id"]],
            "measures": as_json(
                {"probability": round(belief["confidence"], 6), "promote_threshold": threshold,
                 "messages": belief["evidence_count"]}
            ),
            "decided_by": "rule",
            "reason": "What hints at it is sure enough together: evaluation decides about it next.",
            "at": now,
        }
        for belief in grown.sure
    ]  # fmt: skip
    return frame_of(rows, frames.DECISIONS)


def eviction_rows(evicted: pl.DataFrame, settings: BeliefSettings, now: datetime) -> pl.DataFrame:
    """DECISIONS: one row for each belief from `crowded_out`."""
    caps = {"max_pending": settings.max_pending, "max_per_group": settings.max_per_group}
    rows = [
        {
            "id": timed_id("d", now, "evict", belief["id"]),
            "action": "evict",
            "subject_id": belief["id"],
            "ids_in": [belief["id"]],
            "ids_out": [],
            "measures": as_json({"probability": round(belief["current"], 6), "statement": belief["statement"], **caps}),
            "decided_by": "rule",
            "reason": belief["reason"],
            "at": now,
        }
        for belief in evicted.iter_rows(named=True)
    ]
    return frame_of(rows, frames.DECISIONS)


# Beliefs of merged entities (S2-63, S2-65, S2-70). A belief is found by its key, so the beliefs of the entity that is
# gone get new keys. Where a belief with that key exists, the evidence of both is joined, each message once, and the
# probability is computed again in message order.


_DAY = timedelta(days=1)
Row = dict[str, Any]


@dataclass(slots=True)
class JoinedBeliefs:
    """Whole rows to upsert, by id, and the ids of rows that go.

    `joined`: pairs of beliefs that became one, as (gone id, kept id). `void`: beliefs whose subject and object are now
    one entity, as (id, statement).
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
    """Move the beliefs about the entity `loser` to the entity `winner`.

    `beliefs`: those that name the loser, and all beliefs of their new subjects; `evidence`: of these; `waiting`: ids of
    promoted candidates without a decision. A belief whose candidate has a decision stays beside a later belief with the
    same key. Nothing is promoted here; the next hint does that.
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
    """The id of the belief after the merge."""
    claimed = json.loads(belief["claim"])["fact"] if belief["claim"] else {}
    ends = {name: belief[name] for name in ("subject_id", "object_id", "predicate", "edge_type", "scope")}
    fact = {name: value for name, value in claimed.items() if frames.FACTS.get(name) == frames.TEXT} | ends
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
    """The kept belief with the evidence of both and a new probability (S2-65)."""
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
    """The surer of two claims (the first of equals), with the directives of both."""
    surest = max((left, gone), key=lambda claim: claim["fact"]["confidence"] or 0.0)
    directives = {as_json(each): each for claim in (left, gone) for each in claim["directives"]}
    return {"fact": surest["fact"], "directives": list(directives.values())}


def _step(row: Row, belief: str) -> Row:
    return {**row, "id": row_id("be", belief, row["message_id"]), "belief_id": belief}


def _counted(rows: Sequence[Row], decay_rate: float) -> list[Row]:
    """The steps in order of time, each message once with its surest hint, with prior and posterior."""
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
    """Remove a belief id and its evidence, from the rows to upsert too."""
    made.gone.add(belief)
    made.beliefs.pop(belief, None)
    for row in hints.pop(belief, []):
        made.gone_evidence.add(row["id"])
        made.evidence.pop(row["id"], None)
