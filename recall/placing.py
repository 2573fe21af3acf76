"""Placing: from what search compared to the facts that are recalled (`slowwave.ranking.order` has the stages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slowwave.ranking.entity_weights import fact_factors
from slowwave.ranking.order import RankedFact, entities_named, fuse, raised, spread, stems, weighted
from slowwave.ranking.periods import Period
from slowwave.settings import LimbicSettings, RecallSettings
from storage.residents import Row
from storage.warm import Tables

from .access_events import Use
from .facts import NameCache
from .search import FACT_TIMES, IN_PERIOD, Question, Ranked, Walk


async def place(
    tables: Tables, question: Question, settings: RecallSettings, found: Ranked, walk: Walk, use: Use, names: NameCache
) -> Ranked:
    """At most `k` facts in their final order."""
    order = fuse(found.order, _along_named(found, walk, question.text), settings.graph_weight)
    if settings.others_weight < 1.0:
        order = await _about(tables, order, found, question, settings.others_weight, names)
    if question.period is not None:
        order = raised(order, _of_period(found, question.period), IN_PERIOD, "period")
    if settings.limbic and order:
        order = weighted(order, await _use(tables, found, use, question, settings.use), "limbic")
    if settings.suspect_weight < 1.0 and not question.moment.is_past:
        order = _doubted(order, found, settings.suspect_weight)
    if question.conversation:
        order = weighted(order, _current(order, found, question, settings.episode_boost), "episode")
    vectors = np.empty((0, 0), np.float32)
    if settings.diversity and order:
        vectors = np.stack([found.vectors[fact.fact_id] for fact in order if fact.fact_id])
    return replace(found, order=spread(order, vectors, settings.diversity, question.k))


async def _use(
    tables: Tables, found: Ranked, use: Use, question: Question, settings: LimbicSettings
) -> dict[str, dict[str, float]]:
    """What the entities of all facts that were compared weigh among each other, by fact."""
    known = await use.of(tables)
    ends = [(name, row["subject_id"], row["object_id"]) for name, row in found.facts.items()]
    entities = {end for _, *both in ends for end in both if end}
    return fact_factors(ends, known.factors(entities, question.moment.now, settings))


async def _about(
    tables: Tables, order: list[RankedFact], found: Ranked, question: Question, weight: float, names: NameCache
) -> list[RankedFact]:
    """Where the question names people, facts about somebody else stand behind facts about them and about things."""
    ends = {name: (row["subject_id"], row["object_id"]) for name, row in found.facts.items()}
    people = await names.of_people(tables, {end for both in ends.values() for end in both if end})
    named = entities_named(question.text, people)
    if not named:
        return order
    others = (name for name, both in ends.items() if both[0] in people and named.isdisjoint(both))
    return weighted(order, {name: {"about": weight} for name in others}, "about")


def _along_named(found: Ranked, walk: Walk, question: str) -> Walk:
    """The walk, in which what a relation named in the question led to counts as what it began with.

    "Where does Pixel's owner work?" names the relation works_at, so where the owner works is as near as the owner.
    """
    words, best = stems(question), max((step.score for step in walk.values()), default=0.0)
    relations = {name: found.facts[name]["predicate"] or "" for name in walk if name in found.facts}
    named = {name for name, relation in relations.items() if words & stems(relation.replace("_", " "))}
    return {name: step._replace(score=best) if name in named else step for name, step in walk.items()}


def _of_period(found: Ranked, period: Period) -> set[str]:
    """The facts of the period that a question names: said or begun in it, or a relation that held at a time in it."""
    return {name for name, row in found.facts.items() if _is_of(row, period)}


def _is_of(row: Row, period: Period) -> bool:
    if any(period.covers(row[column]) for column in FACT_TIMES):
        return True
    is_relation = row["object_id"] is not None or row["object_text"] is not None
    return is_relation and period.meets(row["valid_from"], row["valid_to"])


def _doubted(order: list[RankedFact], found: Ranked, weight: float) -> list[RankedFact]:
    """Facts that lean on one that no longer holds stand behind those of nearly the same score that do not."""
    leaning = {name: {"suspect": weight} for name, row in found.facts.items() if row["suspect_of"] is not None}
    return weighted(order, leaning, "suspect") if leaning else order


def _current(
    order: Sequence[RankedFact], found: Ranked, question: Question, boost: float
) -> Mapping[str, Mapping[str, float]]:
    """The factor of facts that the conversation says which is going on: one of their messages is of it (S2-74)."""
    rows = ((fact.fact_id, {*fact.sources, found.facts[fact.fact_id]["message_id"]}) for fact in order if fact.fact_id)
    return {name: {"episode": 1.0 if question.conversation.isdisjoint(by) else 1.0 + boost} for name, by in rows}
