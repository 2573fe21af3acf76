"""Reading input: files and folders of transcripts and documents → batches of messages."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import polars as pl

from inference.language import Language
from inference.request_batch import MemoryLedger
from slowwave.common import text
from slowwave.common.errors import NothingYet, UnusableInput
from slowwave.common.settings import IngestSettings
from slowwave.common.timestamps import parse_time
from slowwave.reading.extraction.dates import note_date, passage_date
from slowwave.reading.filters.redaction import redact, redact_lines
from slowwave.reading.ingestion.chat_exports import names_of
from slowwave.reading.ingestion.conversations import Conversations, empty_frame
from slowwave.reading.ingestion.documents import document_head, passages
from slowwave.reading.ingestion.formats import MIXED, Loaded, Note, load_lines, load_values
from slowwave.reading.ingestion.parsers import BY_NAME, DOCUMENTS, conversation_of
from slowwave.reading.ingestion.transcripts import Message, Origin, Parsed
from tasks.runtime.runs import Run, store_of

from .sources import LISTED, PEOPLE, READABLE, ReadIssue, SourceInfo, find_sources

MAX_CHARS = 50_000  # longer messages are cut at a line end (S4-19)
_CHUNK = 1_048_576
_MAX_LINE = 67_108_864
_SEGMENT_CHARS = 67_108_864
_BLOCK_MESSAGES = 4096
_BLOCK_CHARS = 4_194_304
_HEAD_CHARS = 32_768
SCOPE = "global"  # unless a format says which project a message belongs to


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Messages of one source, titles by conversation, and the issues since the batch before."""

    messages: pl.DataFrame
    source: SourceInfo
    issues: tuple[ReadIssue, ...] = ()
    titles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    is_last: bool = True


def read_source(
    source: SourceInfo,
    conversations: Conversations,
    settings: IngestSettings,
) -> Iterator[ReadBatch]:
    """Batches of one file; the last one says so, and also comes alone when there is nothing to read.

    Of a file above 64 MB, order is exact within pieces of that size.
    """
    tally = _Tally(source.uri)
    if not source.is_utf8:
        tally.add(0, Note("adjusted", f"not all of it is UTF-8: read as {source.encoding}, damaged places as cp1252"))
    conversations.begin(source.id)
    pending: tuple[pl.DataFrame, Mapping[str, str]] | None = None
    try:
        for frame, titles in _segments(source, conversations, tally, settings):
            for part in frame.iter_slices(settings.extract.batch_messages):
                if pending is not None:
                    yield ReadBatch(pending[0], source, tally.take(), pending[1], False)
                pending = part, titles
    except OSError as error:
        raise UnusableInput(f"{source.uri} cannot be read: {error.strerror or error}.", "Check the file.") from error
    if pending is None:
        _check_not_lost(source, tally)
    frame, titles = pending or (empty_frame(), {})
    yield ReadBatch(frame, source, tally.take(is_last=True), titles)


def _check_not_lost(source: SourceInfo, tally: _Tally) -> None:
    if source.is_named and tally.is_all_lost:
        raise UnusableInput(
            f"Nothing in {source.uri} can be read as {source.format}: {tally.first_loss}.",
            f"{READABLE}; name another with --format or correct the file.",
        )


def _check_readable(source: SourceInfo, settings: IngestSettings) -> None:
    """Raise UnusableInput for a file that was named and of which nothing can be read, up to its first message."""
    tally = _Tally(source.uri)
    try:
        for line, found in _reader_of(source)(source, settings):
            if not isinstance(found, Note):
                return
            tally.add(line, found)
    except OSError as error:
        raise UnusableInput(f"{source.uri} cannot be read: {error.strerror or error}.", "Check the file.") from error
    _check_not_lost(source, tally)


Reader = Callable[[SourceInfo, IngestSettings], Iterator[tuple[int, Message | Note]]]


def _reader_of(source: SourceInfo) -> Reader:
    return _read_document if source.format in DOCUMENTS else _read_transcript


def _segments(
    source: SourceInfo,
    conversations: Conversations,
    tally: _Tally,
    settings: IngestSettings,
) -> Iterator[tuple[pl.DataFrame, Mapping[str, str]]]:
    for block in _blocks(_reader_of(source)(source, settings)):
        changes = iter(conversations.add_all([found for _, found in block if not isinstance(found, Note)]))
        for line, found in block:
            for note in [found] if isinstance(found, Note) else next(changes):
                tally.add(line, note)
        if conversations.size > _SEGMENT_CHARS:
            titles = conversations.titles
            yield conversations.take(source.modified_at), titles
    titles = conversations.titles
    yield conversations.take(source.modified_at), titles


