"""Entities that are one: people say so, everything of the one becomes the other's, and undo parts them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from recall.entities import exact_row
from slowwave import frames
from slowwave.errors import Refused
from slowwave.lifecycle.entity_decisions import Conflict, is_between
from slowwave.lifecycle.entity_merges import EntityMerge, plan_merge, refusal
from slowwave.lifecycle.run_counts import RunCount
from slowwave.settings import BeliefSettings
from slowwave.text import normalise_name
from slowwave.validity import is_live, live_sql
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, as_run, existing_store, store_of

from .linking import part_with
from .names import alias_entity as alias_entity
from .names import holdings_of, new_vector, with_vector
from .names import pin_entity as pin_entity
from .names import pin_facts as pin_facts
from .names import rename_entity as rename_entity
from .retirement import renew_profiles

_WAY_OUT = "`slowwave facts NAME` shows what is known of each; unpin or retire what stands in the way."


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging two entities: `loser` goes, `winner` stays.

    `facts` are about the winner now; `archived` (id, statement) of those among them that said something between the
    two; `names` are new names of the winner. Of two facts in `conflicts` one at a time can hold: both stay, in doubt.
    `is_new` is false where they were merged before, and nothing changed.
    """

    loser: str
    loser_id: str
    winner: str
    winner_id: str
    facts: int = 0
    archived: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    beliefs: int = 0
    conflicts: tuple[Conflict, ...] = ()
    is_new: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class _MergePlan:
    """The result and the rows to write; no `rows` where they were merged before."""

    merged: Merged
    rows: EntityMerge | None


@task("merge entities")
def merge_entities(
    run: Run,
    loser: str,
    winner: str,
    *,
    dry_run: bool = False,
    force: bool = False,
    beliefs: BeliefSettings | None = None,
) -> Merged:
    """Make one entity of two: everything of `loser` is the winner's, under all names of both; one commit.

    Each is a whole name or alias, `name (type)`, or an id. Raises `Refused` for an entity and itself, for what was
    split from or is a part of the other, where something between the two is pinned, and for two types unless `force`
    (S2-09, C17). Facts that now say the same are left to the next consolidation. Merged again, nothing changes (T41).
    """
    store = store_of(run)
    snapshot = store.snapshot()
    arguments = (loser, winner, force, beliefs)
    plan = plan_entity_merge(run, snapshot, *arguments)
    if dry_run or plan.rows is None:
        return plan.merged
    vector = new_vector(run, plan.rows.to_embed)
    with store.commit(run.id, "entity.merge", run.now) as tx:
        if tx.is_overtaken(snapshot):
            text = plan.rows.to_embed
            plan = plan_entity_merge(run, tx, *arguments)
            if plan.rows is not None and plan.rows.to_embed != text:
                vector = new_vector(run, plan.rows.to_embed)
        if plan.rows is not None:
            write_entity_merge(tx, plan.rows, plan.merged, vector)
    if plan.rows is not None:
        renew_profiles(run, [plan.merged.winner_id, *plan.rows.facts["owner_entity_id"].drop_nulls()])
    return plan.merged


def merge(
    run: Run,
    loser: str,
    winner: str,
    *,
    dry_run: bool = False,
    force: bool = False,
    beliefs: BeliefSettings | None = None,
) -> Merged:
    """`merge_entities` as a run of its own; raises before it begins where it may not."""
    planned = plan_entity_merge(run, existing_store(run).snapshot(), loser, winner, force, beliefs).merged
    if dry_run or not planned.is_new:
        return planned
    return as_run(
        run,
        {"loser": loser, "winner": winner, "force": force},
        lambda: merge_entities(run, loser, winner, force=force, beliefs=beliefs),
        lambda done: {
            RunCount.ENTITIES_MERGED: int(done.is_new),
            RunCount.FACTS_REFILED: done.facts,
            RunCount.FACTS_ARCHIVED: len(done.archived),
            RunCount.CONFLICTS_FOUND: len(done.conflicts),
        },
    )


