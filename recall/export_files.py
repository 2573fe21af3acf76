"""The files of an export: their seal, and the rows of tables in them, written and read in batches."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal

import polars as pl

from slowwave.common.errors import UnusableInput
from storage.reembedding import batches
from storage.rows import empty_frame, filled
from storage.snapshots import Snapshot

PART = 1 << 20


@contextmanager
def private_copy(folder: Path) -> Iterator[Path]:
    """A copy of the files of an export that vanishes afterwards: what was checked in it cannot be changed by others.

    Raises `UnusableInput` where a file cannot be read or there is no room.
    """
    with TemporaryDirectory(prefix="slowwave-import-") as place:
        try:
            for path in folder.iterdir():
                if path.is_file():
                    copyfile(path, Path(place, path.name))
        except OSError as error:
            raise UnusableInput(
                f"{str(folder)!r} cannot be read: {error}.", "Export it again, or set TMPDIR to a place with more room."
            ) from error
        yield Path(place)


# The seal of an export: keyed digests (HMAC-SHA256) of its files and of its manifest. Whoever has no key of the store
# can change a file or the manifest, put files of two exports together or leave one out, but cannot make the digests
# that belong to it.


Standing = Literal["whole", "changed", "unknown key", "no seal"]

_DIGEST = "sha256"


@dataclass(frozen=True, slots=True)
class Seal:
    """`key_id` tells keys apart without giving one away, `files` has the digest of each file by its name.

    `manifest` is the digest of everything else that the manifest says, these two included.
    """

    key_id: str
    files: Mapping[str, str]
    manifest: str


@dataclass(frozen=True, slots=True)
class SealCheck:
    """The result of a check of a seal with some keys, and the reason in words."""

    standing: Standing
    reason: str


def sealed(key: bytes, folder: Path, names: Sequence[str], manifest: Mapping[str, Any]) -> Seal:
    """The seal of these files, and of what the manifest says of them (plain data)."""
    digests = {name: _of_file(key, folder, name) for name in names}
    return Seal(_key_id(key), digests, _of_manifest(key, manifest, digests))


def check_seal(
    seal: Seal | None, folder: Path, names: Sequence[str], manifest: Mapping[str, Any], keys: Sequence[bytes]
) -> SealCheck:
    """Whether these files, and what the manifest says, are as they were when one of the keys sealed them.

    Raises `UnusableInput` for a file that cannot be read.
    """
    if seal is None:
        return SealCheck("no seal", "It has no seal.")
    key = next((each for each in keys if _is_same(_key_id(each), seal.key_id)), None)
    if key is None:
        return SealCheck("unknown key", "It was sealed with a key that is not known here.")
    if not _is_same(_of_manifest(key, manifest, seal.files), seal.manifest):
        return SealCheck("changed", "What its manifest says was changed after it was written.")
    wrong = [name for name in names if not _is_same(_of_file(key, folder, name), seal.files.get(name, ""))]
    if wrong:
        return SealCheck("changed", f"Changed after it was written: {', '.join(wrong)}.")
    return SealCheck("whole", "It is as it was written.")


def _is_same(ours: str, given: str) -> bool:
    return hmac.compare_digest(ours.encode(), given.encode("utf-8", "replace"))


def _key_id(key: bytes) -> str:
    return hmac.digest(key, b"slowwave export key", _DIGEST).hex()[:16]


def _of_file(key: bytes, folder: Path, name: str) -> str:
    """The digest of a file under its name, so that no file can stand for another."""
    digest = hmac.new(key, b"slowwave export file\0" + name.encode() + b"\0", _DIGEST)
    try:
        with (folder / name).open("rb") as file:
            while chunk := file.read(PART):
                digest.update(chunk)
    except OSError as error:
        raise UnusableInput(f"The file {name} cannot be read: {error}.", "Export it again.") from error
    return digest.hexdigest()


def _of_manifest(key: bytes, manifest: Mapping[str, Any], files: Mapping[str, str]) -> str:
    body = json.dumps([dict(manifest), dict(files)], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hmac.new(key, b"slowwave export manifest\0" + body.encode(), _DIGEST).hexdigest()


# Rows in files, one file for each table: written and read in batches, so that no table has to fit into memory.


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
    existing = set(snapshot.handle(name).schema.names)
    whole = empty_frame(name, snapshot.dims).schema
    for rows in batches(snapshot, name, [column for column in whole if column in existing]):
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


def read_rows_of(folder: Path, format: str, name: str, dims: int, has_vectors: bool) -> Iterator[pl.DataFrame]:
    """The rows of a table's file, some thousands at a time; raises `UnusableInput` where it cannot be read."""
    own, shape = f"{name}.{format}", _shape(name, dims, has_vectors)
    try:
        with (folder / own).open("rb") as file:
            for rows in _from_lines(file, shape) if format == "jsonl" else _from_parquet(file):
                yield filled(rows, shape.schema).select(pl.col(c).cast(kind) for c, kind in shape.schema.items())
    except (OSError, pl.exceptions.PolarsError, ValueError) as error:
        raise UnusableInput(f"The file {own} cannot be read: {error}.", "Export it again.") from error


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
