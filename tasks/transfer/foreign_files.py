"""Foreign files: what another memory system exported is read whole, whatever its encoding, and never changed.

An export of our own is one, too, where nobody vouches for it: see `own_exports`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from inference.embedding import open_embedder
from recall.export import MANIFEST, is_own_export, read_manifest
from recall.export_files import PART, ExportFiles, read_rows_of
from slowwave.comparison.similarity import profile_of
from slowwave.errors import UnusableInput
from slowwave.filters.noise import ContentScorer, prototype_texts
from slowwave.foreign.audit import audit
from slowwave.foreign.audit_pairs import Audit
from slowwave.foreign.exports import OWN_TABLES, READS, SYSTEM, columns_of, parse_own, read_export
from slowwave.foreign.records import Foreign, Skipped
from slowwave.ingestion.conversations import hidden_names
from slowwave.ingestion.formats import MIXED, binary_kind, encoding_of, load_lines
from slowwave.settings import Settings
from slowwave.text import readable, row_id
from storage.rows import empty_frame

MAX_BYTES = 512_000_000
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
_HEAD_BYTES = 262_144


@dataclass(frozen=True, slots=True, eq=False)
class ForeignFile:
    """An export and the hash by which its bytes are known again; `uri` is its path as it may be stored."""

    uri: str
    content_hash: str
    modified_at: datetime
    content: Foreign

    @property
    def id(self) -> str:
        """Its row in `sources`."""
        return row_id("s", self.uri, self.content_hash)


def read_foreign(path: str | Path, system: str = "auto") -> ForeignFile:
    """An export of a memory system: a file, or a folder whose JSON files belong together.

    What cannot be read of it is listed in `skipped`. Raises `UnusableInput` for a path that is missing, too large, no
    text, or no JSON, and where nothing shows which system wrote it.
    """
    given = Path(path).expanduser()
    if system == SYSTEM or (system == "auto" and is_own_export(given)):
        return _read_own(given)
    files = _files(given)
    values: list[tuple[str, Any]] = []
    broken: list[Skipped] = []
    whole = hashlib.blake2b(digest_size=16)
    for file in files:
        raw = _bytes(file)
        whole.update(raw)
        before = f"{file.name} " if len(files) > 1 else ""
        for place, value, reason in _values(file, raw):
            if reason:
                broken.append(Skipped(f"{before}{place}", reason))
            else:
                values.append((f"{before}{place}".strip(), value))
    if not values:
        raise _unreadable(given, broken)
    modified = max(file.stat().st_mtime for file in files)
    uri = _shown(given)
    content = read_export(values, system, broken, uri)
    return ForeignFile(uri, whole.hexdigest(), datetime.fromtimestamp(modified, UTC), content)


def _read_own(folder: Path) -> ForeignFile:
    """The tables of an export of our own, without vectors: these are computed again."""
    manifest = read_manifest(folder)
    files, tables, whole = ExportFiles(folder), {}, hashlib.blake2b(digest_size=16)
    for name in OWN_TABLES:
        parts = [empty_frame(name, 1).select(columns_of(name))]
        if name in manifest.counts:
            parts += [rows.select(columns_of(name)) for rows in read_rows_of(files, manifest.format, name, 1, False)]
            with files.open(f"{name}.{manifest.format}") as file:
                while part := file.read(PART):
                    whole.update(part)
        tables[name] = pl.concat(parts)
    modified = (folder / MANIFEST).stat().st_mtime
    return ForeignFile(_shown(folder), whole.hexdigest(), datetime.fromtimestamp(modified, UTC), parse_own(tables))


def _files(path: Path) -> list[Path]:
    """The file itself, or the JSON files of a folder in the order of their names."""
    if not path.exists():
        raise UnusableInput(f"There is no file or folder {str(path)!r}.", "Check the path.")
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() in _SUFFIXES)
    if not files:
        raise UnusableInput(f"There is no JSON in the folder {_shown(path)}.", READS)
    return files


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UnusableInput(
                f"{_shown(path)} has {size / 1e6:.0f} MB; up to {MAX_BYTES / 1e6:.0f} can be read.",
                "Export it in parts, for one user or group at a time.",
            )
        raw = path.read_bytes()
    except OSError as error:
        raise UnusableInput(
            f"{_shown(path)} cannot be read: {error.strerror or error}.", "Check its permissions."
        ) from error
    if kind := binary_kind(raw[:_HEAD_BYTES]):
        raise UnusableInput(f"{_shown(path)} is {kind}, not JSON.", f"{READS} Unpack or export it first.")
    return raw


def _values(path: Path, raw: bytes) -> Iterator[tuple[str, Any, str]]:
    """(place, value, why it cannot be read) of each JSON value: one document, or one value a line."""
    encoding = encoding_of(raw[:_HEAD_BYTES])
    text = raw if encoding == "utf-8" else raw.decode(encoding, MIXED).encode()
    if not text.strip():
        return
    try:
        whole = orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        yield from _lines(path, text, error)
        return
    if isinstance(whole, list):
        yield from ((f"[{number}]", value, "") for number, value in enumerate(whole))
    else:
        yield "", whole, ""


def _lines(path: Path, text: bytes, error: orjson.JSONDecodeError) -> Iterator[tuple[str, Any, str]]:
    lines = text.split(b"\n")
    starts = [line.lstrip()[:1] for line in lines if line.strip()]
    if len(starts) < 2 or starts.count(b"{") * 2 < len(starts) or not any(_is_object(line) for line in lines):
        where = readable(str(error))
        raise UnusableInput(
            f"{_shown(path)} is no JSON: {where}.", f"{READS} If it was cut off, export it again."
        ) from error
    for number, value, note in load_lines(lines):
        yield f"line {number}", value, note.reason if note is not None and note.kind == "unreadable" else ""


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _unreadable(path: Path, broken: list[Skipped]) -> UnusableInput:
    if broken:
        first = broken[0]
        return UnusableInput(f"Nothing in {_shown(path)} can be read: {first.place}: {first.reason}.", READS)
    return UnusableInput(f"{_shown(path)} is empty.", f"{READS} Was the export finished?")


def _shown(path: Path) -> str:
    """The path as it may be stored and told: without secrets."""
    name = readable(path.as_posix())
    return hidden_names([name]).get(name, name)


# Audits: an export of another memory system is read and judged; no store is needed, and none is opened.


LEAST_COSINE = 0.6  # what denies or opposes a statement is less like it than what repeats it


def audit_export(
    path: str | Path,
    settings: Settings,
    system: str = "auto",
    *,
    now: datetime | None = None,
    stale_days: int = 365,
    examples: int = 3,
) -> Audit:
    """What is wrong with an export, by the rules and thresholds of the settings; reads the file and changes nothing.

    Raises `UnusableInput` for what cannot be read.
    """
    file = read_foreign(path, system)
    seat = open_embedder(settings.embedder)
    texts = prototype_texts(settings.ingest.noise)
    scorer = ContentScorer(seat.embed(texts.quality), seat.embed(texts.noise), settings.ingest.noise.noise_top_k)
    merge = settings.consolidate
    return audit(
        file.content,
        seat.embed(file.content.claims["statement"].to_list()),
        scorer,
        now or datetime.now(UTC),
        file.uri,
        stale_days=stale_days,
        examples=examples,
        resolve=min(merge.resolve_cosine or 1.0, profile_of(seat.name).resolve, LEAST_COSINE),
        merge=merge,
        evaluate=settings.ingest.evaluate,
        noise=settings.ingest.noise,
    )
