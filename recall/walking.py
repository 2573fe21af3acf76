"""Walks from a question: the entities that it names, and the relations that lead on from there (S2-27, S2-44)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from slowwave.graph.seeds import choose_seeds, query_words
from slowwave.graph.spreading import spread
from slowwave.graph.walks import Seeds, Walk, breadth_first
from slowwave.settings import RecallSettings, WalkSettings

from .entity_search import near_entities
from .graphs import Graphs, Landscape

if TYPE_CHECKING:
    from slowwave.graph.graph import Graph
    from slowwave.graph.name_index import NameIndex
    from storage.warm import Tables

    from .search import Question

log = logging.getLogger("slowwave")

SHARE = 0.1
"""Of the time of a recall that a walk itself may take, once the graph is read: 500 ms, as in the source."""
SHORT_WALK = 20_000
"""Relations up to which a walk takes less time than it takes to hand it to another thread."""
_WALKS = {"bfs": breadth_first, "spread": spread}


@dataclass(frozen=True, slots=True)
class Walked:
    """A fact that a walk came by: its score, above 0, how many relations it is from a seed, and which seed."""

    fact_id: str
    score: float
    hops: int
    seed_id: str


async def walked(
    tables: Tables,
    graphs: Graphs,
    question: Question,
    settings: RecallSettings,
    more: Mapping[str, float] | None = None,
    ends: float | None = None,
) -> tuple[Walked, ...]:
    """The relations near the entities that the question names, best first; only facts that may answer it.

    At most as many as are asked for. `tables` holds GRAPH_TABLES. `more` are entities at which the
    walk begins too, with how well they fit, 0 to 1. Empty with `graph` none, where the question names nothing that is
    known, where the walk takes longer than SHARE of `recall_timeout_ms`, and where reading what it needs goes on after
    it `ends`, by the monotonic clock (S2-44).
    """
    if settings.graph == "none":
        return ()
    try:
        async with asyncio.timeout_at(ends) as clock:
            return await _found(tables, graphs, question, settings, more or {}, ends)
    except TimeoutError:
        if not clock.expired():
            raise
        log.warning("recall follows no relations this time: what is read for it took too long")
        return ()


async def _found(
    tables: Tables,
    graphs: Graphs,
    question: Question,
    settings: RecallSettings,
    more: Mapping[str, float],
    ends: float | None,
) -> tuple[Walked, ...]:
    land, names = await tables.together(graphs.at(tables, question.moment), graphs.names.at(tables))
    found = _named(names.whole, question.text, settings.walk) or await _near(tables, question, settings.walk)
    for entity, score in more.items():
        found[entity] = max(found.get(entity, 0.0), score)
    seeds = _seeds(land, found, settings.walk)
    if not len(seeds.nodes):
        return ()
    longest = time.monotonic() + SHARE * settings.walk.recall_timeout_ms / 1000
    ends = None if ends is None else min(ends, longest)
    if tables.residents or len(land.graph.edges) <= SHORT_WALK:  # of tables in memory, nothing is read meanwhile
        return _walked(land, seeds, question, settings, ends)
    return await asyncio.to_thread(_walked, land, seeds, question, settings, ends)


def _named(names: NameIndex, query: str, settings: WalkSettings) -> dict[str, float]:
    """The entities that words of the query name, each with its best score (S2-27)."""
    best: dict[str, float] = {}
    for word in query_words(query):
        found = names.find(word, 2 * settings.seeds)
        for place, score in zip(found.places.tolist(), found.scores.tolist(), strict=True):
            entity = names.listed[place]
            best[entity] = max(best.get(entity, 0.0), score)
    return best


async def _near(tables: Tables, question: Question, settings: WalkSettings) -> dict[str, float]:
    """Where words name nobody, the entities nearest in meaning; nobody where that fails."""
    if not question.has_meaning:
        return {}
    try:
        return await near_entities(tables, question.vector, settings.seeds)
    except (RuntimeError, ValueError, OSError) as error:
        log.warning("no seeds by meaning: %s", error)
        return {}


def _seeds(land: Landscape, found: Mapping[str, float], settings: WalkSettings) -> Seeds:
    known = {land.graph.place_of[entity]: score for entity, score in found.items() if entity in land.graph.place_of}
    nodes, scores = np.array([*known], np.int32), np.array([*known.values()], np.float64)
    return choose_seeds(land.graph, nodes, scores, land.communities, settings)


def _walked(
    land: Landscape, seeds: Seeds, question: Question, settings: RecallSettings, ends: float | None
) -> tuple[Walked, ...]:
    moment, limit = question.moment, question.k
    ground = land.ground(question.scope, with_similar=settings.walk.similar_links)
    at = moment.as_of or moment.known_as_of or moment.now
    wide = limit if question.about is None else len(land.graph.edges)
    walk = _WALKS[settings.graph](
        ground, seeds, settings.walk, at, wide, lambda: ends is not None and time.monotonic() > ends
    )
    return _told(land.graph, walk, question)[:limit]


def _told(graph: Graph, walk: Walk, question: Question) -> tuple[Walked, ...]:
    """What was found, of what the question is about."""
    facts, seeds = graph.edges["id"][walk.edges], graph.ids[walk.seeds]
    rows = zip(facts, np.round(walk.scores, 9).tolist(), walk.hops.tolist(), seeds, strict=True)
    found = tuple(Walked(*row) for row in rows)
    if question.about is None:
        return found
    about = graph.places(sorted(question.about))
    is_asked = np.isin(graph.source[walk.edges], about) | np.isin(graph.target[walk.edges], about)
    return tuple(compress(found, is_asked))
