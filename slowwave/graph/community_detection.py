"""Communities: which entities form a group, with an identity that lasts and a fingerprint (S2-46, S2-47).

The fingerprint of a group stands for its members and the relations among them: while it stays the same, nothing is
written and no model is asked. Its id outlives changes, as long as most members stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from slowwave.common.decisions import decision, decision_frame
from slowwave.common.text import row_id

from .graph import Graph, Offsets, Places

# Label propagation: nodes take over what most of their neighbours are called, until names settle (S2-46, T15, T16).
# Nodes are updated in place, one after the other, in an order that only depends on their ids. A node whose neighbours
# kept their labels since it looked at them would choose as before, and is left out.


MAX_ROUNDS = 50
_ORDER_BYTES = 8
"""Of blake2b, read as one number, the most significant byte first; equal digests are ordered by id."""


def propagate_labels(graph: Graph) -> Places:
    """The label of each node, (n,) int32: the place of the node whose name it bears; its own where it has no neighbour.

    A node takes the label that most of its relations lead to, parallel ones counted each, of equally many the smallest.
    All nodes are visited once a round, in `visiting_order`; a round that changes nothing is the last.
    """
    labels, near, starts = list(range(len(graph))), graph.near.tolist(), graph.starts.tolist()
    is_due = (graph.degree > 0).tolist()
    order = [node for node in visiting_order(graph.ids).tolist() if is_due[node]]
    for _ in range(MAX_ROUNDS):
        has_changed = False
        for node in order:
            if not is_due[node]:
                continue
            is_due[node], others = False, near[starts[node] : starts[node + 1]]
            votes: dict[int, int] = {}
            for other in others:
                votes[labels[other]] = votes.get(labels[other], 0) + 1
            most = max(votes.values())
            chosen = min(label for label, count in votes.items() if count == most)
            if chosen != labels[node]:
                labels[node], has_changed = chosen, True
                for other in others:
                    is_due[other] = True
        if not has_changed:
            break
    return np.array(labels, dtype=np.int32)


def visiting_order(ids: pl.Series) -> Offsets:
    """Places in the order of the digests of these sorted ids, (n,) int64: the same for an id in every graph."""
    new = hashlib.blake2b
    digests = b"".join([new(each.encode(), digest_size=_ORDER_BYTES).digest() for each in ids.to_list()])
    return np.argsort(np.frombuffer(digests, dtype=f">u{_ORDER_BYTES}").astype(np.uint64), kind="stable")


NO_GROUP = -1


def find_groups(graph: Graph) -> Places:
    """The group of each node, (n,) int32: 0 to g − 1 in order of their smallest ids; NO_GROUP where it is alone.

    The same graph always gives the same groups. Fewer than two nodes are no group.
    """
    _, first, group, sizes = np.unique(
        propagate_labels(graph), return_index=True, return_inverse=True, return_counts=True
    )
    is_group = sizes > 1
    numbers = np.full(len(sizes), NO_GROUP, dtype=np.int32)
    by_place = np.flatnonzero(is_group)[np.argsort(first[is_group])]
    numbers[by_place] = np.arange(len(by_place), dtype=np.int32)
    return numbers[group]


DIGEST_BYTES = 32
MIN_MEMBERS = 2


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
    """The hash of a community with these members and relations, in any order (S2-47)."""
    body = json.dumps(["entities", sorted(entity_ids), "edges", sorted(edge_ids)], separators=(",", ":"))
    return f"b2:{hashlib.blake2b(body.encode(), digest_size=DIGEST_BYTES).hexdigest()}"


def group_entities(graph: Graph, labels: Places, stored: pl.DataFrame) -> Grouping:
    """The groups of these labels (n,), -1 for none, as communities; `stored` are the COMMUNITIES before.

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
    groups = _identified(_groups(members, relations), kept_ids(members, stored, graph.ids), stored["id"])
    names = groups.select("label", community_id="id")
    return Grouping(
        groups.drop("label").sort("id"),
        members.join(names, on="label").select("id", "community_id").sort("id"),
        relations.join(names, on="label").select("fact_id", "community_id", "weight").sort("fact_id"),
    )


def kept_ids(members: pl.DataFrame, stored: pl.DataFrame, there: pl.Series) -> pl.DataFrame:
    """(label, id): groups that continue a stored community, because more than half of its members are in them.

    Its members are those of the last refresh: who joined since does not count, so that it stays itself however many
    came. Nor do members that are not `there` any more. Of several that fell into one group the one that brought most
    members gives its id, of equals the smallest.
    """
    refreshed = stored.select(id="entity_ids", community_id="id").explode("id").drop_nulls().unique()
    before = refreshed.join(there.rename("id").to_frame(), on="id", how="semi")
    sizes = before.group_by("community_id").agg(size=pl.len())
    met = before.join(members, on="id").group_by("community_id", "label").agg(shared=pl.len())
    claims = met.join(sizes, on="community_id").filter(2 * pl.col("shared") > pl.col("size"))
    ranked = claims.sort("shared", "community_id", descending=[True, False])
    best = ranked.unique("label", keep="first", maintain_order=True)
    return best.select("label", id="community_id")


def member_lists(stored: pl.DataFrame) -> pl.DataFrame:
    """(id of the entity, community_id, is_original): every member of stored communities, in their order.

    Those of the last refresh are original and come before those that joined since.
    """
    lists = (("entity_ids", True), ("joined_ids", False))
    parts = [
        stored.select(id=name, community_id="id", is_original=pl.lit(is_original)).explode("id")
        for name, is_original in lists
    ]
    return pl.concat(parts).drop_nulls("id")


