"""Every table of a namespace, as `tables.toml` declares them: columns, keys, indexes, and the part in history.

A namespace is a directory, so no table has a namespace column.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .schema import Role, Table, column_of

SCHEMA_VERSION = 13
_LISTS = ("full_text", "lookup", "few_values")


def _table(name: str, entry: Mapping[str, Any]) -> Table:
    columns = {column: column_of(text) for column, text in entry["columns"].items()}
    lists = {key: tuple(entry[key].split()) for key in _LISTS if key in entry}
    rest = {key: entry[key] for key in ("row", "has_vector", "needs_approval", "whole") if key in entry}
    return Table(name, Role(entry.get("role", Role.STATE)), columns=columns, **rest, **lists)


_ENTRIES = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
TABLES: Mapping[str, Table] = {
    name: _table(name, _ENTRIES.get(entry.get("like", ""), {}) | entry) for name, entry in _ENTRIES.items()
}
WITH_VECTORS = tuple(name for name, table in TABLES.items() if table.has_vector)
HOLDING_VECTORS = tuple(name for name, table in TABLES.items() if table.holding_vectors)
"""The tables of `WITH_VECTORS`, and those that hold vectors in another column."""


def tables_of(*roles: Role) -> list[str]:
    """Names of the tables with one of these roles, in the order of `TABLES`."""
    return [name for name, table in TABLES.items() if table.role in roles]
