"""Communities as they are shown: what belongs together, what it is called, and what it is about (S2-46 … S2-49)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from storage.snapshots import Snapshot

from .entities import is_listed

_COLUMNS = ["id", "name", "summary", "summarised_by", "entity_ids", "facts", "aspects"]


@dataclass(frozen=True, slots=True)
class Member:
    """One entity of a community."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that are more related to each other than to others, most connected first.

    `facts` counts the relations within, `aspects` how many of them touch which aspect. The summary is empty where
    nobody has told it yet; `summarised_by` is `model` or `rule`.
    """

    id: str
    name: str
    summary: str
    summarised_by: str
    size: int
    facts: int
    aspects: dict[str, int]
    members: tuple[Member, ...]

    def as_json(self) -> dict[str, Any]:
        """One document."""
        return asdict(self)


def communities(snapshot: Snapshot, limit: int = 50) -> tuple[int, tuple[Community, ...]]:
    """How many communities there are, and the largest."""
    sized = snapshot.frame("communities", columns=["id", "entity_ids", "facts"]).select(
        "id", "facts", size=pl.col("entity_ids").list.len()
    )
    first = sized.sort("size", "facts", "id", descending=[True, True, False], nulls_last=True).head(limit)
    return len(sized), _shown(snapshot, first)


def community_of(snapshot: Snapshot, entity: str) -> Community | None:
    """The community that an entity (id) belongs to; None where it belongs to none."""
    own = snapshot.by_ids("entity_communities", [entity], ["community_id"]).select(id="community_id")
    found = _shown(snapshot, own)
    return found[0] if found else None


def _shown(snapshot: Snapshot, chosen: pl.DataFrame) -> tuple[Community, ...]:
    """The communities with these ids, in their order, with their members that were neither archived nor merged."""
    rows = chosen.select("id").join(
        snapshot.by_ids("communities", chosen["id"], _COLUMNS), on="id", maintain_order="left"
    )
    ids = rows["entity_ids"].explode().drop_nulls()
    names = snapshot.by_ids("entities", ids, ["id", "name", "status"]).filter(is_listed())
    called = dict(names.select("id", "name").iter_rows())
    made = []
    for row in rows.iter_rows(named=True):
        members = tuple(Member(id_, called[id_]) for id_ in row["entity_ids"] or () if id_ in called)
        aspects = json.loads(row["aspects"] or "{}")
        told = (row["name"] or "", row["summary"] or "", row["summarised_by"] or "")
        made.append(Community(row["id"], *told, len(members), row["facts"] or 0, aspects, members))
    return tuple(made)
