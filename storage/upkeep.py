"""Upkeep: compaction, indexes and retention, as a commit that changes no row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from lancedb.table import Table

    from .store import Store
    from .transactions import Transaction

VECTOR_INDEX_FROM = 10_000  # below, an exact scan is as fast
LOOKUP_INDEX_FROM = 2_000
MANY_SEGMENTS = 8
UNINDEXED_SHARE = 0.2
HEAD_HISTORY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What upkeep did: tables compacted and indexes made."""

    compacted: tuple[str, ...]
    indexed: tuple[str, ...]


def make_text_indexes(tx: Transaction) -> None:
    """Create the full-text indexes that search needs even on an empty table."""
    from lancedb.index import FTS

    for name, table in TABLES.items():
        for column in table.full_text:
            is_name = column == "name"  # stems and stop words would garble names
            config = FTS(with_position=False, stem=not is_name, remove_stop_words=not is_name)
            tx.rebuild(name, lambda handle, c=column, f=config: handle.create_index(c, config=f))


def tend(store: Store, run_id: str, now: datetime, *, thorough: bool = False) -> UpkeepReport:
    """Compact what is fragmented, index what has grown, drop versions older than the retention.

    `thorough` tends every table; otherwise only those with many fragments or much that is not indexed.
    """
    keep = timedelta(days=store.retention.undo_days)
    compacted, indexed = [], []
    with store.commit(run_id, "upkeep", now) as tx:
        for name in tables_of(Role.STATE, Role.HISTORY):
            handle = tx.handle(name)
            if thorough or _is_fragmented(handle):
                tx.rebuild(name, lambda table: table.optimize(cleanup_older_than=keep))
                compacted.append(name)
            indexed += [f"{name}.{column}" for column in _index(tx, name)]
    for name in tables_of(Role.LOG):
        store.db.open_table(name).optimize(cleanup_older_than=HEAD_HISTORY)
    from .connection import HEAD

    store.db.open_table(HEAD).optimize(cleanup_older_than=HEAD_HISTORY)
    return UpkeepReport(tuple(compacted), tuple(indexed))


def _is_fragmented(table: Table) -> bool:
    return int(table.stats().fragment_stats.num_small_fragments) > MANY_SEGMENTS


def _index(tx: Transaction, name: str) -> list[str]:
    """Make the indexes that the table has grown into; returns the columns."""
    from lancedb.index import BTree, IvfRq

    table, handle = TABLES[name], tx.handle(name)
    rows = handle.count_rows()
    present = {c for index in handle.list_indices() for c in index.columns}
    made = []
    if rows >= LOOKUP_INDEX_FROM:
        for column in (c for c in table.lookup if c not in present):
            tx.rebuild(name, lambda t, c=column: t.create_index(c, config=BTree()))
            made.append(column)
    if table.has_vector and rows >= VECTOR_INDEX_FROM and _vector_index_is_due(handle, rows):
        tx.rebuild(name, lambda t: t.create_index("vector", config=IvfRq(distance_type="dot", num_bits=4)))
        made.append("vector")
    return made


def _vector_index_is_due(handle: Table, rows: int) -> bool:
    for index in handle.list_indices():
        if "vector" in index.columns:
            stats = handle.index_stats(index.name)
            return stats is not None and stats.num_unindexed_rows > rows * UNINDEXED_SHARE
    return True
