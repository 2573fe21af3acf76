"""A store: namespaces, each a git-like history of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from slowwave.errors import StoreMismatch, UnknownName, UnusableInput
from slowwave.settings import RetentionSettings

from .connection import check_namespace, connect, namespaces, place_for_making
from .head import Head, HeadRow, create_head
from .rows import CREATED, to_rows
from .snapshots import Snapshot, read_rows
from .tables import SCHEMA_VERSION, TABLES, Role, tables_of
from .transactions import Transaction

if TYPE_CHECKING:
    from lancedb.db import DBConnection

PINNED = (Role.STATE, Role.HISTORY)


class Store:
    """One namespace of a store, open for reading and writing. Cheap to open; not to be pickled: pass uri and name."""

    def __init__(self, uri: str, namespace: str, db: DBConnection, retention: RetentionSettings) -> None:
        self.uri, self.namespace, self.retention = uri, namespace, retention
        self.db = db
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # tells when a commit is published
        self._row = HeadRow(db)

    @classmethod
    def open(
        cls,
        uri: str,
        namespace: str = "default",
        *,
        retention: RetentionSettings | None = None,
        embedding: tuple[str, int] | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> Store:
        """Open a namespace that exists; `embedding` is (model, dims) and must be the one it was made with."""
        store = cls.attach(uri, namespace, retention=retention, storage_options=storage_options)
        store._check()
        if embedding:
            store.require(embedding)
        return store

    @classmethod
    def attach(
        cls,
        uri: str,
        namespace: str = "default",
        *,
        retention: RetentionSettings | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> Store:
        """Open a namespace without a look at its state: for `doctor`, which must get at a damaged one."""
        known = namespaces(uri)
        if not known:
            raise UnusableInput(
                f"There is no store at {uri!r}.", "Give --store, or make one with `slowwave ingest PATH`."
            )
        if check_namespace(namespace) not in known:
            raise UnknownName("namespace", namespace, known)
        return cls(uri, namespace, connect(uri, namespace, storage_options), retention or RetentionSettings())

    @classmethod
    def create(
        cls,
        uri: str,
        namespace: str,
        embedding: tuple[str, int],
        *,
        retention: RetentionSettings | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> Store:
        """Open a namespace, making it first if need be; safe when several processes do so at once."""
        if check_namespace(namespace) not in namespaces(uri):
            with place_for_making(uri, namespace) as place:
                make_tables(connect(place, namespace, storage_options), *embedding)
                cls.open(place, namespace, storage_options=storage_options)  # makes the indexes
        return cls.open(uri, namespace, retention=retention, embedding=embedding, storage_options=storage_options)

    @property
    def head(self) -> Head:
        """The published state and the lease."""
        return self._row.read()

    def snapshot(self, *, commit: int | None = None, run: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or the state after a commit, after a run, or at a time."""
        head = self.head
        newest = Snapshot(self.db, head.versions, head.sequence, head.dims)
        if commit is None and run is None and at is None:
            return newest
        row = self._commit_row(newest, commit, run, at)
        versions = {**json.loads(row["versions"]), "commits": head.versions["commits"]}
        return Snapshot(self.db, versions, row["sequence"], head.dims)

    @contextmanager
    def commit(
        self, run_id: str, kind: str, now: datetime | None = None, *, is_repair: bool = False, **more: int | str
    ) -> Iterator[Transaction]:
        """Write under the lease; all of it is published at the end, none of it if the body raises.

        A body that writes nothing leaves no commit. `more` are head columns that change with it. Only a repair may
        start while a table is missing.
        """
        held = self._row.acquire(run_id, self.retention.lease_s, self.retention.lease_wait_s)
        tx = self._transaction(held, run_id, now or self.clock())
        try:
            tx.more.update(more)
            tx.recover(is_repair)
            yield tx
            tx.finish()
            if tx.before or tx.more:
                tx.publish(kind)
            else:
                self._row.release(tx.held)
        except BaseException:
            tx.abandon()
            raise

    def _transaction(self, held: Head, run_id: str, now: datetime) -> Transaction:
        return Transaction(self.db, self._row, held, self.retention.lease_s, run_id, now, self.clock)

    def append(self, name: str, frame: pl.DataFrame, now: datetime | None = None, run_id: str = "") -> None:
        """Add rows to a log table: no lease, no commit, not undone."""
        if TABLES[name].role is not Role.LOG:
            raise ValueError(f"{name} is not a log: write it inside a commit")
        if len(frame):
            rows = to_rows(name, frame, self.head.dims, now or datetime.now(UTC), run_id)
            self.db.open_table(name).add(rows)

    def log(self, name: str, where: str | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """Rows of a log table as they are now."""
        return read_rows(self.db.open_table(name), where, columns)

    def log_since(self, name: str, version: int, columns: Sequence[str]) -> tuple[pl.DataFrame, int]:
        """Rows that were appended to a log after one of its versions (0: all), and the version up to which they go.

        Compaction and appends of other processes meanwhile change neither. A log that was made anew since is read from
        its beginning.
        """
        table = self.db.open_table(name)
        newest = table.version
        table.checkout(newest)
        return read_rows(table, f"{CREATED} > {version if version <= newest else 0}", columns), newest

    def commits(self) -> pl.DataFrame:
        """All commits, oldest first."""
        return self.snapshot().frame("commits").sort("sequence")

    def _commit_row(
        self, newest: Snapshot, commit: int | None, run: str | None, at: datetime | None
    ) -> Mapping[str, Any]:
        rows = newest.frame("commits").sort("sequence")
        match: pl.Expr = pl.lit(True)
        if commit is not None:
            match &= pl.col("sequence") == commit
        if run is not None:
            match &= pl.col("run_id") == run
        if at is not None:
            match &= pl.col("at") <= at
        found = rows.filter(match)
        if found.is_empty():
            asked = f"commit {commit}" if commit is not None else f"run {run}" if run is not None else f"{at}"
            raise UnknownName("state", asked, rows["run_id"].unique().to_list())
        return found.row(-1, named=True)

    def require(self, embedding: tuple[str, int]) -> None:
        """Raise `StoreMismatch` unless the vectors are of this (model, dims)."""
        head = self.head
        if (head.embed_model, head.dims) != embedding:
            raise StoreMismatch(
                f"The store holds vectors of {head.embed_model} ({head.dims} dimensions), "
                f"not of {embedding[0]} ({embedding[1]}).",
                f'Set embedder = "{head.embed_model}" in slowwave.toml; changing it takes `slowwave reembed`.',
            )

    def _check(self) -> None:
        head = self.head
        if not head.sequence:
            self._make_indexes()
        if head.schema_version > SCHEMA_VERSION:
            raise StoreMismatch(
                f"The store has schema version {head.schema_version}, this slowwave knows {SCHEMA_VERSION}.",
                "Upgrade slowwave.",
            )
        if head.schema_version < SCHEMA_VERSION:
            from .migrations import migrate

            migrate(self)

    def _make_indexes(self) -> None:
        from .upkeep import make_text_indexes

        with self.commit("init", "init") as tx:
            if tx.sequence == 1:  # whoever came second finds it done
                make_text_indexes(tx)


def make_tables(db: DBConnection, model: str, dims: int) -> None:
    """Every table, empty, and the head that makes them a namespace."""
    made = {name: db.create_table(name, schema=table.schema(dims), exist_ok=True) for name, table in TABLES.items()}
    create_head(db, {name: made[name].version for name in tables_of(*PINNED)}, SCHEMA_VERSION, model, dims)
