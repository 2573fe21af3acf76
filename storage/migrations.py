"""What a table lacks: the columns of a newer slowwave, and the indexes that it has grown into."""

from __future__ import annotations

from collections.abc import Iterable
from operator import methodcaller
from typing import TYPE_CHECKING

from .tables import SCHEMA_VERSION, TABLES, Role

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

    from .transactions import Transaction

VECTOR_INDEX_FROM = 10_000  # below, an exact scan is as fast
LOOKUP_INDEX_FROM = 2_000
EIGHT = 8  # vectors of another length cannot be quantised
UNINDEXED_SHARE = 0.2


def make_text_indexes(tx: Transaction, names: Iterable[str] = tuple(TABLES)) -> None:
    """Create the full-text indexes that search needs even on an empty table."""
    from lancedb.index import FTS

    for name in names:
        for column in TABLES[name].full_text:
            is_name = column == "name"  # stems and stop words would garble names
            config = FTS(with_position=False, stem=not is_name, remove_stop_words=not is_name)
            tx.rebuild(name, methodcaller("create_index", column, config=config))


def make_indexes(tx: Transaction, name: str) -> list[str]:
    """Make the indexes that the table has grown into; returns the columns."""
    from lancedb.index import IvfFlat, IvfRq

    handle = tx.handle(name)
    made = index_lookups(handle, name, tx)
    if TABLES[name].has_vector and vector_index_is_due(handle):
        config = IvfFlat(distance_type="dot") if tx.dims % EIGHT else IvfRq(distance_type="dot", num_bits=4)
        tx.rebuild(name, lambda table: table.create_index("vector", config=config))
        made.append("vector")
    return made


def index_lookups(handle: Table, name: str, tx: Transaction | None = None) -> list[str]:
    """Make the indexes of look-ups that pay by now and are not there; returns the columns."""
    from lancedb.index import Bitmap, BTree

    missing = missing_lookups(handle, name)
    for column in missing:
        work = methodcaller("create_index", column, config=Bitmap() if column in TABLES[name].few_values else BTree())
        tx.rebuild(name, work) if tx else work(handle)
    return missing


def missing_lookups(handle: Table, name: str) -> list[str]:
    """The columns whose index pays by now and is not there."""
    if handle.count_rows() < LOOKUP_INDEX_FROM:
        return []
    present = {c for index in handle.list_indices() for c in index.columns}
    return [c for c in dict.fromkeys((*TABLES[name].keys, *TABLES[name].few_values)) if c not in present]


def is_behind(handle: Table) -> bool:
    """Whether a look-up reads many rows one by one, because its index does not hold them yet."""
    rows = handle.count_rows()
    if rows < LOOKUP_INDEX_FROM:
        return False
    left_out = (index.num_unindexed_rows or 0 for index in handle.list_indices() if index.columns != ["vector"])
    return any(count > rows * UNINDEXED_SHARE for count in left_out)


def vector_index_is_due(handle: Table) -> bool:
    """Whether so much was written that vectors want an index, or a new one."""
    rows = handle.count_rows()
    if rows < VECTOR_INDEX_FROM:
        return False
    for index in handle.list_indices():
        if "vector" in index.columns:
            return bool((index.num_unindexed_rows or 0) > rows * UNINDEXED_SHARE)
    return bool(handle.count_rows("vector IS NOT NULL") >= VECTOR_INDEX_FROM)  # reads all of them


# Bringing a store that an older slowwave wrote up to this one's schema, as one commit.


def migrate(db: DBConnection, tx: Transaction) -> None:
    """Bring the tables up to this schema: make what is missing, empty, and leave out what is no more.

    Columns that are added must be nullable.
    """
    if tx.lease.schema_version >= SCHEMA_VERSION:
        return
    tx.more["schema_version"] = SCHEMA_VERSION
    existing = set(db.list_tables(limit=1000).tables)
    for name, table in TABLES.items():
        if name not in existing:
            db.create_table(name, schema=table.schema(tx.dims))
        if table.role is not Role.LOG and name not in tx.versions:
            tx.adopt(name)
        _fit_columns(db, tx, name)
    for name in tx.versions.keys() - TABLES.keys():
        del tx.versions[name]
    make_text_indexes(tx, [name for name in tx.before if not tx.before[name]])


def _fit_columns(db: DBConnection, tx: Transaction, name: str) -> None:
    table, wanted = db.open_table(name), TABLES[name].schema(tx.dims)
    missing = [f for f in wanted if f.name not in table.schema.names]
    gone = [column for column in table.schema.names if column not in wanted.names]

    def fit(handle: Table) -> None:
        if missing:
            handle.add_columns(missing)
        if gone:
            handle.drop_columns(gone)

    if TABLES[name].role is Role.LOG:
        fit(table)
    elif missing or gone:
        tx.rebuild(name, fit)