def _blocks(found: Iterable[tuple[int, Message | Note]]) -> Iterator[list[tuple[int, Message | Note]]]:
    """Enough at once that looking for secrets costs little, and not more than memory should hold."""
    block: list[tuple[int, Message | Note]] = []
    size = 0
    for line, one in found:
        block.append((line, one))
        size += 0 if isinstance(one, Note) else len(one.content)
        if len(block) >= _BLOCK_MESSAGES or size >= _BLOCK_CHARS:
            yield block
            block, size = [], 0
    if block:
        yield block


def _read_transcript(source: SourceInfo, settings: IngestSettings) -> Iterator[tuple[int, Message | Note]]:
    """(line, message or note) of a file of conversations."""
    named, values = BY_NAME[source.format], loaded(source)
    names = MappingProxyType(dict[str, str]())
    if named.has_people:
        beside = (source.path.parent / PEOPLE, source.path.parent.parent / PEOPLE)
        lists = [path for path in beside if path.is_file() and not path.is_symlink()]
        names = _names_in(lists[0], lists[0].stat().st_mtime_ns) if lists else names
    start = origin = Origin(text.one_line(conversation_of(source.path.absolute(), source.format)), SCOPE, names)
    for line, value, note in named.gather(values) if named.gather else values:
        if note:
            yield line, note
        if note and note.kind != "adjusted":
            continue
        # A fork repeats the lines of its parent, also the one that names the session.
        if named.next_origin and origin is start:
            origin = named.next_origin(value, origin)
        if named.parse:
            yield from ((line, found) for found in _parsed(partial(named.parse, value, origin)))


@lru_cache(maxsize=8)
def _names_in(path: Path, changed_at: int) -> MappingProxyType[str, str]:
    """The names of ids in a list of people; none where it cannot be read, because the chats can be."""
    try:
        with path.open(encoding="utf-8", errors=MIXED) as stream:
            people = [value for _, value, _ in load_values(stream.read())]
    except OSError:
        people = []
    return MappingProxyType(names_of(people))


def _parsed(parse: Callable[[], Parsed]) -> Parsed:
    try:
        yield from parse()
    except RecursionError:
        yield Note("unreadable", "nested too deeply")


def loaded(source: SourceInfo) -> Iterator[Loaded]:
    """(line or item, value, note) of a file of JSON."""
    if source.shape == "values":
        with _open_text(source) as stream:
            yield from load_values(stream.read())
    elif source.encoding.startswith("utf-8"):
        with source.path.open("rb") as raw:
            if source.encoding == "utf-8-sig":
                raw.read(len(codecs.BOM_UTF8))
            yield from load_lines(iter(lambda: raw.readline(_MAX_LINE), b""))
    else:
        with _open_text(source) as stream:
            yield from load_lines(line.encode("utf-8", "replace") for line in _text_lines(stream, _MAX_LINE))


def _read_document(source: SourceInfo, settings: IngestSettings) -> Iterator[tuple[int, Message | Note]]:
    """(passage number, passage as message) of a document.

    Its date is that of its front matter, else of its heading or file name; a passage of a journal has its own.
    """
    is_markdown = source.format == "markdown"
    with _open_text(source) as stream:
        head = "".join(redact_lines(io.StringIO(stream.read(_HEAD_CHARS))))
    name = redact(source.path.stem).text
    title, date = document_head(head, is_markdown=is_markdown, fallback=name)
    at = _document_time(date, title, name)
    title = text.cut_bytes(text.one_line(title), text.MAX_NAME_BYTES) or "document"
    tokens, overlap = settings.extract.chunk_tokens, settings.extract.chunk_overlap
    with _open_text(source) as stream:
        found = passages(redact_lines(_text_lines(stream)), is_markdown=is_markdown, tokens=tokens, overlap=overlap)
        for number, passage in enumerate(found, 1):
            own = passage_date(passage) if is_markdown else None
            when = parse_time(own.isoformat()) if own else at
            yield number, Message(source.uri, "", "document", title, passage, when, SCOPE, title)


