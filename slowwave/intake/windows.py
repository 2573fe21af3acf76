"""Windows: consecutive messages of one conversation that are extracted in one call (S2-16, S2-17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from slowwave.gates.noise_scores import group_topics
from slowwave.records import KnownFact, Turn, Window
from slowwave.settings import ExtractSettings, NoiseSettings

CHARS_PER_TOKEN = 4  # common estimate for English text and byte-pair vocabularies
COLUMNS = ("id", "conversation_id", "ordinal", "role", "speaker", "content", "occurred_at", "scope")
ORDER = ("conversation_id", "ordinal", "occurred_at", "id")


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window with the row id of each of its turns, context included."""

    window: Window
    message_ids: tuple[str, ...]

    @property
    def new_ids(self) -> tuple[str, ...]:
        """Rows that are to be extracted."""
        pairs = zip(self.window.turns, self.message_ids, strict=True)
        return tuple(row for turn, row in pairs if not turn.is_context)

    def knowing(self, known: Sequence[tuple[str, str, datetime | None]]) -> PlannedWindow:
        """The same window with the facts (id, statement, valid_from) it may supersede."""
        facts = tuple(KnownFact(n, fact, text, since) for n, (fact, text, since) in enumerate(known))
        return replace(self, window=replace(self.window, known=facts))


def plan_windows(new: pl.DataFrame, earlier: pl.DataFrame, settings: ExtractSettings) -> list[PlannedWindow]:
    """Windows over new messages, each preceded by up to `context_messages` messages said before it.

    Both frames have `COLUMNS`; `earlier` holds messages of the same conversations that were handled before. Where `new`
    has a `topic`, see `with_topics`, a window ends with it, too (S4-22).
    """
    topic = pl.col("topic") if "topic" in new.columns else pl.lit(None, pl.Int64).alias("topic")
    marked = pl.concat(
        [
            earlier.select(*COLUMNS, topic=pl.lit(None, pl.Int64), is_new=pl.lit(False)),
            new.select(*COLUMNS, topic, is_new=pl.lit(True)),
        ]
    ).sort(ORDER)
    planned: list[PlannedWindow] = []
    for rows in marked.partition_by("conversation_id", maintain_order=True):
        planned += _conversation(rows.to_dicts(), settings)
    return planned


def with_topics(messages: pl.DataFrame, settings: NoiseSettings) -> pl.DataFrame:
    """The messages in order, with the number of their `topic` within their conversation (S4-22).

    They have `COLUMNS` and a `vector`. One without a vector does not turn the talk: what comes next is compared with
    the one before it.
    """
    parts = messages.sort(ORDER).partition_by("conversation_id", maintain_order=True)
    return pl.concat([_with_topic(rows, settings) for rows in parts or [messages]])


def _with_topic(rows: pl.DataFrame, settings: NoiseSettings) -> pl.DataFrame:
    place = pl.when(pl.col("vector").is_not_null()).then(pl.int_range(pl.len())).forward_fill().backward_fill()
    told = rows.select(place=place)["place"]
    silent = bool(told.null_count())  # all of it: it is parted by length alone
    vectors = np.ones((len(rows), 1), np.float32) if silent else rows["vector"].gather(told).to_numpy()
    lengths = rows["content"].str.len_chars().fill_null(0).to_numpy()
    return rows.with_columns(pl.Series("topic", group_topics(vectors, lengths, settings)))


def _conversation(rows: list[dict[str, Any]], settings: ExtractSettings) -> Iterator[PlannedWindow]:
    for group in _groups(rows, settings):
        first = group[0]
        context = [n for n in range(max(0, first - settings.context_messages), first) if n not in group]
        yield _window([rows[n] for n in context], [rows[n] for n in group])


def _groups(rows: list[dict[str, Any]], settings: ExtractSettings) -> Iterator[list[int]]:
    """Positions of the new messages of each window.

    It is full by count or by tokens, or ended by an older message or another topic.
    """
    group: list[int] = []
    tokens = 0
    for n, row in enumerate(rows):
        cost = len(row["content"] or "") // CHARS_PER_TOKEN + 1
        full = len(group) >= settings.window_messages or tokens + cost > settings.window_tokens
        if group and (full or not row["is_new"] or row["topic"] != rows[group[-1]]["topic"]):
            yield group
            group, tokens = [], 0
        if row["is_new"]:
            group.append(n)
            tokens += cost
    if group:
        yield group


def _window(context: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> PlannedWindow:
    rows = [*context, *new]
    turns = tuple(
        Turn(
            index=n,
            speaker=row["speaker"] or row["role"],
            role=row["role"],
            text=row["content"] or "",
            occurred_at=row["occurred_at"],
            is_context=n < len(context),
        )
        for n, row in enumerate(rows)
    )
    window = Window(new[0]["conversation_id"], new[0]["scope"] or "global", turns)
    return PlannedWindow(window, tuple(row["id"] for row in rows))
