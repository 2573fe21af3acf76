"""Rows in files, one file for each table: written and read in batches, so that no table has to fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from slowwave.errors import UnusableInput
from storage.reembedding import batches
from storage.rows import empty_frame, filled
from storage.snapshots import Snapshot

from .export_files import ExportFiles

HAS_VECTOR = "has_vector"
"""Column in the place of a vector that is left out: whether there was one."""
_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"
_LINES = 5_000


def write_jsonl(snapshot: Snapshot, name: str, folder: Path, with_vectors: bool) -> int:
    """Write a table as JSON lines, times in UTC; returns its rows."""
    count = 0
    with (folder / f"{name}.jsonl").open("wb") as file:
        for rows in _rows(snapshot, name, with_vectors):
            texts = [pl.col(c).dt.strftime(_TIME) for c, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
            rows.with_columns(texts).write_ndjson(file)
            count += len(rows)
    return count


def write_parquet(snapshot: Snapshot, name: str, folder: Path, with_vectors: bool) -> int:
    """Write a table as Parquet; returns its rows."""
    import pyarrow.parquet as pq

    schema = _shape(name, snapshot.dims, with_vectors).to_arrow().schema
    count = 0
    with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as file:
        for rows in _rows(snapshot, name, with_vectors):
            file.write_table(rows.to_arrow().cast(schema))
            count += len(rows)
    return count


def _rows(snapshot: Snapshot, name: str, with_vectors: bool) -> Iterator[pl.DataFrame]:
    """All rows of a table, some thousands at a time; columns that it did not have at that commit are empty."""
    held = set(snapshot.handle(name).schema.names)
    whole = empty_frame(name, snapshot.dims).schema
    for rows in batches(snapshot, name, [column for column in whole if column in held]):
        full = filled(rows, whole).select(pl.col(column).cast(kind) for column, kind in whole.items())
        yield full if with_vectors else _without_vector(full)


def _without_vector(rows: pl.DataFrame) -> pl.DataFrame:
    if "vector" not in rows.columns:
        return rows
    return rows.with_columns(pl.col("vector").is_not_null().alias(HAS_VECTOR)).drop("vector")


def _shape(name: str, dims: int, with_vectors: bool) -> pl.DataFrame:
    """A frame without rows that has the columns of the file."""
    empty = empty_frame(name, dims)
    return empty if with_vectors else _without_vector(empty)


def read_rows_of(files: ExportFiles, format: str, name: str, dims: int, has_vectors: bool) -> Iterator[pl.DataFrame]:
    """The rows of a table's file, some thousands at a time; raises `UnusableInput` where it cannot be read."""
    own, shape = f"{name}.{format}", _shape(name, dims, has_vectors)
    try:
        with files.open(own) as file:
            for rows in _from_lines(file, shape) if format == "jsonl" else _from_parquet(file):
                yield filled(rows, shape.schema).select(pl.col(c).cast(kind) for c, kind in shape.schema.items())
    except (OSError, pl.exceptions.PolarsError, ValueError) as error:
        raise UnusableInput(f"{str(files.folder / own)!r} cannot be read: {error}.", "Export it again.") from error


def _from_lines(file: BinaryIO, shape: pl.DataFrame) -> Iterator[pl.DataFrame]:
    times = [column for column, kind in shape.schema.items() if isinstance(kind, pl.Datetime)]
    plain = {column: _as_text(kind) for column, kind in shape.schema.items()}
    while lines := b"".join(islice(file, _LINES)):
        rows = pl.read_ndjson(BytesIO(lines), schema=plain)
        yield rows.with_columns(pl.col(times).str.to_datetime(_TIME, time_unit="us").dt.replace_time_zone("UTC"))


def _as_text(kind: Any) -> Any:
    if isinstance(kind, pl.Datetime):
        return pl.String
    return pl.List(kind.inner) if isinstance(kind, pl.Array) else kind


def _from_parquet(file: BinaryIO) -> Iterator[pl.DataFrame]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(_LINES):
            rows = pl.from_arrow(batch)
            assert isinstance(rows, pl.DataFrame)
            yield rows
