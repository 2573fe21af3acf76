"""Entities by name, with their other names and how much is known of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

import polars as pl

from slowwave.errors import UnknownName
from slowwave.text import normalise_name
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Entity:
    """One named thing as a person sees it; `facts` counts the live facts it takes part in."""

    id: str
    name: str
    entity_type: str
    summary: str | None
    aliases: tuple[str, ...]
    facts: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None


def list_entities(snapshot: Snapshot, now: datetime, limit: int, entity_type: str | None) -> tuple[int, list[Entity]]:
    """How many there are, and those with the most live facts."""
    where = f"entity_type = {quoted(entity_type)}" if entity_type else None
    entities = snapshot.frame("entities", where)
    if entities.is_empty() and entity_type:
        known = snapshot.frame("entities", columns=["entity_type"])["entity_type"].unique().to_list()
        raise UnknownName("entity type", entity_type, known)
    counted = entities.join(_fact_counts(snapshot, now), on="id", how="left").with_columns(pl.col("facts").fill_null(0))
    top = counted.sort("facts", "last_seen_at", "name", descending=[True, True, False], nulls_last=True).head(limit)
    return len(entities), _with_aliases(snapshot, top)


def find_entity(snapshot: Snapshot, now: datetime, name: str) -> Entity:
    """The entity of that name or alias, exactly or as the only one that begins with it (COMMANDS S2)."""
    wanted = normalise_name(name)
    ids = _named(snapshot, f"= {quoted(wanted)}")
    if not ids and wanted:
        ids = _named(snapshot, f"LIKE {quoted(_pattern(wanted))}")
        if len(ids) > 1:
            raise UnknownName("entity (several begin like that)", name, _names(snapshot, ids))
    if not ids:
        near = snapshot.frame("entities", columns=["canonical_name"])["canonical_name"].to_list()
        raise UnknownName("entity", name, get_close_matches(wanted, near, n=5, cutoff=0.5) or sorted(near)[:50])
    rows = snapshot.by_ids("entities", ids).join(_fact_counts(snapshot, now), on="id", how="left")
    best = rows.with_columns(pl.col("facts").fill_null(0)).sort("facts", "id", descending=[True, False]).head(1)
    return _with_aliases(snapshot, best)[0]


def _pattern(wanted: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", wanted) + "%"


def _names(snapshot: Snapshot, ids: list[str]) -> list[str]:
    return snapshot.by_ids("entities", ids, ["name"])["name"].to_list()


def _named(snapshot: Snapshot, condition: str) -> list[str]:
    aliases = snapshot.frame("entity_aliases", f"alias_name {condition}", ["entity_id"])["entity_id"].to_list()
    own = snapshot.frame("entities", f"canonical_name {condition}", ["id"])["id"].to_list()
    return sorted({*aliases, *own})


def _fact_counts(snapshot: Snapshot, now: datetime) -> pl.DataFrame:
    live = snapshot.frame("facts", live_sql(now), ["id", "subject_id", "object_id"])
    sides = pl.concat([live.select(fact="id", id="subject_id"), live.select(fact="id", id="object_id")])
    return sides.drop_nulls("id").unique().group_by("id").agg(facts=pl.len())


def _with_aliases(snapshot: Snapshot, rows: pl.DataFrame) -> list[Entity]:
    aliases = snapshot.by_ids("entity_aliases", rows["id"], ["entity_id", "alias_name"], key="entity_id")
    names = dict(aliases.group_by("entity_id").agg(pl.col("alias_name").unique().sort()).iter_rows())
    return [
        Entity(
            row["id"],
            row["name"],
            row["entity_type"],
            row["summary"],
            tuple(n for n in names.get(row["id"], []) if n not in (row["canonical_name"], normalise_name(row["name"]))),
            row["facts"],
            row["first_seen_at"],
            row["last_seen_at"],
        )
        for row in rows.to_dicts()
    ]
