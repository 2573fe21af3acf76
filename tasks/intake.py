"""Intake: sources that are new, gathered into batches worth a commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from slowwave.conversations import Conversations
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
class Sources:
    """What there is to read: new sources, those that were read completely before, and what was passed over."""

    new: tuple[SourceInfo, ...]
    known: tuple[SourceInfo, ...]
    issues: tuple[ReadIssue, ...]


def find_new_sources(run: Run, paths: Sequence[str], format: str) -> Sources:
    """Tell new files from those whose very bytes were read before."""
    found, issues = find_sources(paths, format)
    ids = [source.id for source in found]
    done = set(store_of(run).snapshot().by_ids("sources", ids, ["id"], where="state = 'completed'")["id"])
    return Sources(
        tuple(source for source in found if source.id not in done),
        tuple(source for source in found if source.id in done), tuple(issues),
    )


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
