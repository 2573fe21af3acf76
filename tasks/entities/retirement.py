"""Retirement: facts leave together with what hangs on them, for the archive or for good, and come back (T31, §6.3).

Of what goes for good the ledger keeps its decisions, and undo works as long as old versions are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl

from recall.history import fact_named
from slowwave.common import frames
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.records import REDUNDANT
from slowwave.common.run_counts import RunCount
from slowwave.common.validity import ENDS, live_sql
from slowwave.entities.entity_resolution import revived
from slowwave.facts.deduplication.observations import MARKS, stale_flags
from slowwave.facts.revision.mutual_exclusion import single_valued
from slowwave.graph.graph import STRUCTURAL, inverses_of
from slowwave.lifecycle.pruning_and_eviction import (
    NOTHING,
    POINTERS,
    Cause,
    Measures,
    Retirement,
    deletable,
    plan_retirement,
    without_pointers,
)
from slowwave.lifecycle.restore import READ, RestorationPlan, plan_restoration
from slowwave.lifecycle.usage_scores import usage_of
from storage.changes import FACT_TABLES, leave_communities, references_to
from storage.snapshots import Reading, Snapshot
from storage.tables import TABLES
from storage.transactions import Transaction
from tasks.runtime.engine import log, task
from tasks.runtime.runs import Run, in_one_commit, store_of
from tasks.runtime.writing import decide_and_write

from .derived import refresh_profiles

_PENDING = "outcome = 'pending'"


def retirement_of(
    reading: Reading, chosen: pl.DataFrame, cause: Cause, now: datetime, measures: Measures = NOTHING
) -> Retirement:
    """What retiring these live facts, whole rows with their vectors, would change.

    What says the same from the other end goes with them (S0-15).
    """
    chosen = with_inverses(reading, chosen, live_sql(now))
    flagged = reading.frame("facts", f"{live_sql(now)} AND similarity_flag", ["id", "similar_to_id"])
    theirs = flagged.filter(pl.col("similar_to_id").is_in(chosen["id"].implode()))["id"]
    partners = reading.by_ids("facts", theirs, with_vector=True)
    pairs = pl.concat(
        [reading.by_ids("pair_decisions", chosen["id"], key=end, where=_PENDING) for end in ("a_id", "b_id")]
    )
    return plan_retirement(chosen, partners, pairs.unique("id"), cause, now, measures)


def with_inverses(
    reading: Reading, chosen: pl.DataFrame, where: str, tables: Sequence[str] = ("facts",)
) -> pl.DataFrame:
    """Whole facts, and those of these tables that say the same from the other end: both end, or come back, together."""
    ends = chosen.filter(pl.col("kind") == STRUCTURAL)["object_id"]
    if ends.is_empty():
        return chosen
    others = f"kind = '{STRUCTURAL}' AND ({where})"
    stored = pl.concat(
        [reading.by_ids(name, ends, key="subject_id", where=others, with_vector=True) for name in tables]
    )
    found = inverses_of(chosen, stored.unique("id", keep="first")).sort("id")
    return pl.concat([chosen, found.select(chosen.columns)])


def write_retirement(tx: Transaction, plan: Retirement) -> None:
    """Write a retirement: the facts and their decisions; aspects, open pairs and scores of the facts go."""
    tx.upsert("facts", plan.facts)
    tx.upsert("decisions", plan.decisions)
    tx.delete("fact_aspects", tx.by_ids("fact_aspects", plan.retired, ["id"], key="fact_id")["id"])
    tx.delete("pair_decisions", plan.pairs)
    tx.delete("fact_scores", tx.by_ids("fact_scores", plan.retired, ["id"])["id"])


def renew_profiles(run: Run, owners: Sequence[str] | pl.Series) -> None:
    """Renew what these entities are as a whole; a failure is only logged, because the nightly run renews it too."""
    try:
        refresh_profiles(run, pl.Series(owners, dtype=pl.String).drop_nulls().unique())
    except Exception as error:
        log.warning("The profiles of %d entities were not renewed: %s", len(owners), error)


# Purging: quotations that a model has read go for good, with everything that hangs on them.


_ABOUT_FACTS = (
    ("fact_directives", "known_id"),
    ("fact_usage", "id"),
    ("fact_scores", "id"),
    ("refusals", "subject_id"),
    ("refusals", "similar_to_id"),
)
_ABOUT_ENTITIES = (
    ("entity_profiles", "id"),
    ("entity_usage", "id"),
    ("entity_scores", "id"),
    ("entity_days", "entity_id"),
    ("co_occurrences", "a_id"),
    ("co_occurrences", "b_id"),
    ("entity_links", "a_id"),
    ("entity_links", "b_id"),
)
"""What is about a row without being declared to refer to it: counters and scores."""


@dataclass(frozen=True, slots=True)
class Purge:
    """Facts to delete, by table the facts that point at one of them, and the artifacts that name one.

    `artifacts`: (id, linked_fact_ids), a row for each such fact.
    """

    ids: pl.Series
    pointing: Mapping[str, pl.Series]
    artifacts: pl.DataFrame


def plan_purge(reading: Reading, ids: pl.Series) -> Purge:
    """Of these facts those that nothing staying needs, in their order."""
    steps = [reading.frame(name, "replaced_by IS NOT NULL", ["id", "replaced_by"]) for name in FACT_TABLES]
    gone = deletable(ids, pl.concat(steps))
    linked = reading.frame("artifacts", "linked_fact_ids IS NOT NULL", ["id", "linked_fact_ids"])
    named = linked.explode("linked_fact_ids").filter(pl.col("linked_fact_ids").is_in(gone.implode()))
    return Purge(gone, {name: _pointing(reading, name, gone) for name in FACT_TABLES}, named)


def _pointing(reading: Reading, name: str, gone: pl.Series) -> pl.Series:
    """Ids of the facts of a table that stay and point at one of these."""
    somewhere = " OR ".join(f"{pointer} IS NOT NULL" for pointer in POINTERS)
    rows = reading.frame(name, somewhere, ["id", *POINTERS])
    points = pl.any_horizontal(pl.col(POINTERS).is_in(gone.implode()))
    return rows.filter(points, ~pl.col("id").is_in(gone.implode()))["id"]


def delete_facts(tx: Transaction, purge: Purge, ids: pl.Series) -> None:
    """Delete some of the facts of a plan."""
    _hand_on_usage(tx, ids)
    for name, found in _dependent_rows(tx, "facts", ids, _ABOUT_FACTS).items():
        tx.delete(name, found)
    for name, pointing in purge.pointing.items():
        rows = tx.by_ids(name, pointing, with_vector=True)
        points = pl.any_horizontal(pl.col(POINTERS).is_in(ids.implode()))
        tx.upsert(name, without_pointers(rows.filter(points), ids))
    named = purge.artifacts.filter(pl.col("linked_fact_ids").is_in(ids.implode()))["id"].unique()
    left = pl.col("linked_fact_ids").list.set_difference(pl.lit(pl.Series([ids])))
    tx.upsert("artifacts", tx.by_ids("artifacts", named, with_vector=True).with_columns(left.list.sort()))
    for name in FACT_TABLES:
        tx.delete(name, tx.by_ids(name, ids, ["id"])["id"])


def mentioned(reading: Reading) -> pl.Series:
    """Entities that some row names which would stay without them."""
    named = [(name, column) for name, column in references_to("entities") if TABLES[name].columns[column].nullable]
    found = [reading.frame(name, f"{column} IS NOT NULL", [column])[column].unique() for name, column in named]
    return pl.concat([each.rename("id") for each in found]).unique()


def delete_entities(tx: Transaction, ids: pl.Series) -> None:
    """Delete entities that nothing names any more: their names, links, place in talks and communities, counts."""
    for name, found in _dependent_rows(tx, "entities", ids, _ABOUT_ENTITIES).items():
        tx.delete(name, found)
    leave_communities(tx, ids)
    tx.delete("entities", ids)


def _dependent_rows(
    tx: Transaction, target: str, ids: pl.Series, more: tuple[tuple[str, str], ...]
) -> dict[str, pl.Series]:
    """By table: the rows that are nothing without one of these rows of `target`."""
    needed = [(name, c) for name, c in references_to(target) if not TABLES[name].columns[c].nullable]
    found: dict[str, pl.Series] = {}
    for name, column in (*needed, *more):
        rows = tx.by_ids(name, ids, ["id"], key=column)["id"]
        found[name] = pl.concat([found[name], rows]).unique() if name in found else rows
    return found


def _hand_on_usage(tx: Transaction, ids: pl.Series) -> None:
    """Recalls of a merged fact count for the fact that it was merged into (T26)."""
    absorbed = tx.by_ids("fact_usage", ids)
    if absorbed.is_empty():
        return
    steps = tx.by_ids("lineage", absorbed["id"], list(frames.LINEAGE), key="old_id")
    steps = steps.filter(pl.col("reason").is_in(REDUNDANT))
    heirs = tx.by_ids("fact_usage", steps["new_id"].filter(~steps["new_id"].is_in(ids.implode())))
    both = pl.concat([absorbed, heirs]).select(*frames.FACT_USAGE)
    whole = usage_of(both, steps).select(*frames.FACT_USAGE).filter(pl.col("id").is_in(steps["new_id"].implode()))
    stamps = heirs.select("id", "created_at")
    tx.upsert("fact_usage", whole.join(stamps, on="id", how="left"))


# Restoring: what was pruned, evicted or retired comes back from the archive at a person's word (§6.3).


ARCHIVED = "status = 'archived'"
Facts = tuple[tuple[str, str], ...]
"""Id and statement of each."""


def restore(run: Run, ids: Sequence[str], *, dry_run: bool = False) -> Facts:
    """Make archived facts active again, from both tables, all or none, as a run of its own; returns them.

    Their aspects come back. They are compared with others again, have no score until the next sweep, and their age
    counts from now (S3-07, S4-07). Raises where one of them may not come back.
    """
    snapshot = store_of(run).snapshot()
    chosen = _facts_to_restore(snapshot, ids)
    planned = _restoration(snapshot, run, chosen)
    if not dry_run:

        def write(tx: Transaction) -> RestorationPlan:
            plan = _restoration(tx, run, chosen)
            restored = plan.facts["id"]
            tx.upsert("facts", plan.facts)
            tx.delete("facts_archive", tx.by_ids("facts_archive", restored, ["id"])["id"])
            tx.upsert("fact_aspects", plan.aspects)
            tx.upsert("decisions", plan.decisions)
            tx.delete("fact_scores", tx.by_ids("fact_scores", restored, ["id"])["id"])
            ends = pl.concat([plan.facts[end] for end in ENDS])
            gone = tx.by_ids("entities", ends, where=f"{ARCHIVED} AND merged_into IS NULL", with_vector=True)
            tx.upsert("entities", revived(gone))
            return plan

        def count(plan: RestorationPlan) -> dict[RunCount, int]:
            return {RunCount.FACTS_RESTORED: len(plan.facts)}

        planned = in_one_commit(run, "restore", {"ids": list(ids)}, write, count)
        clear_stale_flags(run)
        renew_profiles(run, planned.facts["owner_entity_id"])
    return tuple(planned.facts.sort("id").select("id", "statement").iter_rows())


def _facts_to_restore(snapshot: Snapshot, ids: Sequence[str]) -> list[str]:
    """Whole ids of archived facts; raises where one is not archived."""
    meant = [fact_named(snapshot, id_) for id_ in ids]
    rows = _from_both_tables(snapshot, meant, ["id", "status"])
    if wrong := [f"{fact} is {status}" for fact, status in rows.filter(pl.col("status") != "archived").iter_rows()]:
        raise UnusableInput(
            f"Nothing was restored: {'; '.join(wrong)}.", "`slowwave archived` lists what can come back."
        )
    return sorted(set(meant))


def _from_both_tables(
    reading: Reading,
    ids: Iterable[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    with_vector: bool = False,
) -> pl.DataFrame:
    """Facts of these ids out of both tables, each once."""
    wanted = list(ids)
    parts = [reading.by_ids(name, wanted, columns, where=where, with_vector=with_vector) for name in FACT_TABLES]
    return pl.concat(parts).unique("id", keep="first", maintain_order=True)


def _restoration(reading: Reading, run: Run, ids: Sequence[str]) -> RestorationPlan:
    archived = with_inverses(
        reading, _from_both_tables(reading, ids, where=ARCHIVED, with_vector=True), ARCHIVED, FACT_TABLES
    )
    ends = pl.concat([archived[end] for end in ENDS]).drop_nulls().unique()
    others = reading.by_ids("facts", archived["subject_id"], READ, key="subject_id", where=live_sql(run.now))
    plan = plan_restoration(
        archived,
        others,
        reading.by_ids("entities", ends, ["id", "entity_type"]),
        single_valued(archived["predicate"].drop_nulls().unique(), reading.frame("predicates")),
        run.now,
    )
    if len(plan.refused):
        reasons = "; ".join(f"“{statement}” ({id_}): {reason}" for id_, statement, reason in plan.refused.iter_rows())
        raise Refused(f"Nothing was restored. {reasons}", "Leave these out; `slowwave why ID` tells more.")
    return plan


@task("clear stale flags")
def clear_stale_flags(run: Run) -> int:
    """Clear the flags of facts whose partner is no longer live; returns how many (S0-01)."""

    def write(tx: Transaction, stale: pl.DataFrame) -> None:
        whole = tx.by_ids("facts", stale["id"], with_vector=True).drop(MARKS)
        tx.upsert("facts", whole.join(stale, on="id"))

    return len(decide_and_write(run, "observations.flags", partial(_stale_flags, run=run), write))


def _stale_flags(reading: Reading, run: Run) -> pl.DataFrame:
    """(id, MARKS) of facts that lose their flag."""
    columns = ["id", "status", "expired_at", "valid_to", *MARKS]
    flagged = reading.frame("facts", f"{live_sql(run.now)} AND similarity_flag", columns)
    partners = reading.by_ids("facts", flagged["similar_to_id"], columns)
    both = pl.concat([flagged, partners]).unique("id", keep="first", maintain_order=True)
    return stale_flags(both, run.now).select("id", *MARKS)
