"""Entities that are one: people say so, everything of the one becomes the other's, and undo parts them again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from recall.entities import exact_row
from slowwave.common import frames
from slowwave.common.errors import Refused
from slowwave.common.run_counts import RunCount
from slowwave.common.text import normalise_name
from slowwave.common.validity import ENDS, is_live, live_sql
from slowwave.lifecycle.entity_merges import (
    EntityMerge,
    MergeContext,
    Merged,
    Pair,
    is_between,
    plan_merge,
    refusal,
)
from storage.changes import leave_communities
from storage.rows import column_names, quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.runs import Run, existing_store, in_one_commit

from .names_and_pins import names_in_use, new_vector, with_vector
from .retirement import renew_profiles

_WAY_OUT = "`slowwave facts NAME` shows what is known of each; unpin or retire what stands in the way."


def merge(
    run: Run,
    loser: str,
    winner: str,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> Merged:
    """Make one entity of two, as a run of its own: everything of `loser` is the winner's, under all names of both.

    Each is a whole name or alias, `name (type)`, or an id. Raises `Refused` for an entity and itself, for what was
    split from or is a part of the other, where something between the two is pinned, and for two types unless `force`
    (S2-09, C17), before the run begins. Facts that now say the same, or contradict each other, are left to the next
    consolidation. Merged again, nothing changes (T41).
    """
    arguments = (loser, winner, force)
    planned = plan_entity_merge(run, existing_store(run).snapshot(), *arguments)
    if dry_run or isinstance(planned, Merged):
        return planned if isinstance(planned, Merged) else planned.merged
    vector = new_vector(run, planned.to_embed)

    def write(tx: Transaction) -> EntityMerge | Merged:
        plan = plan_entity_merge(run, tx, *arguments)
        if isinstance(plan, EntityMerge):
            is_same = plan.to_embed == planned.to_embed
            write_entity_merge(tx, plan, vector if is_same else new_vector(run, plan.to_embed))
        return plan

    def count(done: EntityMerge | Merged) -> dict[RunCount, int]:
        return (done if isinstance(done, Merged) else done.merged).counts

    done = in_one_commit(run, "entity.merge", {"loser": loser, "winner": winner, "force": force}, write, count)
    if isinstance(done, Merged):
        return done
    renew_profiles(run, [done.merged.winner_id, *done.facts["owner_entity_id"].drop_nulls()])
    return done.merged


def plan_entity_merge(run: Run, reading: Reading, loser: str, winner: str, force: bool) -> EntityMerge | Merged:
    """The plan of a merge, or the result where they were merged before."""
    gone, left = (exact_row(reading, name) for name in (loser, winner))
    if gone["id"] == left["id"] and (before := _merged_before(reading, loser, left["id"])):
        return Merged(before[1], before[0], left["name"], left["id"], is_new=False)
    pair = (gone["id"], left["id"])
    _refuse(reading, run, gone, left, force)
    return plan_merge(merge_context(reading, pair, run.now), pair, run.now)


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

    What is known between the two speaks against it, as does all that `merge` refuses.
    """
    rows = {row["id"]: row for row in tx.by_ids("entities", [loser, winner]).iter_rows(named=True)}
    if loser not in rows or winner not in rows:
        return False
    pair = (loser, winner)
    holdings = merge_context(tx, pair, run.now)
    if len(holdings.facts.filter(is_between(pair), is_live(run.now))):
        return False
    try:
        _refuse(tx, run, rows[loser], rows[winner], force=True)
    except Refused:
        return False
    plan = plan_merge(holdings, pair, run.now)
    write_entity_merge(tx, plan, new_vector(run, plan.to_embed))
    return True


def write_entity_merge(tx: Transaction, plan: EntityMerge, vector: pl.Series | None) -> None:
    merged, archived = plan.merged, [id_ for id_, _ in plan.merged.archived]
    entities = plan.rows["entities"]
    if vector is not None:
        entities = with_vector(entities, merged.winner_id, vector)
    for name, ids in plan.gone.items():
        tx.delete(name, ids)
    tx.delete("entity_profiles", tx.by_ids("entity_profiles", [merged.loser_id], ["id"])["id"])
    for end in ("a_id", "b_id"):
        tx.delete("entity_links", tx.by_ids("entity_links", [merged.loser_id], ["id"], key=end)["id"])
    leave_communities(tx, [merged.loser_id])
    tx.delete("fact_aspects", tx.by_ids("fact_aspects", archived, ["id"], key="fact_id")["id"])
    tx.delete("fact_scores", tx.by_ids("fact_scores", archived, ["id"])["id"])
    scores = tx.by_ids("fact_scores", plan.facts.filter(is_live(tx.now))["id"], where="compared_at IS NOT NULL")
    tx.upsert("fact_scores", scores.with_columns(compared_at=pl.lit(None, dtype=frames.TIME)))
    tx.upsert("facts", plan.facts)
    tx.upsert("facts_archive", plan.archive)
    for name, rows in {**plan.rows, "entities": entities}.items():
        tx.upsert(name, rows)


