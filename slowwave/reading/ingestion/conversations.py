"""Messages in the order of their source become frames in the order of their conversations, each message once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from slowwave.common import text
from slowwave.common.timestamps import parse_time
from slowwave.reading.filters.redaction import redact_all

from .formats import Note
from .transcripts import Message, display_name, shortened

# Identifiers that differ stay different after redaction.
_NAMES = ("conversation_id", "message_id", "speaker", "scope")


def cleaned(messages: Sequence[Message]) -> tuple[list[Message], list[bool]]:
    """The messages without secrets in any of their texts, and which of them had a secret (S4-20)."""
    found = [_readable(message) for message in messages]
    secrets = [message.role == "document" and "[redacted:" in message.content for message in found]
    content, kinds = redact_all(pl.Series("content", [message.content for message in found], dtype=pl.String))
    for row in (kinds.list.len() > 0).arg_true().to_list():
        found[row], secrets[row] = found[row]._replace(content=content[row]), True
    for field in (*_NAMES, "title"):
        values = [getattr(message, field) for message in found]
        hidden = hidden_names(values) if field in _NAMES else _hidden(values)
        if hidden:
            for row in (row for row, value in enumerate(values) if value in hidden):
                change: dict[str, Any] = {field: hidden[values[row]]}
                found[row], secrets[row] = found[row]._replace(**change), True
    return [_cut(message) for message in found], secrets


def hidden_names(names: Sequence[str]) -> dict[str, str]:
    """Each name with a secret and its redacted form; different names stay different."""
    return {name: f"{clean}~{text.digest(name, size=4)}" for name, clean in _hidden(names).items()}


def _hidden(values: Sequence[str]) -> dict[str, str]:
    known = sorted(set(values))
    clean, kinds = redact_all(pl.Series(known, dtype=pl.String))
    # A plain number is an identifier, even if its digits look like a card number.
    rows = (kinds.list.len() > 0).arg_true().to_list()
    return {known[row]: clean[row] for row in rows if not known[row].isdigit()}


def _readable(message: Message) -> Message:
    """Removes invisible signs before redaction, because they would hide a secret."""
    content = message.content
    if not (content.isascii() and content.isprintable()):
        content = text.readable(content)
    if "<" in content:
        content = text.strip_thinking(content)
    content, speaker = content.strip(), message.speaker
    if "@" in speaker:
        speaker = display_name(speaker)
    if content is message.content and speaker is message.speaker:
        return message
    return message._replace(content=content, speaker=speaker)


def _cut(message: Message) -> Message:
    """Cuts long texts, after redaction, so that no secret is cut in two (S4-19)."""
    if message.is_excerpt:
        message = message._replace(content=shortened(message.content))
    if len(message.speaker) * 4 > text.MAX_NAME_BYTES:
        message = message._replace(speaker=text.cut_bytes(message.speaker, text.MAX_NAME_BYTES))
    return message


TIME = pl.Datetime("us", "UTC")
COLUMNS: Mapping[str, type[pl.DataType] | pl.DataType] = {
    "id": pl.String, "message_id": pl.String, "conversation_id": pl.String, "ordinal": pl.Int64, "role": pl.String,
    "speaker": pl.String, "content": pl.String, "occurred_at": TIME, "scope": pl.String, "source_id": pl.String,
    "has_secret": pl.Boolean,
}  # fmt: skip

_STATED = {"id": pl.String, "message_id": pl.String, "conversation_id": pl.String, "role": pl.String,
           "speaker": pl.String, "content": pl.String, "at": pl.Int64, "scope": pl.String,
           "has_secret": pl.Boolean}  # fmt: skip
_EMPTY = Note("skipped", "a message without text")
_REPEATED = Note("skipped", "a message that was read before")
_RENAMED = Note("adjusted", "an identifier stood for two different texts: the later one got a suffix")
_NO_TIME = Note("adjusted", "no time: it follows the message before it, or has the time of the file")
_FUTURE = Note("adjusted", "a time in the future was set to now (`--now TIME` keeps it)")
_LONG_AGO = Note("adjusted", "a time before 1990 was kept")
_CUT = Note("adjusted", "a message longer than the limit was cut")
_1990 = parse_time("1990-01-01") or 0
_ROW_CHARS = 200


class Conversations:
    """Collects the messages of several sources into frames; skips messages that it has seen."""

    def __init__(self, now: datetime, max_chars: int) -> None:
        self._now, self._max_chars = parse_time(now.isoformat()) or 0, max_chars
        self._latest = self._now + timedelta(days=1) // timedelta(microseconds=1)
        self._texts: dict[int, int] = {}
        self._last: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self.begin("")

    def begin(self, source_id: str) -> None:
        """Starts the next source."""
        self._source_id, self._repeats = source_id, dict[str, int]()
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        self.titles: dict[str, str] = {}
        self._rows: list[tuple[str, str, str, str, str, str, int | None, str, bool]] = []

    def add_all(self, messages: Sequence[Message]) -> list[list[Note]]:
        """Adds messages without their secrets; returns notes on the changes of each.

        Redaction comes before cutting and naming; `size` is roughly the number of characters so far.
        """
        return [self._add(message, has_secret) for message, has_secret in zip(*cleaned(messages), strict=True)]

    def _add(self, message: Message, has_secret: bool) -> list[Note]:
        content = text.cut_long(message.content, self._max_chars)
        notes = [_CUT] if content is not message.content else []
        if not content:
            return [_EMPTY]
        conversation = message.conversation_id
        message_id = message.message_id or self._derived_id(message, content)
        row, seen = self._first_seen(conversation, message_id, content)
        if seen is not None:
            if seen == hash(content):
                return [_REPEATED]
            message_id = f"{message_id}~{text.digest(content, size=4)}"
            row, seen = self._first_seen(conversation, message_id, content)
            if seen is not None:
                return [_REPEATED]
            notes.append(_RENAMED)
        at = self._place(message, notes)
        if message.title:
            self.titles[conversation] = message.title
        self._rows.append(
            (row, message_id, conversation, message.role, message.speaker, content, at, message.scope, has_secret)
        )
        self.size += len(content) + _ROW_CHARS
        return notes

    def _derived_id(self, message: Message, content: str) -> str:
        """An identifier from text, speaker and time, with a count of equal messages in the same source."""
        derived = text.digest(message.conversation_id, message.role, message.speaker, content, message.at)
        count = self._repeats[derived] = self._repeats.get(derived, 0) + 1
        return derived if count == 1 else f"{derived}-{count}"

    def _first_seen(self, conversation: str, message_id: str, content: str) -> tuple[str, int | None]:
        """The row's id, and the hash of an earlier text with the same id, if any."""
        row = text.row_id("m", conversation, message_id)
        key = int(row[2:18], 16)
        seen = self._texts.get(key)
        if seen is None:
            self._texts[key] = hash(content)
        return row, seen

    def _place(self, message: Message, notes: list[Note]) -> int | None:
        """The message's time in µs: never in the future; without a time it follows the message before it."""
        at = message.at
        if at is None:
            if message.role != "document":
                notes.append(_NO_TIME)
            before = self._last.get(message.conversation_id)
            at = None if before is None else before + 1
        elif at > self._latest:
            notes.append(_FUTURE)
            at = self._now
        elif at < _1990:
            notes.append(_LONG_AGO)
        if at is not None:
            self._last[message.conversation_id] = at
        return at

    def take(self, fallback: datetime) -> pl.DataFrame:
        """The collected messages by conversation, in order of time; `fallback` is the time of a message without one."""
        rows = pl.DataFrame(self._rows, schema=_STATED, orient="row").with_row_index("position")
        self._clear()
        frame = _timed(rows, parse_time(fallback.isoformat()) or 0)
        frame = frame.with_columns(pl.col("position").min().over("conversation_id").alias("first"))
        frame = frame.sort("first", "at", "position").with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).over("conversation_id").alias("ordinal")
        )
        return self._numbered(frame).select(
            *("id", "message_id", "conversation_id", "ordinal", "role", "speaker", "content"),
            pl.col("at").cast(TIME).alias("occurred_at"), "scope", pl.lit(self._source_id).alias("source_id"),
            "has_secret",
        )  # fmt: skip

    def _numbered(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Adds to the ordinals the number of earlier messages of the conversation."""
        parts = frame.group_by("conversation_id", maintain_order=True).agg(pl.len(), pl.col("at").max())
        names = parts["conversation_id"].to_list()
        known = pl.DataFrame({"conversation_id": names, "earlier": [self._counts.get(name, 0) for name in names]},
                             schema={"conversation_id": pl.String, "earlier": pl.Int64})  # fmt: skip
        for name, count, at in parts.iter_rows():
            self._counts[name] = self._counts.get(name, 0) + count
            self._last.setdefault(name, at)
        joined = frame.join(known, on="conversation_id", how="left", maintain_order="left")
        return joined.with_columns(pl.col("ordinal") + pl.col("earlier"))


def _timed(rows: pl.DataFrame, fallback: int) -> pl.DataFrame:
    """Opening messages without a time get the time of the first one with it, else `fallback` in their order."""
    if not rows["at"].null_count():
        return rows
    step = pl.int_range(pl.len(), dtype=pl.Int64).over("conversation_id")
    return rows.with_columns(pl.col("at").backward_fill().over("conversation_id").fill_null(fallback + step))


def empty_frame() -> pl.DataFrame:
    """A message frame without rows."""
    return pl.DataFrame(schema=dict(COLUMNS))
