"""Eviction: facts and entities out of use for long enough are archived, and caps on their number are applied.

Each task is a part of `decay`: it looks at a snapshot, and writes in commits of its own; a second run finds nothing.
What it decided is looked at again under the lease. Nothing is lost: moved facts answer questions about the past from
`facts_archive`, and an archived entity comes back with the next mention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from recall.entities import with_last_seen
from recall.facts import texts_of
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import DecaySettings
from slowwave.common.validity import ENDS, live_sql, time_sql
from slowwave.facts.revision.conflicts import KIND
from slowwave.facts.revision.pending_beliefs import crowded_out, eviction_rows
from slowwave.lifecycle import pruning_and_eviction as eviction
from slowwave.lifecycle.pruning_and_eviction import ARCHIVED, FOR_WANT_OF_ROOM, CapPlan, plan_cap, plan_orphans
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.retirement import renew_profiles, retirement_of, write_retirement
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
    """Move facts that are over since `expired_edge_retention_days` to the archive (S2-51, §6.3).

    Their rows stay as they are to the last stamp. One commit for every 5,000 facts, with one decision that counts them:
    what became of each fact was decided when it ended, and stands in the ledger. Where a person is asked, each move
    waits with a decision of its own: the decisions shown are those written.
    """
    days = settings.expired_edge_retention_days
    where = eviction.out_of_use_sql(eviction.since(run.now, days))
    snapshot = store_of(run).snapshot()
    ids = _out_of_use(snapshot, where)
    gone = [ids] if dry_run else [ids.clear()]
    for start in range(0, 0 if dry_run else len(ids), FACTS_AT_ONCE):
        with store_of(run).commit(run.id, "decay.facts", run.now) as tx:
            still = _out_of_use(tx, where, ids.slice(start, FACTS_AT_ONCE))
            tx.put_back("facts_archive", tx.by_ids("facts", still, with_vector=True))
            tx.delete("facts", still)
            tx.upsert("decisions", _move_decisions(run, days, still))
            gone.append(still)
    moved = pl.concat(gone)
    done = moved if dry_run else _without_waiting(run, moved, "facts")
    counts = {RunCount.FACTS_MOVED_TO_ARCHIVE: len(done)}
    return _outcome(counts, eviction.move_decisions(done, days, run.now), snapshot)


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


def _without_waiting(run: Run, ids: pl.Series, table: str, where: str | None = None) -> pl.Series:
    """Those of these rows that went from the table (`where`: from among such rows), and wait for nobody."""
    if run.proposes is None:
        return ids
    left = store_of(run).snapshot().by_ids(table, ids, ["id"], where=where)["id"]
    return ids.filter(~ids.is_in(left.implode()))


def _out_of_use(reading: Reading, where: str, ids: pl.Series | None = None) -> pl.Series:
    """Ids of facts that are over for long enough, or of those among `ids`; the earliest come first."""
    pinned = reading.frame("entities", "pinned", ["id"])["id"]
    columns = ["id", "expired_at", "updated_at", *(ENDS if len(pinned) else ())]
    rows = reading.frame("facts", where, columns) if ids is None else reading.by_ids("facts", ids, columns, where=where)
    free = rows.filter(~eviction.touches(pinned)) if len(pinned) else rows
    return free.sort(pl.coalesce("expired_at", "updated_at"), "id")["id"]


def _move_decisions(run: Run, days: float, ids: pl.Series) -> pl.DataFrame:
    """One decision that counts the facts; one for each of them where each move waits for a person."""
    if ids.is_empty() or run.proposes is not None:
        return eviction.move_decisions(ids, days, run.now)
    reason = f"{len(ids)} facts that were over for more than {days:g} days were moved to the archive."
    seen = {"facts": len(ids), "expired_edge_retention_days": days}
    return decision_frame([decision("move", run.id, [], None, reason, run.now, seen, key=(ids[0],))])


def _among(rows: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    return rows.filter(pl.col("id").is_in(ids.implode()))


@task("archive orphans")
def archive_orphans(run: Run, settings: DecaySettings, *, dry_run: bool = False) -> TaskResult:
    """Archive entities without facts that nobody mentioned for as long as closed facts stay; one commit (S2-52, T30).

    A pending belief, a candidate, a split or a pin keeps an entity.
    """
    days, before = settings.expired_edge_retention_days, store_of(run).snapshot()

    def write(tx: Transaction, rows: pl.DataFrame) -> None:
        _archive_entities(tx, rows["id"])
        tx.upsert("decisions", eviction.orphan_decisions(rows, days, run.now))

    rows = decide_and_write(run, "decay.orphans", partial(_orphans, run=run, settings=settings), write, dry_run=dry_run)
    gone = rows if dry_run else _among(rows, _without_waiting(run, rows["id"], "entities", IN_USE))
    return _outcome({RunCount.ENTITIES_ARCHIVED: len(gone)}, eviction.orphan_decisions(gone, days, run.now), before)


def _orphans(reading: Reading, run: Run, settings: DecaySettings) -> pl.DataFrame:
    """Entities to archive (`eviction.ENTITIES`)."""
    entities, cutoff = _entities(reading), eviction.since(run.now, settings.expired_edge_retention_days)
    if entities.filter(pl.col("seen_at") < cutoff).is_empty():
        return entities.clear()
    return plan_orphans(entities, _needed_entities(reading, run), cutoff)


def _entities(reading: Reading) -> pl.DataFrame:
    times = ["last_seen_at", "first_seen_at", "created_at"]
    columns = [name for name in eviction.ENTITIES if name != "seen_at"]
    rows = with_last_seen(reading, reading.frame("entities", columns=[*columns, *times]))
    return rows.with_columns(seen_at=pl.coalesce(times)).select(*eviction.ENTITIES)


def _needed_entities(reading: Reading, run: Run) -> pl.Series:
    """Entities that a fact which holds or may come to hold, or a pending belief, is about or names."""
    kinds = "(kind IS NULL OR kind <> 'similarity')"  # likeness is no knowledge (T33)
    facts = reading.frame("facts", f"{eviction.needed_sql(run.now)} AND {kinds}", [*ENDS, "mentions"])
    beliefs = reading.frame("pending_beliefs", PENDING, ENDS[:2])
    parts = [frame[end].rename("id").unique() for frame in (facts.drop("mentions"), beliefs) for end in frame.columns]
    return pl.concat([*parts, facts["mentions"].explode().rename("id")]).drop_nulls().unique()


def _archive_entities(tx: Transaction, ids: pl.Series) -> None:
    whole = tx.by_ids("entities", ids, with_vector=True)
    tx.upsert("entities", whole.with_columns(status=pl.lit(ARCHIVED)))


@task("cap entities")
def cap_entities(run: Run, settings: DecaySettings, *, dry_run: bool = False) -> TaskResult:
    """Archive the least related entities beyond `max_entities` (0: no limit), and what is known of them (S2-53, T23).

    One commit. Pinned ones stay, and those of which something is known that never goes.
    """
    before = store_of(run).snapshot()
    decide, write = partial(_cap, run=run, settings=settings), partial(_evict, run=run, settings=settings)
    plan = decide_and_write(run, "decay.entities", decide, write, dry_run=dry_run)
    facts, entities = plan.facts["id"], plan.entities["id"]
    if len(plan) and not dry_run:
        renew_profiles(run, before.by_ids("facts", facts, ["owner_entity_id"])["owner_entity_id"])
        entities = _without_waiting(run, entities, "entities", IN_USE)
        facts = _without_waiting(run, facts, "facts", "status = 'active'")
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


def _evict(tx: Transaction, plan: CapPlan, run: Run, settings: DecaySettings) -> None:
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
        where = f"kind = {quoted(KIND)} AND outcome = 'pending' AND expires_at <= {time_sql(run.now)}"
        pairs = reading.frame("pair_decisions", where, ["id", "a_id", "b_id", "expires_at"])  # not shown any more
        return _Dropped(beliefs, pairs.sort("expires_at", "id"))

    def write(tx: Transaction, dropped: _Dropped) -> None:
        hints = tx.by_ids("belief_evidence", dropped.beliefs["id"], ["id"], key="belief_id")
        tx.delete("belief_evidence", hints["id"])
        tx.delete("pending_beliefs", dropped.beliefs["id"])
        tx.delete("pair_decisions", dropped.pairs["id"])
        tx.upsert("decisions", decided(dropped.beliefs, dropped.pairs))

    def decided(beliefs: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        reason = "Nobody settled in time whether these two contradict each other."
        expired = (
            decision("expire", id_, [a, b], None, reason, run.now, {"expires_at": until}, key=())
            for id_, a, b, until in pairs.iter_rows()
        )
        return pl.concat([eviction_rows(beliefs, settings.beliefs, run.now), decision_frame(expired)])

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