# The context of a merge: all rows about two entities.


def merge_context(reading: Reading, pair: Pair, now: datetime) -> MergeContext:
    """What the plan of a merge looks at; `pair` are the ids of the entity that goes and of the one that stays."""
    facts = _naming(reading, "facts", pair[:1], with_vector=True)
    staying = _naming(reading, "facts", pair[1:], where=live_sql(now)).join(facts, on="id", how="anti")
    loops = facts.filter(is_between(pair), pl.col("status") == "active")["id"]
    beliefs = _by_keys(reading, "pending_beliefs", pair[:1], ("subject_id", "object_id"))
    entities = _entities(reading, pair)
    return MergeContext(
        entities=entities,
        called=_names_of(reading, entities, pair),
        facts=facts,
        archive=_naming(reading, "facts_archive", pair[:1], with_vector=True),
        flagged=_flagged(reading, loops, now).join(facts, on="id", how="anti"),
        winner_facts=staying,
        pairs=_by_keys(reading, "pair_decisions", facts["id"], ("a_id", "b_id")),
        beliefs=beliefs,
        hints=reading.by_ids("belief_evidence", beliefs["id"], key="belief_id"),
        episodes=reading.by_ids("episode_entities", pair, key="entity_id"),
    )


def _by_keys(
    reading: Reading,
    name: str,
    ids: Sequence[str] | pl.Series,
    keys: Sequence[str],
    *,
    with_vector: bool = False,
) -> pl.DataFrame:
    """Rows of which one of the keys is among the ids, each once, in order of their ids."""
    parts = [reading.by_ids(name, ids, key=key, with_vector=with_vector) for key in keys]
    return pl.concat(parts).unique("id").sort("id")


def _naming(
    reading: Reading, name: str, entities: Sequence[str], where: str | None = None, *, with_vector: bool = False
) -> pl.DataFrame:
    ids = ", ".join(map(quoted, entities))
    any_end = " OR ".join(f"{end} IN ({ids})" for end in ENDS)
    columns = [*column_names(name), *(["vector"] if with_vector else [])]
    return reading.frame(name, f"({any_end}) AND ({where})" if where else any_end, columns).sort("id")


def _entities(reading: Reading, pair: Pair) -> pl.DataFrame:
    """Both, and those that were split from the first or merged into it."""
    both = reading.by_ids("entities", pair, with_vector=True)
    others = _by_keys(reading, "entities", pair[:1], ("parent_entity_id", "merged_into"), with_vector=True)
    return pl.concat([both, others]).unique("id").sort("id")


def _names_of(reading: Reading, entities: pl.DataFrame, pair: Pair) -> pl.DataFrame:
    """The names of both, and of other entities with a name of the first; canonical names without an id."""
    own = reading.by_ids("entity_aliases", pair, list(frames.ALIASES), key="entity_id")
    first = entities.filter(pl.col("id") == pair[0]).row(0, named=True)
    names = [*own.filter(pl.col("entity_id") == pair[0])["alias_name"], first["canonical_name"]]
    names.append(normalise_name(first["name"] or ""))
    return pl.concat([own, names_in_use(reading, names)]).unique(maintain_order=True)


def _flagged(reading: Reading, facts: pl.Series, now: datetime) -> pl.DataFrame:
    """Live facts that are marked as looking like one of these."""
    if facts.is_empty():
        return reading.by_ids("facts", [], with_vector=True)
    marked = reading.frame("facts", f"{live_sql(now)} AND similarity_flag", ["id", "similar_to_id"])
    theirs = marked.filter(pl.col("similar_to_id").is_in(facts.implode()))["id"]
    return reading.by_ids("facts", theirs, with_vector=True)
