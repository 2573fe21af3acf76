"""Sources: which files of the given paths can be read, and how."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal

from slowwave.common import text
from slowwave.common.errors import UnusableInput
from slowwave.reading.filters.redaction import redact
from slowwave.reading.ingestion.conversations import hidden_names
from slowwave.reading.ingestion.formats import (
    DOCUMENT_SUFFIXES,
    MAIL_SUFFIXES,
    MIXED,
    Shape,
    binary_kind,
    encoding_of,
    json_fault,
    shape_of,
    sniff_format,
    top_keys,
)
from slowwave.reading.ingestion.parsers import BY_NAME, DOCUMENTS, FORMATS, known_format

READABLE = f"slowwave reads {', '.join(FORMATS)}"
MAIL_AS_MESSAGES = "docs/start.md shows how to write it as messages."
LISTED = 200
PEOPLE = "users.json"
"""The name of a list of people: chats beside it, or in a folder beside it, take their names from it."""

LISTS = frozenset({PEOPLE, *(f"{name}.json" for name in ("channels", "groups", "dms", "mpims", "integration_logs"))})
"""Lists of an export of Slack, none of which is a conversation."""

_HEAD_BYTES = 262_144
_CHUNK = 1_048_576
_LEADS_OUT = "it is a link to a place outside the folder; name the file itself to read it"
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
STORED = ".lance"  # a folder of a table: a store may lie below what is read


@dataclass(frozen=True, slots=True)
class ReadIssue:
    """What could not be read as it was: first line (or item of a JSON array; 0: the file), reason, and how often.

    `unreadable` is lost, `adjusted` is kept in another form, `skipped` is left out on purpose.
    """

    path: str
    line: int
    reason: str
    kind: Literal["unreadable", "adjusted", "skipped"] = "unreadable"
    count: int = 1


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One file: how it is read, and the hash by which the same bytes are known again."""

    id: str
    uri: str
    path: Path
    format: str
    shape: Shape
    encoding: str
    is_utf8: bool
    content_hash: str
    size: int
    modified_at: datetime
    is_named: bool


def find_sources(paths: Sequence[str | Path], format: str = "auto") -> tuple[list[SourceInfo], list[ReadIssue]]:
    """The files that can be read, each once and in order, and what was passed over in folders."""
    known_format(format)
    sources: dict[Path, SourceInfo] = {}
    issues: list[ReadIssue] = []
    for path in (Path(given).expanduser() for given in paths):
        if not path.exists():
            raise UnusableInput(f"There is no file or folder {str(path)!r}.", "Check the path.")
        for file in walk(path) if path.is_dir() else [path]:
            if file.resolve() in sources:
                continue
            if file != path and not file.resolve().is_relative_to(path.resolve()):
                issues.append(ReadIssue(shown_path(file), 0, _LEADS_OUT, "skipped"))
                continue
            try:
                found = open_source(file, format, is_named=file == path)
            except UnusableInput as error:
                if file == path:
                    raise
                if file.name not in LISTS or not (file.parent / PEOPLE).exists():  # people are read with their chats
                    issues.append(ReadIssue(shown_path(file), 0, redact(error.message).text, "skipped"))
            else:
                sources[file.resolve()] = found
    if issues and not sources:
        raise UnusableInput(
            f"None of the {len(issues)} files can be read; the first: {issues[0].reason}",
            f"{READABLE}; --format names one when the content does not show it.",
        )
    return list(sources.values()), _limited(issues)


def walk(folder: Path) -> Iterator[Path]:
    """Files below a folder in sorted order, without hidden ones, tables and what package managers put there."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _SKIPPED_FOLDERS and not name.endswith(STORED)
        )
        for name in sorted(files):
            if not name.startswith(".") and (path := Path(root, name)).is_file():
                yield path


def open_source(path: Path, format: str, *, is_named: bool) -> SourceInfo:
    """One file and how it is read; raises `UnusableInput` where it cannot be."""
    if not path.is_file():
        raise UnusableInput(f"{path} is neither a file nor a folder.", "Save its content to a file first.")
    try:
        with path.open("rb") as raw:
            head = raw.read(_HEAD_BYTES)
            raw.seek(0)
            content_hash, is_utf8 = _hash(raw)
            status = os.fstat(raw.fileno())
    except OSError as error:
        raise UnusableInput(f"{path} cannot be read: {error.strerror or error}.", "Check its permissions.") from error
    encoding = encoding_of(head)
    shown = head.decode(encoding, MIXED)
    shape = shape_of(shown, path.suffix.lower())
    kind = binary_kind(head)
    if kind and shape != "lines":
        raise UnusableInput(f"{path} is {kind}, not text.", f"{READABLE}; convert or unpack it first.")
    found = _format_of(path, shown, format, is_named=is_named, is_whole=len(head) < _HEAD_BYTES)
    if not BY_NAME[found].parse:
        shape = "prose"
    elif shape == "prose":
        shape = "values" if BY_NAME[found].is_values else "lines"
    uri = shown_path(path)
    return SourceInfo(
        id=text.row_id("s", uri, content_hash), uri=uri, path=path, format=found, shape=shape, encoding=encoding,
        is_utf8=is_utf8 or encoding.startswith(("utf-16", "utf-32")), content_hash=content_hash, size=status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC), is_named=is_named,
    )  # fmt: skip


def shown_path(path: Path) -> str:
    """The path as it may be stored: paths that differ in a secret still differ."""
    name = text.readable(path.as_posix())
    return hidden_names([name]).get(name, name)


def _format_of(path: Path, head: str, format: str, *, is_named: bool, is_whole: bool) -> str:
    if format != "auto":
        return format
    suffix = path.suffix.lower()
    found = sniff_format(head, suffix)
    if not found:
        if fault := json_fault(head, is_whole=is_whole):
            raise UnusableInput(f"{path} is not valid JSON: {fault}.", "Mend it, or save it once more.")
        keys = ", ".join(top_keys(head))
        raise UnusableInput(
            f"{path} is none of the JSON formats that slowwave knows" + (f" (its keys: {keys})." if keys else "."),
            "Messages are JSON lines with conversation_id, role or speaker, content and occurred_at; "
            f"{READABLE}, and --format names one.",
        )
    if found in DOCUMENTS and suffix in MAIL_SUFFIXES:
        raise UnusableInput(f"{path} is mail, which slowwave does not read.", MAIL_AS_MESSAGES)
    if not is_named and found in DOCUMENTS and suffix not in DOCUMENT_SUFFIXES:
        raise UnusableInput(f"{path} does not look like a document.", "Name the file itself to read it as text.")
    return found


def _hash(raw: BinaryIO) -> tuple[str, bool]:
    """Hash of the bytes, and whether all of them are UTF-8."""
    digest, decoder, is_utf8 = hashlib.blake2b(digest_size=16), codecs.getincrementaldecoder("utf-8")(), True
    for chunk in iter(lambda: raw.read(_CHUNK), b""):
        digest.update(chunk)
        if is_utf8:
            is_utf8 = _decodes(decoder, chunk)
    return digest.hexdigest(), is_utf8 and _decodes(decoder, b"", final=True)


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True


def _limited(issues: Iterable[ReadIssue]) -> list[ReadIssue]:
    """The first issues one by one, the rest as one."""
    listed = list(issues)
    rest = sum(issue.count for issue in listed[LISTED:])
    more = [ReadIssue("", 0, "more files were passed over", "skipped", rest)] if rest else []
    return [*listed[:LISTED], *more]
