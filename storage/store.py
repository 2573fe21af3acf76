"""A store: namespaces, each a git-like history of tables."""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.errors import Fenced, LeaseBusy, NoStoreYet, StoreMismatch, UnknownName
from slowwave.common.settings import RetentionSettings

from .connection import HEAD, NO_STORE, check_bucket, connect, has_namespace, is_remote, namespaces, place_for_making
from .disk import in_plain_words, plain_errors
from .lease import Head, HeadRow, Lease, create_head, make_once
from .row_steps import FEW, Pieces, learn_steps, tidy_steps
from .rows import CREATED, to_rows
from .snapshots import IN_MEMORY, Place, Reading, Snapshot, open_table, read_rows
from .tables import SCHEMA_VERSION, TABLES, Role, tables_of
from .transactions import Transaction

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

log = logging.getLogger("slowwave")

# When commits were made, told so that it never runs against their order, whatever the clocks of the writers did.


def in_order(times: pl.Series) -> pl.Series:
    """The times of commits, given in the order of the commits, so that none is earlier than the one before.

    A clock that jumped shows in times that cannot all be right. As few as possible are taken to be wrong (what is left
    is a longest series that does not fall); a wrong one becomes the right one before it, or the first right one.
    """
    if times.is_sorted():
        return times
    backwards = -times.to_physical().to_numpy()[::-1]  # of series of one length that which has the earlier commits
    right = pl.Series(_longest_rise(backwards)[::-1])
    return pl.select(pl.when(right).then(times).forward_fill().backward_fill().alias(times.name)).to_series()


