"""Joining: what is new since communities were found goes where most of its relations lead (S2-50)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.graph.communities import places_of
from slowwave.text import as_json, timed_id


@dataclass(frozen=True, slots=True, eq=False)
class JoinPlan:
    """`members` (id, community_id) that join, and `grown`: the communities that they join, (id, joined_ids)."""

    members: pl.DataFrame
    grown: pl.DataFrame
    decisions: pl.DataFrame


def waiting(new: pl.Series, held: pl.DataFrame) -> pl.Series:
    """Those of these entities that belong to none of the COMMUNITIES, in order of their ids."""
    return pl.Series("id", sorted({*new} - {*places_of(held, new)["id"]}), dtype=pl.String)


def plan_joining(new: pl.Series, relations: pl.DataFrame, held: pl.DataFrame, now: datetime) -> JoinPlan:
    """Each new entity joins the community that most of its relations lead to, of equals the smallest id.

    `relations` (id, subject_id, object_id) are those of the new ones that are live, with entities that are listed;
    parallel ones count each. Only members of the last refresh are voted for: nobody follows those who joined, before
    the next refresh has looked at them. A community that grew loses its fingerprint, so that it is told anew then.
    """
    members = _votes(waiting(new, held), relations, held)
    joined = members.group_by(id="community_id").agg(joined=pl.col("id").sort()).sort("id")
    both = held.select("id", "name", "joined_ids").join(joined, on="id", maintain_order="right")
    grown = both.with_columns(joined_ids=pl.concat_list(pl.col("joined_ids").fill_null([]), "joined"))
    return JoinPlan(members, grown.select("id", "joined_ids"), _decisions(grown, now))


def _votes(new: pl.Series, relations: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """(id, community_id) of those who are related to a member, in order of their ids."""
    ends = [("subject_id", "object_id"), ("object_id", "subject_id")]
    steps = pl.concat([relations.select(id=near, end=far) for near, far in ends])
    asked = steps.filter(pl.col("id").is_in(new.implode()))
    original = places_of(held, asked["end"].unique()).filter("is_original").select("community_id", end="id")
    counts = asked.join(original, on="end").group_by("id", "community_id").len()
    won = counts.sort("id", "len", "community_id", descending=[False, True, False]).unique("id", keep="first")
    return won.select("id", "community_id").sort("id")


def _decisions(grown: pl.DataFrame, now: datetime) -> pl.DataFrame:
    rows = [
        {
            "id": timed_id("d", now, "join", community, joined),
            "action": "join",
            "subject_id": community,
            "ids_in": joined,
            "ids_out": [community],
            "measures": as_json({"joined": len(joined)}),
            "decided_by": "rule",
            "reason": f"{len(joined)} new entities are related to it more than to any other: {name}.",
            "at": now,
        }
        for community, joined, name in grown.select("id", "joined", "name").iter_rows()
    ]
    return pl.DataFrame(rows, schema=dict(frames.DECISIONS))
