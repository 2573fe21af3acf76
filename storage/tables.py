"""Every table of a namespace, as `slowwave/common/tables.toml` declares them: its role, keys, indexes and types.

A namespace is a directory, so no table has a namespace column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from slowwave.common.frames import DECLARED


class Role(StrEnum):
    """How a table takes part in the history of a store."""

    STATE = "state"  # pinned by every commit, reverted by undo
    HISTORY = "history"  # pinned by every commit, kept by undo: it tells what happened
    LOG = "log"  # append-only, outside commits: paid answers and access events survive any rollback


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column: its type, whether it may be empty, and its meaning."""

    type: pa.DataType
    meaning: str
    nullable: bool = True
    refers: str = ""  # the table whose id it holds
    is_derived: bool = False  # follows from other rows: a later refresh of it does not stand in the way of undo
    is_signal: bool = False  # a hint for readers: nobody has to approve it
    holds_vectors: bool = False  # vectors lie in it, or it names their model: a re-embedding writes it anew


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, its key, its columns, and what is indexed."""

    name: str
    role: Role
    row: str
    columns: Mapping[str, ColumnSpec]
    full_text: tuple[str, ...] = ()
    lookup: tuple[str, ...] = ()
    few_values: tuple[str, ...] = ()  # columns with a handful of values, by which rows are looked up
    has_vector: bool = False
    needs_approval: bool = False  # a change of its rows may wait for a person
    whole: str = ""  # undo takes all rows of all tables with this word back, or none: they say something only together

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which rows are looked up, or ranges of them are read: each has an index once that pays."""
        own = self.lookup if self.role is Role.LOG else ("id", *self.lookup)
        return tuple(dict.fromkeys(own))

    @property
    def refreshed(self) -> frozenset[str]:
        """Columns that a later run may refresh without building on the row: derived ones, and the stamps of writing."""
        derived = {name for name, column in self.columns.items() if column.is_derived}
        vector = {"vector"} if "embed_text_hash" in derived or self.is_rebuildable else set()
        return frozenset(derived | vector | set(STAMPS))

    @property
    def is_rebuildable(self) -> bool:
        """Whether all of it follows from other rows."""
        return all(column.is_derived for column in self.columns.values())

    def schema(self, dims: int) -> pa.Schema:
        """The Arrow schema, with vectors of `dims` float32."""
        fields = [pa.field("id", pa.string(), nullable=False)]
        fields += [pa.field(name, column.type, column.nullable) for name, column in self.columns.items()]
        if self.has_vector:
            fields.append(pa.field("vector", pa.list_(pa.float32(), dims)))
        fields += [pa.field(name, column.type, column.nullable) for name, column in STAMPS.items()]
        return pa.schema(fields)


_TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "time": pa.timestamp("us", tz="UTC"),
    "count": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "vectors": pa.list_(pa.float32()),
}


def column_of(text: str) -> ColumnSpec:
    """The column that a line such as `text required → facts: The fact.` declares; other words are a `ValueError`."""
    head, _, meaning = text.partition(": ")
    head, _, refers = head.partition(" → ")
    kind, *words = head.split()
    if unknown := {*words} - {"required", "derived", "signal", "vectors"}:
        raise ValueError(f"What does {', '.join(sorted(unknown))} mean in the column {text!r}?")
    has = {*words}.__contains__
    return ColumnSpec(_TYPES[kind], meaning, not has("required"), refers, has("derived"), has("signal"), has("vectors"))


STAMPS: Mapping[str, ColumnSpec] = {
    "created_at": column_of("time: When the row was first written."),
    "updated_at": column_of("time: When the row was last written."),
    "run_id": column_of("text: The run that last wrote it."),
}

SCHEMA_VERSION = 14
_LISTS = ("full_text", "lookup", "few_values")


def _table(name: str, entry: Mapping[str, Any]) -> Table:
    columns = {column: column_of(text) for column, text in entry["columns"].items()}
    lists: dict[str, Any] = {key: tuple(entry[key].split()) for key in _LISTS if key in entry}
    rest = {key: entry[key] for key in ("row", "has_vector", "needs_approval", "whole") if key in entry}
    return Table(name, Role(entry.get("role", Role.STATE)), columns=columns, **rest, **lists)


TABLES: Mapping[str, Table] = {
    name: _table(name, {**DECLARED.get(entry.get("like", ""), {}), **entry}) for name, entry in DECLARED.items()
}
WITH_VECTORS = tuple(name for name, table in TABLES.items() if table.has_vector)
HOLDING_VECTORS = tuple(
    name for name, table in TABLES.items() if table.has_vector or any(c.holds_vectors for c in table.columns.values())
)
"""The tables of `WITH_VECTORS`, and those that hold vectors in another column."""


def tables_of(*roles: Role) -> list[str]:
    """Names of the tables with one of these roles, in the order of `TABLES`."""
    return [name for name, table in TABLES.items() if table.role in roles]
