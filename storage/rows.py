"""Frames on their way into and out of tables: casting, stamping, filters; ids of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from uuid import uuid4

import polars as pl
import pyarrow as pa

from slowwave.common import frames
from slowwave.common.errors import UnknownName

from .tables import STAMPS, TABLES, Table

IDS_PER_FILTER = 2000
_TEXTS = (pa.string(), pa.list_(pa.string()))
MARK = "_row_last_updated_at_version"  # the version of the table that last wrote the row
ROW = "_rowid"  # the number of the row, by which one version of the table finds it without an index
CREATED = "_row_created_at_version"  # the version that first wrote it; compaction keeps both, merging keeps this one


def table_named(name: str) -> Table:
    """The declared table, or an error that lists those there are."""
    if name not in TABLES:
        raise UnknownName("table", name, TABLES)
    return TABLES[name]


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def id_filters(ids: Sequence[str], key: str = "id") -> Iterator[str]:
    """SQL filters that together name all ids, each short enough to plan quickly."""
    for start in range(0, len(ids), IDS_PER_FILTER):
        yield f"{key} IN ({', '.join(map(quoted, ids[start : start + IDS_PER_FILTER]))})"


@cache
def empty_frame(name: str, dims: int) -> pl.DataFrame:
    """A frame of the table's columns without rows."""
    return frames.of_arrow(table_named(name).schema(dims).empty_table())


def kinds_of(name: str, columns: Sequence[str]) -> dict[str, pl.DataType]:
    """The declared types of these columns; the vector's depends on the model and is none of them."""
    declared = empty_frame(name, 1).schema
    return {column: declared[column] for column in columns if column != "vector"}


def to_rows(name: str, frame: pl.DataFrame, dims: int, now: datetime, run_id: str) -> pa.Table:
    """The frame as an Arrow table of the declared schema: missing columns empty, stamped, keys unique.

    Raises `UnknownName` for a column the table has not and `ValueError` for a key that occurs twice.
    """
    known = empty_frame(name, dims).schema
    for column in frame.columns:
        if column not in known:
            raise UnknownName(f"column of {name}", column, list(known))
    if frame["id"].n_unique() != len(frame):
        twice = frame.filter(pl.col("id").is_duplicated())["id"][0]
        raise ValueError(f"{name}: key {twice!r} occurs more than once in one write")
    if "created_at" in frame.columns and frame["created_at"].null_count():
        frame = frame.with_columns(pl.col("created_at").fill_null(now))
    stamps = {"updated_at": now, "run_id": run_id}
    own = {series.name: series for series in frame.get_columns() if series.name not in stamps}
    return _whole(name, own, dims, {"created_at": now, **stamps}, len(frame))


@cache
def _arrow_schema(name: str, dims: int) -> pa.Schema:
    return table_named(name).schema(dims)


def _whole(name: str, own: Mapping[str, pl.Series], dims: int, values: Mapping[str, object], count: int) -> pa.Table:
    """These columns of `count` rows in the declared order and types; those that lack are of one value, or empty."""
    schema, kinds = _arrow_schema(name, dims), empty_frame(name, dims).schema
    columns = [
        _typed(own[name], kinds[name], kind)
        if name in own
        else pa.repeat(pa.scalar(values[name], kind), count)
        if name in values
        else pa.nulls(count, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _typed(series: pl.Series, kind: pl.DataType, arrow: pa.DataType) -> pa.Array:
    own = series if series.dtype == kind else series.cast(kind)
    if len(own) <= frames.FEW and arrow in _TEXTS:
        return pa.array(own.to_list(), arrow)  # of few, to convert the array takes longer than all else
    values = own.to_arrow()
    return values if values.type == arrow else values.cast(arrow)


def single_row(name: str, row: Mapping[str, object], now: datetime, run_id: str) -> pa.Table:
    """One stamped row of a table without vectors; what it lacks is empty."""
    stamped = {"created_at": now, **row, "updated_at": now, "run_id": run_id}
    return pa.Table.from_pylist([stamped], schema=_arrow_schema(name, 0))


def filled(frame: pl.DataFrame, want: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The frame with the wanted columns that it lacks, empty."""
    return frame.with_columns(pl.lit(None, dtype=kind).alias(c) for c, kind in want.items() if c not in frame.columns)


def exact_rows(name: str, frame: pl.DataFrame, dims: int) -> pa.Table:
    """The frame as it is, stamps included: for putting back rows that were read from the same table."""
    return _whole(name, {series.name: series for series in frame.get_columns()}, dims, {}, len(frame))


def column_names(name: str) -> list[str]:
    """All columns of a table but the vector."""
    return ["id", *table_named(name).columns, *STAMPS]


def lasting_columns(name: str) -> list[str]:
    """All columns of a table but the vector and what each write of a row sets anew."""
    return ["id", *table_named(name).columns, "created_at"]


def new_run_id(kind: str, at: datetime | None = None) -> str:
    """The id of a new run: its kind, its start (now) and eight random letters; ids of one kind sort by time."""
    return f"{kind}-{at or datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:8]}"


def named_by_beginning(id_: str, least: int) -> str:
    """A filter of the rows with that id, or, from `least` characters on, with ids that begin so.

    An id begins in whole or behind its last `_`, as tables show it.
    """
    names = [f"id = {quoted(id_)}"]
    if len(id_) >= least and id_.isascii() and id_.replace("_", "").isalnum():
        names += [f"starts_with(id, {quoted(id_)})", f"id LIKE '%\\_{id_}%'"]
    return " OR ".join(names)


def mentioning(ids: Sequence[str]) -> str:
    """A filter of facts: those that name one of these entities beside their ends."""
    return f"array_has_any(mentions, [{', '.join(map(quoted, ids))}])" if len(ids) else "false"