def _document_time(written: str, *names: str) -> int | None:
    """Microseconds since 1970 of the date of the front matter, else of the first name that has one."""
    try:
        at = parse_time(written)
    except ValueError:
        at = None
    day = note_date(written, *names) if at is None else None
    return parse_time(day.isoformat()) if day else at


def _open_text(source: SourceInfo) -> TextIO:
    return source.path.open(encoding=source.encoding, errors=MIXED)


def _text_lines(stream: TextIO, limit: int = _CHUNK) -> Iterator[str]:
    return iter(lambda: stream.readline(limit), "")


class _Tally:
    """Issues of one source: what is lost line by line up to a limit, the rest by reason with its first line."""

    def __init__(self, path: str) -> None:
        self._path, self._listed, self._lost = path, 0, 0
        self._fresh: list[ReadIssue] = []
        self._counts: dict[Note, int] = {}
        self._firsts: dict[Note, int] = {}
        self.first_loss = ""

    @property
    def is_all_lost(self) -> bool:
        return self._lost > 0 and not any(note.kind == "skipped" for note in self._counts)

    def add(self, line: int, note: Note) -> None:
        if note.kind == "unreadable":
            self._lost += 1
            self.first_loss = self.first_loss or (f"line {line}, {note.reason}" if line else note.reason)
            if self._listed < LISTED:
                self._listed += 1
                self._fresh.append(ReadIssue(self._path, line, note.reason))
                return
            note = Note("unreadable", "more like these")
        self._counts[note] = self._counts.get(note, 0) + 1
        self._firsts.setdefault(note, line)

    def take(self, *, is_last: bool = False) -> tuple[ReadIssue, ...]:
        """What was listed since the last call; with the last one, what was counted."""
        issues, self._fresh = self._fresh, []
        if is_last:
            for note, count in self._counts.items():
                issues.append(ReadIssue(self._path, self._firsts[note], note.reason, note.kind, count))
        return tuple(issues)


# Intake: sources that are new, gathered into batches worth a commit.


@dataclass(frozen=True, slots=True)
class Intake:
    """Messages of one or more sources, and the pieces they were read in."""

    messages: pl.DataFrame
    parts: tuple[ReadBatch, ...]


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that can be read, and what was passed over."""

    sources: tuple[SourceInfo, ...]
    issues: tuple[ReadIssue, ...]


def look_at(paths: Sequence[str], format: str, settings: IngestSettings) -> FoundFiles:
    """The files of the paths; raises for what is unusable, be it a file or a model, before anything is made.

    Raises `NothingYet` where there is no file at all in the folders.
    """
    if settings.extract.enabled:
        Language(settings.llm, MemoryLedger())
    sources, issues = find_sources(paths, format)
    if paths and not sources:
        raise NothingYet(f"There is no file in {', '.join(map(repr, paths))}.", "Put files there, or name others.")
    for source in sources:
        if source.is_named:
            _check_readable(source, settings)
    return FoundFiles(tuple(sources), tuple(issues))


def find_new_sources(run: Run, found: FoundFiles) -> list[SourceInfo]:
    """The files but those whose very bytes were read completely before, under whatever name."""
    columns = ["content_hash", "format"]
    hashes = [source.content_hash for source in found.sources]
    read = store_of(run).snapshot().by_ids("sources", hashes, columns, key="content_hash", where="state = 'completed'")
    done = {*read.iter_rows()}
    new: list[SourceInfo] = []
    for source in found.sources:
        if (bytes_and_form := (source.content_hash, source.format)) not in done:
            new.append(source)
        done.add(bytes_and_form)
    return new


def read_intakes(run: Run, sources: Sequence[SourceInfo], settings: IngestSettings) -> Iterator[Intake]:
    """Everything in the sources, small ones joined, so that a thousand files are not a thousand commits."""
    conversations = Conversations(run.now, MAX_CHARS)
    batches = (batch for source in sources for batch in read_source(source, conversations, settings))
    yield from gather(batches, settings.extract.batch_messages)


def gather(batches: Iterable[ReadBatch], size: int) -> Iterator[Intake]:
    """Join consecutive batches until they hold `size` messages."""
    parts: list[ReadBatch] = []
    count = 0
    for batch in batches:
        parts.append(batch)
        count += len(batch.messages)
        if count >= size:
            yield _joined(parts)
            parts, count = [], 0
    if parts:
        yield _joined(parts)


def _joined(parts: list[ReadBatch]) -> Intake:
    return Intake(pl.concat([part.messages for part in parts]), tuple(parts))
