"""Joining: what is new since communities were found goes where most of its relations lead (S2-50)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from slowwave import frames
from slowwave.graph.graph import Graph, Places
from slowwave.text import as_json, timed_id

NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class JoinPlan:
    """`members` (ENTITY_COMMUNITIES) that join, and the communities (COMMUNITIES) that they join, to be told anew."""

    members: pl.DataFrame
    communities: pl.DataFrame
    decisions: pl.DataFrame


def plan_joining(graph: Graph, held: pl.DataFrame, memberships: pl.DataFrame, now: datetime) -> JoinPlan:
    """Every entity without a community joins the one that most of its relations lead to, of equals the smallest id.

    `held` are COMMUNITIES, `memberships` ENTITY_COMMUNITIES. Parallel relations count each. Entities that are related
    only to others that join follow them, round after round, until nobody is left who is related to a community: so a
    second run finds nothing to do. A community that grew loses its fingerprint, so the next refresh looks at it again.
    """
    known = held.select("id").sort("id").with_row_index("place")
    where = pl.DataFrame({"id": graph.ids}).join(memberships, on="id", how="left", maintain_order="left")
    placed = where.join(known.rename({"id": "community_id"}), on="community_id", how="left", maintain_order="left")
    before = placed["place"].cast(pl.Int32).fill_null(NONE).to_numpy()
    after = join_neighbours(graph, before)
    joined = np.flatnonzero(after != before)
    members = pl.DataFrame({"id": graph.ids[joined], "place": after[joined]}, schema_overrides={"place": pl.UInt32})
    members = members.join(known.rename({"id": "community_id"}), on="place", maintain_order="left")
    grown = _grown(graph, held, members, after, known)
    return JoinPlan(
        frames.conform(members.select("id", "community_id"), frames.ENTITY_COMMUNITIES),
        grown.drop("joined"),
        _decisions(grown, now),
    )


def join_neighbours(graph: Graph, communities: Places) -> Places:
    """The community of each node (n,), NONE for none, after those without one joined that of most of their relations.

    Of equally many the smallest number. All that join in one round look at the state before it.
    """
    after = communities.copy()
    while True:
        waiting = np.flatnonzero((after == NONE) & (graph.degree > 0)).astype(np.int32)
        steps = graph.steps(waiting)
        votes = pl.DataFrame({"node": steps.start, "community": after[steps.end]}).filter(pl.col("community") != NONE)
        counts = votes.group_by("node", "community").len()
        won = counts.sort("node", "len", "community", descending=[False, True, False]).unique("node", keep="first")
        if won.is_empty():
            return after
        after[won["node"].to_numpy()] = won["community"].to_numpy()


def _grown(graph: Graph, held: pl.DataFrame, members: pl.DataFrame, after: Places, known: pl.DataFrame) -> pl.DataFrame:
    """COMMUNITIES that somebody joined, with the new members at the end (column joined), relations counted again."""
    inside = after[graph.source]
    facts = np.bincount(inside[(inside == after[graph.target]) & (inside != NONE)], minlength=len(known))
    counted = known.select("id", facts=pl.Series(facts, dtype=pl.Int64))
    more = members.group_by(id="community_id").agg(joined=pl.col("id").sort())
    both = held.join(more, on="id", maintain_order="left").drop("facts").join(counted, on="id", maintain_order="left")
    return both.with_columns(
        entity_ids=pl.concat_list(pl.col("entity_ids").fill_null([]), "joined"),
        fingerprint=pl.lit(None, dtype=pl.String),
    )


def _decisions(grown: pl.DataFrame, now: datetime) -> pl.DataFrame:
    rows = [
        {
            "id": timed_id("d", now, "join", community, joined),
            "action": "join",
            "subject_id": community,
            "ids_in": joined,
            "ids_out": [community],
            "measures": as_json({"joined": len(joined), "facts": facts}),
            "decided_by": "rule",
            "reason": f"{len(joined)} new entities are related to it more than to any other: {name}.",
            "at": now,
        }
        for community, joined, facts, name in grown.select("id", "joined", "facts", "name").iter_rows()
    ]
    return pl.DataFrame(rows, schema=dict(frames.DECISIONS))
