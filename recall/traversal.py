"""What is around an entity: breadth first along relations that hold, in either direction (S2-37)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave.moments import Moment
from storage.snapshots import Snapshot

from .entities import Entity
from .facts import ALL, HOT, SHOWN, held, shown, stored
from .records import RecalledFact

_RELATIONS = "kind = 'relation'"  # structure and similarity are no knowledge (T33)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One entity and how many relations it is away."""

    id: str
    name: str
    entity_type: str
    depth: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The entities that were reached, nearest first, and the facts that lead to them, nearest first."""

    entities: tuple[Neighbour, ...]
    facts: tuple[RecalledFact, ...]


def neighbours_of(snapshot: Snapshot, entity: Entity, moment: Moment, hops: int) -> Neighbourhood:
    """Everything at most `hops` relations away that held at the moment; each entity and each fact once."""
    depths, ring = {entity.id: 0}, [entity.id]
    facts = stored(snapshot, HOT, []).head(0)
    for depth in range(1, hops + 1):
        met = _touching(snapshot, ring, moment).join(facts.select("id"), on="id", how="anti", maintain_order="left")
        facts = pl.concat([facts, met])
        ring = sorted({*met["subject_id"].drop_nulls(), *met["object_id"].drop_nulls()} - depths.keys())
        depths |= dict.fromkeys(ring, depth)
        if not ring:
            break
    return Neighbourhood(_named(snapshot, depths), shown(snapshot, facts, moment))


def _touching(snapshot: Snapshot, ids: list[str], moment: Moment) -> pl.DataFrame:
    """Relations that hold and have one of the entities as an end, the newest first."""
    where = f"{_RELATIONS} AND ({moment.where})"
    rows = stored(snapshot, ALL if moment.is_past else HOT, ids, ("subject_id", "object_id"), SHOWN, where)
    return held(snapshot, rows, moment).sort("valid_from", "id", descending=[True, False], nulls_last=True)


def _named(snapshot: Snapshot, depths: dict[str, int]) -> tuple[Neighbour, ...]:
    rows = snapshot.by_ids("entities", list(depths), ["id", "name", "entity_type"])
    found = [Neighbour(id_, name, kind, depths[id_]) for id_, name, kind in rows.iter_rows()]
    return tuple(sorted(found, key=lambda one: (one.depth, one.name, one.id)))
