"""Exports: all that a namespace holds at one commit, in files that anybody can read, and that can be imported again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from slowwave.errors import StoreMismatch, UnusableInput
from storage.export_key import own_key
from storage.snapshots import Snapshot
from storage.store import Store
from storage.tables import SCHEMA_VERSION, TABLES

from .export_files import ExportFiles, Seal, SealCheck, check_seal, sealed, write_jsonl, write_parquet
from .export_formats import UNSURE, write_graph, write_pages

Format = Literal["jsonl", "parquet", "graphml", "markdown"]
FORMATS: tuple[Format, ...] = get_args(Format)
LOSSLESS = ("jsonl", "parquet")
MANIFEST = "manifest.json"
KIND = "slowwave export"
_VERSION = 2  # 1 had no seal


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export says about itself: which state it holds, how its files are written, and rows by table.

    `holds` says in words what is in it and what is left out, `seal` shows a store that holds the key whether it was
    changed since; only what can be imported has one.
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
        return replace(self, seal=sealed(key, ExportFiles(folder), self.files, self._sealed_part()))

    def judged(self, files: ExportFiles, keys: Sequence[bytes]) -> SealCheck:
        """Whether the export with these files is as it was when one of these keys sealed it."""
        return check_seal(self.seal, files, self.files, self._sealed_part(), keys)

    def _sealed_part(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "seal"}


def export(
    store: Store, folder: Path, format: str, now: datetime, *, with_vectors: bool = False
) -> tuple[Manifest, Path]:
    """Write the newest state into a new folder; returns what it holds, and where.

    jsonl and parquet hold every row of every table. graphml holds entities and live relations, markdown a page for each
    entity. The folder appears when it is complete. Raises `UnusableInput` for a format that does not exist, for a
    folder with something in it, and where jsonl or parquet cannot be sealed: the store's key cannot be read.
    """
    if format not in FORMATS:
        raise UnusableInput(f"There is no format {format!r}.", f"Use {', '.join(FORMATS)}.")
    if with_vectors and format not in LOSSLESS:
        raise UnusableInput(f"{format} holds no vectors.", f"Use {' or '.join(LOSSLESS)}.")
    key, unsealed = _key_of(store) if format in LOSSLESS else (None, "")
    snapshot = store.snapshot()
    write: Mapping[str, Callable[[Path], dict[str, int]]] = {
        "jsonl": lambda place: _tables(snapshot, place, write_jsonl, with_vectors),
        "parquet": lambda place: _tables(snapshot, place, write_parquet, with_vectors),
        "graphml": lambda place: write_graph(snapshot, now, place / f"{store.namespace}.graphml"),
        "markdown": lambda place: write_pages(snapshot, now, place),
    }
    with _new_folder(folder) as place:
        counts = write[format](place)
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
            holds=f"{_holds(snapshot, format, counts, with_vectors)} {unsealed}".strip(),
        )
        if key:
            manifest = manifest.sealed(key, place)
        (place / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest, folder


def _key_of(store: Store) -> tuple[bytes | None, str]:
    """The key that seals an export; where the store has none yet and nothing can be written there, why there is none.

    A key that is there and cannot be used is an error: backups without a seal would be noticed when they are needed.
    """
    try:
        return own_key(store.uri), ""
    except OSError as error:
        return None, f"It has no seal, because the store has no key and none can be written: {error.strerror}."


def _holds(snapshot: Snapshot, format: Format, counts: Mapping[str, int], with_vectors: bool) -> str:
    """What the files hold and leave out, in a line."""
    facts = snapshot.count("facts") + snapshot.count("facts_archive")
    if format == "graphml":
        edges, others = counts["facts"], counts["observations"]
        return (
            f"Holds {edges + others} of {facts} facts: {edges} live relations as edges, {others} live facts about one "
            f"entity in its node. Left out: {facts - edges - others} facts that are over, archived, unsure or about no "
            "entity; conversations, sources and history."
        )
    if format == "markdown":
        unsure = sum(snapshot.count(name, UNSURE) for name in ("facts", "facts_archive"))
        alone = facts - unsure - counts["facts"]
        return (
            f"Holds {counts['facts']} of {facts} facts. Left out: {unsure} candidates and rejected ones, {alone} about "
            "no entity that has a page; conversations, communities and history."
        )
    vectors = "" if with_vectors else "vectors, which import makes anew (--vectors takes them along), and "
    return f"Holds every row of every table. Left out: {vectors}the states before this commit."


Write = Callable[[Snapshot, str, Path, bool], int]


def _tables(snapshot: Snapshot, place: Path, write: Write, with_vectors: bool) -> dict[str, int]:
    return {name: write(snapshot, name, place, with_vectors) for name in TABLES}


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
        raise UnusableInput(f"{str(path / MANIFEST)!r} cannot be read: {why}.", "Export it again.") from error
    except OSError as error:
        raise UnusableInput(f"{str(path / MANIFEST)!r} cannot be read: {error}.", "Export it again.") from error
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
