"""Use: what reads have logged is counted, links fade, and entities are weighed by it (S0-23 … S0-25, S2-73, S4-01)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave import frames
from slowwave.lifecycle.usage_scores import (
    REDUNDANT,
    company,
    entity_usage_of,
    fade,
    fold_company,
    fold_reads,
    fold_recalls,
    noticeable,
    usage_of,
    weigh,
)
from slowwave.settings import DecaySettings, UseSettings
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Reading
from storage.store import Store
from storage.transactions import Transaction
from tasks.runtime.engine import task
from tasks.runtime.runs import Run, store_of

MOST_NAMED = 2000  # rows that are looked up by id; beyond, one look at everything is faster
RECALLS, READS = "retrieval_events", "entity_access_log"
_FADING = "links."
_REDUNDANT = f"reason IN ({', '.join(map(quoted, REDUNDANT))})"
_COLUMNS = {RECALLS: ("fact_id", "cosine", "at"), READS: ("entity_id", "query_hash", "at")}


@dataclass(frozen=True, slots=True)
class Counted:
    """What was new in the logs: recalls of facts and reads of entities, and how many facts and entities they name."""

    recalls: int = 0
    reads: int = 0
    facts: int = 0
    entities: int = 0


@dataclass(frozen=True, slots=True)
class _Unread:
    """Events of both logs that are not counted yet, and how far the logs will be counted then."""

    recalls: pl.DataFrame
    reads: pl.DataFrame
    marks: pl.DataFrame

    @property
    def counted(self) -> Counted:
        """How much it is."""
        facts, entities = self.recalls["fact_id"].n_unique(), self.reads["entity_id"].n_unique()
        return Counted(len(self.recalls), len(self.reads), facts, entities)


@task("count use")
def count_usage(run: Run, settings: DecaySettings | None = None) -> Counted:
    """Add what reads have logged since the last time to the counters, each event exactly once; returns what was new.

    Links fade on the way by these settings, or those of the last `decay`. How far the logs are counted is written with
    the counters, so a death in between leaves both as they were.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    unread = _unread(store, snapshot)
    if unread.counted == Counted():
        return Counted()
    with store.commit(run.id, "usage.count", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:  # another run may have counted them meanwhile
            unread = _unread(store, tx)
        if unread.counted != Counted():
            _count_facts(tx, unread.recalls, settings or _fading(tx))
            _count_entities(tx, unread.reads)
            tx.upsert("log_marks", unread.marks)
    return unread.counted


@task("fade links")
def fade_links(run: Run, settings: DecaySettings) -> int:
    """Weaken links of facts that nobody asked for, for all the time since the last run; returns how many (S2-73)."""
    store = store_of(run)
    snapshot, wanted = store.snapshot(), _marks_of(settings)
    if fade(_links(snapshot), run.now, settings).is_empty() and _fading_marks(snapshot) == wanted:
        return 0
    with store.commit(run.id, "usage.fade", run.now) as tx:
        weaker = fade(_links(tx), run.now, settings)
        tx.upsert("fact_usage", weaker)
        if _fading_marks(tx) != wanted:
            tx.upsert("metadata", pl.DataFrame({"id": [*wanted], "number": [*wanted.values()]}))
    return len(weaker)


@task("weigh entities")
def weigh_entities(run: Run, settings: UseSettings | None = None) -> int:
    """Write the scores of entities that changed noticeably, drop those of entities that are gone; returns how many."""
    store = store_of(run)
    snapshot = store.snapshot()
    use = settings or UseSettings()
    scores, gone = _scores(snapshot, run, use)
    if scores.is_empty() and gone.is_empty():
        return 0
    with store.commit(run.id, "usage.weigh", run.now) as tx:
        if tx.sequence != snapshot.sequence + 1:
            scores, gone = _scores(tx, run, use)
        tx.upsert("entity_scores", scores)
        tx.delete("entity_scores", gone)
    return len(scores) + len(gone)


def counted_use(reading: Reading) -> pl.DataFrame:
    """How each fact was used as far as it is counted, with what it absorbed: `usage_of`."""
    return usage_of(reading.frame("fact_usage"), _absorptions(reading))


def use_so_far(reading: Reading, store: Store) -> pl.DataFrame:
    """`counted_use` with the recalls that were logged and not counted yet: one saves a fact like any other."""
    counted = reading.frame("fact_usage")
    marks = dict(reading.by_ids("log_marks", [RECALLS], ["id", "version"]).iter_rows())
    unread = store.log_since(RECALLS, marks.get(RECALLS, 0), _COLUMNS[RECALLS])[0]
    fresh = fold_recalls(counted, unread, DecaySettings())
    known = counted.join(fresh, on="id", how="anti").select(fresh.columns)
    return usage_of(pl.concat([known, fresh]), _absorptions(reading))


def _absorptions(reading: Reading) -> pl.DataFrame:
    return reading.frame("lineage", _REDUNDANT, list(frames.LINEAGE))


def _unread(store: Store, reading: Reading) -> _Unread:
    marks = dict(reading.frame("log_marks", columns=["id", "version"]).iter_rows())
    (recalls, recalled), (reads, read) = (
        store.log_since(name, marks.get(name, 0), columns) for name, columns in _COLUMNS.items()
    )
    return _Unread(recalls, reads, pl.DataFrame({"id": [RECALLS, READS], "version": [recalled, read]}))


def _count_facts(tx: Transaction, recalls: pl.DataFrame, settings: DecaySettings) -> None:
    stored = _stored(tx, "fact_usage", recalls["fact_id"])
    tx.upsert("fact_usage", _with_birth(fold_recalls(stored, recalls, settings), stored))


def _count_entities(tx: Transaction, reads: pl.DataFrame) -> None:
    usage, days = (
        _stored(tx, name, reads["entity_id"], key)
        for name, key in (("entity_usage", "id"), ("entity_days", "entity_id"))
    )
    by_entity, by_day = fold_reads(usage, days, reads)
    met = company(reads)
    pairs = _stored(tx, "co_occurrences", met["id"])
    tx.upsert("entity_usage", _with_birth(by_entity, usage))
    tx.upsert("entity_days", _with_birth(by_day, days))
    tx.upsert("co_occurrences", _with_birth(fold_company(pairs, met), pairs))


def _marks_of(settings: DecaySettings) -> dict[str, float]:
    """How links fade, as it is kept for the sweeps until the next decay."""
    return {
        f"{_FADING}interval_secs": settings.link_weight_decay_interval_secs,
        f"{_FADING}lambda": settings.link_weight_decay_lambda,
    }


def _fading_marks(reading: Reading) -> dict[str, float]:
    kept = reading.by_ids("metadata", [*_marks_of(DecaySettings())], ["id", "number"]).sort("id")
    return {**_marks_of(DecaySettings()), **dict(kept.iter_rows())}


def _fading(reading: Reading) -> DecaySettings:
    kept = {f"link_weight_decay_{name.removeprefix(_FADING)}": n for name, n in _fading_marks(reading).items()}
    return DecaySettings.model_validate(kept)


def _links(reading: Reading) -> pl.DataFrame:
    return reading.frame("fact_usage", "link_count > 0")


def _scores(reading: Reading, run: Run, settings: UseSettings) -> tuple[pl.DataFrame, pl.Series]:
    """ENTITY_SCORES that are to be written, and ids of those to be removed."""
    entities = reading.frame("entities", columns=["id", "created_at", "pinned", "merged_into"])
    merged = entities.filter(pl.col("merged_into").is_not_null())
    present = entities.join(merged, on="id", how="anti")
    where = f"kind = 'relation' AND {live_sql(run.now)}"
    relations = reading.frame("facts", where, ["subject_id", "object_id"])
    scores = weigh(present, _entity_usage(reading, merged), relations, run.now, settings)
    stored = reading.frame("entity_scores")
    return _with_birth(noticeable(scores, stored), stored), stored.join(present, on="id", how="anti")["id"]


def _entity_usage(reading: Reading, merged: pl.DataFrame) -> pl.DataFrame:
    steps = dict(merged.select("id", "merged_into").iter_rows())
    days = reading.by_ids("entity_days", [*steps, *steps.values()], ["entity_id", "day"], key="entity_id")
    columns = ["id", "access_count", "access_days", "last_access_at"]
    return entity_usage_of(reading.frame("entity_usage", columns=columns), days, steps)


def _stored(reading: Reading, name: str, ids: pl.Series, key: str = "id") -> pl.DataFrame:
    """Rows of a table whose key is among the ids; perhaps all rows, where there are many."""
    if ids.n_unique() <= MOST_NAMED:
        return reading.by_ids(name, ids, key=key)
    return reading.frame(name)


def _with_birth(rows: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The rows with the time at which each was first written."""
    return rows.join(stored.select("id", "created_at"), on="id", how="left")
