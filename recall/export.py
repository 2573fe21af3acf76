"""Exports: all that a namespace holds at one commit, in files that anybody can read, and that can be imported again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import polars as pl
from pydantic import TypeAdapter, ValidationError

from slowwave.common.errors import StoreMismatch, UnusableInput
from slowwave.common.frames import of_arrow
from storage.rows import empty_frame, filled
from storage.snapshots import Snapshot, batches
from storage.store import Store
from storage.tables import SCHEMA_VERSION, TABLES

from .readable_exports import write_graph, write_pages

# Rows in files, one file for each table: written and read in batches, so that no table has to fit into memory.


HAS_VECTOR = "has_vector"
"""Column in the place of a vector that is left out: whether there was one."""
_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"
_LINES = 5_000


def write_jsonl(snapshot: Snapshot, name: str, folder: Path) -> int:
    """Write a table as JSON lines, times in UTC; returns its rows."""
    count = 0
    with (folder / f"{name}.jsonl").open("wb") as file:
        for rows in _rows(snapshot, name):
            texts = [pl.col(c).dt.strftime(_TIME) for c, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
            rows.with_columns(texts).write_ndjson(file)
            count += len(rows)
    return count


def write_parquet(snapshot: Snapshot, name: str, folder: Path) -> int:
    """Write a table as Parquet; returns its rows."""
    import pyarrow.parquet as pq

    schema = _shape(name).to_arrow().schema
    count = 0
    with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as file:
        for rows in _rows(snapshot, name):
            file.write_table(rows.to_arrow().cast(schema))
            count += len(rows)
    return count


def _rows(snapshot: Snapshot, name: str) -> Iterator[pl.DataFrame]:
    """All rows of a table, some thousands at a time; columns that it did not have at that commit are empty."""
    existing = set(snapshot.handle(name).schema.names)
    whole = empty_frame(name, snapshot.dims).schema
    for rows in batches(snapshot, name, [column for column in whole if column in existing]):
        yield _without_vector(filled(rows, whole).select(pl.col(column).cast(kind) for column, kind in whole.items()))


def _without_vector(rows: pl.DataFrame) -> pl.DataFrame:
    if "vector" not in rows.columns:
        return rows
    return rows.with_columns(pl.col("vector").is_not_null().alias(HAS_VECTOR)).drop("vector")


def _shape(name: str) -> pl.DataFrame:
    """A frame without rows that has the columns of the file."""
    return _without_vector(empty_frame(name, 1))


def read_rows_of(folder: Path, format: str, name: str) -> Iterator[pl.DataFrame]:
    """The rows of a table's file, some thousands at a time; raises `UnusableInput` where it cannot be read."""
    own, shape = f"{name}.{format}", _shape(name)
    try:
        with (folder / own).open("rb") as file:
            for rows in _from_lines(file, shape) if format == "jsonl" else _from_parquet(file):
                yield filled(rows, shape.schema).select(pl.col(c).cast(kind) for c, kind in shape.schema.items())
    except (OSError, pl.exceptions.PolarsError, ValueError) as error:
        raise UnusableInput(f"The file {own} cannot be read: {error}.", "Export it again.") from error


def _from_lines(file: BinaryIO, shape: pl.DataFrame) -> Iterator[pl.DataFrame]:
    times = [column for column, kind in shape.schema.items() if isinstance(kind, pl.Datetime)]
    plain = {column: pl.String if column in times else kind for column, kind in shape.schema.items()}
    while lines := b"".join(islice(file, _LINES)):
        rows = pl.read_ndjson(BytesIO(lines), schema=plain)
        yield rows.with_columns(pl.col(times).str.to_datetime(_TIME, time_unit="us").dt.replace_time_zone("UTC"))


def _from_parquet(file: BinaryIO) -> Iterator[pl.DataFrame]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(_LINES):
            yield of_arrow(batch)


# An export: what it says of itself, how it is made, and what is read of it again.


LOSSLESS: Mapping[str, Callable[[Snapshot, str, Path], int]] = {"jsonl": write_jsonl, "parquet": write_parquet}
"""How a table is written: its snapshot, its name, the folder."""
FORMATS = (*LOSSLESS, "graphml", "markdown")
MANIFEST = "manifest.json"
KIND = "slowwave export"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export says about itself: its state, its format, and rows by table."""

    kind: str
    format: str
    namespace: str
    commit: int
    exported_at: str
    schema_version: int
    embed_model: str
    dims: int
    counts: Mapping[str, int]


def export(store: Store, folder: Path, format: str, now: datetime) -> tuple[Manifest, Path]:
    """Write the newest state into a new folder, which appears when it is complete; returns what it holds, and where.

    Raises `UnusableInput` for a format that does not exist, and for a folder with something in it.
    """
    if format not in FORMATS:
        raise UnusableInput(f"There is no format {format!r}.", f"Use {', '.join(FORMATS)}.")
    snapshot = store.snapshot()
    with _new_folder(folder) as place:
        if format in LOSSLESS:
            counts = {name: LOSSLESS[format](snapshot, name, place) for name in TABLES}
        else:
            graph = place / f"{store.namespace}.graphml"
            counts = write_graph(snapshot, now, graph) if format == "graphml" else write_pages(snapshot, now, place)
        manifest = Manifest(
            kind=KIND,
            format=format,
            namespace=store.namespace,
            commit=snapshot.sequence,
            exported_at=now.isoformat(),
            schema_version=SCHEMA_VERSION,
            embed_model=snapshot.embed_model,
            dims=snapshot.dims,
            counts=counts,
        )
        (place / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest, folder


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside the wanted one, which takes its place at the end, or vanishes."""
    from shutil import rmtree
    from tempfile import mkdtemp

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UnusableInput(f"{str(folder)!r} is there already.", "Nothing is overwritten: name a new folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UnusableInput(f"{str(folder)!r} cannot be made: {error.strerror}.", "Name another folder.") from error
    try:
        yield place
        place.chmod(0o755)
        place.replace(folder)
    except BaseException:
        rmtree(place, ignore_errors=True)
        raise


def is_own_export(path: Path) -> bool:
    """Whether a folder is one that `export` wrote."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def read_manifest(path: Path) -> Manifest:
    """What an export says about itself; raises where it cannot be imported by this version, or not at all."""
    try:
        manifest = TypeAdapter(Manifest).validate_json((path / MANIFEST).read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = " ".join([*map(str, first["loc"]), first["msg"]])
        raise UnusableInput(f"The file {MANIFEST} cannot be read: {why}.", "Export it again.") from error
    except OSError as error:
        raise UnusableInput(f"The file {MANIFEST} cannot be read: {error}.", "Export it again.") from error
    if manifest.format not in LOSSLESS:
        raise UnusableInput(
            f"An export as {manifest.format} does not hold all of a memory.", f"Import one as {' or '.join(LOSSLESS)}."
        )
    if manifest.schema_version > SCHEMA_VERSION:
        raise StoreMismatch(
            f"The export has schema version {manifest.schema_version}, this slowwave knows {SCHEMA_VERSION}.",
            "Upgrade slowwave.",
        )
    if unknown := [name for name in manifest.counts if name not in TABLES]:
        raise StoreMismatch(f"This slowwave knows no table {unknown[0]!r}.", "Upgrade slowwave.")
    return manifest
