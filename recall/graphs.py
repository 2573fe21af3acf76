"""Graphs of a store: who is related to whom, read once per state and moment, then walked in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from slowwave.common import frames
from slowwave.common.validity import JUDGED, Moment, of_rows
from slowwave.graph.community_detection import places_of
from slowwave.graph.graph import NAMED_WITH, Graph, Places, build_graph, changed_graph, named_together
from slowwave.graph.name_index import NO_COMMUNITY
from slowwave.graph.walks import WalkGraph
from slowwave.lifecycle.usage_scores import evolved_weight
from storage.snapshots import Snapshot

from .entities import EntitySearch
from .facts import LEARNED, ends_of
from .groups import MEMBERS
from .loop import rows_where

if TYPE_CHECKING:
    from storage.row_steps import Change
    from storage.snapshots import Reading
    from storage.warm import Tables

_LIVE_TABLES = ("facts", "fact_usage", "entities", "entity_links", "communities")
_PAST_TABLES = (*_LIVE_TABLES, "facts_archive", "decisions")
GRAPH_TABLES = (*_PAST_TABLES, "entity_aliases")  # what a walk may read
_ENDS = ("subject_id", "object_id")
_RELATION = (
    "id", "kind", *_ENDS, "predicate", "edge_type", "confidence", "valid_from", "valid_to", "scope", "polarity",
    "mentions",
)  # fmt: skip
RELATIONS = "kind = 'relation' AND object_id IS NOT NULL AND (polarity IS NULL OR polarity != 'negated')"
"""Structure and similarity are no knowledge (T33), and who does not work somewhere is not related to it."""
TIES = f"(({RELATIONS}) OR array_length(mentions) > 0)"
"""Facts that tie entities together: by a relation, or by naming them."""
_ENTITY = {"id": pl.String(), "status": pl.String(), "merged_into": pl.String()}
_NO_FACTS = {name: frames.FACTS[name] for name in (*_RELATION, "status", "expired_at")}
_CHANGED = "action IN ('close', 'supersede', 'retract')"

Frames = Mapping[str, pl.DataFrame]


class Read(NamedTuple):
    """A query of one table: its columns and its filter."""

    columns: tuple[str, ...]
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Landscape:
    """A graph with what belongs to it: links between the same entities, (n,) communities (-1: none), (m,) scopes.

    `tied` are the facts that it was made of, `untied` entities that came since. It holds from `since` until before
    `until`.
    """

    graph: Graph
    similar: Graph
    communities: Places
    scopes: pl.Series
    tied: frozenset[str] = frozenset()
    untied: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    passed: frozenset[str] = frozenset()  # entities that were merged or archived, which an undo may bring back

    def ground(self, scope: str | None = None, *, with_similar: bool = False, with_mentions: bool = True) -> WalkGraph:
        """The graph of a walk: all edges, or those of one scope, or relations alone."""
        allowed = None if scope is None else (self.scopes == scope).fill_null(False).to_numpy()
        if not with_mentions:
            related = (self.graph.edges["predicate"] != NAMED_WITH).fill_null(True).to_numpy()
            allowed = related if allowed is None else allowed & related
        return WalkGraph(self.graph, allowed, self.similar if with_similar and len(self.similar.edges) else None)

    def holds_at(self, now: datetime) -> bool:
        """Whether the same facts are live at `now`."""
        return (self.since is None or self.since <= now) and (self.until is None or now < self.until)


def graph_of(reading: Reading, now: datetime) -> Graph:
    """The graph of what is live at `now`: relations weighted by use, between entities that are listed (S2-33)."""
    wanted = _live_reads()
    names = ("facts", "fact_usage", "entities")
    return _graph(_live({name: reading.frame(name, wanted[name].where, wanted[name].columns) for name in names}, now))


class Graphs:
    """The live landscape, kept until a commit changes what it was made of, and the index of `names` of entities."""

    def __init__(self) -> None:
        self.names = EntitySearch()
        self._live: tuple[tuple[int, ...], Landscape] | None = None
        self._loading = asyncio.Lock()

    async def at(self, tables: Tables, moment: Moment) -> Landscape:
        """The landscape of a moment at the versions of these open handles, which have GRAPH_TABLES."""
        async with self._loading:
            kept = self._kept(tables.versions, moment) or await self._followed(tables, moment)
            if kept is None:
                wanted = _reads(moment)
                parts = await asyncio.gather(*(rows_where(tables, name, *read) for name, read in wanted.items()))
                kept = await asyncio.to_thread(_landscape, dict(zip(wanted, parts, strict=True)), moment)
                self._keep(tables.versions, moment, kept)
        return kept

    def of(self, snapshot: Snapshot, moment: Moment) -> Landscape:
        """The landscape of a moment, of a snapshot."""
        kept = self._kept(snapshot.versions, moment)
        if kept is None:
            wanted = _reads(moment)
            found = {name: snapshot.frame(name, read.where, read.columns) for name, read in wanted.items()}
            kept = _landscape(found, moment)
            self._keep(snapshot.versions, moment, kept)
        return kept

    def _kept(self, versions: Mapping[str, int], moment: Moment) -> Landscape | None:
        live = self._live
        if moment.is_past or live is None or live[0] != _key(versions):
            return None
        return live[1] if live[1].holds_at(moment.now) else None

    async def _followed(self, tables: Tables, moment: Moment) -> Landscape | None:
        """The live landscape with what commits changed since it was made; None where it must be made anew."""
        live = self._live
        if moment.is_past or live is None or not live[1].holds_at(moment.now):
            return None
        now = _key(tables.versions)
        changes: dict[str, list[Change]] = {}
        for name, before, after in zip(_LIVE_TABLES, live[0], now, strict=True):
            steps = tables.steps(name, before, after)
            if steps is None:
                return None
            changes[name] = [change for step in steps for change in step.changes]
        land, facts = _with_entities(live[1], changes["entities"]), _newest(changes["facts"])
        if land is None or facts is None:
            return None
        written, ids = facts
        rows = pl.DataFrame([row for row in written if row["object_id"] or row["mentions"]], schema=_NO_FACTS)
        if len(rows):
            rows = rows.filter(of_rows(TIES), pl.col("status") == "active", pl.col("expired_at").is_null())
        if len(rows) or not land.tied.isdisjoint(ids):
            land = await _with_facts(tables, land, rows, ids, moment.now)
        if land is not None:
            self._live = now, land
        return land

    def _keep(self, versions: Mapping[str, int], moment: Moment, made: Landscape) -> None:
        if not moment.is_past:
            self._live = _key(versions), made


def _key(versions: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(versions.get(name, 1) for name in _LIVE_TABLES)


def _with_entities(land: Landscape, changes: Sequence[Change]) -> Landscape | None:
    """The landscape with new entities; None where one that it has, or that facts may tie, came or went."""
    untied = land.untied
    for change in changes:
        if isinstance(change, frozenset) or not {*_STANDING} <= {*change.column_names}:
            return None
        rows = change.select([*_STANDING]).to_pylist()
        new = {row["id"] for row in rows if row["id"] not in land.graph.place_of and row["id"] not in untied}
        if not new.isdisjoint(land.passed):
            return None
        for row in rows:
            is_listed = row["merged_into"] is None and row["status"] != "archived"
            if not is_listed or (row["id"] in new and row["created_at"] != row["updated_at"]):
                return None
        untied |= new
    return replace(land, untied=untied)


_STANDING = ("id", "merged_into", "status", "created_at", "updated_at")


def _newest(changes: Sequence[Change]) -> tuple[list[dict[str, Any]], set[str]] | None:
    """The facts that changes left as they wrote them last, and the ids of all that were written or are gone."""
    rows, ids = dict[str, Any](), set[str]()
    for change in changes:
        if isinstance(change, frozenset):
            written = dict[str, Any].fromkeys(change)
        elif {*_NO_FACTS} <= {*change.column_names}:
            written = {row["id"]: row for row in change.select([*_NO_FACTS]).to_pylist()}
        else:
            return None
        rows = {id_: row for id_, row in rows.items() if id_ not in written} | written
        ids |= {*written}
    return [row for row in rows.values() if row is not None], ids


async def _with_facts(
    tables: Tables, land: Landscape, rows: pl.DataFrame, ids: set[str], now: datetime
) -> Landscape | None:
    """The landscape with these facts in the place of those with these ids; None where others depend on them."""
    names = pl.concat([*(rows[end] for end in _ENDS), rows["mentions"].explode()]).drop_nulls().unique().to_list()
    entities = await tables.rows("entities", "id", names, ("id", "status", "merged_into"))
    known = pl.DataFrame([{name: row[name] for name in _ENTITY} for row in entities], _ENTITY)
    used = await tables.fetch("fact_usage", "id", rows["id"].to_list(), ("id", "link_count"), "link_count > 0")
    if any(heir not in land.graph.place_of for heir in known["merged_into"].drop_nulls()):
        return None
    read = _live({"facts": rows, "fact_usage": used, "entities": known}, now)
    new = read["listed"]["id"].filter(~read["listed"]["id"].is_in([*land.graph.place_of]))
    nodes = pl.concat([land.graph.ids, new])
    added = build_graph(nodes, _relations(read))
    graph, places = changed_graph(land.graph, ids, added)
    scopes = added.edges.select("id").join(rows, on="id", how="left", maintain_order="left")["scope"]
    similar, _ = changed_graph(land.similar, (), build_graph(nodes, land.similar.edges.clear()))
    communities = np.full(len(graph), NO_COMMUNITY, np.int32)
    communities[graph.places(land.graph.ids)] = land.communities
    ends = rows["valid_to"].drop_nulls()
    return Landscape(
        graph,
        similar,
        communities,
        pl.concat([land.scopes, scopes]).gather(places),
        (land.tied - ids) | {*rows["id"]},
        land.untied - {*new},
        _time(pl.Series([land.since, ends.filter(ends <= now).max()], dtype=frames.TIME).max()),
        _time(pl.Series([land.until, ends.filter(ends > now).min()], dtype=frames.TIME).min()),
        land.passed,
    )


def _reads(moment: Moment) -> Mapping[str, Read]:
    """Of the past all facts, since what replaced a relation may be of any kind; and entities archived by now."""
    reads = _live_reads()
    if moment.is_past:
        reads["facts"] = reads["facts_archive"] = Read(tuple(dict.fromkeys((*_RELATION, *JUDGED))))
    return reads if moment.known_as_of is None else reads | {"decisions": Read(LEARNED, _CHANGED)}


def _live_reads() -> dict[str, Read]:
    """Facts that ended are among them: they show since when the graph is valid."""
    return {
        "facts": Read(_RELATION, f"{TIES} AND status = 'active' AND expired_at IS NULL"),
        "fact_usage": Read(("id", "link_count"), "link_count > 0"),
        "entities": Read(("id", "status", "merged_into")),
        "entity_links": Read(("id", "a_id", "b_id", "cosine")),
        "communities": Read(MEMBERS),
    }


def _landscape(read: Frames, moment: Moment) -> Landscape:
    frames_ = _past(read, moment) if moment.is_past else _live(read, moment.now)
    graph = _graph(frames_)
    links = read["entity_links"].rename({"a_id": "subject_id", "b_id": "object_id", "cosine": "weight"})
    ends = read["facts"]["valid_to"].drop_nulls() if not moment.is_past else pl.Series(dtype=frames.TIME)
    return Landscape(
        graph,
        build_graph(graph.ids, frames.conform(links, frames.EDGES)),
        _communities(graph, read["communities"]),
        graph.edges.select("id").join(frames_["facts"], on="id", maintain_order="left")["scope"],
        frozenset(read["facts"]["id"]),
        frozenset(),
        _time(ends.filter(ends <= moment.now).max()),
        _time(ends.filter(ends > moment.now).min()),
        frozenset(read["entities"]["id"]) - {*frames_["listed"]["id"]},
    )


def _time(found: object) -> datetime | None:
    return found if isinstance(found, datetime) else None


def _live(read: Frames, now: datetime) -> Frames:
    facts = read["facts"].filter(pl.col("valid_to").is_null() | (pl.col("valid_to") > now))
    listed = read["entities"].filter(pl.col("merged_into").is_null(), pl.col("status").ne_missing("archived"))
    return {**read, "facts": facts, "listed": listed}


def _past(read: Frames, moment: Moment) -> Frames:
    """The relations of the moment, of those that there ever were."""
    ever = pl.concat([read["facts"], read["facts_archive"]]).unique("id", keep="first")
    ends = ends_of(read["decisions"]) if "decisions" in read else None
    return {**read, "facts": moment.facts(ever, ends).filter(of_rows(TIES)), "listed": read["entities"]}


def _graph(read: Frames) -> Graph:
    return build_graph(read["listed"]["id"], _relations(read))


def _relations(read: Frames) -> pl.DataFrame:
    """The relations that facts say, and those of entities that they name together."""
    used = read["facts"].join(read["fact_usage"], on="id", how="left")
    weighed = used.with_columns(weight=evolved_weight(pl.col("link_count"), pl.col("confidence")))
    merged = read["entities"].drop_nulls("merged_into")
    ties = named_together(weighed, dict(merged.select("id", "merged_into").iter_rows()))
    return pl.concat([weighed.filter(of_rows(RELATIONS)), ties])


def _communities(graph: Graph, communities: pl.DataFrame) -> Places:
    numbered = places_of(communities).with_columns(number=pl.col("community_id").rank("dense") - 1)
    own = pl.DataFrame({"id": graph.ids}).join(numbered, on="id", how="left", maintain_order="left")["number"]
    return own.cast(pl.Int32).fill_null(NO_COMMUNITY).to_numpy().astype(np.int32)
