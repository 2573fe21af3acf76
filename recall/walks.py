"""Walks from a question: the entities that it names, and the relations that lead on from there (S2-27, S2-44)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import compress, islice, starmap
from typing import TYPE_CHECKING

import numpy as np

from slowwave.common.errors import UnknownName
from slowwave.common.settings import RecallSettings, WalkSettings
from slowwave.common.types import Entity, Neighbour, Neighbourhood, RecalledFact
from slowwave.common.validity import Moment
from slowwave.graph.graph import EDGE_ALIASES, EDGE_TYPES, HIERARCHICAL, STRUCTURAL, Graph, Offsets, Places
from slowwave.graph.name_index import choose_seeds, query_words
from slowwave.graph.walks import UNREACHED, Rings, Seeds, breadth_first, rings, spread
from storage.snapshots import Snapshot

from .entities import near_entities
from .facts import ALL, HOT, shown, stored, valid_rows
from .graphs import Graphs, Landscape
from .order import Step

if TYPE_CHECKING:
    from slowwave.graph.name_index import NameIndex
    from storage.warm import Tables

    from .question import Question

log = logging.getLogger("slowwave")

SHARE = 0.1
"""Of the time of a recall that a walk itself may take, once the graph is read: 500 ms, as in the source."""
SHORT_WALK = 20_000
"""Relations up to which a walk takes less time than it takes to hand it to another thread."""
WALKED_FACTS = 3_000_000
"""Facts of a memory beyond which no relations are followed: each would be read into memory, some 0.8 kB a fact."""
_WALKS = {"bfs": breadth_first, "spread": spread}


async def walked(
    tables: Tables,
    graphs: Graphs,
    question: Question,
    settings: RecallSettings,
    ends: float | None = None,
) -> Mapping[str, Step]:
    """The facts that a walk from the entities which the question names came by, best first; only those that may answer.

    At most the requested number. `tables` holds GRAPH_TABLES. Empty with `graph` none, in a memory of more than
    `WALKED_FACTS` facts, where the question names nothing that is known, where the walk takes longer than SHARE of
    `recall_timeout_ms`, and where reading what it needs goes on after it `ends`, by the monotonic clock (S2-44).
    """
    if settings.graph == "none":
        return {}
    try:
        async with asyncio.timeout_at(ends) as clock:
            return await _found(tables, graphs, question, settings, ends)
    except TimeoutError:
        if not clock.expired():
            raise
        log.warning("recall follows no relations this time: what is read for it took too long")
        return {}


@cache
def _warn_of_no_walks() -> None:
    """Once in a process."""
    log.warning("recall follows no relations in memories of more than %s facts", f"{WALKED_FACTS:,}")


async def _found(
    tables: Tables,
    graphs: Graphs,
    question: Question,
    settings: RecallSettings,
    ends: float | None,
) -> Mapping[str, Step]:
    if not tables.residents and await (await tables.table("facts")).count_rows() > WALKED_FACTS:
        _warn_of_no_walks()
        return {}
    land, names = await tables.together(graphs.at(tables, question.moment), graphs.names.at(tables))
    found = _named(names.whole, question.text, settings.walk) or await _near(tables, question, settings.walk)
    known = {land.graph.place_of[name]: score for name, score in found.items() if name in land.graph.place_of}
    nodes, scores = np.array([*known], np.int32), np.array([*known.values()], np.float64)
    seeds = choose_seeds(land.graph, nodes, scores, land.communities, settings.walk)
    if not len(seeds.nodes):
        return {}
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
    """If no word names an entity, the entities nearest in meaning; none if that fails."""
    if not question.has_meaning:
        return {}
    try:
        return await near_entities(tables, question.vector, settings.seeds)
    except (RuntimeError, ValueError, OSError) as error:
        log.warning("no seeds by meaning: %s", error)
        return {}


def _walked(
    land: Landscape, seeds: Seeds, question: Question, settings: RecallSettings, ends: float | None
) -> Mapping[str, Step]:
    moment, limit = question.moment, question.k
    # Who is named together is found by the words that name them: along mentions a walk only brings what is nearby.
    ground = land.ground(question.scope, with_similar=settings.walk.similar_links, with_mentions=False)
    at = moment.as_of or moment.known_as_of or moment.now
    wide = limit if question.about is None else len(land.graph.edges)
    walk = _WALKS[settings.graph](
        ground, seeds, settings.walk, at, wide, lambda: ends is not None and time.monotonic() > ends
    )
    facts = land.graph.edges["id"][walk.edges]
    steps = zip(np.round(walk.scores, 9).tolist(), walk.hops.tolist(), strict=True)
    found: Iterable[tuple[str, Step]] = zip(facts, starmap(Step, steps), strict=True)
    if question.about is not None:
        about = land.graph.places(sorted(question.about))
        is_about = np.isin(land.graph.source[walk.edges], about) | np.isin(land.graph.target[walk.edges], about)
        found = compress(found, is_about)
    return dict(islice(found, limit))


# What is around an entity, and how two are related: along relations that hold, in either direction (S2-37).


def neighbours_of(
    snapshot: Snapshot,
    land: Landscape,
    entity: Entity,
    moment: Moment,
    hops: int,
    edge_types: Sequence[str] = (),
    limit: int | None = None,
) -> Neighbourhood:
    """Everything at most `hops` relations away that is valid at the moment; each entity and each fact once.

    With `limit`, at most so many facts, the nearest and then the newest, and the entities between which they are.
    `edge_types` as from `known_types`; none: all. What the entity is a part of, and what is a part of it, is told last;
    no step leads on from there (T33).
    """
    around = _related(snapshot, land, entity, moment, hops, edge_types, limit)
    left = None if limit is None else limit - len(around.facts)
    parts = _parts(snapshot, entity, moment)[:left] if not edge_types or HIERARCHICAL in edge_types else ()
    known = {one.id for one in around.entities}
    fresh = {fact.object_id: 1 for fact in parts if fact.object_id and fact.object_id not in known}
    return Neighbourhood(_in_order((*around.entities, *_entity_named(snapshot, fresh))), (*around.facts, *parts))


def _parts(snapshot: Snapshot, entity: Entity, moment: Moment) -> tuple[RecalledFact, ...]:
    """The facts of structure that begin at the entity."""
    tables = ALL if moment.is_past else HOT
    rows = stored(snapshot, tables, [entity.id], ("subject_id",), where=f"kind = '{STRUCTURAL}'")
    return shown(snapshot, valid_rows(snapshot, rows, moment).sort("object_id", "id"), moment)


def _related(
    snapshot: Snapshot,
    land: Landscape,
    entity: Entity,
    moment: Moment,
    hops: int,
    edge_types: Sequence[str],
    limit: int | None,
) -> Neighbourhood:
    graph, start = land.graph, land.graph.places([entity.id])
    if not len(start):
        return Neighbourhood(_entity_named(snapshot, {entity.id: 0}), ())
    found = rings(land.ground(), int(start[0]), hops, edge_types)
    edges = found.edges[_nearest(graph, found)][:limit]
    nodes = np.unique(np.concatenate((start, graph.source[edges], graph.target[edges])))
    reached = np.flatnonzero(found.depths != UNREACHED) if limit is None else nodes
    depths = dict(zip(graph.ids.gather(reached), found.depths[reached].tolist(), strict=True))
    return Neighbourhood(_entity_named(snapshot, depths), _facts(snapshot, graph, edges, moment))


def known_types(names: Sequence[str]) -> tuple[str, ...]:
    """Types of relations as they are stored; raises `UnknownName`."""
    named = [EDGE_ALIASES.get(name, name) for name in (one.strip().lower() for one in names)]
    for name in named:
        if name not in EDGE_TYPES:
            raise UnknownName("type of relation", name, EDGE_TYPES)
    return tuple(dict.fromkeys(named))


def _nearest(graph: Graph, found: Rings) -> Offsets:
    """Nearest first, then newest, then by id; those without a time last."""
    age = ~graph.since[found.edges]  # turns the order, and the least number into the greatest
    order: Offsets = np.lexsort((found.edges, age, found.distances))
    return order


def _facts(snapshot: Snapshot, graph: Graph, edges: Places, moment: Moment) -> tuple[RecalledFact, ...]:
    """These relations as facts, in their order."""
    order = graph.edges["id"].gather(edges).unique(maintain_order=True).to_frame()
    rows = valid_rows(snapshot, stored(snapshot, ALL if moment.is_past else HOT, order["id"]), moment)
    return shown(snapshot, order.join(rows, on="id", maintain_order="left"), moment)


def _entity_named(snapshot: Snapshot, depths: dict[str, int]) -> tuple[Neighbour, ...]:
    rows = snapshot.by_ids("entities", list(depths), ["id", "name", "entity_type"])
    return _in_order(Neighbour(id_, name, kind, depths[id_]) for id_, name, kind in rows.iter_rows())


def _in_order(found: Iterable[Neighbour]) -> tuple[Neighbour, ...]:
    return tuple(sorted(found, key=lambda one: (one.depth, one.name, one.id)))
