"""Exports: all that a namespace holds at one commit, in files that anybody can read, and that can be imported again."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, Literal

import polars as pl
from pydantic import TypeAdapter, ValidationError

from slowwave.common.errors import StoreMismatch, UnusableInput
from storage.connection import address_of, is_remote
from storage.rows import empty_frame, filled
from storage.snapshots import Snapshot, batches
from storage.store import Store
from storage.tables import SCHEMA_VERSION, TABLES

from .readable_exports import HOLDS, write_graph, write_pages

PART = 1 << 20


# The key of a store: a secret by which it knows its own exports again, made on first use and never exported. It is the
# file `export.key` beside the namespaces, which only its owner can read. Object storage has no such rights, and no key.


KEY_FILE = "export.key"
_BYTES = 32
_WAY_OUT = (
    "Put a copy of it back. Where there is none, delete it: the next export makes a new one, and exports of before are "
    "then known by nobody (import them with --trust)."
)
_WRITTEN = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}")


def own_key(uri: str, *, is_made: bool = False) -> bytes | None:
    """The key of a store, 32 bytes; None where it has none, unless it `is_made` then.

    None can be made on object storage, and where nothing can be written. Raises `UnusableInput` where there is one that
    cannot be used.
    """
    place = address_of(uri)
    if is_remote(place):
        return None
    path = Path(place, KEY_FILE)
    if is_made and not os.path.lexists(path):
        with suppress(OSError):
            _make_key(path)
    return _read_key(path) if os.path.lexists(path) else None


def _make_key(path: Path) -> None:
    """Put a whole file in place unless somebody was faster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{KEY_FILE}-", encoding="ascii") as file:  # mode 0600
        file.write(f"{secrets.token_hex(_BYTES)}\n")
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)


def _read_key(path: Path) -> bytes:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise UnusableInput(f"The export key {str(path)!r} cannot be read: {error.strerror}.", _WAY_OUT) from error
    if not _WRITTEN.fullmatch(text):
        raise UnusableInput(f"{str(path)!r} holds no export key of {2 * _BYTES} hexadecimal digits.", _WAY_OUT)
    return bytes.fromhex(text)


# The seal of an export: keyed digests (HMAC-SHA256) of its files and of its manifest. Whoever has no key of the store
# can change a file or the manifest, put files of two exports together or leave one out, but cannot make the digests
# that belong to it.


Standing = Literal["whole", "changed", "unknown key", "no seal"]

_DIGEST = "sha256"


@dataclass(frozen=True, slots=True)
class Seal:
    """`key_id` tells keys apart without giving one away; the digests of each file by its name, and of the manifest."""

    key_id: str
    files: Mapping[str, str]
    manifest: str


@dataclass(frozen=True, slots=True)
class SealCheck:
    """The result of a check of a seal with a key, and the reason in words."""

    standing: Standing
    reason: str


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
            yield pl.DataFrame(pl.from_arrow(batch))


# An export: what it says of itself, how it is made, and what is read of it again.


LOSSLESS: Mapping[str, Callable[[Snapshot, str, Path, bool], int]] = {"jsonl": write_jsonl, "parquet": write_parquet}
"""How a table is written: its snapshot, its name, the folder, and whether vectors come along."""
FORMATS = (*LOSSLESS, "graphml", "markdown")
MANIFEST = "manifest.json"
KIND = "slowwave export"
_VERSION = 2  # 1 had no seal


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export says about itself: its state, its format, rows by table, and in words what it `holds`.

    `seal` shows a store that holds the key whether it was changed since; only what can be imported has one.
    """

    kind: str
    version: int
    format: str
    namespace: str
    commit: int
    exported_at: str
    schema_version: int
    embed_model: str
    dims: int
    has_vectors: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    holds: str = ""
    seal: Seal | None = None

    @property
    def files(self) -> list[str]:
        """The names of its files, one for each table."""
        return [f"{name}.{self.format}" for name in self.counts]

    def sealed(self, key: bytes, folder: Path) -> Manifest:
        """The manifest with the seal of its files in a folder, and of itself."""
        digests = {name: _of_file(key, folder, name) for name in self.files}
        return replace(self, seal=Seal(_key_id(key), digests, _of_manifest(key, self._sealed_part(), digests)))

    def judged(self, folder: Path, key: bytes | None) -> SealCheck:
        """Whether the export in a folder is as this key sealed it; `UnusableInput` for an unreadable file."""
        if self.seal is None:
            return SealCheck("no seal", "It has no seal.")
        sealed = self.seal
        if key is None or not _is_same(_key_id(key), sealed.key_id):
            return SealCheck("unknown key", "It was sealed by another store.")
        if not _is_same(_of_manifest(key, self._sealed_part(), sealed.files), sealed.manifest):
            return SealCheck("changed", "What its manifest says was changed after it was written.")
        wrong = [name for name in self.files if not _is_same(_of_file(key, folder, name), sealed.files.get(name, ""))]
        if wrong:
            return SealCheck("changed", f"Changed after it was written: {', '.join(wrong)}.")
        return SealCheck("whole", "It is as it was written.")

    def _sealed_part(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "seal"}


def export(
    store: Store, folder: Path, format: str, now: datetime, *, with_vectors: bool = False
) -> tuple[Manifest, Path]:
    """Write the newest state into a new folder, which appears when it is complete; returns what it holds, and where.

    Raises `UnusableInput` for a format that does not exist, for a folder with something in it, and where jsonl or
    parquet cannot be sealed because the store's key cannot be read.
    """
    if format not in FORMATS:
        raise UnusableInput(f"There is no format {format!r}.", f"Use {', '.join(FORMATS)}.")
    if with_vectors and format not in LOSSLESS:
        raise UnusableInput(f"{format} holds no vectors.", f"Use {' or '.join(LOSSLESS)}.")
    key = own_key(store.uri, is_made=True) if format in LOSSLESS else None
    snapshot = store.snapshot()
    with _new_folder(folder) as place:
        if format in LOSSLESS:
            counts = {name: LOSSLESS[format](snapshot, name, place, with_vectors) for name in TABLES}
            holds = f"{_holds(with_vectors)}{'' if key else ' It has no seal, because the store has no key.'}"
        else:
            graph = place / f"{store.namespace}.graphml"
            counts = write_graph(snapshot, now, graph) if format == "graphml" else write_pages(snapshot, now, place)
            holds = HOLDS[format]
        manifest = Manifest(
            kind=KIND,
            version=_VERSION,
            format=format,
            namespace=store.namespace,
            commit=snapshot.sequence,
            exported_at=now.isoformat(),
            schema_version=SCHEMA_VERSION,
            embed_model=snapshot.embed_model,
            dims=snapshot.dims,
            has_vectors=with_vectors,
            counts=counts,
            holds=holds,
        )
        if key:
            manifest = manifest.sealed(key, place)
        (place / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest, folder


def _holds(with_vectors: bool) -> str:
    """What the files hold and leave out, in a line."""
    vectors = "" if with_vectors else "vectors, which import makes anew (--vectors takes them along), and "
    return f"Holds every row of every table. Left out: {vectors}the states before this commit."


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
    if manifest.version > _VERSION or manifest.schema_version > SCHEMA_VERSION:
        raise StoreMismatch(
            f"The export has schema version {manifest.schema_version}, this slowwave knows {SCHEMA_VERSION}.",
            "Upgrade slowwave.",
        )
    if unknown := [name for name in manifest.counts if name not in TABLES]:
        raise StoreMismatch(f"This slowwave knows no table {unknown[0]!r}.", "Upgrade slowwave.")
    return manifest
