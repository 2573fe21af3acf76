"""The data of the atlas: a memory at one commit, with its nights and its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from slowwave.graph.community_detection import places_of
from slowwave.graph.map_layout import lay_out
from slowwave.review.report_records import ReportSection, counts, sections, verdict
from slowwave.settings import AspectSettings, ReportSettings
from slowwave.validity import live_sql
from storage.snapshots import Snapshot
from storage.store import Store

from .aspects import aspects
from .atlas_facts import AtlasLimits, Chosen, atlas_facts, chosen_facts
from .communities import MEMBERS, summarised_communities
from .report import consolidation_report

# The consolidation report in the atlas: what wants a person's eye, each finding beside its entity on the map.


_TELLING = ("type", "observation", "what", "the nearest pair")
"""Columns whose cells say by themselves what they are."""


def atlas_report(
    snapshot: Snapshot, chosen: Chosen, now: datetime, settings: ReportSettings, limits: AtlasLimits
) -> dict[str, Any]:
    """`counts` in words, `verdict` as a sentence, and `sections` with the first findings of each.

    A finding is (place of the entity, -1 if it is not shown; its name; the rest in words); `count` is of all findings.
    """
    report = consolidation_report(snapshot, settings, now).as_json()
    ids = chosen.entities["id"]
    places = dict(zip(ids, range(len(ids)), strict=True))
    return {
        "counts": counts(report),
        "verdict": verdict(report),
        "sections": [
            {
                "title": section.title,
                "count": section.count,
                "following": section.following,
                "findings": list(_findings(section, places)),
            }
            for section in sections(report, limits.findings)
        ],
    }


def _findings(section: ReportSection, places: Mapping[str, int]) -> Iterator[tuple[int, str, str]]:
    for entity, name, cells in section.findings():
        rest = ", ".join(_words(column, cell) for column, cell in cells if column != "id")
        yield places.get(entity or "", -1), name, rest


def _words(column: str, cell: Any) -> str:
    return str(cell) if column in _TELLING else f"{column} {cell}"


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
    report: ReportSettings | None = None,
    scoring: AspectSettings | None = None,
) -> dict[str, Any]:
    """The newest state of a store: `entities` and `facts` in columns of equal length, the rest as lists of rows.

    Entities are those with the most live relations; facts point at them by position, `s` and `t` (null where a fact is
    about one entity alone). Times are whole seconds since 1970. `live` says what holds at `now`. `report` is the
    consolidation report by these settings, `scoring` how aspects are scored.
    """
    limits, snapshot = limits or AtlasLimits(), store.snapshot()
    chosen = chosen_facts(snapshot, now, limits)
    communities, member_of = _communities(snapshot, chosen.entities, now)
    runs, runs_left = atlas_runs(snapshot, chosen, limits)
    return {
        "format": FORMAT,
        "namespace": store.namespace,
        "commit": snapshot.sequence,
        "now": int(now.timestamp()),
        "reach": _reach(chosen.changes.to_numpy(), int(now.timestamp())),
        "counts": _counts(snapshot, now),
        "left_out": {**chosen.left_out, "runs": runs_left},
        "entities": _entities(snapshot, chosen, member_of, limits),
        "facts": atlas_facts(snapshot, chosen, limits),
        "communities": communities,
        "aspects": _aspects(snapshot, now, scoring or AspectSettings()),
        "runs": runs,
        "report": atlas_report(snapshot, chosen, now, report or ReportSettings(), limits),
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


# Runs in the atlas: the newest, with what each changed and why.


_COLUMNS = ("id", "flow", "state", "parent_id", "started_at", "ended_at", "usd")
_PLAIN = ("create", "reassert")
"""Actions that add nothing to the facts themselves: others come first."""


def atlas_runs(snapshot: Snapshot, chosen: Chosen, limits: AtlasLimits) -> tuple[list[dict[str, Any]], int]:
    """The newest runs, newest first, and how many others there are.

    `changes` counts decisions by action, `reasons` are a few of them (action, place of the fact or null, reason),
    `touched` places of entities.
    """
    rows = snapshot.frame("runs", columns=_COLUMNS).sort("started_at", "id", descending=True)
    newest = rows.head(limits.runs)
    columns = ["run_id", "action", "subject_id", "ids_out", "reason", "at", "id"]
    made = snapshot.by_ids("decisions", newest["id"], columns, key="run_id").sort("run_id", "at", "id")
    changes = _changes(made)
    touched = _touched(made, chosen, limits.touched)
    reasons = _reasons(made, chosen, limits)
    shown = [
        {
            "id": row["id"],
            "flow": row["flow"] or "",
            "state": row["state"] or "",
            "parent": row["parent_id"],
            "started": _seconds(row["started_at"]),
            "ended": _seconds(row["ended_at"]),
            "usd": round(row["usd"] or 0.0, 4),
            "changes": changes.get(row["id"], {}),
            "touched": touched.get(row["id"], []),
            "reasons": reasons.get(row["id"], []),
        }
        for row in newest.to_dicts()
    ]
    return shown, len(rows) - len(newest)


def _seconds(at: Any) -> int | None:
    return None if at is None else int(at.timestamp())


def _changes(made: pl.DataFrame) -> dict[str, dict[str, int]]:
    """By run: how many decisions of each action, most frequent first."""
    counts = made.group_by("run_id", "action").len().sort("run_id", "len", "action", descending=[False, True, False])
    found: dict[str, dict[str, int]] = {}
    for run, action, count in counts.iter_rows():
        found.setdefault(run, {})[action] = count
    return found


def _touched(made: pl.DataFrame, chosen: Chosen, limit: int) -> dict[str, list[int]]:
    """By run: the entities that it decided about, or about whose facts it did; most related first."""
    rows = pl.concat(
        [
            made.select("run_id", id="subject_id"),
            made.select("run_id", id="ids_out").explode("id").drop_nulls("id"),
        ]
    ).unique()
    facts = pl.concat([chosen.facts.select("id", place=end) for end in ("s", "t")]).drop_nulls("place")
    entities = chosen.entities.select("id").with_row_index("place")
    places = pl.concat([facts, entities.select("id", pl.col("place").cast(facts["place"].dtype))])
    met = rows.join(places, on="id").select("run_id", "place").unique().sort("run_id", "place")
    few = met.group_by("run_id", maintain_order=True).agg(pl.col("place").head(limit))
    return dict(few.iter_rows())


def _reasons(made: pl.DataFrame, chosen: Chosen, limits: AtlasLimits) -> dict[str, list[list[Any]]]:
    """By run: a few reasons, each once, those of rarer actions first."""
    index = chosen.facts.select(subject_id="id").with_row_index("place")
    reasons = made.with_columns(
        is_plain=pl.col("action").is_in(_PLAIN),
        nth=pl.int_range(pl.len()).over("run_id", "action"),
        reason=pl.col("reason").fill_null("").str.slice(0, limits.quote),
    )
    once = reasons.unique(["run_id", "action", "reason"], keep="first", maintain_order=True)
    few = once.sort("run_id", "is_plain", "nth", "action", "id").filter(
        pl.int_range(pl.len()).over("run_id") < limits.reasons
    )
    placed = few.join(index, on="subject_id", how="left", maintain_order="left")
    found: dict[str, list[list[Any]]] = {}
    for run, action, place, reason in placed.select("run_id", "action", "place", "reason").iter_rows():
        found.setdefault(run, []).append([action, place, reason])
    return found
