"""A transaction: writes under the lease that become visible together, or not at all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from slowwave.errors import Fenced

from .head import Head, HeadRow
from .rows import exact_rows, id_filters, table_named, to_rows
from .snapshots import Reading
from .tables import Role

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table


class Transaction(Reading):
    """Writes of one commit. Each write checks that it moved its table by exactly one version (fencing)."""

    def __init__(self, db: DBConnection, row: HeadRow, held: Head, lease_s: float, run_id: str, now: datetime) -> None:
        self._db, self._row, self._held, self._lease_s = db, row, held, lease_s
        self.run_id, self.now, self.dims = run_id, now, held.dims
        self.undoes: list[str] = []
        self._handles: dict[str, Table] = {}
        self.before: dict[str, int] = {}
        self.versions: dict[str, int] = dict(held.versions)
        self.recovered = self._recover()

    @property
    def held(self) -> Head:
        """The head under whose lease this transaction writes."""
        return self._held

    @property
    def sequence(self) -> int:
        """The number that this commit will have."""
        return self._held.sequence + 1

    def handle(self, name: str) -> Table:
        """The table at its newest version, which is this transaction's own."""
        table_named(name)
        if name not in self._handles:
            self._handles[name] = self._db.open_table(name)
        return self._handles[name]

    def upsert(self, name: str, frame: pl.DataFrame) -> None:
        """Insert or replace full rows by id; nothing happens for an empty frame."""
        if len(frame):
            self._merge(name, to_rows(name, frame, self.dims, self.now, self.run_id))

    def put_back(self, name: str, frame: pl.DataFrame) -> None:
        """Write rows exactly as they were read earlier, stamps included."""
        if len(frame):
            self._merge(name, exact_rows(name, frame, self.dims))

    def delete(self, name: str, ids: Sequence[str] | pl.Series) -> None:
        """Remove rows by id."""
        for where in id_filters(sorted(set(ids))):
            self._write(name, lambda table, where=where: table.delete(where))

    def restore(self, name: str, version: int) -> None:
        """Make an earlier version of a table the current one."""
        self._write(name, lambda table: table.restore(version))

    def rebuild(self, name: str, work: Callable[[Table], Any]) -> None:
        """Run work that keeps the rows as they are (indexes, compaction) and may move the table by any step."""
        self._renew()
        self._before(name)
        work(self.handle(name))
        self.versions[name] = self.handle(name).version

    def adopt(self, name: str) -> None:
        """Take a table that was just created into the history of the namespace."""
        self.before.setdefault(name, 0)
        self.versions[name] = self.handle(name).version

    def _merge(self, name: str, rows: pa.Table) -> None:
        def merge(table: Table) -> object:
            merging = table.merge_insert("id").use_index(False)  # the index path lets duplicate keys through
            return merging.when_matched_update_all().when_not_matched_insert_all().execute(rows, on_bad_vectors="null")

        self._write(name, merge)

    def _write(self, name: str, work: Callable[[Table], object]) -> None:
        self._renew()
        self._before(name)
        table = self.handle(name)
        work(table)
        moved = table.version - self.versions[name]
        if moved != 1:
            raise Fenced(f"Table {name} moved by {moved} versions in one write: another writer is at work.", "Run it again.")
        self.versions[name] = table.version

    def _before(self, name: str) -> None:
        if table_named(name).role is Role.LOG:
            raise ValueError(f"{name} is a log: append to it with Store.append")
        self.before.setdefault(name, self.versions[name])

    def _renew(self) -> None:
        """Extend the lease when a third of it has passed, so that a long commit is not taken for dead."""
        if self._held.lease_until - time.time() < self._lease_s * 2 / 3:
            self._held = self._row.renew(self._held, self._lease_s)

    def _recover(self) -> dict[str, tuple[int, int]]:
        """Put every table that a dead writer left ahead of the head back to the head's version."""
        found: dict[str, tuple[int, int]] = {}
        for name, version in self._held.versions.items():
            table = self.handle(name)
            latest = table.version
            if latest != version:
                table.restore(version)
                self.versions[name] = table.version
                found[name] = (version, latest)
        return found

    def abandon(self) -> None:
        """Best effort to leave no trace; the next writer's recovery would do the same."""
        if self._row.read().lease_count != self._held.lease_count:
            return
        for name, version in self.before.items():
            if version and self.handle(name).version != version:
                self.handle(name).restore(version)
        self._row.release(self._held)

    def publish(self, kind: str, more: Mapping[str, int | str]) -> int:
        """Append the row of this commit and move the head; returns the commit's number."""
        row = pl.DataFrame(
            {
                "id": [f"c_{self.sequence:010d}"], "sequence": [self.sequence], "kind": [kind], "at": [self.now],
                "versions": [json.dumps(self.versions)], "before": [json.dumps(self.before)], "undoes": [self.undoes],
            },
            schema_overrides={"undoes": pl.List(pl.String)},
        )
        rows = to_rows("commits", row, self.dims, self.now, self.run_id)
        self._write("commits", lambda table: table.add(rows))
        self._row.publish(self._held, self.versions, **more)
        return self.sequence
