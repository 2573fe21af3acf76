"""What is around an entity, and how two are related: along relations that hold, in either direction (S2-37)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowwave.answers import Entity, Neighbour, Neighbourhood, Path, RecalledFact
from slowwave.errors import UnknownName
from slowwave.graph.graph import EDGE_ALIASES, EDGE_TYPES, Graph, Offsets, Places
from slowwave.graph.paths import UNREACHED, Rings, rings, shortest_path
from slowwave.moments import Moment
from slowwave.splitting.structure import HIERARCHICAL
from slowwave.splitting.structure import KIND as STRUCTURAL
from storage.snapshots import Snapshot

from .facts import ALL, HOT, held, shown, stored
from .graphs import Landscape

FARTHEST = 6  # relations of a path, unless asked otherwise


def neighbours_of(
    snapshot: Snapshot,
    land: Landscape,
    entity: Entity,
    moment: Moment,
    hops: int,
    edge_types: Sequence[str] = (),
    limit: int | None = None,
) -> Neighbourhood:
    """Everything at most `hops` relations away that held at the moment; each entity and each fact once.

    With `limit`, at most so many facts, the nearest and then the newest, and the entities between which they are.
    `edge_types` as from `known_types`; none: all. What the entity is a part of, and what is a part of it, is told last;
    no step leads on from there (T33).
    """
    around = _related(snapshot, land, entity, moment, hops, edge_types, limit)
    left = None if limit is None else limit - len(around.facts)
    parts = _parts(snapshot, entity, moment)[:left] if not edge_types or HIERARCHICAL in edge_types else ()
    known = {one.id for one in around.entities}
    fresh = {fact.object_id: 1 for fact in parts if fact.object_id and fact.object_id not in known}
    return Neighbourhood(_in_order((*around.entities, *_named(snapshot, fresh))), (*around.facts, *parts))


def _parts(snapshot: Snapshot, entity: Entity, moment: Moment) -> tuple[RecalledFact, ...]:
    """The facts of structure that begin at the entity."""
    tables = ALL if moment.is_past else HOT
    rows = stored(snapshot, tables, [entity.id], ("subject_id",), where=f"kind = '{STRUCTURAL}'")
    return shown(snapshot, held(snapshot, rows, moment).sort("object_id", "id"), moment)


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
        return Neighbourhood(_named(snapshot, {entity.id: 0}), ())
    found = rings(land.ground(), int(start[0]), hops, edge_types)
    edges = found.edges[_nearest(graph, found)][:limit]
    nodes = np.unique(np.concatenate((start, graph.source[edges], graph.target[edges])))
    reached = np.flatnonzero(found.depths != UNREACHED) if limit is None else nodes
    depths = dict(zip(graph.ids.gather(reached), found.depths[reached].tolist(), strict=True))
    return Neighbourhood(_named(snapshot, depths), _facts(snapshot, graph, edges, moment))


def path_between(
    snapshot: Snapshot, land: Landscape, a: Entity, b: Entity, moment: Moment, hops: int, edge_types: Sequence[str] = ()
) -> Path | None:
    """The fewest relations that lead from one entity to another, of ways with as few the surest.

    None where it would take more than `hops`.
    """
    graph, ends = land.graph, land.graph.places([a.id, b.id])
    if a.id == b.id:
        return Path(_named(snapshot, {a.id: 0}), ())
    edges = shortest_path(land.ground(), int(ends[0]), int(ends[1]), hops, edge_types) if len(ends) == 2 else None
    if edges is None:
        return None
    passed = [int(ends[0])]
    for edge in edges:
        passed.append(int(graph.target[edge] if graph.source[edge] == passed[-1] else graph.source[edge]))
    depths = {id_: depth for depth, id_ in enumerate(graph.ids.gather(passed))}
    return Path(_named(snapshot, depths), _facts(snapshot, graph, edges, moment))


def known_types(asked: Sequence[str]) -> tuple[str, ...]:
    """Types of relations as they are stored; raises `UnknownName`."""
    named = [EDGE_ALIASES.get(name, name) for name in (one.strip().lower() for one in asked)]
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
    order = graph.edges["id"].gather(edges).to_frame()
    rows = held(snapshot, stored(snapshot, ALL if moment.is_past else HOT, order["id"]), moment)
    return shown(snapshot, order.join(rows, on="id", maintain_order="left"), moment)


def _named(snapshot: Snapshot, depths: dict[str, int]) -> tuple[Neighbour, ...]:
    rows = snapshot.by_ids("entities", list(depths), ["id", "name", "entity_type"])
    return _in_order(Neighbour(id_, name, kind, depths[id_]) for id_, name, kind in rows.iter_rows())


def _in_order(found: Iterable[Neighbour]) -> tuple[Neighbour, ...]:
    return tuple(sorted(found, key=lambda one: (one.depth, one.name, one.id)))
