"""A transaction: writes under the lease that become visible together, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from slowwave.common.errors import Fenced, StoreMismatch
from slowwave.common.frames import of_arrow

from .connection import add_all, answer, is_remote, query_of
from .disk import begin_again, is_newest_on_disk, leap, manifest_on_disk
from .lease import HeadRow, Lease
from .row_steps import FEW, Change, RowPlace, RowStep, keep_steps, kept_rows, leave_steps, remove_steps, taken
from .rows import IDS_PER_FILTER, MARK, ROW, exact_rows, id_filters, single_row, table_named, to_rows
from .snapshots import Place, Reading, Snapshot, numbered_rows, tables_in_memory, version_gone
from .tables import Role

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

    from .residents import Resident

T = TypeVar("T")
_TRIES = 5
LARGE = 10_000  # rows from which looking a few keys up is faster than comparing all


class Transaction(Reading):
    """Writes of one commit. Each write checks that it moved its table by exactly one version (fencing).

    `more` are head columns that change with it, `recovered` the tables that a dead writer had left ahead of the head,
    `missing` the tables that are gone, `rows` how many rows were written and deleted.
    """

    def __init__(
        self,
        db: DBConnection,
        row: HeadRow,
        lease: Lease,
        run_id: str,
        now: datetime,
        clock: Callable[[], datetime],
        handles: dict[str, tuple[Place, Table]] | None = None,
    ) -> None:
        self._db, self._row, self._lease = db, row, lease
        self.run_id, self.now, self.dims, self._clock = run_id, now, lease.dims, clock
        self.undoes: list[str] = []
        self._handles: dict[str, Table] = {}
        self._kept = {} if handles is None else handles  # those of earlier commits, which see newer versions
        self._used: set[str] = set()
        self.before: dict[str, int] = {}
        self.versions: dict[str, int] = dict(lease.versions)
        self.more: dict[str, int | str] = {}
        self.recovered: dict[str, tuple[int, int]] = {}
        self.missing: list[str] = []
        self._row_changes: dict[str, list[Change] | None] = {}  # of the rows of tables; None: not known row by row
        self._ahead: dict[str, tuple[int, Resident]] = {}  # tables in memory after so many of these changes
        self._left: dict[str, tuple[int, dict[str, RowPlace | None]]] = {}  # and where the rows are then
        self._waiting: dict[str, list[pa.Table]] = {}  # few rows to add, of several tables at once
        self._unseen: set[str] = set()  # tables that may be ahead of the head and are looked at when they are used

    @property
    def lease(self) -> Lease:
        """The head under whose lease this transaction writes."""
        return self._lease

    @property
    def sequence(self) -> int:
        """The number that this commit will have."""
        return self._lease.sequence + 1

    def is_overtaken(self, snapshot: Snapshot, *tables: str) -> bool:
        """Whether another run wrote since the snapshot: anything, or one of these tables."""
        if tables:
            return any(self.versions[name] != snapshot.versions[name] for name in tables)
        return self.sequence != snapshot.sequence + 1

    def resident(self, name: str) -> Resident | None:
        """The table in memory, with what this transaction wrote; None where that is not known row by row."""
        resident, changes = self._in_memory.get(name), self._own_changes(name)
        if resident is None or changes is None or name in self.hidden:
            return None
        seen, known = self._ahead.get(name, (0, resident))
        if seen < len(changes):
            known = known.after(RowStep(0, 0, tuple(changes[seen:])))
            self._ahead[name] = len(changes), known
        return known

    def is_blank(self, name: str) -> bool:
        """Whether nothing was ever written to the table, so that no query is needed."""
        return name not in self._waiting and super().is_blank(name)

    def by_numbers(self, name: str, numbers: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
        """Rows by the numbers that a search in this state gave, in no particular order."""
        self._used.add(name)
        return numbered_rows(self._open(name), numbers, columns)  # rows that wait to be added have none yet

    def _as_written(self, name: str, ids: Sequence[str], columns: Sequence[str] = ("id",)) -> pl.DataFrame | None:
        changes = self._own_changes(name)
        if changes is None or name in self.hidden or not ids:
            return None
        seen, left = self._left.setdefault(name, (0, {}))
        if seen < len(changes):
            left |= RowStep(0, 0, tuple(changes[seen:])).left
            self._left[name] = len(changes), left
        mine = taken((place for id_ in ids if (place := left.get(id_)) is not None), columns)
        others = [id_ for id_ in ids if id_ not in left]
        parts = [of_arrow(pa.concat_tables(mine))] if mine else []
        if others:
            earlier = self._of_earlier_steps(name, self._lease.versions.get(name, 1), others, columns)
            if earlier is None:
                return None
            parts.append(earlier)
        return pl.concat(parts) if parts else self._no_rows(name, columns)

    def _own_changes(self, name: str) -> list[Change] | None:
        """What this transaction did to the rows of a table; None where that is not known, or not all."""
        return None if name in self.recovered else self._row_changes.get(name, [])

    @cached_property
    def _in_memory(self) -> Mapping[str, Resident]:
        return tables_in_memory(self._db, self._lease.versions)

    def handle(self, name: str) -> Table:
        """The table at its newest version, which is this transaction's own."""
        table_named(name)
        self._add_waiting(name)
        self._used.add(name)
        return self._open(name)

    def open_again(self, name: str) -> Table:
        """Another handle of the table, to be read at one version while this transaction writes."""
        return self._db.open_table(name)

    def _open(self, name: str) -> Table:
        if name in self._unseen:
            self._unseen.discard(name)
            self._recover(name)
        if name not in self._handles:
            place = manifest_on_disk(str(self._db.uri), name, self.versions.get(name, 1))
            known, table = self._kept.pop(name, (None, None))
            self._handles[name] = table if table is not None and known == place else self._db.open_table(name)
        return self._handles[name]

    def upsert(self, name: str, frame: pl.DataFrame) -> None:
        """Insert or replace full rows by id; nothing happens for an empty frame."""
        if len(frame):
            self._merge(name, to_rows(name, frame, self.dims, self.now, self.run_id))

    def insert(self, name: str, frame: pl.DataFrame) -> None:
        """Add full rows whose ids are new, which the caller knows; nothing happens for an empty frame."""
        if len(frame):
            self._add(name, to_rows(name, frame, self.dims, self.now, self.run_id))

    def put_back(self, name: str, frame: pl.DataFrame) -> None:
        """Write rows exactly as they were read earlier, stamps included."""
        if len(frame):
            self._merge(name, exact_rows(name, frame, self.dims))

    def whole_rows(self, name: str, ids: Sequence[str]) -> pl.DataFrame:
        """Rows with all columns that the table has, vectors and stamps among them."""
        columns = self.handle(name).schema.names
        return pl.concat([self.frame(name, where, columns) for where in id_filters(list(ids))])

    def rewrite(self, name: str, ids: Sequence[str]) -> None:
        """Write rows, whole and with their stamps, once more as they are: in one piece behind the others."""
        own = kept_rows(str(self._db.uri), name, self.versions[name], ids)
        rows = pa.concat_tables(own) if own else exact_rows(name, self.whole_rows(name, ids), self.dims)
        if rows.num_rows:
            for where in id_filters(rows["id"].to_pylist()):
                self._write(name, methodcaller("delete", where), [])
            self._waiting.setdefault(name, []).append(rows)  # no change for memory, which has them

    def delete(self, name: str, ids: Sequence[str] | pl.Series) -> None:
        """Remove rows by id."""
        distinct = sorted(set(ids))
        for where in id_filters(distinct):
            self._write(name, methodcaller("delete", where), [])
        self._note(name, [frozenset(distinct)])

    def write_anew(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Put these rows in the place of all rows, in new files. The table's indexes are gone afterwards."""
        self._write(name, lambda table: table.add(rows, mode="overwrite", on_bad_vectors="null"))

    def turn_to(self, model: str, dims: int) -> None:
        """From here on vectors are of this model: every table that holds some must be written with its own."""
        self.dims = dims
        self.more |= {"embed_model": model, "dims": dims}

    def restore(self, name: str, version: int) -> None:
        """Make an earlier version of a table the current one."""
        self._write(name, lambda table: table.restore(version))

    def rebuild(self, name: str, work: Callable[[Table], Any]) -> None:
        """Run work that keeps the rows as they are (indexes, compaction) and may move the table by any step."""
        self.stay()
        was_written = name in self.before
        self._before(name)
        table, start = self.handle(name), self.versions[name]
        rows = table.count_rows()
        work(table)
        if table.version == start and not was_written:
            del self.before[name]
        elif table.count_rows() != rows or table.count_rows(f"{MARK} > {start}"):
            raise Fenced(f"Rows of {name} changed while it was rebuilt: another writer is at work.", "Run it again.")
        self.versions[name] = table.version

    def adopt(self, name: str) -> None:
        """Take a new table into the history of the namespace, without what an interrupted attempt left in it."""
        table = self.handle(name)
        self._note(name, None)
        if table.version > 1:
            table.restore(1)
        self.before[name], self.versions[name] = 0, table.version

    def put_back_whole(self, name: str, version: int) -> None:
        """Make an earlier version current where the newest cannot be read, under a number that no commit names."""
        self.stay()
        self._note(name, None)
        lost = self.versions.get(name, 1)
        leap(self._db, name, lost)  # the number that the head names must not get another content
        table = self._db.open_table(name)
        table.restore(version)
        self._handles[name] = table
        self.before.setdefault(name, lost)
        self.versions[name] = table.version

    def forget_handle(self, name: str) -> None:
        """Open the table again at its next use: its files changed."""
        self._handles.pop(name, None)

    def start_again(self, name: str) -> None:
        """Create a lost table again, empty, with versions beyond those of older commits."""
        self._note(name, None)
        begin_again(self._db, name, table_named(name).schema(self.dims), self.versions[name])
        self.missing = [other for other in self.missing if other != name]
        self._handles.pop(name, None)
        self.before[name], self.versions[name] = 0, self._open(name).version

    def _merge(self, name: str, rows: pa.Table) -> None:
        """Put rows in the place of those with their keys, and beside the others.

        Many keys are compared with all of a small table by the engine. For few rows, or in a large table, that takes
        long, and its way by the index is no shorter for rows that are there, and lets keys in twice where two writers
        meet. There the keys are looked up, the rows that have them are deleted, and the new ones added: no comparison
        is left that another writer could disturb, and what one does in between moves the table by a version more
        (fencing).
        """
        if not self._is_looked_up(name, rows):
            self._write(name, lambda table: _upserted(table, rows), [rows])
            return
        ids = rows["id"].to_pylist()
        again = self._taken_back(name, ids)
        if there := self._those_there(name, [id_ for id_ in ids if id_ not in again]):
            self._write(name, methodcaller("delete", there), [], self._open(name))
        self._add(name, rows)

    def _taken_back(self, name: str, ids: Sequence[str]) -> set[str]:
        """Those of the rows that waited to be added, which they do no longer."""
        wanted, found = {*ids}, set[str]()
        for place, rows in enumerate(self._waiting.get(name, ())):
            waiting = rows["id"].to_pylist()
            if not wanted.isdisjoint(waiting):
                found |= wanted.intersection(waiting)
                self._waiting[name][place] = rows.filter(pa.array([id_ not in wanted for id_ in waiting]))
        return found

    def _add(self, name: str, rows: pa.Table) -> None:
        """Add rows whose keys are new: few of them wait until the table is read, or the transaction ends."""
        if rows.num_rows > FEW:
            self._write(name, methodcaller("add", rows, on_bad_vectors=_on_bad_vectors(rows)), [rows])
            return
        self._note(name, [rows])
        self._before(name)
        self._waiting.setdefault(name, []).append(rows)

    def _add_waiting(self, *names: str) -> None:
        """Add the rows that wait for these tables, to all of them at once: one after the other takes as long as all."""
        rows = {name: pa.concat_tables(self._waiting.pop(name)) for name in names if name in self._waiting}
        rows = {name: each for name, each in rows.items() if each.num_rows}
        if rows:
            self._used.update(rows)
            additions = [(self._open(name), new, _on_bad_vectors(new)) for name, new in rows.items()]
            for name, done in zip(rows, self._written(lambda: add_all(additions)), strict=True):
                self._step_to(name, int(done.version))

    def _those_there(self, name: str, ids: Sequence[str]) -> str:
        """A filter of those ids that are there, empty where none is: without a query where memory tells.

        Otherwise by the numbers of the rows, by which the engine deletes sooner than by keys.
        """
        resident = self.resident(name)
        if resident is not None:
            known = resident.values("id", resident.places("id", ids))
            return next(id_filters(known), "")
        if (written := self._as_written(name, ids)) is not None:
            return next(id_filters(written["id"].to_list()), "")
        found: list[int] = []
        for where in id_filters(ids):
            query = query_of(self.handle(name)).where(where).select(["id"]).with_row_id()
            found += answer(query)[ROW].to_list()
        return f"{ROW} IN ({', '.join(map(str, found))})" if found else ""

    def _is_looked_up(self, name: str, rows: pa.Table) -> bool:
        is_small = rows.num_rows <= FEW and not is_remote(str(self._db.uri))  # there a write more is requests more
        is_large = not is_small and rows.num_rows <= IDS_PER_FILTER and self.handle(name).count_rows() >= LARGE
        return (is_small or is_large) and "id" in table_named(name).keys

    def _write(
        self,
        name: str,
        work: Callable[[Table], object],
        changes: Sequence[Change] | None = None,
        table: Table | None = None,
    ) -> None:
        """One write of a table, after what waits unless it is given; `changes` are those of its rows, if known."""
        self._note(name, changes)
        self._before(name)
        table = self.handle(name) if table is None else table
        done = self._written(lambda: work(table))
        self._step_to(name, int(getattr(done, "version", None) or table.version))  # most writes tell where they led

    def _written(self, work: Callable[[], T]) -> T:
        """What a write gives; an error of which is that another writer took over, if one did."""
        self.stay()
        try:
            return work()
        except (RuntimeError, ValueError, OSError) as error:
            if not self._row.is_current(self._lease):
                raise Fenced("Another writer took over the namespace while this one wrote.", "Run it again.") from error
            raise

    def _step_to(self, name: str, version: int) -> None:
        if (moved := version - self.versions[name]) != 1:
            raise Fenced(
                f"One write moved table {name} by {moved} versions: another writer is at work.", "Run it again."
            )
        self.versions[name] = version

    def small_puts(self, most: int) -> dict[str, list[str]]:
        """By table: the ids of rows that this commit put, where these are few and nothing else was done to it."""
        puts = {}
        for name in self.before:
            changes = self._row_changes.get(name) or []
            ids = [id_ for change in changes if isinstance(change, pa.Table) for id_ in change["id"].to_pylist()]
            if 0 < len(ids) <= most:
                puts[name] = ids
        return puts

    def _note(self, name: str, changes: Sequence[Change] | None) -> None:
        known = self._row_changes.setdefault(name, [])
        if known is None or changes is None:
            self._row_changes[name] = None
        else:
            known.extend(changes)

    def _before(self, name: str) -> None:
        if table_named(name).role is Role.LOG:
            raise ValueError(f"{name} is a log: append to it with Store.append")
        self.before.setdefault(name, self.versions[name])

    def stay(self) -> None:
        """Extend the lease when a third of it has passed, so that a long commit is not taken for dead."""
        if self._row.is_due(self._lease):
            self._lease = self._row.renew(self._lease)

    def recover(self, is_repair: bool = False) -> None:
        """Put every table that a dead writer left ahead of the head back to the head's version.

        Raises `StoreMismatch` for a table that is missing, unless `is_repair`.
        """
        if is_remote(str(self._db.uri)) and not (self._lease.is_taken_over or is_repair):
            self._unseen = set(self._lease.versions)  # a request or more for each: only those that are used
            return
        for name in self._lease.versions:
            self._recover(name, is_repair)

    def was_ahead(self, name: str) -> bool:
        """Whether a dead writer had left the table ahead of the head."""
        self._open(name)
        return name in self.recovered

    def _recover(self, name: str, is_repair: bool = False) -> None:
        version = self._lease.versions[name]
        if is_newest_on_disk(str(self._db.uri), name, version):
            return
        try:
            table = self._handles.get(name) or self._db.open_table(name)
        except ValueError as error:
            if not is_repair:
                raise StoreMismatch(f"Table {name} is missing.", "Run `slowwave doctor --repair`.") from error
            self.missing.append(name)
            return
        except Exception:
            if not is_repair:
                raise
            return  # it cannot be read, and is seen to later
        self._handles[name] = table
        latest = table.version
        if latest != version:
            try:
                self.versions[name] = _rolled_back(table, name, version)
            except StoreMismatch:
                if not is_repair:
                    raise
            else:
                self.recovered[name] = (version, latest)

    def finish(self) -> None:
        """Called when the body has written all it wants, before anything is published."""

    def keep_recovered(self) -> None:
        """Publish restored tables even if nothing else is written, so that no table stays ahead of the head."""
        for name, (version, _) in self.recovered.items():
            self.before.setdefault(name, version)

    def abandon(self) -> None:
        """Best effort to leave no trace; the next writer's recovery would do the same."""
        self._kept.clear()  # whatever went wrong may be about one of them
        with suppress(RuntimeError, ValueError, OSError):
            if not self._row.is_current(self._lease):
                return
            for name, version in self.before.items():
                with suppress(RuntimeError, ValueError, OSError):  # a version that a repair found gone stays gone
                    if version and self._open(name).version != version:
                        self._open(name).restore(version)
            self._row.release(self._lease)

    def publish(self, kind: str) -> int:
        """Append the row of this commit and move the head; returns the commit's number."""
        self._add_waiting(*self._waiting)  # before the row that names their versions: a lost head is made from it
        row = {
            "id": f"c_{self.sequence:010d}",
            "sequence": self.sequence,
            "kind": kind,
            "at": self._clock(),
            "versions": json.dumps(self.versions),
            "before": json.dumps(self.before),
            "undoes": self.undoes,
            "waited_s": self._lease.waited_s,
            "embed_model": self.more.get("embed_model", self._lease.embed_model),
            "dims": self.more.get("dims", self._lease.dims),
        }
        rows = single_row("commits", row, self.now, self.run_id)
        self._write("commits", lambda table: table.add(rows), [rows])
        self._check_what_was_read()
        address, steps = str(self._db.uri), self._steps()
        leave_steps(address, self.sequence, steps)
        try:
            self._row.publish(self._lease, self.versions, **self.more)
        except BaseException:  # what this writer knows may have been erased meanwhile
            remove_steps(address, self.sequence)
            raise
        keep_steps(address, self.sequence, steps)
        for name, table in self._handles.items():
            if place := manifest_on_disk(str(self._db.uri), name, self.versions.get(name, 1)):
                self._kept[name] = place, table
        return self.sequence

    def _steps(self) -> dict[str, RowStep]:
        """What this commit did to the tables of which that is known row by row."""
        known = ((name, before, self._row_changes.get(name, [])) for name, before in self.before.items())
        steps = ((name, before, changes) for name, before, changes in known if changes is not None)
        return {name: RowStep(before, self.versions[name], tuple(changes)) for name, before, changes in steps}

    def _check_what_was_read(self) -> None:
        """A writer that lost its lease may have slipped rows into a table that this one read."""
        for name in self._used & self.versions.keys():
            is_newest = is_newest_on_disk(str(self._db.uri), name, self.versions[name])
            if is_newest is None:
                table = self._open(name)
                table.checkout_latest()
                is_newest = table.version == self.versions[name]
            if not is_newest:
                raise Fenced(f"Table {name} was changed by another writer.", "Run it again.")


def _on_bad_vectors(rows: pa.Table) -> str:
    """What LanceDB is to do with vectors that are no numbers: where there are none, it need not go through the rows."""
    if "vector" in rows.column_names:
        numbers = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        if np.isnan(numbers).any():
            return "null"
    return "error"


def _upserted(table: Table, rows: pa.Table) -> object:
    merging = table.merge_insert("id").use_index(False)  # the index path lets duplicate keys through
    return merging.when_matched_update_all().when_not_matched_insert_all().execute(rows, on_bad_vectors="null")


def _rolled_back(table: Table, name: str, version: int) -> int:
    """Restore a version, outrunning a stalled writer that wakes up in this moment; returns the version it became."""
    for _ in range(_TRIES):
        table.checkout_latest()
        latest = table.version
        try:
            table.restore(version)
        except ValueError as error:
            raise version_gone(name, version) from error
        except RuntimeError:
            continue
        if table.version == latest + 1:
            return int(latest) + 1
    raise Fenced(f"Table {name} could not be put back: another writer is at work.", "Run it again.")
