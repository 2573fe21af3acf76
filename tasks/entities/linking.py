"""Linking: entities of a pass are linked with those whose descriptions are like theirs (S2-71)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from recall.entity_search import LISTED
from recall.graphs import RELATIONS
from slowwave.graph.communities import JoinPlan, plan_joining, waiting, without_members
from slowwave.graph.links import ENDS, LINKABLE, NEAR, PAIRS, LinkPlan, find_links, plan_links, to_measure
from slowwave.settings import LinkSettings
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.search import Nearest, nearest_in, unit_matrix
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, store_of

BATCH = 512


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """What was near (NEAR) to the entities that were looked at, and all that were there then (ENDS)."""

    ids: pl.Series
    near: pl.DataFrame
    ends: pl.DataFrame


@task("link entities")
def link_entities(
    run: Run,
    settings: LinkSettings,
    entities: Sequence[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Link these entities (ids), or all, with those that are like them; returns how many links changed.

    Their own vectors are compared, those of `name: summary`. What was seen last comes first; when the time is up, what
    was found by then is kept. One commit, and none where nothing changes. `clock` counts seconds.
    """
    if not settings.enabled:
        return 0
    store = store_of(run)
    snapshot = store.snapshot()
    looked = _look(snapshot, settings, entities, clock)
    plan = _plan(run, snapshot, looked, settings)
    if not len(plan):
        return 0
    with store.commit(run.id, "ingest.link", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:  # another run may have changed or merged some of them meanwhile
            plan = _plan(run, tx, looked, settings)
        tx.upsert("entity_links", plan.links)
        tx.delete("entity_links", plan.gone)
    return len(plan)


def touched_entities(run: Run) -> list[str]:
    """Ids of the entities that this run wrote last, or one like it that died before it came to this."""
    snapshot = store_of(run).snapshot()
    ids = ", ".join(map(quoted, [run.id, *_died_since(snapshot, run)]))
    return snapshot.frame("entities", f"run_id IN ({ids})", ["id"])["id"].to_list()


def _died_since(reading: Reading, run: Run) -> list[str]:
    """Runs of the same flow that did not end by themselves, since the last one that did."""
    where = f"flow = {quoted(run.flow)} AND id != {quoted(run.id)}"
    rows = reading.frame("runs", where, ["id", "state", "started_at"]).sort("started_at", "id", descending=True)
    is_dead = rows["state"].is_in(["interrupted", "failed"])
    return rows["id"].head(len(rows) if is_dead.all() else int((~is_dead).arg_max() or 0)).to_list()


def _look(
    reading: Reading, settings: LinkSettings, entities: Sequence[str] | None, clock: Callable[[], float]
) -> _Looked:
    begun = clock()
    known = reading.frame("entities", LINKABLE, [*ENDS, "last_seen_at"])
    wanted = known if entities is None else known.filter(pl.col("id").is_in(list(entities)))
    latest = wanted.sort("last_seen_at", "id", descending=[True, False], nulls_last=True)["id"]
    if latest.is_empty():
        return _Looked(latest, pl.DataFrame(schema=dict(NEAR)), known.select(*ENDS))
    parts, near, ask = [], [], nearest_in(reading, "entities", LINKABLE)
    for ids in _in_time(latest, begun + settings.timeout_s, clock):
        parts.append(ids)
        near.append(_near(reading, ask, ids, settings.top_k))
    return _Looked(pl.concat(parts), pl.concat(near), known.select(*ENDS))


def _in_time(ids: pl.Series, until: float, clock: Callable[[], float]) -> Iterator[pl.Series]:
    """Batches: the first, and then as long as one that takes no longer than the slowest so far will be done in time."""
    before, slowest = clock(), 0.0
    for start in range(0, len(ids), BATCH):
        if start and before + slowest > until:
            return
        yield ids[start : start + BATCH]
        after = clock()
        before, slowest = after, max(slowest, after - before)


def _near(reading: Reading, ask: Nearest, ids: pl.Series, top_k: int) -> pl.DataFrame:
    rows = reading.by_ids("entities", ids, ["id"], where="vector IS NOT NULL", with_vector=True)
    found = ask(unit_matrix(rows["vector"], reading.dims), top_k + 1)
    return found.select(
        id=rows["id"].gather(found["query"]), near_id="id", cosine=pl.col("cosine").cast(pl.Float64)
    )  # fmt: skip


def _plan(run: Run, reading: Reading, looked: _Looked, settings: LinkSettings) -> LinkPlan:
    """The changed links, of entities that are unchanged since they were compared."""
    ends = reading.frame("entities", LINKABLE, list(ENDS))
    same = ends.join(looked.ends, on=["id", "embed_text_hash"], how="semi", nulls_equal=True)
    looked_at = looked.ids.filter(looked.ids.is_in(same["id"].implode()))
    pairs = find_links(looked.near.filter(pl.col("id").is_in(looked_at.implode())), same, settings)
    stored = reading.frame("entity_links")
    measured = _measured(reading, to_measure(stored, pairs, looked_at))
    return plan_links(stored, pairs, measured, looked_at, ends, settings, run.now)


def _measured(reading: Reading, pairs: pl.DataFrame) -> pl.DataFrame:
    """PAIRS with the cosines of their vectors; those of which one has none are left out."""
    if pairs.is_empty():
        return pl.DataFrame(schema=dict(PAIRS))
    ids = pl.concat([pairs["a_id"], pairs["b_id"]]).unique()
    vectors = reading.by_ids("entities", ids, ["id"], where="vector IS NOT NULL", with_vector=True)
    both = pairs.join(vectors.rename({"id": "a_id"}), on="a_id").join(vectors.rename({"id": "b_id"}), on="b_id")
    a, b = (unit_matrix(both[name], reading.dims) for name in ("vector", "vector_right"))
    return both.select("a_id", "b_id", cosine=pl.Series(np.einsum("ij,ij->i", a, b), dtype=pl.Float64))


# Membership: who is new joins a community, and who is no more leaves it (S2-50, T31).


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
        stored = tx.by_ids("communities", plan.grown["id"]).drop("joined_ids")
        grown = stored.join(plan.grown, on="id", maintain_order="left")
        tx.upsert("communities", grown.with_columns(fingerprint=pl.lit(None, dtype=pl.String)))
        tx.upsert("decisions", plan.decisions)
    return len(plan.members)


def part_with(tx: Transaction, entities: Collection[str]) -> None:
    """Take entities that are no more out of their communities, whose summaries are then to be made again."""
    lists = tx.frame("communities", columns=["id", "entity_ids", "joined_ids", "fingerprint"])
    left, dropped = without_members(lists, entities)
    stored = tx.by_ids("communities", left["id"]).drop("entity_ids", "joined_ids", "fingerprint")
    tx.upsert("communities", stored.join(left, on="id", maintain_order="left"))
    tx.delete("communities", dropped)


def _joining(reading: Reading, run: Run, touched: pl.Series) -> JoinPlan:
    stored = reading.frame("communities", columns=_JOINED)
    new = reading.by_ids("entities", waiting(touched, stored), ["id"], where=LISTED)["id"]
    where = f"{RELATIONS} AND {live_sql(run.now)}"
    parts = [reading.by_ids("facts", new, _ENDS, key=end, where=where) for end in ("subject_id", "object_id")]
    found = pl.concat(parts).unique("id")
    ends = pl.concat([found["subject_id"], found["object_id"]])
    listed = reading.by_ids("entities", ends, ["id"], where=LISTED)["id"].implode()
    known = found.filter(pl.col("subject_id").is_in(listed) & pl.col("object_id").is_in(listed))
    return plan_joining(new, known, stored, run.now)
