"""The data of the atlas: a memory at one commit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from slowwave.common.settings import AspectSettings
from slowwave.common.validity import live_sql
from slowwave.graph.community_detection import places_of
from slowwave.graph.map_layout import lay_out
from storage.snapshots import Snapshot
from storage.store import Store

from .aspects import aspects
from .atlas_facts import AtlasLimits, Chosen, atlas_facts, chosen_facts
from .communities import MEMBERS, summarised_communities

# The whole: one memory as plain data, in columns, bounded, with the places of its entities on the map.


FORMAT = 1
DAY = 86_400
LEAST_REACH = (30 * 365 * DAY, 3 * 365 * DAY)
"""Seconds before and after the middle half of all changes that the axis of time always has room for."""
ROOM = 0.5
"""How much the room of an entity on the map grows with the root of its degree."""


def atlas_data(
    store: Store,
    now: datetime,
    limits: AtlasLimits | None = None,
    scoring: AspectSettings | None = None,
) -> dict[str, Any]:
    """The newest state of a store: `entities` and `facts` in columns of equal length, the rest as lists of rows.

    Entities are those with the most live relations; facts point at them by position, `s` and `t` (null where a fact is
    about one entity alone). Times are whole seconds since 1970. `live` says what holds at `now`. `scoring`
    says how aspects are scored.
    """
    limits, snapshot = limits or AtlasLimits(), store.snapshot()
    chosen = chosen_facts(snapshot, now, limits)
    communities, member_of = _communities(snapshot, chosen.entities, now)
    return {
        "format": FORMAT,
        "namespace": store.namespace,
        "commit": snapshot.sequence,
        "now": int(now.timestamp()),
        "reach": _reach(chosen.changes.to_numpy(), int(now.timestamp())),
        "counts": _counts(snapshot, now),
        "left_out": chosen.left_out,
        "entities": _entities(snapshot, chosen, member_of, limits),
        "facts": atlas_facts(snapshot, chosen, limits),
        "communities": communities,
        "aspects": _aspects(snapshot, now, scoring or AspectSettings()),
    }


def _reach(changes: np.ndarray[Any, np.dtype[np.int64]], now: int) -> tuple[int, int]:
    """The first and the last second of the axis of time: of all changes but those that lie far off, which are slips.

    Far off is what lies further from the middle half of the changes than three times its width, and than `LEAST_REACH`.
    """
    if not len(changes):
        return now - DAY, now
    low, high = np.quantile(changes, (0.25, 0.75))
    before, after = (max(3 * (high - low), least) for least in LEAST_REACH)
    usual = changes[(changes >= low - before) & (changes <= max(high, now) + after)]
    last = max(now, int(usual.max(initial=now)))
    return min(int(usual.min(initial=now)), last - DAY), last


def _counts(snapshot: Snapshot, now: datetime) -> dict[str, int]:
    """Of the whole store, whatever is left out."""
    live = live_sql(now)
    return {
        "entities": snapshot.count("entities", "(status IS NULL OR status != 'archived') AND merged_into IS NULL"),
        "facts": snapshot.count("facts", live),
        "relations": snapshot.count("facts", f"{live} AND kind = 'relation' AND object_id IS NOT NULL"),
        "ended": snapshot.count("facts", "status = 'superseded'") + snapshot.count("facts_archive"),
        "messages": snapshot.count("messages"),
        "communities": snapshot.count("communities"),
        "commits": snapshot.sequence,
    }


def _entities(snapshot: Snapshot, chosen: Chosen, member_of: pl.Series, limits: AtlasLimits) -> dict[str, list[Any]]:
    """One column per property, in the order of the chosen entities."""
    ids = chosen.entities["id"]
    columns = ["id", "name", "entity_type", "status", "summary", "canonical_name"]
    stored = snapshot.by_ids("entities", ids, columns)
    aliases = snapshot.by_ids("entity_aliases", ids, ["entity_id", "alias_name"], key="entity_id")
    other = aliases.group_by(id="entity_id").agg(aliases=pl.col("alias_name").unique().sort())
    rows = chosen.entities.join(stored, on="id", how="left", maintain_order="left")
    rows = rows.join(other, on="id", how="left", maintain_order="left")
    own = pl.concat_list("canonical_name", pl.col("name").str.to_lowercase())
    places = _places(chosen, member_of)
    return {
        "id": ids.to_list(),
        "name": rows["name"].fill_null("").str.slice(0, limits.text).to_list(),
        "type": rows["entity_type"].fill_null("concept").to_list(),
        "archived": (rows["status"].fill_null("active") == "archived").cast(pl.Int8).to_list(),
        "degree": rows["degree"].to_list(),
        "summary": rows["summary"].str.slice(0, limits.text).to_list(),
        "aliases": rows.select(pl.col("aliases").list.set_difference(own).list.sort().list.head(limits.aliases))[
            "aliases"
        ]
        .fill_null([])
        .to_list(),
        "community": member_of.to_list(),
        "x": np.round(places[:, 0], 2).tolist(),
        "y": np.round(places[:, 1], 2).tolist(),
    }


def _places(chosen: Chosen, member_of: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    edges = chosen.facts.filter(pl.col("t").is_not_null()).select("s", "t").unique(maintain_order=True)
    source, target = (edges[end].cast(pl.Int32).to_numpy() for end in ("s", "t"))
    room = 1.0 + ROOM * np.sqrt(chosen.entities["degree"].to_numpy())
    return lay_out(len(room), source, target, member_of.cast(pl.Int32).to_numpy(), room)


def _communities(snapshot: Snapshot, entities: pl.DataFrame, now: datetime) -> tuple[list[dict[str, Any]], pl.Series]:
    """Those with members among the entities, largest first; and for each entity its place among them, or -1."""
    places = places_of(snapshot.frame("communities", columns=MEMBERS))
    belongs = entities.select("id").join(places, on="id", how="left", maintain_order="left")
    shown = belongs.drop_nulls("community_id").group_by(id="community_id").agg(shown=pl.len())
    summarised = summarised_communities(snapshot, shown["id"], now).with_columns(size=pl.col("member_ids").list.len())
    rows = summarised.select("id", "name", "summary", "is_outdated", "facts", "size").join(shown, on="id")
    listed = rows.sort("shown", "size", "id", descending=[True, True, False])
    order = listed.select(community_id="id").with_row_index("place")
    placed = belongs.join(order, on="community_id", how="left", maintain_order="left")
    return listed.to_dicts(), placed["place"].cast(pl.Int32).fill_null(-1)


def _aspects(snapshot: Snapshot, now: datetime, settings: AspectSettings) -> list[dict[str, Any]]:
    """All fourteen with their scores, counted from the facts that are live now."""
    return [
        {
            "slug": row.aspect.slug,
            "name": row.aspect.display_name,
            "category": row.aspect.category,
            "score": round(row.score, 1),
            "facts": row.facts,
            "entities": row.entities,
        }
        for row in aspects(snapshot, now, settings)
    ]
