"""Bringing a store that an older slowwave wrote up to this one's schema, as one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .tables import SCHEMA_VERSION, TABLES, Role
from .upkeep import make_text_indexes

if TYPE_CHECKING:
    from .store import Store
    from .transactions import Transaction

STEPS: Mapping[int, Callable[[Transaction], None]] = {}
"""What must happen to the rows when a store reaches a version; new tables and columns need no step.

A column that is added to a table must be nullable.
"""


def migrate(store: Store) -> None:
    """Create missing tables, add missing columns empty, then run the steps of each version passed."""
    with store.commit("migrate", "migrate") as tx:
        reached = tx.held.schema_version
        if reached >= SCHEMA_VERSION:
            return
        tx.more["schema_version"] = SCHEMA_VERSION
        existing = set(store.db.list_tables(limit=1000).tables)
        for name, table in TABLES.items():
            if name not in existing:
                store.db.create_table(name, schema=table.schema(tx.dims))
            if table.role is not Role.LOG and name not in tx.versions:
                tx.adopt(name)
            _add_columns(store, tx, name)
        make_text_indexes(tx, [name for name in tx.before if not tx.before[name]])
        for version in range(reached + 1, SCHEMA_VERSION + 1):
            if version in STEPS:
                STEPS[version](tx)


def _add_columns(store: Store, tx: Transaction, name: str) -> None:
    table = store.db.open_table(name)
    missing = [f for f in TABLES[name].schema(tx.dims) if f.name not in table.schema.names]
    if not missing:
        return
    if TABLES[name].role is Role.LOG:
        table.add_columns(missing)
    else:
        tx.rebuild(name, lambda handle: handle.add_columns(missing))
