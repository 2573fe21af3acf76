"""Eviction: facts and entities out of use for long enough are archived, and caps on their number are applied.

Each task is a part of `decay`: it looks at a snapshot, and writes in commits of its own; a second run finds nothing.
What it decided is looked at again under the lease. Under retention.mode = archive nothing is lost: moved facts answer
questions about the past from `facts_archive`, and an archived entity comes back with the next mention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from recall.proposals import texts_of
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.entrenchment import ENDS
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import DecaySettings
from slowwave.common.validity import live_sql, time_sql
from slowwave.facts.revision.conflicts import KIND
from slowwave.facts.revision.pending_beliefs import crowded_out, eviction_rows
from slowwave.lifecycle import pruning_and_eviction as eviction
from slowwave.lifecycle.pruning_and_eviction import (
    ARCHIVED,
    FOR_WANT_OF_ROOM,
    CapPlan,
    plan_cap,
    plan_orphans,
    removable,
)
from slowwave.review.proposals import ProposalNote
from storage.changes import FACT_TABLES
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.retirement import (
    delete_entities,
    delete_facts,
    mentioned,
    plan_purge,
    renew_profiles,
    retirement_of,
    write_retirement,
)
from tasks.ingest.candidate_rows import PENDING
from tasks.runtime.engine import task
from tasks.runtime.run_pages import SHOWN, DecisionSummary, TaskResult
from tasks.runtime.runs import Run, store_of
from tasks.runtime.writing import decide_and_write

FACTS_AT_ONCE = 5_000
IN_USE = "(status IS NULL OR status = 'active')"
"""Entities that were not archived, as a filter."""
_BELIEF = ["id", "subject_id", "predicate", "statement", "probability", "last_at", "promoted_at"]


@task("archive facts")
def archive_facts(run: Run, settings: DecaySettings, *, dry_run: bool = False) -> TaskResult:
    """Move facts that are over since `expired_edge_retention_days` to the archive, or delete them (S2-51, §6.3).

    Their rows stay as they are to the last stamp; what is to be deleted may lie in the archive already. One commit for
    every 5,000 facts, with one decision that counts them: what became of each fact was decided when it ended, and
    stands in the ledger. Of deleted facts it names the ids. Where a person is asked, each move waits with a decision of
    its own, and all deletions wait together: the decisions shown are those written.
    """
    where = eviction.out_of_use_sql(eviction.since(run.now, settings.expired_edge_retention_days))
    snapshot, deletes = store_of(run).snapshot(), settings.retention.mode == "delete"
    places = FACT_TABLES if deletes else FACT_TABLES[:1]
    ids = _out_of_use(snapshot, where, places)
    purge = plan_purge(snapshot, ids) if deletes else None
    ids = ids if purge is None else purge.ids
    action, counted_as = (
        ("move", RunCount.FACTS_MOVED_TO_ARCHIVE) if purge is None else ("delete", RunCount.FACTS_DELETED)
    )
    days = settings.expired_edge_retention_days
    if dry_run:
        return _outcome({counted_as: len(ids)}, eviction.move_decisions(ids, days, run.now, action), snapshot)
    gone, writing = [ids.clear()], run if purge is None else _as_erasure(run, ids)
    for start in range(0, len(ids), FACTS_AT_ONCE):
        with store_of(writing).commit(run.id, "decay.facts", run.now) as tx:
            still = _out_of_use(tx, where, places, ids.slice(start, FACTS_AT_ONCE))
            if purge is None:
                rows = tx.by_ids("facts", still, with_vector=True)
                tx.put_back("facts_archive", rows)
                tx.delete("facts", still)
            else:
                delete_facts(tx, purge, still)
            tx.upsert("decisions", _move_decisions(run, days, still, action))
            gone.append(still)
    done = _without_waiting(run, pl.concat(gone), *places)
    return _outcome({counted_as: len(done)}, eviction.move_decisions(done, days, run.now, action), snapshot)


def _outcome(counts: Mapping[RunCount, int], decisions: pl.DataFrame, before: Reading) -> TaskResult:
    """What went, or under `dry_run` would go, and the first ten DECISIONS, in the words of the state before."""
    shown = decisions.head(SHOWN)
    about = pl.concat([shown["subject_id"], shown["ids_in"].explode().drop_nulls()])
    beliefs = before.by_ids("pending_beliefs", about, ["id", "statement"])
    words = {**texts_of(before, about), **dict(beliefs.iter_rows())}
    rows = []
    for action, subject, ids, reason in shown.select("action", "subject_id", "ids_in", "reason").iter_rows():
        first, *others = [words[each] for each in ids or () if each in words] or [words.get(subject, subject)]
        rows.append(DecisionSummary(action, first, reason, tuple(others)))
    return TaskResult({what: number for what, number in counts.items() if number}, tuple(rows))


def _as_erasure(run: Run, ids: pl.Series) -> Run:
    """The run that deletes these for good: where a person is asked, a commit of it waits as a whole, as an erasure."""
    if run.proposes is None:
        return run
    each = tuple(ProposalNote(row, risks=("erasure",)) for row in ids)
    return replace(run, proposes=replace(run.proposes, together=True, each=each))


def _without_waiting(run: Run, ids: pl.Series, *places: str, where: str | None = None) -> pl.Series:
    """Those of these rows that went from all these tables (`where`: from among such rows), and wait for nobody."""
    if run.proposes is None:
        return ids
    snapshot = store_of(run).snapshot()
    left = pl.concat([snapshot.by_ids(name, ids, ["id"], where=where)["id"] for name in places])
    return ids.filter(~ids.is_in(left.implode()))


def _out_of_use(reading: Reading, where: str, places: Sequence[str], ids: pl.Series | None = None) -> pl.Series:
    """Ids of facts in these tables that are over for long enough, or of those among `ids`; the earliest come first."""
    pinned = reading.frame("entities", "pinned", ["id"])["id"]
    columns = ["id", "expired_at", "updated_at", *(ENDS if len(pinned) else ())]
    rows = pl.concat(
        reading.frame(name, where, columns) if ids is None else reading.by_ids(name, ids, columns, where=where)
        for name in places
    )
    free = rows.filter(~eviction.touches(pinned)) if len(pinned) else rows
    return free.sort(pl.coalesce("expired_at", "updated_at"), "id")["id"]


def _move_decisions(run: Run, days: float, ids: pl.Series, action: str) -> pl.DataFrame:
    """One decision that counts the facts; one for each of them where each move waits for a person."""
    if ids.is_empty() or (run.proposes is not None and action == "move"):
        return eviction.move_decisions(ids, days, run.now, action)
    where = "moved to the archive" if action == "move" else "deleted for good"
    reason = f"{len(ids)} facts that were over for more than {days:g} days were {where}."
    seen = {"facts": len(ids), "expired_edge_retention_days": days}
    listed = ids.to_list() if action == "delete" else []
    return decision_frame([decision(action, run.id, listed, None, reason, run.now, seen, key=(ids[0],))])


def _among(rows: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    return rows.filter(pl.col("id").is_in(ids.implode()))


@task("archive orphans")
def archive_orphans(run: Run, settings: DecaySettings, *, dry_run: bool = False) -> TaskResult:
    """Archive entities without facts that nobody mentioned for as long as closed facts stay; one commit (S2-52, T30).

    A pending belief, a candidate, a split or a pin keeps an entity. Under retention.mode = delete those go for good
    that no row names any more, with their names, profile and counters, archived ones among them: a commit before it.
    """
    days, before = settings.expired_edge_retention_days, store_of(run).snapshot()
    counts, decided = dict[RunCount, int](), list[pl.DataFrame]()
    for action, find, where, counted_as in (
        ("delete", _removable, None, RunCount.ENTITIES_DELETED),
        ("archive", _orphans, IN_USE, RunCount.ENTITIES_ARCHIVED),
    ):
        decide = partial(find, run=run, settings=settings)

        def write(tx: Transaction, rows: pl.DataFrame, action: str = action) -> None:
            (delete_entities if action == "delete" else _archive_entities)(tx, rows["id"])
            tx.upsert("decisions", eviction.orphan_decisions(rows, days, run.now, action))

        writing = _as_erasure(run, decide(before)["id"]) if run.proposes is not None and action == "delete" else run
        rows = decide_and_write(writing, "decay.orphans", decide, write, dry_run=dry_run)
        gone = rows if dry_run else _among(rows, _without_waiting(run, rows["id"], "entities", where=where))
        counts[counted_as] = len(gone)
        decided.append(eviction.orphan_decisions(gone, days, run.now, action))
    return _outcome(counts, pl.concat(decided), before)


def _orphans(reading: Reading, run: Run, settings: DecaySettings) -> pl.DataFrame:
    """Entities to archive: orphans that are not deleted (`eviction.ENTITIES`)."""
    entities, cutoff = _entities(reading), eviction.since(run.now, settings.expired_edge_retention_days)
    if entities.filter(pl.col("seen_at") < cutoff).is_empty():
        return entities.clear()
    orphans = plan_orphans(entities, _needed_entities(reading, run), cutoff)
    return orphans.join(_removable(reading, run, settings), on="id", how="anti", maintain_order="left")


def _removable(reading: Reading, run: Run, settings: DecaySettings) -> pl.DataFrame:
    """Entities to delete for good, under retention.mode = delete."""
    entities, cutoff = _entities(reading), eviction.since(run.now, settings.expired_edge_retention_days)
    if settings.retention.mode == "archive" or entities.filter(pl.col("seen_at") < cutoff).is_empty():
        return entities.clear()
    return removable(entities, _needed_entities(reading, run), mentioned(reading), cutoff)


def _entities(reading: Reading) -> pl.DataFrame:
    times = ["last_seen_at", "first_seen_at", "created_at"]
    columns = [name for name in eviction.ENTITIES if name != "seen_at"]
    rows = reading.frame("entities", columns=[*columns, *times])
    return rows.with_columns(seen_at=pl.coalesce(times)).select(*eviction.ENTITIES)


def _needed_entities(reading: Reading, run: Run) -> pl.Series:
    """Entities that a fact which holds or may come to hold, or a pending belief, is about."""
    kinds = "(kind IS NULL OR kind <> 'similarity')"  # likeness is no knowledge (T33)
    facts = reading.frame("facts", f"{eviction.needed_sql(run.now)} AND {kinds}", ENDS)
    beliefs = reading.frame("pending_beliefs", PENDING, ENDS[:2])
    parts = [frame[end].rename("id").unique() for frame in (facts, beliefs) for end in frame.columns]
    return pl.concat(parts).drop_nulls().unique()


def _archive_entities(tx: Transaction, ids: pl.Series) -> None:
    whole = tx.by_ids("entities", ids, with_vector=True)
    tx.upsert("entities", whole.with_columns(status=pl.lit(ARCHIVED)))


@task("cap entities")
def cap_entities(run: Run, settings: DecaySettings, *, dry_run: bool = False) -> TaskResult:
    """Archive the least related entities beyond `max_entities` (0: no limit), and what is known of them (S2-53, T23).

    One commit. Pinned ones stay, and those of which something is known that never goes.
    """

    def decide(reading: Reading) -> CapPlan:
        return _cap(reading, run, settings)

    def write(tx: Transaction, plan: CapPlan) -> None:
        _evict(tx, run, settings, plan)

    before = store_of(run).snapshot()
    plan = decide_and_write(run, "decay.entities", decide, write, dry_run=dry_run)
    facts, entities = plan.facts["id"], plan.entities["id"]
    if len(plan) and not dry_run:
        renew_profiles(run, before.by_ids("facts", facts, ["owner_entity_id"])["owner_entity_id"])
        entities = _without_waiting(run, entities, "entities", where=IN_USE)
        facts = _without_waiting(run, facts, "facts", where="status = 'active'")
    counts = {RunCount.FACTS_ARCHIVED: len(facts), RunCount.ENTITIES_ARCHIVED: len(entities)}
    gone = replace(plan, entities=_among(plan.entities, entities))
    return _outcome(counts, eviction.cap_decisions(gone, settings.max_entities, run.now), before)


def _cap(reading: Reading, run: Run, settings: DecaySettings) -> CapPlan:
    active = reading.count("entities", IN_USE)
    if not 0 < settings.max_entities < active:
        nothing = pl.DataFrame(schema=dict(eviction.ENTITIES)), pl.DataFrame(schema=dict(eviction.FACTS))
        return plan_cap(*nothing, settings.max_entities)
    facts = reading.frame("facts", eviction.needed_sql(run.now), list(eviction.FACTS))
    return plan_cap(_entities(reading), facts, settings.max_entities)


def _evict(tx: Transaction, run: Run, settings: DecaySettings, plan: CapPlan) -> None:
    """Archive the entities and facts of a plan."""
    facts = tx.by_ids("facts", plan.facts["id"], with_vector=True, where=live_sql(run.now))
    seen = eviction.cap_measures(plan, settings.max_entities, run.now)
    measures = {fact: {"entity": entity, **seen[entity]} for fact, entity in plan.facts.iter_rows()}
    write_retirement(tx, retirement_of(tx, facts, FOR_WANT_OF_ROOM, run.now, measures))
    _archive_entities(tx, plan.entities["id"])
    tx.upsert("decisions", eviction.cap_decisions(plan, settings.max_entities, run.now))


@task("cap beliefs")
def cap_beliefs(run: Run, settings: DecaySettings, *, dry_run: bool = False) -> TaskResult:
    """Drop pending beliefs beyond the caps with their evidence, and conflicts that nobody settled in time; one commit.

    The caps hold whether or not beliefs are still collected (S2-54, S2-68). Pending implicit conflicts end with their
    time to live (S2-75).
    """

    def decide(reading: Reading) -> _Dropped:
        beliefs = crowded_out(reading.frame("pending_beliefs", PENDING, _BELIEF), settings.beliefs, run.now)
        return _Dropped(beliefs, _expired_pairs(reading, run))

    def write(tx: Transaction, dropped: _Dropped) -> None:
        hints = tx.by_ids("belief_evidence", dropped.beliefs["id"], ["id"], key="belief_id")
        tx.delete("belief_evidence", hints["id"])
        tx.delete("pending_beliefs", dropped.beliefs["id"])
        tx.delete("pair_decisions", dropped.pairs["id"])
        tx.upsert("decisions", decided(dropped.beliefs, dropped.pairs))

    def decided(beliefs: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        return pl.concat([eviction_rows(beliefs, settings.beliefs, run.now), _expiry_decisions(pairs, run)])

    before = store_of(run).snapshot()
    dropped = decide_and_write(run, "decay.beliefs", decide, write, dry_run=dry_run)
    beliefs, pairs = dropped.beliefs, dropped.pairs
    if not dry_run:
        beliefs = _among(beliefs, _without_waiting(run, beliefs["id"], "pending_beliefs"))
    counts = {RunCount.BELIEFS_DROPPED: len(beliefs), RunCount.CONFLICTS_EXPIRED: len(pairs)}
    return _outcome(counts, decided(beliefs, pairs), before)


@dataclass(frozen=True, slots=True, eq=False)
class _Dropped:
    """Pending beliefs and pairs to drop."""

    beliefs: pl.DataFrame
    pairs: pl.DataFrame

    def __len__(self) -> int:
        return len(self.beliefs) + len(self.pairs)


def _expired_pairs(reading: Reading, run: Run) -> pl.DataFrame:
    """(id, a_id, b_id, expires_at) of pending implicit conflicts that are not shown any more."""
    where = f"kind = {quoted(KIND)} AND outcome = 'pending' AND expires_at <= {time_sql(run.now)}"
    return reading.frame("pair_decisions", where, ["id", "a_id", "b_id", "expires_at"]).sort("expires_at", "id")


def _expiry_decisions(pairs: pl.DataFrame, run: Run) -> pl.DataFrame:
    reason = "Nobody settled in time whether these two contradict each other."
    return decision_frame(
        decision("expire", id_, [a, b], None, reason, run.now, {"expires_at": until}, key=())
        for id_, a, b, until in pairs.iter_rows()
    )
