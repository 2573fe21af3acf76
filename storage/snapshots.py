"""A snapshot: every table at the versions of one commit. Reading it needs no lock and never sees half a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from slowwave.errors import StoreMismatch

from .rows import column_names, empty_frame, filled, id_filters, table_named
from .tables import TABLES, Role

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.query import ColumnOrdering
    from lancedb.table import Table


def read_rows(
    table: Table,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    order: Sequence[str] = (),
) -> pl.DataFrame:
    """Rows of one open table as a frame, filtered, projected and sorted inside LanceDB; `-name` sorts downwards."""
    query = table.search()
    if order:
        query = query.order_by([_ordering(name) for name in order])
    if where:
        query = query.where(where)
    if columns is not None:
        query = query.select(list(columns))
    frame = pl.from_arrow(query.limit(limit).to_arrow())
    assert isinstance(frame, pl.DataFrame)
    return frame


def _ordering(name: str) -> ColumnOrdering:
    from lancedb.query import ColumnOrdering

    return ColumnOrdering(column_name=name.removeprefix("-"), ascending=not name.startswith("-"))


class Reading:
    """What a snapshot and a transaction can both read."""

    dims: int

    def handle(self, name: str) -> Table:
        """The open LanceDB table."""
        raise NotImplementedError

    def frame(
        self,
        name: str,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        order: Sequence[str] = (),
    ) -> pl.DataFrame:
        """Rows of a table; by default every column but the vector."""
        wanted = list(columns) if columns is not None else column_names(name)
        return read_rows(self.handle(name), where, wanted, limit, order)

    def by_ids(
        self,
        name: str,
        ids: Sequence[str] | pl.Series,
        columns: Sequence[str] | None = None,
        *,
        key: str = "id",
        where: str | None = None,
        with_vector: bool = False,
    ) -> pl.DataFrame:
        """Rows whose `key` is among `ids`, in no particular order."""
        wanted = list(columns) if columns is not None else column_names(name)
        if with_vector and "vector" not in wanted:
            wanted.append("vector")
        distinct = sorted({i for i in ids if i is not None})
        more = f" AND ({where})" if where else ""
        parts = [self.frame(name, f"{chunk}{more}", wanted) for chunk in id_filters(distinct, key)]
        return pl.concat(parts) if parts else empty_frame(name, self.dims).select(wanted)

    def count(self, name: str, where: str | None = None) -> int:
        """Number of rows, optionally of those that match."""
        return int(self.handle(name).count_rows(where))


class Snapshot(Reading):
    """The state of a namespace at one commit."""

    def __init__(self, db: DBConnection, versions: Mapping[str, int], sequence: int, dims: int) -> None:
        self._db, self.versions, self.sequence, self.dims = db, dict(versions), sequence, dims
        self._handles: dict[str, Table] = {}
        self._columns: dict[str, frozenset[str]] = {}

    def handle(self, name: str) -> Table:
        """The table, checked out at the snapshot's version."""
        table_named(name)
        if name not in self._handles:
            table = self._db.open_table(name)
            if TABLES[name].role is not Role.LOG:
                _check_out(table, name, self.versions.get(name, 1))  # version 1 is the table before its first row
            self._handles[name] = table
        return self._handles[name]

    def frame(
        self,
        name: str,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        order: Sequence[str] = (),
    ) -> pl.DataFrame:
        """Rows of a table; columns that it did not have yet at that commit are empty."""
        wanted = list(columns) if columns is not None else column_names(name)
        held = self._columns_of(name)
        if held.issuperset(wanted):
            return self._read(name, where, wanted, limit, order)
        declared = {c: kind for c, kind in empty_frame(name, self.dims).schema.items() if c in wanted}
        known = [c for c in wanted if c in held or c not in declared]
        return filled(self._read(name, where, known, limit, order), declared).select(wanted)

    def _read(
        self, name: str, where: str | None, columns: Sequence[str], limit: int | None, order: Sequence[str]
    ) -> pl.DataFrame:
        try:
            return read_rows(self.handle(name), where, columns, limit, order)
        except (RuntimeError, OSError) as error:
            if "not found" not in str(error).lower():
                raise
            raise version_gone(name, self.versions.get(name, 1)) from error  # its files went while it was open

    def _columns_of(self, name: str) -> frozenset[str]:
        if name not in self._columns:
            self._columns[name] = frozenset(self.handle(name).schema.names)
        return self._columns[name]


def _check_out(table: Table, name: str, version: int) -> None:
    try:
        table.checkout(version)
    except (ValueError, RuntimeError, OSError) as error:
        raise version_gone(name, version) from error


def version_gone(name: str, version: int) -> StoreMismatch:
    """The error for a version that is no longer there."""
    return StoreMismatch(
        f"Version {version} of table {name} is gone.",
        "It is older than retention.undo_days or than the last `slowwave forget`, or the store is damaged: "
        "run `slowwave doctor`.",
    )
