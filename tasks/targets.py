"""Targets: the entity that a person or an agent means when they state something about it by name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

import polars as pl

from slowwave import frames
from slowwave.errors import UnknownName, UnusableInput
from slowwave.labels import TYPES, canonical_type
from slowwave.reading.given_names import name_to_store
from slowwave.reading.mentions import RAW_MENTIONS, mentions_in
from slowwave.reading.resolution import LIKENESS, Resolution, finish, plan_resolution, revivals, revived
from slowwave.settings import ResolveSettings
from slowwave.text import normalise_name
from storage.snapshots import Reading


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The entity, whether it is to be made, and the rows to store for it."""

    id: str
    name: str
    is_new: bool
    resolution: Resolution


def find_target(
    reading: Reading,
    name: str,
    entity_type: str | None,
    now: datetime,
    settings: ResolveSettings,
    *,
    create: bool = False,
) -> Target:
    """The entity of exactly that name or alias, or with `create` a new one of that type (concept if none is given).

    A name that is known under one other type means that entity, unless types are kept apart (S2-09). Raises
    `UnusableInput` where the name is unknown, means several entities, or cannot be a name.
    """
    kind = _type_named(entity_type)
    known = _known(reading, name)
    same = known.filter(pl.col("entity_type") == kind) if kind else known
    if same.is_empty() and len(known) == 1 and not settings.type_strict:
        same = known
    if len(same) > 1 and not kind:
        types = ", ".join(sorted(same["entity_type"].unique()))
        raise UnusableInput(f"Several entities are called {name!r}: {types}.", "Say which with --type.")
    if len(same):
        return _met(same.sort("id").head(1), now)
    if not create:
        raise _unknown(reading, name)
    return new_target(name, entity_type, now)


def _type_named(entity_type: str | None) -> str | None:
    """The type as it is stored, whichever word names it (C8); raises for one that does not exist."""
    kind = None if entity_type is None else canonical_type(entity_type)
    if entity_type is not None and kind is None:
        raise UnknownName("entity type", entity_type, TYPES)
    return kind


def _mention(name: str, entity_type: str, now: datetime) -> pl.DataFrame:
    row = {"window": 0, "name": name, "entity_type": entity_type, "summary": None, "seen_at": now}
    return pl.DataFrame([row], schema=RAW_MENTIONS)


def _known(reading: Reading, name: str) -> pl.DataFrame:
    wanted = [normalise_name(name)]
    aliased = reading.by_ids("entity_aliases", wanted, ["entity_id"], key="alias_name")["entity_id"]
    own = reading.by_ids("entities", wanted, ["id"], key="canonical_name")["id"]
    return reading.by_ids("entities", pl.concat([aliased, own]), where="merged_into IS NULL")


def _unknown(reading: Reading, name: str) -> UnusableInput:
    names = reading.frame("entities", columns=["canonical_name"])["canonical_name"].to_list()
    near = get_close_matches(normalise_name(name), names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UnusableInput(f"Unknown entity {name!r}.{hint}", "Make it with --create, and say what it is with --type.")


def _met(row: pl.DataFrame, now: datetime) -> Target:
    """A known entity, seen now; an archived one is active again."""
    seen = revived(row).with_columns(last_seen_at=pl.max_horizontal("last_seen_at", pl.lit(now, dtype=frames.TIME)))
    entity = row.row(0, named=True)
    names = {"window": [0], "canonical_name": [normalise_name(entity["name"])], "entity_id": [entity["id"]]}
    told = pl.DataFrame({**names, "entity_type": [entity["entity_type"]]})
    vectorless = frames.empty({"id": frames.TEXT, "text": frames.TEXT})
    resolution = Resolution(told, seen, frames.empty(frames.ALIASES), vectorless, revivals(row, now), {})
    return Target(entity["id"], entity["name"], False, resolution)


def new_target(name: str, entity_type: str | None, now: datetime) -> Target:
    """A new entity, a concept if no type is given, under the rules that hold for names in messages."""
    kind = _type_named(entity_type) or "concept"
    mentions = mentions_in(_mention(name_to_store(name), kind, now))
    nothing = frames.empty(frames.ENTITIES), frames.empty(frames.ALIASES), pl.DataFrame(schema=LIKENESS)
    resolution = finish(plan_resolution(mentions, *nothing, ResolveSettings()), {}, now)
    entity = resolution.entities.row(0, named=True)
    return Target(entity["id"], entity["name"], True, resolution)
