"""Upkeep: compaction, indexes and retention, as a commit that changes no row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from .connection import HEAD, files
from .migrations import index_lookups, is_behind, make_indexes, missing_lookups, vector_index_is_due
from .rows import quoted
from .schema import Role
from .store import Store
from .tables import TABLES, tables_of

if TYPE_CHECKING:
    from lancedb.table import Table

    from .snapshots import Snapshot

MANY_SEGMENTS = {Role.STATE: 8, Role.HISTORY: 32, Role.LOG: 8}
"""Fragments that a table may have: of state each makes a question slower, history is read by a handful of columns."""
LOOKED_AT_EVERY = 32  # commits; a small ingest makes seven of them, and a fragment or two of each table
WHILE_AT_IT = 0.5  # of those fragments: what is soon due is compacted with what is due, in one commit
HEAD_HISTORY = timedelta(hours=1)
NEVER = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What upkeep did: tables compacted and indexes made."""

    compacted: tuple[str, ...]
    indexed: tuple[str, ...]


def tend(
    store: Store, run_id: str, now: datetime, *, thorough: bool = False, after_little: bool = False
) -> UpkeepReport:
    """Compact what is fragmented, index what has grown, drop versions older than the retention.

    Compaction takes into the indexes what was written since. `thorough` tends every table that was ever written;
    otherwise those with many fragments or much that is not indexed, where there are any: else no lease is taken. To
    look at all tables takes longer than to write a message: `after_little` that is done only every few commits.
    """
    compacted, indexed = [], []
    snapshot = store.snapshot()
    if after_little and not _is_looked_at(snapshot, run_id):
        return UpkeepReport((), ())
    pinned = [name for name in tables_of(Role.STATE, Role.HISTORY) if not snapshot.is_blank(name)]
    if thorough or any(_is_due(snapshot.handle(name), name) for name in pinned):
        with store.commit(run_id, "upkeep", now) as tx:
            for name in pinned:
                always = thorough and name != "commits"  # upkeep is a commit itself and would never come to rest
                if always or _is_fragmented(tx.handle(name), name, WHILE_AT_IT) or is_behind(tx.handle(name)):
                    tx.rebuild(name, lambda table: table.optimize(cleanup_older_than=NEVER))
                    compacted.append(name)
                indexed += [f"{name}.{column}" for column in make_indexes(tx, name)]
            tx.keep_recovered()
            if not compacted:
                _tend_head(store)
    if compacted:
        _drop_old_versions(store, run_id, now, compacted)
    for name in tables_of(Role.LOG):
        log = store.db.open_table(name)
        if thorough or _is_due(log, name):
            log.optimize(cleanup_older_than=HEAD_HISTORY)
            indexed += [f"{name}.{column}" for column in index_lookups(log, name)]
    return UpkeepReport(tuple(compacted), tuple(indexed))


def _is_looked_at(snapshot: Snapshot, run_id: str) -> bool:
    """Whether one of the last commits since a run's first was the one after which all tables are looked at."""
    first = snapshot.frame("commits", f"run_id = {quoted(run_id)}", ["sequence"])["sequence"].min()
    return not isinstance(first, int) or first // LOOKED_AT_EVERY != (snapshot.sequence + 1) // LOOKED_AT_EVERY


def _is_due(table: Table, name: str) -> bool:
    """Whether the table is to be compacted, or has grown into an index."""
    return (
        _is_fragmented(table, name)
        or is_behind(table)
        or bool(missing_lookups(table, name))
        or (TABLES[name].has_vector and vector_index_is_due(table))
    )


def _drop_old_versions(store: Store, run_id: str, now: datetime, names: Sequence[str]) -> None:
    """Only once compaction is published: until then the head may name a version older than the retention."""
    keep = timedelta(days=store.retention.undo_days)
    with store.commit(run_id, "upkeep", now) as tx:
        for name in names:
            if not tx.was_ahead(name):
                tx.rebuild(name, lambda table: table.optimize(cleanup_older_than=keep))
        _tend_head(store)


def _tend_head(store: Store) -> None:
    """Only under the lease: a swap of the head that meets its compaction would look like a lost lease."""
    store.db.open_table(HEAD).optimize(cleanup_older_than=HEAD_HISTORY)


def _is_fragmented(table: Table, name: str, share: float = 1.0) -> bool:
    stats: Any = table.stats()  # a dict, whatever its annotation says
    return int(stats["fragment_stats"]["num_small_fragments"]) > MANY_SEGMENTS[TABLES[name].role] * share


def stored_bytes(store: Store) -> int:
    """Bytes of all files of the namespace, older versions and indexes included."""
    return sum(files(f"{store.uri.rstrip('/')}/{store.namespace}", store.db.storage_options).values())