def plan_entity_merge(
    run: Run, reading: Reading, loser: str, winner: str, force: bool, beliefs: BeliefSettings | None
) -> _MergePlan:
    gone, left = (exact_row(reading, name) for name in (loser, winner))
    if gone["id"] == left["id"] and (before := _merged_before(reading, loser, left["id"])):
        return _MergePlan(Merged(before[1], before[0], left["name"], left["id"], is_new=False), None)
    pair = (gone["id"], left["id"])
    _refuse(reading, run, gone, left, force)
    rows = plan_merge(holdings_of(reading, pair, run.now), pair, run.now, beliefs)
    return _MergePlan(
        Merged(
            gone["name"], gone["id"], left["name"], left["id"], len(rows.moved), rows.archived, rows.names,
            rows.beliefs, rows.conflicts,
        ),
        rows,
    )  # fmt: skip


def _merged_before(reading: Reading, name: str, winner: str) -> tuple[str, str] | None:
    """Id and name of the entity that was asked for and is the winner since a merge."""
    gone = reading.by_ids("entities", [winner], ["id", "name", "canonical_name"], key="merged_into")
    same = gone.filter((pl.col("id") == name) | (pl.col("canonical_name") == normalise_name(name))).sort("id")
    return None if same.is_empty() else (same["id"][0], same["name"][0])


def _refuse(reading: Reading, run: Run, loser: dict[str, Any], winner: dict[str, Any], force: bool) -> None:
    pair = (loser["id"], winner["id"])
    split = reading.frame("entities", "parent_entity_id IS NOT NULL", ["id", "parent_entity_id"])
    ends = ", ".join(map(quoted, pair))
    where = f"subject_id IN ({ends}) AND object_id IN ({ends}) AND {live_sql(run.now)}"
    between = reading.frame("facts", where).filter(is_between(pair)).sort("id")
    reason = refusal(loser, winner, dict(split.iter_rows()), between, force=force)
    if reason:
        types = loser["entity_type"] != winner["entity_type"]
        way_out = "Use --force if they are one all the same." if types and not force else _WAY_OUT
        raise Refused(f"Nothing was merged. {reason}", way_out)


def merge_within(tx: Transaction, run: Run, loser: str, winner: str) -> bool:
    """Make one entity of two inside a commit of another task; False, and nothing is changed, where that is refused.

    What is known between the two speaks against it, as does all that `merge_entities` refuses.
    """
    rows = {row["id"]: row for row in tx.by_ids("entities", [loser, winner]).iter_rows(named=True)}
    if loser not in rows or winner not in rows:
        return False
    pair = (loser, winner)
    holdings = holdings_of(tx, pair, run.now)
    if len(holdings.facts.filter(is_between(pair), is_live(run.now))):
        return False
    try:
        _refuse(tx, run, rows[loser], rows[winner], force=True)
    except Refused:
        return False
    plan = plan_merge(holdings, pair, run.now)
    merged = Merged(rows[loser]["name"], loser, rows[winner]["name"], winner, len(plan.moved))
    write_entity_merge(tx, plan, merged, new_vector(run, plan.to_embed))
    return True


def write_entity_merge(tx: Transaction, plan: EntityMerge, merged: Merged, vector: pl.Series | None) -> None:
    archived = [id_ for id_, _ in plan.archived]
    entities = plan.rows["entities"]
    if vector is not None:
        entities = with_vector(entities, merged.winner_id, vector)
    for name, ids in plan.gone.items():
        tx.delete(name, ids)
    tx.delete("entity_profiles", tx.by_ids("entity_profiles", [merged.loser_id], ["id"])["id"])
    for end in ("a_id", "b_id"):
        tx.delete("entity_links", tx.by_ids("entity_links", [merged.loser_id], ["id"], key=end)["id"])
    part_with(tx, [merged.loser_id])
    tx.delete("fact_aspects", tx.by_ids("fact_aspects", archived, ["id"], key="fact_id")["id"])
    tx.delete("fact_scores", tx.by_ids("fact_scores", archived, ["id"])["id"])
    scores = tx.by_ids("fact_scores", plan.facts.filter(is_live(tx.now))["id"], where="compared_at IS NOT NULL")
    tx.upsert("fact_scores", scores.with_columns(compared_at=pl.lit(None, dtype=frames.TIME)))
    tx.upsert("facts", plan.facts)
    tx.upsert("facts_archive", plan.archive)
    for name, rows in {**plan.rows, "entities": entities}.items():
        tx.upsert(name, rows)
