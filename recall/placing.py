"""Placing: from what search compared to the facts that are recalled (`slowwave.ranking.placing` has the stages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from slowwave.ranking.limbic import fact_factors
from slowwave.ranking.placing import fuse, spread, weighted
from slowwave.ranking.ranking import Recalled
from slowwave.settings import RecallSettings
from slowwave.similarity import Vectors
from storage.warm import Tables

from .search import Question, Ranked, Walk
from .use import Use


async def place(
    tables: Tables, question: Question, settings: RecallSettings, found: Ranked, walk: Walk, use: Use
) -> Ranked:
    """At most `k` facts in the order in which they are told."""
    order = fuse(found.order, walk, settings.graph_weight)
    if settings.limbic and order:
        order = weighted(order, await _use(tables, found, use, question), "limbic")
    if settings.suspect_weight < 1.0 and not question.moment.is_past:
        order = _doubted(order, found, settings.suspect_weight)
    if question.conversation:
        order = weighted(order, _current(order, found, question, settings.episode_boost), "episode")
    vectors = _vectors(order, found, len(question.vector)) if settings.diversity else np.empty((0, 0), np.float32)
    return replace(found, order=spread(order, vectors, settings.diversity, question.k))


async def _use(tables: Tables, found: Ranked, use: Use, question: Question) -> dict[str, dict[str, float]]:
    """What the entities of all facts that were compared weigh among each other, by fact."""
    known = await use.of(tables)
    ends = found.facts.select("id", "subject_id", "object_id").rows()
    entities = {end for _, *both in ends for end in both if end}
    return fact_factors(ends, known.factors(entities, question.moment.now))


def _doubted(order: list[Recalled], found: Ranked, weight: float) -> list[Recalled]:
    """Facts that lean on one that no longer holds stand behind those of nearly the same score that do not."""
    leaning = found.facts.filter(pl.col("suspect_of").is_not_null())["id"]
    return weighted(order, {name: {"suspect": weight} for name in leaning}, "suspect") if len(leaning) else order


def _current(
    order: Sequence[Recalled], found: Ranked, question: Question, boost: float
) -> Mapping[str, Mapping[str, float]]:
    """The factor of facts that the conversation says which is going on: one of their messages is of it (S2-74)."""
    first = dict(found.facts.select("id", "message_id").iter_rows())
    said = ((fact.fact_id, {*fact.sources, first[fact.fact_id]}) for fact in order if fact.fact_id)
    return {name: {"episode": 1.0 if question.conversation.isdisjoint(by) else 1.0 + boost} for name, by in said}


def _vectors(order: Sequence[Recalled], found: Ranked, dims: int) -> Vectors:
    """The vectors of the facts in their order; zeros where there is none."""
    rows = np.nan_to_num(found.facts["vector"].to_numpy().reshape(-1, dims))
    places = {fact: n for n, fact in enumerate(found.facts["id"])}
    chosen: Vectors = rows[[places[fact.fact_id] for fact in order if fact.fact_id]].astype(np.float32)
    return chosen
