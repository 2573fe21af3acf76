"""Restoring: what was pruned, evicted or retired comes back from the archive at a person's word (§6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from recall.stories import fact_named
from slowwave.errors import Refused, UnknownName, UnusableInput
from slowwave.lifecycle import run_counts
from slowwave.lifecycle.restore import READ, Departure, RestorationPlan, departure_of, plan_restoration
from slowwave.resolution.entity_resolution import revived
from slowwave.revision.mutual_exclusion import single_valued
from slowwave.validity import live_sql, time_sql
from storage.rows import quoted
from storage.snapshots import Reading, Snapshot
from storage.transactions import Transaction
from tasks.entities.retirement import renew_profiles, with_inverses
from tasks.runtime.engine import task
from tasks.runtime.runs import Counts, Run, recorded, store_of

from .observations import clear_stale_flags

FACTS_AT_ONCE = 5_000
ARCHIVED = "status = 'archived'"
TABLES = ("facts", "facts_archive")
LEFT = "action IN ('prune', 'archive')"
_ENDS = ("subject_id", "object_id", "owner_entity_id")


@dataclass(frozen=True, slots=True)
class Restored:
    """What came back, or would: (id, statement) of each; and what did not: (id, statement, reason)."""

    facts: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str, str], ...] = ()


def restore(run: Run, ids: Sequence[str] = (), of_run: str | None = None, *, dry_run: bool = False) -> Restored:
    """`restore_facts` as a run of its own, which can be undone; raises before it begins where it may not."""
    snapshot = store_of(run).snapshot()
    chosen = _chosen(snapshot, ids, of_run)
    if of_run is None and (standing := _restored(_plan(snapshot, run, chosen)).refused):
        reasons = "; ".join(f"“{statement}” ({id_}): {reason}" for id_, statement, reason in standing)
        raise Refused(f"Nothing was restored. {reasons}", "Leave these out; `slowwave why ID` tells more.")
    if dry_run:
        return _restored(_plan(snapshot, run, chosen))
    tally = Counts(run.id)
    with recorded(run, tally, {"ids": list(ids), "run": of_run}):
        restored = restore_facts(run, chosen)
        tally.counts = {run_counts.FACTS_RESTORED: len(restored.facts), "facts not restored": len(restored.refused)}
    return restored


@task("restore facts")
def restore_facts(run: Run, ids: Sequence[str]) -> Restored:
    """Make archived facts active again, from both tables, in commits of 5,000; returns others with a reason (S3-07).

    Their aspects come back, and flags and open pairs that left with them. What they are compared with is looked at
    again, they have no score until the next sweep, and their age counts from now (S4-07).
    """
    store = store_of(run)
    parts, owners = [Restored()], []
    for start in range(0, len(ids), FACTS_AT_ONCE):
        with store.commit(run.id, "restore", run.now) as tx:
            plan = _plan(tx, run, ids[start : start + FACTS_AT_ONCE])
            _write(tx, plan)
        parts.append(_restored(plan))
        owners += plan.facts["owner_entity_id"].to_list()
    clear_stale_flags(run)
    renew_profiles(run, owners)
    return Restored(
        tuple(fact for part in parts for fact in part.facts), tuple(fact for part in parts for fact in part.refused)
    )


def _chosen(snapshot: Snapshot, ids: Sequence[str], of_run: str | None) -> list[str]:
    """Ids of the archived facts that are meant; raises where one is not archived, or names nothing."""
    if bool(ids) == (of_run is not None):
        raise UnusableInput("Name facts by their ids, or one run that retired some.", "See `slowwave archived`.")
    if of_run is not None:
        return _of_run(snapshot, of_run)
    meant = [fact_named(snapshot, id_) for id_ in ids]
    rows = _rows(snapshot, meant, ["id", "status"])
    if wrong := [f"{fact} is {status}" for fact, status in rows.filter(pl.col("status") != "archived").iter_rows()]:
        raise UnusableInput(
            f"Nothing was restored: {'; '.join(wrong)}.", "`slowwave archived` lists what can come back."
        )
    return sorted(set(meant))


def _of_run(snapshot: Snapshot, of_run: str) -> list[str]:
    """The facts that a run, or a phase of it, retired and that are archived still."""
    phases = snapshot.by_ids("runs", [of_run], ["id"], key="parent_id")["id"]
    decisions = snapshot.by_ids("decisions", [of_run, *phases], ["subject_id", "at"], key="run_id", where=LEFT)
    rows = _rows(snapshot, decisions["subject_id"], ["id", "expired_at"], ARCHIVED)
    found = rows.join(decisions, left_on=["id", "expired_at"], right_on=["subject_id", "at"], how="semi")["id"].sort()
    known = snapshot.frame("runs", columns=["id"])["id"]
    if decisions.is_empty() and of_run not in known:
        raise UnknownName("run", of_run, known)
    if found.is_empty():
        raise UnusableInput(
            f"Nothing that run {of_run} retired is archived still.", "`slowwave archived` lists what is."
        )
    return found.to_list()


def _rows(
    reading: Reading,
    ids: Iterable[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    with_vector: bool = False,
) -> pl.DataFrame:
    """Facts of these ids out of both tables, each once."""
    wanted = list(ids)
    parts = [reading.by_ids(name, wanted, columns, where=where, with_vector=with_vector) for name in TABLES]
    return pl.concat(parts).unique("id", keep="first", maintain_order=True)


def _plan(reading: Reading, run: Run, ids: Sequence[str]) -> RestorationPlan:
    archived = with_inverses(reading, _rows(reading, ids, where=ARCHIVED, with_vector=True), ARCHIVED, TABLES)
    left = reading.by_ids("decisions", archived["id"], ["subject_id", "at", "measures"], key="subject_id", where=LEFT)
    last = dict(left.sort("at").select("subject_id", "measures").iter_rows())
    departures = {fact: departure_of(measures) for fact, measures in last.items()}
    ends = pl.concat([archived[end] for end in _ENDS]).drop_nulls().unique()
    others = reading.by_ids("facts", archived["subject_id"], READ, key="subject_id", where=live_sql(run.now))
    return plan_restoration(
        archived,
        others,
        reading.by_ids("facts", sorted(_named(departures)), where=live_sql(run.now), with_vector=True),
        reading.by_ids("entities", ends, ["id", "entity_type"]),
        departures,
        single_valued(archived["predicate"].drop_nulls().unique(), reading.frame("predicates")),
        run.now,
    )


def _named(departures: Mapping[str, Departure]) -> set[str]:
    """The facts that left a flag or an open pair behind."""
    lost = departures.values()
    ends = {row[end] for each in lost for row in each.pairs for end in ("a_id", "b_id")}
    return {fact for each in lost for fact in each.flags} | ends


def _write(tx: Transaction, plan: RestorationPlan) -> None:
    restored = list(plan.restored)
    tx.upsert("facts", plan.facts)
    tx.delete("facts_archive", tx.by_ids("facts_archive", restored, ["id"])["id"])
    tx.upsert("fact_aspects", plan.aspects)
    tx.upsert("pair_decisions", plan.pairs)
    tx.upsert("decisions", plan.decisions)
    tx.delete("fact_scores", tx.by_ids("fact_scores", restored, ["id"])["id"])
    ends = pl.concat([plan.facts[end] for end in _ENDS])
    gone = tx.by_ids("entities", ends, where=f"{ARCHIVED} AND merged_into IS NULL", with_vector=True)
    tx.upsert("entities", revived(gone))


def _restored(plan: RestorationPlan) -> Restored:
    back = plan.facts.filter(pl.col("id").is_in(plan.restored)).sort("id").select("id", "statement")
    return Restored(tuple(back.iter_rows()), tuple(plan.refused.iter_rows()))


def restored_since_sweep(run: Run) -> int:
    """How many facts people brought back since the steward swept last."""
    snapshot = store_of(run).snapshot()
    sweeps = snapshot.frame("runs", f"flow = 'steward' AND id != {quoted(run.id)}", ["started_at"])["started_at"]
    since = sweeps.drop_nulls().max()
    later = f" AND created_at > {time_sql(since)}" if isinstance(since, datetime) else ""
    return snapshot.count("decisions", f"action = 'restore'{later}")
