"""Membership: who is new joins a community, and who is no more leaves it (S2-50, T31)."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from recall.entity_search import LISTED
from recall.graphs import RELATIONS
from slowwave.graph.communities import without_members
from slowwave.graph.community_members import JoinPlan, plan_joining, waiting
from slowwave.validity import live_sql
from storage.snapshots import Reading
from storage.transactions import Transaction

from .engine import task
from .linking import touched_entities
from .runs import Run, store_of

_JOINED = ["id", "name", "entity_ids", "joined_ids", "refreshed_at"]
_ENDS = ["id", "subject_id", "object_id"]


@task("assign new entities")
def assign_new(run: Run) -> int:
    """Let entities of this run that have no community join that of most of their relations; returns how many.

    Only their own relations are read, not the graph. One commit, or none.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    if not snapshot.count("communities"):
        return 0
    touched = pl.Series("id", touched_entities(run), dtype=pl.String)
    plan = _joining(snapshot, run, touched)
    if plan.members.is_empty():
        return 0
    with store.commit(run.id, "communities.assign", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:  # another run may have changed or merged some of them meanwhile
            plan = _joining(tx, run, touched)
        held = tx.by_ids("communities", plan.grown["id"]).drop("joined_ids")
        grown = held.join(plan.grown, on="id", maintain_order="left")
        tx.upsert("communities", grown.with_columns(fingerprint=pl.lit(None, dtype=pl.String)))
        tx.upsert("decisions", plan.decisions)
    return len(plan.members)


def part_with(tx: Transaction, entities: Collection[str]) -> None:
    """Take entities that are no more out of their communities, whose summaries are then to be made again."""
    lists = tx.frame("communities", columns=["id", "entity_ids", "joined_ids", "fingerprint"])
    left, dropped = without_members(lists, entities)
    held = tx.by_ids("communities", left["id"]).drop("entity_ids", "joined_ids", "fingerprint")
    tx.upsert("communities", held.join(left, on="id", maintain_order="left"))
    tx.delete("communities", dropped)


def _joining(reading: Reading, run: Run, touched: pl.Series) -> JoinPlan:
    held = reading.frame("communities", columns=_JOINED)
    new = reading.by_ids("entities", waiting(touched, held), ["id"], where=LISTED)["id"]
    where = f"{RELATIONS} AND {live_sql(run.now)}"
    parts = [reading.by_ids("facts", new, _ENDS, key=end, where=where) for end in ("subject_id", "object_id")]
    found = pl.concat(parts).unique("id")
    ends = pl.concat([found["subject_id"], found["object_id"]])
    listed = reading.by_ids("entities", ends, ["id"], where=LISTED)["id"].implode()
    known = found.filter(pl.col("subject_id").is_in(listed) & pl.col("object_id").is_in(listed))
    return plan_joining(new, known, held, run.now)