def places_of(stored: pl.DataFrame, entities: Collection[str] | None = None) -> pl.DataFrame:
    """(id of the entity, community_id, is_original): the one community of each entity, or of each of these, with any.

    Where an undo left it in several, the one counts that it did not only join, then the one that was written last
    (`refreshed_at`), then the smallest id; the next refresh settles it.
    """
    written = stored.select(community_id="id", at="refreshed_at")
    is_wanted = (
        pl.lit(True) if entities is None else pl.col("id").is_in(pl.Series([*entities], dtype=pl.String).implode())
    )
    listed = member_lists(stored).filter(is_wanted).join(written, on="community_id", how="left")
    first = listed.sort("is_original", "at", "community_id", descending=[True, True, False], nulls_last=True)
    return first.unique("id", keep="first", maintain_order=True).drop("at").sort("id")


def without_members(stored: pl.DataFrame, gone: Collection[str]) -> tuple[pl.DataFrame, pl.Series]:
    """COMMUNITIES that lose one of these entities, without them and due for a new summary; and ids of those that go.

    A community of fewer than two is none. Columns beyond those of COMMUNITIES stay as they are.
    """
    lost = pl.Series(sorted(gone), dtype=pl.String).implode()
    lists = [pl.col(name).fill_null([]) for name in ("entity_ids", "joined_ids")]
    is_hit = pl.any_horizontal(each.list.eval(pl.element().is_in(lost)).list.any() for each in lists)
    left = stored.filter(is_hit.fill_null(False)).with_columns(
        *(each.list.eval(pl.element().filter(~pl.element().is_in(lost))) for each in lists),
        fingerprint=pl.lit(None, dtype=pl.String),
    )
    is_one = pl.sum_horizontal(pl.col(name).list.len() for name in ("entity_ids", "joined_ids")) < MIN_MEMBERS
    return left.filter(~is_one), left.filter(is_one)["id"]


def _groups(members: pl.DataFrame, relations: pl.DataFrame) -> pl.DataFrame:
    """label, fingerprint, entity_ids, facts: a row for each group, in order of labels."""
    ordered = members.sort("label", "degree", "id", descending=[False, True, False])
    who = ordered.group_by("label", maintain_order=True).agg(entity_ids=pl.col("id"))
    what = relations.group_by("label").agg("fact_id", facts=pl.len().cast(pl.Int64))
    both = who.join(what, on="label", how="left", maintain_order="left")
    hashes = [fingerprint(people, facts or ()) for people, facts in both.select("entity_ids", "fact_id").iter_rows()]
    return both.select(
        "label", pl.Series("fingerprint", hashes, dtype=pl.String), "entity_ids", pl.col("facts").fill_null(0)
    )


def _identified(groups: pl.DataFrame, kept: pl.DataFrame, taken: Sequence[str] | pl.Series) -> pl.DataFrame:
    """The groups with their ids: those that they keep, else new ones that no stored community has.

    One that was dissolved and is found again, of the same members and relations, may have its old id.
    """
    known = set(taken)
    named = groups.join(kept, on="label", how="left", maintain_order="left")
    ids = [id_ or _new_id(group_hash, known) for id_, group_hash in named.select("id", "fingerprint").iter_rows()]
    return named.with_columns(pl.Series("id", ids, dtype=pl.String)).select("id", *groups.columns)


def _new_id(group_hash: str, taken: Collection[str]) -> str:
    number = 0
    while (made := row_id("c", group_hash, number)) in taken:
        number += 1
    return made


# Joining: what is new since communities were found goes where most of its relations lead (S2-50).


@dataclass(frozen=True, slots=True, eq=False)
class JoinPlan:
    """`members` (id, community_id) that join, and `grown`: the communities that they join, (id, joined_ids)."""

    members: pl.DataFrame
    grown: pl.DataFrame
    decisions: pl.DataFrame


def waiting(new: pl.Series, stored: pl.DataFrame) -> pl.Series:
    """Those of these entities that belong to none of the COMMUNITIES, in order of their ids."""
    return pl.Series("id", sorted({*new} - {*places_of(stored, new)["id"]}), dtype=pl.String)


def plan_joining(new: pl.Series, relations: pl.DataFrame, stored: pl.DataFrame, now: datetime) -> JoinPlan:
    """Each new entity joins the community that most of its relations lead to, of equals the smallest id.

    `relations` (id, subject_id, object_id) are those of the new ones that are live, with entities that are listed;
    parallel ones count each. Only members of the last refresh are voted for: nobody follows those who joined, before
    the next refresh has looked at them. A community that grew loses its fingerprint, so that its summary is due then.
    """
    ends = [("subject_id", "object_id"), ("object_id", "subject_id")]
    steps = pl.concat([relations.select(id=near, end=far) for near, far in ends])
    from_new = steps.filter(pl.col("id").is_in(waiting(new, stored).implode()))
    original = places_of(stored, from_new["end"].unique()).filter("is_original").select("community_id", end="id")
    counts = from_new.join(original, on="end").group_by("id", "community_id").len()
    won = counts.sort("id", "len", "community_id", descending=[False, True, False]).unique("id", keep="first")
    members = won.select("id", "community_id").sort("id")
    joined = members.group_by(id="community_id").agg(joined=pl.col("id").sort()).sort("id")
    both = stored.select("id", "name", "joined_ids").join(joined, on="id", maintain_order="right")
    grown = both.with_columns(joined_ids=pl.concat_list(pl.col("joined_ids").fill_null([]), "joined"))
    why = "{} new entities are related to it more than to any other: {}."
    decisions = decision_frame(
        decision("join", id_, new_ids, [id_], why.format(len(new_ids), name), now, {"joined": len(new_ids)})
        for id_, new_ids, name in grown.select("id", "joined", "name").iter_rows()
    )
    return JoinPlan(members, grown.select("id", "joined_ids"), decisions)
