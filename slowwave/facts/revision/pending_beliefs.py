"""When is an unsure claim sure enough? It gathers evidence as a pending belief until then (S2-63 … S2-70).

A belief is a triple with its scope and polarity; each message counts once for it. At the threshold it becomes a
candidate, and evaluation decides about that as about any other (S2-67).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.settings import BeliefSettings
from slowwave.common.text import as_json, normalise_statement, row_id

from .candidates import DIRECTIVES, MESSAGES, SUPPORT, Candidates

_SAME = ("subject_id", "predicate", "object_key", "scope", "polarity")


@dataclass(frozen=True, slots=True)
class BeliefContext:
    """The stored rows near a batch of candidates.

    `beliefs`: PENDING_BELIEFS of the candidates' subjects, and every pending one; `evidence`: BELIEF_EVIDENCE of the
    former; `facts`: live FACTS of the candidates' subjects; `waiting`: ids of promoted candidates without a decision.
    """

    beliefs: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.PENDING_BELIEFS))
    evidence: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.BELIEF_EVIDENCE))
    facts: pl.DataFrame = field(default_factory=lambda: frames.empty(frames.FACTS))
    waiting: frozenset[str] = frozenset()


def routes(
    facts: pl.DataFrame, messages: pl.DataFrame, context: BeliefContext, settings: BeliefSettings
) -> pl.DataFrame:
    """The candidates in message order, with said_at, belief_id and route (S2-63).

    `gate`: confidence above the threshold, or a live fact says the same. `belief`: low confidence, or high confidence
    that settles an open belief. `ignored`: confidence too low (S2-64). `seen`: its message is evidence of the belief
    already, or has a surer claim for it (S2-70).
    """
    rows = _marked(facts, messages, context)
    sure = pl.col("confidence") >= settings.promote_threshold
    enters = (pl.col("confidence") >= settings.min_entry) & (pl.col("confidence") > 0.0)
    hints = rows.filter(enters & ~sure & ~pl.col("is_known"))["belief_id"]
    promoted = pl.col("promoted_at").is_not_null()
    open_ = pl.concat([hints, context.beliefs.filter(~promoted)["id"]]).unique().to_list()
    closed = context.beliefs.filter(promoted)["id"].to_list()
    settles = pl.col("belief_id").is_in(open_) & ~pl.col("belief_id").is_in(closed) & ~pl.col("is_seen")
    route = (
        pl.when(pl.col("is_known") | (sure & ~settles)).then(pl.lit("gate"))
        .when(~enters).then(pl.lit("ignored"))
        .when(pl.col("is_seen")).then(pl.lit("seen"))
        .otherwise(pl.lit("belief"))
    )  # fmt: skip
    return _once(rows.with_columns(route=route)).drop("is_known", "is_seen").sort("said_at", "id")


def _marked(facts: pl.DataFrame, messages: pl.DataFrame, context: BeliefContext) -> pl.DataFrame:
    """The candidates with said_at, belief_id, is_known (a live fact says it), is_seen (is evidence of the belief)."""
    times = frames.conform(messages, MESSAGES).select(
        "conversation_id", message_id="id", said_at="occurred_at"
    ).unique("message_id")  # fmt: skip
    rows = _keyed(facts.join(times, on="message_id", how="left", maintain_order="left"))
    became = context.beliefs.filter(pl.col("promoted_id").is_not_null()).select("id", "promoted_id").iter_rows()
    over = {belief: fact for belief, fact in became if fact not in context.waiting}
    ids = pl.Series("belief_id", belief_ids(rows, over), dtype=pl.String)
    rows = rows.with_columns(ids, said_at=pl.coalesce("said_at", "valid_from"))
    known = _keyed(context.facts).select(*_SAME, is_known=pl.lit(True)).unique()
    seen = context.evidence.select("belief_id", "message_id", is_seen=pl.lit(True)).unique()
    for marks, key in ((known, list(_SAME)), (seen, ["belief_id", "message_id"])):
        rows = rows.join(marks, on=key, how="left", maintain_order="left")
    return rows.with_columns(pl.col("is_known", "is_seen").fill_null(False))


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """A message counts once for a belief, with its surest claim."""
    ranked = rows.sort(-pl.col("confidence"), "id")
    again = pl.int_range(pl.len()).over("route", "belief_id", "message_id") > 0
    return ranked.with_columns(
        route=pl.when((pl.col("route") == "belief") & again).then(pl.lit("seen")).otherwise("route")
    )


def _keyed(facts: pl.DataFrame) -> pl.DataFrame:
    """The facts with object_key; that of an observation is its whole statement."""
    texts = facts["object_text"].drop_nulls().unique().to_list()
    text = pl.col("object_text").replace({each: normalise_statement(each) for each in texts})
    thing = pl.coalesce("object_id", pl.lit("text ") + text)
    is_relation = (pl.col("kind") == "relation") & thing.is_not_null()
    return facts.with_columns(
        object_key=pl.when(is_relation).then(thing).otherwise(pl.lit("statement ") + pl.col("statement_hash"))
    )


def belief_ids(facts: pl.DataFrame, over: Mapping[str, str]) -> list[str]:
    """The belief of each of these FACTS, a new one where the candidate of the earlier belief has a decision.

    `over`: belief id → id of its candidate, where this has a decision.
    """
    keys = [*_SAME, "edge_type"]
    return [_current(row_id("b", *key), over) for key in _keyed(facts).select(keys).iter_rows()]


def _current(belief: str, over: Mapping[str, str]) -> str:
    while belief in over:
        belief = row_id("b", belief, over[belief])
    return belief


CLAMPED = 0.99
"""The greatest weight of one piece of evidence (S2-64, T11)."""

_ALMOST_ONE = math.nextafter(1.0, 0.0)
_DAY = timedelta(days=1)
_TIMES = [name for name, kind in frames.FACTS.items() if kind == frames.TIME]

Row = dict[str, Any]


def noisy_or(prior: float, evidence: float) -> float:
    """Probability after independent evidence, 1 − (1 − prior)(1 − evidence), always below 1 (S2-65)."""
    return min(prior + min(evidence, CLAMPED) * (1.0 - prior), _ALMOST_ONE)


def decayed(probability: float, age_days: float, rate: float) -> float:
    """Probability after `age_days` without evidence, probability / (1 + days · rate); a negative age is 0 (S2-66)."""
    return probability / (1.0 + max(age_days, 0.0) * rate)


def decayed_at(now: datetime, rate: float) -> pl.Expr:
    """`decayed` for the columns `probability` and `last_at`."""
    days = (pl.lit(now, dtype=frames.TIME) - pl.col("last_at")).dt.total_microseconds() / (_DAY / timedelta.resolution)
    return pl.col("probability") / (1.0 + pl.max_horizontal(days, pl.lit(0.0)) * rate)


@dataclass(frozen=True, slots=True)
class Grown:
    """Beliefs after new evidence (PENDING_BELIEFS), that evidence, and rows of beliefs that reached the threshold."""

    beliefs: pl.DataFrame
    evidence: pl.DataFrame
    sure: Sequence[Row]


def grow(
    mentions: pl.DataFrame, directives: pl.DataFrame, context: BeliefContext, settings: BeliefSettings, now: datetime
) -> Grown:
    """Each belief after its mentions, in message order."""
    known = {row["id"]: row for row in context.beliefs.iter_rows(named=True)}
    given: dict[str, list[Row]] = {}
    for row in frames.conform(directives, DIRECTIVES).select(*DIRECTIVES).iter_rows(named=True):
        given.setdefault(row.pop("candidate_id"), []).append(row)
    beliefs, evidence, sure = [], [], []
    for (belief_id,), rows in mentions.group_by("belief_id", maintain_order=True):
        hints = rows.to_dicts()
        before = known.get(str(belief_id)) or _new_belief(hints[0])
        belief, steps = _after(before, hints, settings.decay_rate)
        claim = _claim(before, hints, given)
        belief |= {"claim": as_json(claim), "statement": claim["fact"]["statement"]}
        if before["promoted_at"] is None and (place := _first_sure(hints, steps, settings)) is not None:
            belief |= {"promoted_at": now, "promoted_id": claim["fact"]["id"]}
            surest = max(step["posterior"] for step in steps[place:])
            sure.append({**belief, "confidence": surest, "conversation_id": hints[place]["conversation_id"]})
        beliefs.append(belief)
        evidence += steps
    return Grown(frame_of(beliefs, frames.PENDING_BELIEFS), frame_of(evidence, frames.BELIEF_EVIDENCE), sure)


def _new_belief(hint: Row) -> Row:
    ends = ("subject_id", "predicate", "object_id", "object_text", "edge_type", "scope")
    times = {"first_at": hint["said_at"], "last_at": hint["said_at"], "promoted_at": None, "promoted_id": None}
    start = {"id": hint["belief_id"], "probability": 0.0, "evidence_count": 0, "claim": None}
    return {**start, **times, **{name: hint[name] for name in ends}}


def _after(before: Row, hints: Sequence[Row], rate: float) -> tuple[Row, list[Row]]:
    """The belief after these hints, and one step for each (S2-65); a late hint starts from the current probability."""
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


def _claim(before: Row, hints: Sequence[Row], given: Mapping[str, Sequence[Row]]) -> Row:
    """The surest hint (the earliest of equals) as the future candidate, with the directives of all hints."""
    if before["promoted_at"] is not None:
        return dict(json.loads(before["claim"]))
    known = [json.loads(before["claim"])] if before["claim"] else []
    new = [{"fact": {n: hint[n] for n in frames.FACTS}, "directives": given.get(hint["id"], [])} for hint in hints]
    surest = max([*known, *new], key=lambda each: each["fact"]["confidence"])
    directives = {as_json(each): each for claim in (*known, *new) for each in claim["directives"]}
    fact = {name: each.isoformat() if isinstance(each, datetime) else each for name, each in surest["fact"].items()}
    return {"fact": fact, "directives": list(directives.values())}


def _first_sure(hints: Sequence[Row], steps: Sequence[Row], settings: BeliefSettings) -> int | None:
    """The place of the hint that brought the belief to the threshold; one sure claim is enough."""
    for place, (hint, step) in enumerate(zip(hints, steps, strict=True)):
        if max(step["posterior"], hint["confidence"]) >= settings.promote_threshold:
            return place
    return None


def frame_of(rows: Sequence[Row], schema: frames.Schema) -> pl.DataFrame:
    """Rows as a frame of exactly these columns."""
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=dict(schema))


def restored(belief: Row) -> tuple[Row, list[Row]]:
    """The candidate and the directives of a belief's claim; subject and object are those of the row (merges)."""
    claim = json.loads(belief["claim"])
    times = {name: datetime.fromisoformat(claim["fact"][name]) for name in _TIMES if claim["fact"][name]}
    ends = {"subject_id": belief["subject_id"], "object_id": belief["object_id"]}
    return {**claim["fact"], **times, **ends, "owner_entity_id": belief["subject_id"]}, claim["directives"]


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
        pl.Series("source_message", sources, dtype=pl.String)
    )
    earlier = frames.conform(before, frames.BELIEF_EVIDENCE).filter(pl.col("belief_id").is_in(now_sure))
    hints = pl.concat([earlier.select(*frames.BELIEF_EVIDENCE), grown.evidence]).join(became, on="belief_id")
    others = hints.filter(pl.col("message_id") != pl.col("source_message")).sort("fact_id", "at", "message_id")
    rows = others.select("fact_id", "message_id", "statement", confidence="evidence", occurred_at="at")
    return frames.conform(frames.with_ids(rows, "v", "fact_id", "message_id"), SUPPORT).select(*SUPPORT)


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
        decision(
            "promote", belief["promoted_id"], [belief["id"]], [belief["promoted_id"]],
            "What hints at it is sure enough together: evaluation decides about it next.", now,
            {"probability": round(belief["confidence"], 6), "promote_threshold": threshold,
             "messages": belief["evidence_count"]},
            key=(),
        )
        for belief in grown.sure
    ]  # fmt: skip
    return decision_frame(rows)


def eviction_rows(evicted: pl.DataFrame, settings: BeliefSettings, now: datetime) -> pl.DataFrame:
    """DECISIONS: one row for each belief from `crowded_out`."""
    caps = {"max_pending": settings.max_pending, "max_per_group": settings.max_per_group}
    rows = [
        decision(
            "evict", belief["id"], [belief["id"]], [], belief["reason"], now,
            {"probability": round(belief["current"], 6), "statement": belief["statement"], **caps},
            key=(),
        )
        for belief in evicted.iter_rows(named=True)
    ]  # fmt: skip
    return decision_frame(rows)
