"""A snapshot: every table at the versions of one commit. Reading it needs no lock and never sees half a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common.errors import SlowwaveError, StoreMismatch
from slowwave.common.frames import of_arrow
from slowwave.common.validity import judged_columns, of_rows

from .connection import answer, numbered, query_of
from .disk import WAY_OUT, broken_files, damaged, is_of_files, manifest_on_disk, plain_errors
from .residents import Condition
from .rows import column_names, empty_frame, filled, id_filters, table_named
from .tables import TABLES, Role

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.query import AsyncQueryBase, ColumnOrdering
    from lancedb.table import Table

    from .residents import Resident


Place = tuple[int, int, int]
"""A version and the file of its manifest: another store in the same folder has other files."""
BATCH = 4096  # rows that are held in memory at a time
FEW = 2_000  # rows that are taken from memory one by one
MANY = 5000  # ids from which reading all of a table is faster than looking each up


def read_rows(
    table: Table,
    where: str | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    limit: int | None = None,
    order: Sequence[str] = (),
) -> pl.DataFrame:
    """Rows of one open table as a frame, filtered, projected and sorted inside LanceDB; `-name` sorts downwards.

    `columns` may also be names with the expressions that they stand for.
    """
    query = query_of(table)
    if order:
        query = query.order_by([_ordering(name) for name in order])
    if where:
        query = query.where(where)
    if columns is not None:
        query = query.select(_selection(columns))
    if limit is not None:
        query = query.limit(limit)
    return _answered(table, query)


def batches_of(table: Table, columns: Sequence[str] | None = None, where: str | None = None) -> Iterator[pl.DataFrame]:
    """Rows of an open table, some thousands at a time."""
    query = table.search().limit(None)
    query = query.where(where) if where else query
    for batch in (query if columns is None else query.select(list(columns))).to_batches(BATCH):
        if batch.num_rows:
            yield of_arrow(batch)


def batches(reading: Reading, name: str, columns: Sequence[str], where: str | None = None) -> Iterator[pl.DataFrame]:
    """Rows of a table in this state, some thousands at a time."""
    return batches_of(reading.handle(name), columns, where)


def numbered_rows(table: Table, numbers: Iterable[int], columns: Sequence[str] | Mapping[str, str]) -> pl.DataFrame:
    """The rows with these numbers (`_rowid`), in no particular order; `columns` as of `read_rows`."""
    query = numbered(table, [*numbers]).select(_selection(columns))
    return _answered(table, query)


def last_rows(table: Table, count: int, columns: Sequence[str] | Mapping[str, str]) -> pl.DataFrame:
    """The last rows of a table, which were written last as long as no compaction has moved them."""
    start = max(0, table.count_rows() - count)
    query = query_of(table).select(_selection(columns))
    return _answered(table, query.offset(start).limit(count))


def _selection(columns: Sequence[str] | Mapping[str, str]) -> list[str] | dict[str, str]:
    return dict(columns) if isinstance(columns, Mapping) else list(columns)


def _answered(table: Table, query: AsyncQueryBase) -> pl.DataFrame:
    with plain_errors(str(table.uri).rpartition("/")[0], table.name):
        return answer(query)


@cache
def _no_rows(name: str, dims: int, columns: tuple[str, ...]) -> pl.DataFrame:
    return empty_frame(name, dims).select(columns)


def _ordering(name: str) -> ColumnOrdering:
    from lancedb.query import ColumnOrdering

    return ColumnOrdering(column_name=name.removeprefix("-"), ascending=not name.startswith("-"))


class TablesInMemory(Protocol):
    """Tables of a namespace that this process has in memory."""

    def current(self, versions: Mapping[str, int]) -> Mapping[str, Resident] | None:
        """The tables at these versions; None where they are not in memory."""

    def written(self, name: str, version: int, ids: Sequence[str], columns: Sequence[str]) -> pl.DataFrame | None:
        """Those of the rows that are there in a version of any table, if the kept steps have all of them."""


IN_MEMORY: WeakValueDictionary[str, TablesInMemory] = WeakValueDictionary()
"""By address of a namespace: the tables that somebody in this process asks questions to."""


def tables_in_memory(db: DBConnection, versions: Mapping[str, int]) -> Mapping[str, Resident]:
    """The tables of a namespace that are in memory at these versions, by name."""
    known = IN_MEMORY.get(str(db.uri))
    return (known.current(versions) if known is not None else None) or {}


class Reading:
    """What a snapshot and a transaction can both read."""

    dims: int
    versions: dict[str, int]
    _db: DBConnection
    hidden: Mapping[str, str] = MappingProxyType({})
    """Conditions, by table, of rows that are out of sight."""

    def seen(self, name: str, where: str | None) -> str | None:
        """The condition of a question to a table, without the rows that are out of sight."""
        if name not in self.hidden:
            return where
        visible = f"({self.hidden[name]}) IS NOT TRUE"
        return f"({where}) AND {visible}" if where else visible

    def handle(self, name: str) -> Table:
        """The open LanceDB table."""
        raise NotImplementedError

    def resident(self, name: str) -> Resident | None:
        """The table in memory, if it is there at this version and nothing of it is out of sight."""
        return None

    def _as_written(self, name: str, ids: Sequence[str], columns: Sequence[str] = ("id",)) -> pl.DataFrame | None:
        """Those of the rows that are there, if the steps that are kept in memory have all of them."""
        if not len(ids) or name in self.hidden:
            return None
        return self._of_earlier_steps(name, self.versions.get(name, 1), ids, columns)

    def _of_earlier_steps(
        self, name: str, version: int, ids: Sequence[str], columns: Sequence[str]
    ) -> pl.DataFrame | None:
        known = IN_MEMORY.get(str(self._db.uri))
        found = known.written(name, version, ids, columns) if known is not None else None
        return found if found is None or len(found) else self._no_rows(name, columns)

    def _no_rows(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        return _no_rows(name, self.dims, tuple(columns))

    def is_blank(self, name: str) -> bool:
        """Whether nothing was ever written to the table, so that no query is needed."""
        return TABLES[name].role is not Role.LOG and self.versions.get(name) == 1

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
        if self.is_blank(name):
            return self._no_rows(name, wanted)
        read = [*dict.fromkeys((*wanted, *order))]
        if where and (resident := self.in_memory(name, where, read)) is not None:
            places = np.flatnonzero(resident.mask(Condition(where)))
            if len(places) <= min(FEW, FEW if limit is None else limit):
                rows = resident.frame(places, read)
                return (rows.sort(order, nulls_last=True) if order else rows).select(wanted)
        return self._read(name, where, wanted, limit, order)

    def in_memory(self, name: str, where: str, columns: Iterable[str] = ()) -> Resident | None:
        """The table in memory, if it has these columns and can judge the condition."""
        resident, judged = self.resident(name), judged_columns(where)
        return resident if resident is not None and judged and resident.has((*judged, *columns)) else None

    def _read(
        self, name: str, where: str | None, columns: Sequence[str], limit: int | None, order: Sequence[str]
    ) -> pl.DataFrame:
        return read_rows(self.handle(name), self.seen(name, where), columns, limit, order)

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
        """Rows whose `key` is among `ids`, in no particular order.

        Raises `ValueError` for a key that the table does not declare: it would have no index, and read every row.
        """
        if key not in table_named(name).keys:
            raise ValueError(f"{name} is not looked up by {key}: declare it in slowwave/common/tables.toml")
        return self.referring(name, key, ids, columns, where=where, with_vector=with_vector)

    def by_numbers(self, name: str, numbers: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
        """Rows by the numbers that a search in this state gave, in no particular order."""
        return numbered_rows(self.handle(name), numbers, columns)

    def by_ids_or_all(
        self,
        name: str,
        ids: Sequence[str] | pl.Series,
        columns: Sequence[str] | None = None,
        *,
        key: str = "id",
        where: str | None = None,
    ) -> pl.DataFrame:
        """`by_ids`, or all rows where the ids are so many that reading the whole table is faster."""
        if len(set(ids)) > MANY:
            return self.frame(name, where, columns)
        return self.by_ids(name, ids, columns, key=key, where=where)

    def referring(
        self,
        name: str,
        column: str,
        ids: Sequence[str] | pl.Series,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        with_vector: bool = False,
    ) -> pl.DataFrame:
        """Rows that name one of `ids` in any column, in no particular order."""
        wanted = list(columns) if columns is not None else column_names(name)
        if with_vector and "vector" not in wanted:
            wanted.append("vector")
        distinct = [] if self.is_blank(name) else sorted({i for i in ids if i is not None})
        if distinct and (known := self._from_memory(name, column, distinct, wanted, where)) is not None:
            return known
        more = f" AND ({where})" if where else ""
        parts = [self.frame(name, f"{chunk}{more}", wanted) for chunk in id_filters(distinct, column)]
        if len(parts) > 1:
            return pl.concat(parts)
        return parts[0] if parts else self._no_rows(name, wanted)

    def _from_memory(
        self, name: str, column: str, ids: Sequence[str], wanted: Sequence[str], where: str | None
    ) -> pl.DataFrame | None:
        """`referring` without a query or by the numbers of rows; None where memory does not tell."""
        judged = () if where is None else judged_columns(where)
        if judged is None:
            return None
        read, resident = [*dict.fromkeys((*wanted, *judged))], self.resident(name)
        if resident is None or column not in resident.spec.columns:
            rows = self._as_written(name, ids, read) if column == "id" else None
        else:
            places = resident.places(column, ids)
            if where is not None and resident.has(judged):
                met = resident.frame(places, judged).select(of_rows(where).fill_null(False)).to_series()
                places, read, where = places[met.to_numpy()], [*wanted], None
            if not len(places):
                return self._no_rows(name, wanted)
            rows = resident.frame(places, read) if resident.has(read) else self._whole(name, resident, places, read)
        return rows if rows is None or where is None else rows.filter(of_rows(where)).select(wanted)

    def _whole(
        self, name: str, resident: Resident, places: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pl.DataFrame | None:
        """Rows with columns that are not in memory: what this process wrote lately, the others by their numbers."""
        if "id" not in columns:
            return None
        is_read = places < resident.size_when_read
        later = [] if is_read.all() else resident.values("id", places[~is_read])
        written = self._as_written(name, later, columns) if later else self._no_rows(name, columns)
        read = None if written is None else self._numbered(name, resident, places[is_read], columns)
        if written is None or read is None or len(written) + len(read) != len(places):
            return None
        return pl.concat([part for part in (written, read) if len(part)])

    def _numbered(
        self, name: str, resident: Resident, places: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pl.DataFrame | None:
        """Rows by the numbers that they had when the table was read into memory; None where some are others' by now.

        A filter reads each small file that came since the index was made; thirty times as long beside a hundred.
        """
        if not len(places):
            return self._no_rows(name, columns)
        if (numbers := resident.numbers(places)) is None:
            return None
        try:
            rows = self.by_numbers(name, pl.Series(numbers), columns)
        except (ValueError, RuntimeError, OSError):  # a compaction moved them
            return None
        return rows if {*rows["id"]} == {*resident.values("id", places)} and len(rows) == len(places) else None

    def count(self, name: str, where: str | None = None) -> int:
        """Number of rows, optionally of those that match."""
        if self.is_blank(name):
            return 0
        resident = self.resident(name) if where is None else self.in_memory(name, where)
        if resident is not None:
            return len(resident) if where is None else int(resident.mask(Condition(where)).sum())
        return int(self.handle(name).count_rows(self.seen(name, where)))

    def count_ids(self, name: str, ids: Sequence[str] | pl.Series) -> int:
        """How many of these ids there are, by the index alone."""
        if (resident := self.resident(name)) is not None:
            return len(resident.places("id", ids))
        if (known := self._as_written(name, list(ids))) is not None:
            return len(known)
        return sum(self.count(name, chunk) for chunk in id_filters(sorted(set(ids))))


class Snapshot(Reading):
    """The state of a namespace at one commit; its vectors are of `embed_model` and have `dims` numbers.

    Of `shared` tables, which stay at a version, those are taken that stay at the right one.
    """

    def __init__(
        self,
        db: DBConnection,
        versions: Mapping[str, int],
        sequence: int,
        embedding: tuple[str, int],
        shared: dict[str, tuple[Place, Table]] | None = None,
    ) -> None:
        self._db, self.versions, self.sequence = db, dict(versions), sequence
        self._shared = shared if shared is not None else {}
        self.embed_model, self.dims = embedding
        self._handles: dict[str, Table] = {}
        self._columns: dict[str, frozenset[str]] = {}

    def resident(self, name: str) -> Resident | None:
        """The table in memory, if it is there at this version and nothing of it is out of sight."""
        return None if name in self.hidden else self._in_memory.get(name)

    @cached_property
    def _in_memory(self) -> Mapping[str, Resident]:
        return tables_in_memory(self._db, self.versions)

    def require(self, embedding: tuple[str, int]) -> None:
        """Raise `StoreMismatch` unless its vectors are of this (model, dims)."""
        if (self.embed_model, self.dims) != embedding:
            raise StoreMismatch(
                f"The store holds vectors of {self.embed_model} ({self.dims} dimensions), "
                f"not of {embedding[0]} ({embedding[1]}).",
                f'Set embedder = "{self.embed_model}" in slowwave.toml; changing it takes `slowwave reembed`.',
            )

    def handle(self, name: str) -> Table:
        """The table, checked out at the snapshot's version."""
        table_named(name)
        if name not in self._handles:
            self._handles[name] = self._opened(name)
        return self._handles[name]

    def _opened(self, name: str) -> Table:
        if TABLES[name].role is Role.LOG:
            return open_table(self._db, name)
        version = self.versions.get(name, 1)  # version 1 is the table before its first row
        place = manifest_on_disk(str(self._db.uri), name, version) or (version, 0, 0)
        cached, table = self._shared.get(name, (None, None))
        if table is None or cached != place:
            table = open_table(self._db, name)
            _check_out(table, name, version)
            self._shared[name] = place, table
        return table

    def _read(
        self, name: str, where: str | None, columns: Sequence[str], limit: int | None, order: Sequence[str]
    ) -> pl.DataFrame:
        """Rows of a table; columns that it did not have yet at that commit are empty."""
        existing, declared = self._columns_of(name), empty_frame(name, self.dims)
        known = [c for c in columns if c in existing or c not in declared.columns]
        try:
            rows = super()._read(name, where, known, limit, order)
        except SlowwaveError:
            raise
        except Exception as error:
            if not is_of_files(error):
                raise
            raise version_gone(name, self.versions.get(name, 1)) from error  # its files went while it was open
        if len(known) == len(columns):
            return rows
        return filled(rows, {c: declared.schema[c] for c in columns if c not in existing}).select(columns)

    def _columns_of(self, name: str) -> frozenset[str]:
        if name not in self._columns:
            self._columns[name] = frozenset(self.handle(name).schema.names)
            if not self._columns[name]:  # what an empty manifest says
                raise damaged(name, broken_files(str(self._db.uri), name))
        return self._columns[name]


def _check_out(table: Table, name: str, version: int) -> None:
    try:
        table.checkout(version)
    except (ValueError, RuntimeError, OSError) as error:
        if version > table.version:
            gone = f"Version {version} of table {name} is gone, the newest that is there is {table.version}."
            raise StoreMismatch(gone, WAY_OUT) from error
        raise version_gone(name, version) from error


def open_table(db: DBConnection, name: str) -> Table:
    """A table of a namespace; raises `StoreMismatch` where its files are gone or broken."""
    with plain_errors(str(db.uri), name):
        return db.open_table(name)


def version_gone(name: str, version: int) -> StoreMismatch:
    """The error for a version that is no longer there."""
    return StoreMismatch(
        f"Version {version} of table {name} is gone.",
        "It is older than retention.undo_days or than the last `slowwave forget`, or the store is damaged: "
        "run `slowwave doctor`.",
    )
