"""Intake: sources that are new, gathered into batches worth a commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from inference.language import Language
from inference.ledger import MemoryLedger
from slowwave.intake.conversations import Conversations
from slowwave.settings import IngestSettings

from .reading import ReadBatch, read_source
from .runs import Run, store_of
from .sources import ReadIssue, SourceInfo, find_sources


@dataclass(frozen=True, slots=True)
class Intake:
    """Messages of one or more sources, and the pieces they were read in."""

    messages: pl.DataFrame
    parts: tuple[ReadBatch, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The files that can be read, and what was passed over."""

    sources: tuple[SourceInfo, ...]
    issues: tuple[ReadIssue, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """What there is to read: new sources, those that were read completely before, and what was passed over."""

    new: tuple[SourceInfo, ...]
    known: tuple[SourceInfo, ...]
    issues: tuple[ReadIssue, ...]


def look_at(paths: Sequence[str], format: str, settings: IngestSettings) -> Found:
    """The files of the paths; raises for what is unusable, be it a file or a model, before anything is made."""
    if settings.extract.enabled:
        Language(settings.llm, MemoryLedger())
    sources, issues = find_sources(paths, format)
    return Found(tuple(sources), tuple(issues))


def find_new_sources(run: Run, found: Found) -> Sources:
    """Tell new files from those whose very bytes were read before, under whatever name."""
    columns = ["content_hash", "format"]
    hashes = [source.content_hash for source in found.sources]
    read = store_of(run).snapshot().by_ids("sources", hashes, columns, key="content_hash", where="state = 'completed'")
    done = {*read.iter_rows()}
    new: list[SourceInfo] = []
    known: list[SourceInfo] = []
    for source in found.sources:
        bytes_and_form = (source.content_hash, source.format)
        (known if bytes_and_form in done else new).append(source)
        done.add(bytes_and_form)
    return Sources(tuple(new), tuple(known), found.issues)


def read_intakes(run: Run, sources: Sequence[SourceInfo], settings: IngestSettings) -> Iterator[Intake]:
    """Everything in the sources, small ones joined, so that a thousand files are not a thousand commits."""
    conversations = Conversations(run.now, settings.noise.max_chars)
    batches = (batch for source in sources for batch in read_source(source, conversations, None, settings))
    yield from gather(batches, settings.extract.batch_messages)


def gather(batches: Iterable[ReadBatch], size: int) -> Iterator[Intake]:
    """Join consecutive batches until they hold `size` messages."""
    held: list[ReadBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch.messages)
        if count >= size:
            yield _joined(held)
            held, count = [], 0
    if held:
        yield _joined(held)


def _joined(parts: list[ReadBatch]) -> Intake:
    return Intake(pl.concat([part.messages for part in parts]), tuple(parts))