def _longest_rise(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Marks a longest subsequence that does not fall (patience sorting)."""
    ends: list[int] = []
    places: list[int] = []
    before = np.full(len(numbers), -1)
    for place, number in enumerate(numbers.tolist()):
        length = bisect_right(ends, number)
        before[place] = places[length - 1] if length else -1
        ends[length : length + 1] = [number]
        places[length : length + 1] = [place]
    marked = np.zeros(len(numbers), dtype=bool)
    place = places[-1]
    while place >= 0:
        marked[place] = True
        place = int(before[place])
    return marked


REQUESTS = 8  # at once, while a namespace is made on object storage
PINNED = (Role.STATE, Role.HISTORY)
JOINING = "upkeep"  # the kind of the commit that joins pieces, and who makes it
RECORDS = ("run", "gate")  # commits that tell what a run did: no vector is written or compared


class Store:
    """One namespace of a store, open for reading and writing. Cheap to open; not to be pickled: pass uri and name."""

    beginnings: ClassVar[dict[str, Callable[[Transaction], None]]] = {}
    """By run of this process: what its first commit writes, too."""

    def __init__(self, uri: str, namespace: str, db: DBConnection, retention: RetentionSettings) -> None:
        self.uri, self.namespace, self.retention = uri, namespace, retention
        self.db = db
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # tells when a commit is published
        self.embedding: tuple[str, int] | None = None  # of who opened it with one: it may not write beside another
        self.out_of_sight: Callable[[Reading], Mapping[str, str]] | None = None  # rows, by table, that are not seen
        with plain_errors(str(db.uri), HEAD):
            self._row = HeadRow(db)
        # tables at the version they had last: opening one takes as long as reading a row
        self._pieces = Pieces()
        self._shared: dict[str, tuple[Place, Table]] = {}
        self._written: dict[str, tuple[Place, Table]] | None = (
            None if is_remote(uri) else {}
        )  # elsewhere handles see newer versions

    @classmethod
    def open(
        cls,
        uri: str,
        namespace: str = "default",
        *,
        retention: RetentionSettings | None = None,
        embedding: tuple[str, int] | None = None,
    ) -> Store:
        """Open a namespace that exists; `embedding` is (model, dims) and must be the one it was made with."""
        store = cls.attach(uri, namespace, retention=retention)
        store._check()
        if embedding:
            store.snapshot().require(embedding)
            store.embedding = embedding
        return store

    @classmethod
    def attach(
        cls,
        uri: str,
        namespace: str = "default",
        *,
        retention: RetentionSettings | None = None,
    ) -> Store:
        """Open a namespace without a look at its state: for `doctor`, which must get at a damaged one."""
        if not has_namespace(uri, namespace):
            known = namespaces(uri)
            if known:
                raise UnknownName("namespace", namespace, known)
            raise NoStoreYet(f"There is no store at {uri!r}.", NO_STORE)
        return cls(uri, namespace, connect(uri, namespace), retention or RetentionSettings())

    @classmethod
    def create(
        cls,
        uri: str,
        namespace: str,
        embedding: tuple[str, int],
        *,
        retention: RetentionSettings | None = None,
    ) -> Store:
        """Open a namespace, making it first if need be; safe when several processes do so at once."""
        if not has_namespace(uri, namespace):
            if is_remote(uri):
                check_bucket(uri)
                db, lease_s = connect(uri, namespace), RetentionSettings().lease_s
                make_once(db, lambda: make_tables(db, *embedding), lambda: has_namespace(uri, namespace), lease_s)
            else:
                with place_for_making(uri, namespace) as place:
                    make_tables(connect(place, namespace), *embedding)
                    cls.open(place, namespace)  # makes the indexes
        return cls.open(uri, namespace, retention=retention, embedding=embedding)

    @property
    def head(self) -> Head:
        """The published state and the lease; what others wrote up to it is learned where somebody follows it."""
        with plain_errors(str(self.db.uri), HEAD):
            head = self._row.read()
        learn_steps(str(self.db.uri), head.sequence)
        return head

    def snapshot(self, *, commit: int | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or the state after a commit, or at a time.

        Raises `StoreMismatch` for the newest one where the namespace was re-embedded since this store was opened.
        """
        head = self.head
        newest = Snapshot(self.db, head.versions, head.sequence, (head.embed_model, head.dims), self._shared)
        if commit is None and at is None:
            self._check_embedding(head)
            self._hide(newest)
            return newest
        row = self._commit_row(newest, commit, at)
        versions = {**json.loads(row["versions"]), "commits": head.versions["commits"]}
        return Snapshot(self.db, versions, row["sequence"], (row["embed_model"], row["dims"]))

    @contextmanager
    def commit(
        self,
        run_id: str,
        kind: str,
        now: datetime | None = None,
        *,
        is_repair: bool = False,
        waits: bool = True,
        **more: int | str,
    ) -> Iterator[Transaction]:
        """Write under the lease; all of it is published at the end, none of it if the body raises.

        A body that writes nothing leaves no commit. `more` are head columns that change with it. Only a repair may
        start while a table is missing. Where it does not wait, it raises `LeaseBusy` if others write, or wait to.
        Raises `StoreMismatch` where the namespace was re-embedded since this store was
        opened: what was read and embedded before fits no longer.
        """
        with plain_errors(str(self.db.uri)):
            wait_s = self.retention.lease_wait_s if waits else 0.0
            lease = self._row.acquire(run_id, self.retention.lease_s, wait_s)
        learn_steps(str(self.db.uri), lease.sequence)
        tx = self._transaction(lease, run_id, now or self.clock())
        try:
            if kind not in RECORDS:
                self._check_embedding(lease)
            tx.more.update(more)
            tx.recover(is_repair)
            self._hide(tx)
            yield tx
            tx.finish()
            if tx.before and (begin := self.beginnings.get(run_id)):
                begin(tx)
            if tx.before or tx.more:
                tx.publish(kind)
                self.beginnings.pop(run_id, None)
            else:
                self._row.release(tx.lease)
        except BaseException as error:
            tx.abandon()
            if plain := in_plain_words(error, str(self.db.uri)):
                raise plain from error
            raise
        try:
            self._join_pieces(tx, kind)
            if (known := IN_MEMORY.get(str(self.db.uri))) is not None:
                known.current(tx.versions)  # who asks next finds it done
        except Exception as error:  # the commit itself is published: nobody should write it again
            log.warning("what follows a commit was not done: %s", error)

    def _join_pieces(self, tx: Transaction, kind: str) -> None:
        """Join the small pieces that this process left, now and then; another writer only puts it off."""
        if kind == JOINING:
            return
        self._pieces.add(tx.small_puts(FEW))
        if not (due := self._pieces.due()):
            return
        tidy_steps(str(self.db.uri))
        try:
            with self.commit(JOINING, JOINING, tx.now, waits=False) as joining:
                for name, ids in due.items():
                    joining.rewrite(name, ids)
        except (LeaseBusy, Fenced, StoreMismatch) as error:
            self._pieces.add(due)
            log.info("small pieces stay as they are for now: %s", error)

    def _hide(self, reading: Reading) -> None:
        if self.out_of_sight is not None:
            reading.hidden = self.out_of_sight(reading)

    def _transaction(self, lease: Lease, run_id: str, now: datetime) -> Transaction:
        return Transaction(self.db, self._row, lease, run_id, now, self.clock, self._written)

    def append(self, name: str, frame: pl.DataFrame, now: datetime | None = None, run_id: str = "") -> None:
        """Add rows to a log table: no lease, no commit, not undone."""
        if TABLES[name].role is not Role.LOG:
            raise ValueError(f"{name} is not a log: write it inside a commit")
        if len(frame):
            rows = to_rows(name, frame, self.head.dims, now or datetime.now(UTC), run_id)
            with plain_errors(str(self.db.uri), name):
                self.db.open_table(name).add(rows)

    def log(self, name: str, where: str | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """Rows of a log table as they are now."""
        return read_rows(open_table(self.db, name), where, columns)

    def log_since(self, name: str, version: int, columns: Sequence[str]) -> tuple[pl.DataFrame, int]:
        """Rows that were appended to a log after one of its versions (0: all), and the version up to which they go.

        Compaction and appends of other processes meanwhile change neither. A log that was made anew since is read from
        its beginning.
        """
        table = open_table(self.db, name)
        newest = table.version
        table.checkout(newest)
        return read_rows(table, f"{CREATED} > {version if version <= newest else 0}", columns), newest

    def commits(self) -> pl.DataFrame:
        """All commits, oldest first."""
        return self.snapshot().frame("commits").sort("sequence")

    def _commit_row(self, newest: Snapshot, commit: int | None, at: datetime | None) -> Mapping[str, Any]:
        rows = newest.frame("commits").sort("sequence")
        match: pl.Expr = pl.lit(True)
        if commit is not None:
            match &= pl.col("sequence") == commit
        if at is not None:
            match &= in_order(rows["at"]) <= at
        found = rows.filter(match)
        if found.is_empty():
            wanted = f"{at}" if commit is None else f"commit {commit}"
            raise UnknownName("state", wanted, rows["run_id"].unique().to_list())
        return found.row(-1, named=True)

    def _check_embedding(self, head: Head) -> None:
        if self.embedding and self.embedding != (head.embed_model, head.dims):
            raise StoreMismatch(
                f"The namespace was re-embedded with {head.embed_model} while this run was at work with "
                f"{self.embedding[0]}. What it had committed before is kept, the rest was not written.",
                f'Run it again, with embedder = "{head.embed_model}" in slowwave.toml.',
            )

    def _check(self) -> None:
        head = self.head
        if not head.sequence:
            from .migrations import make_text_indexes

            with self.commit("init", "init") as tx:
                if tx.sequence == 1:  # whoever came second finds it done
                    make_text_indexes(tx)
        if head.schema_version > SCHEMA_VERSION:
            raise StoreMismatch(
                f"The store has schema version {head.schema_version}, this slowwave knows {SCHEMA_VERSION}.",
                "Upgrade slowwave.",
            )
        if head.schema_version < SCHEMA_VERSION:
            from .migrations import migrate

            with self.commit("migrate", "migrate") as tx:
                migrate(self.db, tx)


def make_tables(db: DBConnection, model: str, dims: int) -> None:
    """Every table, empty, and the head that makes them a namespace."""

    def make(name: str) -> int:
        return int(db.create_table(name, schema=TABLES[name].schema(dims), exist_ok=True).version)

    if is_remote(str(db.uri)):  # each takes a dozen requests
        with ThreadPoolExecutor(REQUESTS) as pool:
            versions = dict(zip(TABLES, pool.map(make, TABLES), strict=True))
    else:
        versions = {name: make(name) for name in TABLES}
    create_head(db, {name: versions[name] for name in tables_of(*PINNED)}, SCHEMA_VERSION, model, dims)
