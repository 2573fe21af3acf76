"""The outline of a conversation: a line at each message with which a topic begins or takes a turn (decision 44).

A model writes it while it reads. It is asked for where an order, a development or a summary is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import polars as pl

from slowwave.common import frames
from slowwave.common.text import normalise_statement, readable
from slowwave.reading.filters.injection import injection_flags
from slowwave.reading.filters.redaction import redact
from slowwave.reading.ingestion.windows import PlannedWindow

OUTLINE: frames.Schema = {"message_id": frames.TEXT, "outline": frames.TEXT}
LONGEST_LINE = 200
"""Characters of a line; what is longer is none."""


class TopicLine(Protocol):
    """A line of an answer, at a message by its number in the window."""

    message: int
    text: str


def outline_of(windows: Iterable[tuple[PlannedWindow, Iterable[TopicLine]]], most: int) -> pl.DataFrame:
    """OUTLINE: at most so many lines for each window, in the order of its messages.

    Only of messages that were shown as new (T37). Lines of one message are one, and none comes twice in a window. A
    secret is redacted, and a line that gives orders to its reader is none.
    """
    rows = [row for planned, lines in windows for row in _of_window(planned, lines, most)]
    found = pl.DataFrame(rows, schema=dict(OUTLINE), orient="row")
    own = found.unique("message_id", keep="last", maintain_order=True)
    return own.filter(~injection_flags(own["outline"]))


def _of_window(planned: PlannedWindow, lines: Iterable[TopicLine], most: int) -> Iterator[tuple[str, str]]:
    turns = zip(planned.window.turns, planned.message_ids, strict=True)
    ids = {turn.index: id_ for turn, id_ in turns if not turn.is_context}
    texts: dict[str, list[str]] = {}
    known: set[str] = set()
    for line in sorted((line for line in lines if line.message in ids), key=lambda line: line.message):
        text = redact(" ".join(readable(line.text).split()).rstrip(".;")).text
        words = normalise_statement(text)
        if len(known) < most and len(text) <= LONGEST_LINE and any(map(str.isalnum, words)) and words not in known:
            known.add(words)
            texts.setdefault(ids[line.message], []).append(text)
    return ((id_, "; ".join(each)) for id_, each in texts.items())
