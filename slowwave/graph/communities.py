"""Communities: groups of entities, with an identity that lasts and a fingerprint that says when to look again (S2-47).

A group is told from another by what it is made of. Its fingerprint stands for its members and the relations among them:
while that stays, nothing is written and no model is asked. Its id outlives changes, as long as most members stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowwave.graph.graph import Graph, Places
from slowwave.text import row_id

DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The communities of one state of a graph.

    `groups` (id, fingerprint, entity_ids most connected first, facts: how many relations lie within) in order of ids,
    `members` (id of the entity, community_id), `relations` (fact_id, community_id, weight) those that lie within one.
    """

    groups: pl.DataFrame
    members: pl.DataFrame
    relations: pl.DataFrame


def is_due(before: int, after: int, interval: int) -> bool:
    """Whether a counter went past a multiple of `interval` between `before` and `after`; 0: never (S2-45, T17)."""
    return interval > 0 and after // interval > before // interval


def fingerprint(entity_ids: Collection[str], edge_ids: Collection[str]) -> str:
    """What stands for a community of these members and of these relations among them, in whatever order (S2-47)."""
    body = json.dumps(["entities", sorted(entity_ids), "edges", sorted(edge_ids)], separators=(",", ":"))
    return f"b2:{hashlib.blake2b(body.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


def group_entities(graph: Graph, labels: Places, held: pl.DataFrame) -> Grouping:
    """The groups that the labels (n,) tell, -1 for none, as communities; `held` are COMMUNITIES as they were stored.

    Members are ordered by their relations within the group, so that order and fingerprint change together.
    """
    inside = labels[graph.source]
    is_inside = (inside == labels[graph.target]) & (inside >= 0)
    ends = np.concatenate((graph.source[is_inside], graph.target[is_inside]))
    members = pl.DataFrame(
        {"id": graph.ids, "label": labels, "degree": np.bincount(ends, minlength=len(graph))},
        schema_overrides={"label": pl.Int32},
    ).filter(pl.col("label") >= 0)
    relations = pl.DataFrame(
        {"fact_id": graph.edges["id"].filter(pl.Series(is_inside)), "label": inside[is_inside],
         "weight": graph.weight[is_inside]},
        schema_overrides={"label": pl.Int32},
    )  # fmt: skip
    groups = _identified(_groups(members, relations), kept_ids(members, held, graph.ids), held["id"])
    names = groups.select("label", community_id="id")
    return Grouping(
        groups.drop("label").sort("id"),
        members.join(names, on="label").select("id", "community_id").sort("id"),
        relations.join(names, on="label").select("fact_id", "community_id", "weight").sort("fact_id"),
    )


def kept_ids(members: pl.DataFrame, held: pl.DataFrame, there: pl.Series) -> pl.DataFrame:
    """(label, id): groups that are a community that is held, because more than half of its members are in them.

    Members that are not `there` any more do not count. Of several that fell into one group the one that brought most
    members gives its id, of equals the smallest.
    """
    before = _members_of(held).join(there.rename("id").to_frame(), on="id", how="semi")
    sizes = before.group_by("community_id").agg(size=pl.len())
    met = before.join(members, on="id").group_by("community_id", "label").agg(shared=pl.len())
    claims = met.join(sizes, on="community_id").filter(2 * pl.col("shared") > pl.col("size"))
    ranked = claims.sort("shared", "community_id", descending=[True, False])
    best = ranked.unique("label", keep="first", maintain_order=True)
    return best.select("label", id="community_id")


def changed_members(grouping: Grouping, held: pl.DataFrame) -> pl.DataFrame:
    """(id of the community, joined, left): how many members came and went, for each that is or was there."""
    now, before = grouping.members, _members_of(held)
    key = ["id", "community_id"]
    joined = now.join(before, on=key, how="anti").group_by(id="community_id").agg(joined=pl.len().cast(pl.Int64))
    left = before.join(now, on=key, how="anti").group_by(id="community_id").agg(left=pl.len().cast(pl.Int64))
    return joined.join(left, on="id", how="full", coalesce=True).with_columns(pl.col("joined", "left").fill_null(0))


def _members_of(held: pl.DataFrame) -> pl.DataFrame:
    """(id of the entity, community_id) of stored communities."""
    return (
        held.select(community_id="id", id="entity_ids").explode("id").drop_nulls().unique().select("id", "community_id")
    )


def _groups(members: pl.DataFrame, relations: pl.DataFrame) -> pl.DataFrame:
    """label, fingerprint, entity_ids, facts: a row for each group, in order of labels."""
    ordered = members.sort("label", "degree", "id", descending=[False, True, False])
    who = ordered.group_by("label", maintain_order=True).agg(entity_ids=pl.col("id"))
    what = relations.group_by("label").agg("fact_id", facts=pl.len().cast(pl.Int64))
    both = who.join(what, on="label", how="left", maintain_order="left")
    told = [fingerprint(people, facts or ()) for people, facts in both.select("entity_ids", "fact_id").iter_rows()]
    return both.select(
        "label", pl.Series("fingerprint", told, dtype=pl.String), "entity_ids", pl.col("facts").fill_null(0)
    )


def _identified(groups: pl.DataFrame, kept: pl.DataFrame, taken: Sequence[str] | pl.Series) -> pl.DataFrame:
    """The groups with their ids: those that they keep, else new ones that no community bears or bore."""
    known = set(taken)
    named = groups.join(kept, on="label", how="left", maintain_order="left")
    ids = [id_ or _new_id(told, known) for id_, told in named.select("id", "fingerprint").iter_rows()]
    return named.with_columns(pl.Series("id", ids, dtype=pl.String)).select("id", *groups.columns)


def _new_id(told: str, taken: Collection[str]) -> str:
    number = 0
    while (made := row_id("c", told, number)) in taken:
        number += 1
    return made
