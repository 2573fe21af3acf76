"""Windows: consecutive messages that are extracted in one call (S2-16, S2-17).

The text of people gives the size of a window. A window for a model is shortened: of an assistant's message only the
part that the person answers stays, code and long pastes go, and short conversations of the same people share a window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from typing import Any, Literal

import numpy as np
import polars as pl

from slowwave.common.records import KnownFact, RosterEntry, Turn, Window
from slowwave.common.settings import ExtractSettings, NoiseSettings
from slowwave.common.text import sentences, strip_code
from slowwave.common.timestamps import in_utc
from slowwave.reading.filters.noise import group_topics

CHARS_PER_TOKEN = 4  # common estimate for English text and byte-pair vocabularies
COLUMNS = ("id", "conversation_id", "ordinal", "role", "speaker", "content", "occurred_at", "scope")
ORDER = ("conversation_id", "ordinal", "occurred_at", "id")
PEOPLE = frozenset({"user", "document"})
"""Roles whose statements are kept; other messages are context."""
ANSWERED_CHARS = 400
"""Of an assistant's message: the first and the last sentence, and sentences that share words with the answer."""
PERSON_CHARS = 12_000
"""Of a person's message: the beginning and the end; the middle is mostly pasted."""
_SHARED_WORDS = 2
_WORD = re.compile(r"[^\W\d_]{5,}|\d[\d.,:/-]*\d")


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window with the row id of each turn, context included, and the rows that it settles."""

    window: Window
    message_ids: tuple[str, ...]
    settles: tuple[str, ...] = field(default=())

    @property
    def new_ids(self) -> tuple[str, ...]:
        """Rows to extract."""
        return self.settles or self.speaking_ids

    @property
    def speaking_ids(self) -> tuple[str, ...]:
        """Rows that facts may come from."""
        return tuple(row for turn, row in zip(self.window.turns, self.message_ids, strict=True) if not turn.is_context)

    def knowing(self, known: Sequence[KnownFact], roster: Sequence[RosterEntry] = ()) -> PlannedWindow:
        """The window with the known facts that it may repeat or end, and with its roster."""
        return replace(self, window=replace(self.window, known=tuple(known), roster=tuple(roster)))


def plan_windows(new: pl.DataFrame, earlier: pl.DataFrame, settings: ExtractSettings) -> list[PlannedWindow]:
    """Windows over new messages, each after up to `context_messages` earlier messages.

    Both frames have `COLUMNS`; `earlier` has messages of the same conversations from earlier runs. Where `new`
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
    for conversation in marked.partition_by("conversation_id", maintain_order=True):
        rows = conversation.to_dicts()
        for group in _groups(rows, settings):
            before = range(max(0, group[0] - settings.context_messages), group[0])
            planned.append(_window([rows[n] for n in before if n not in group], [rows[n] for n in group]))
    return planned


def brief_windows(planned: Sequence[PlannedWindow], settings: ExtractSettings) -> list[PlannedWindow]:
    """The windows for a model, in order of time.

    Neighbours of one scope and the same speakers join within the limits, unless windows end with their topic.
    """
    ordered = sorted(planned, key=lambda each: each.window.turns[-1].occurred_at)  # a stable sort
    joined: list[PlannedWindow] = []
    for each in map(_brief, ordered):
        if joined and _fit(joined[-1], each, settings):
            joined[-1] = _join(joined[-1], each)
        else:
            joined.append(each)
    return joined


def speakers_of(planned: PlannedWindow) -> frozenset[str]:
    """The speakers of a window without assistants and documents."""
    return frozenset(turn.speaker.lower() for turn in planned.window.turns if turn.role in PEOPLE - {"document"})


def with_topics(messages: pl.DataFrame, settings: NoiseSettings) -> pl.DataFrame:
    """The messages in order, with the number of their `topic` within their conversation (S4-22).

    They have `COLUMNS` and a `vector`. A message without a vector does not change the topic: the next message is
    compared with the one before it.
    """
    parts = messages.sort(ORDER).partition_by("conversation_id", maintain_order=True)
    return pl.concat([_with_topic(rows, settings) for rows in parts or [messages]])


def _with_topic(rows: pl.DataFrame, settings: NoiseSettings) -> pl.DataFrame:
    place = pl.when(pl.col("vector").is_not_null()).then(pl.int_range(pl.len())).forward_fill().backward_fill()
    places = rows.select(place=place)["place"]
    silent = bool(places.null_count())  # no vectors at all: only the length counts
    vectors = np.ones((len(rows), 1), np.float32) if silent else rows["vector"].gather(places).to_numpy()
    lengths = rows["content"].str.len_chars().fill_null(0).to_numpy()
    return rows.with_columns(pl.Series("topic", group_topics(vectors, lengths, settings)))


def _groups(rows: list[dict[str, Any]], settings: ExtractSettings) -> Iterator[list[int]]:
    """Positions of the new messages of each window.

    A window is full by the number or the tokens of people's messages; an older message or a new topic ends it.
    """
    group: list[int] = []
    tokens = messages = 0
    for n, row in enumerate(rows):
        is_statement = row["role"] in PEOPLE
        cost = is_statement * (len(row["content"] or "") // CHARS_PER_TOKEN + 1)
        full = is_statement and (messages >= settings.window_messages or tokens + cost > settings.window_tokens)
        if group and ((full and messages) or not row["is_new"] or row["topic"] != rows[group[-1]]["topic"]):
            yield group
            group, tokens, messages = [], 0, 0
        if row["is_new"]:
            group.append(n)
            tokens += cost
            messages += is_statement
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


def _brief(planned: PlannedWindow) -> PlannedWindow:
    """Without code, pastes and unanswered parts of an assistant's messages; the answered parts are context only."""
    turns = planned.window.turns
    kept: list[tuple[Turn, str]] = []
    for n, (turn, row) in enumerate(zip(turns, planned.message_ids, strict=True)):
        if turn.role in PEOPLE:
            text = turn.text if turn.role == "document" else _shortened(turn.text)
            kept.append((replace(turn, text=text), row))
        else:
            answer = next((later.text for later in turns[n + 1 :] if later.role in PEOPLE), "")
            if text := answered_part(turn.text, answer):
                kept.append((replace(turn, text=text, is_context=True), row))
    numbered = tuple(replace(turn, index=n) for n, (turn, _) in enumerate(kept))
    window = replace(planned.window, turns=numbered)
    return PlannedWindow(window, tuple(row for _, row in kept), planned.new_ids)


def answered_part(text: str, answer: str) -> str:
    """The part of an assistant's message that the person's next message answers, ANSWERED_CHARS characters at most.

    It has the first and the last sentence, and sentences that share words or figures with the answer. It is empty
    without an answer, or if the message is only code.
    """
    plain = sentences(strip_code(text)) if answer else []
    if not plain:
        return ""
    words = _words(answer)
    picked = {0, len(plain) - 1} | {n for n, part in enumerate(plain) if len(_words(part) & words) >= _SHARED_WORDS}
    parts: list[str] = []
    left = ANSWERED_CHARS
    for n in sorted(picked):
        part = plain[n][: ANSWERED_CHARS // 2]
        if len(part) < left:
            parts.append(part)
            left -= len(part) + 3
    return " … ".join(parts)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _shortened(text: str) -> str:
    """A person's message without fenced code; a very long one also without its middle."""
    plain = strip_code(text).strip()
    shown = plain if plain and plain == text.strip() else f"{plain} [code]".strip()
    half = PERSON_CHARS // 2
    return shown if len(shown) <= PERSON_CHARS else f"{shown[:half]} […] {shown[-half:]}"


def _size(planned: PlannedWindow) -> tuple[int, int]:
    """(messages, tokens) of the people in a window."""
    spoken = [turn for turn in planned.window.turns if not turn.is_context]
    return len(spoken), sum(len(turn.text) // CHARS_PER_TOKEN + 1 for turn in spoken)


def _fit(a: PlannedWindow, b: PlannedWindow, settings: ExtractSettings) -> bool:
    speakers = speakers_of(a)
    if settings.by_topic or not speakers or a.window.scope != b.window.scope or speakers != speakers_of(b):
        return False
    shown = {row for turn, row in zip(a.window.turns, a.message_ids, strict=True) if turn.is_context}
    if not shown.isdisjoint(b.speaking_ids):  # with broken clocks the context of one window may be new in the other
        return False
    messages, tokens = (one + other for one, other in zip(_size(a), _size(b), strict=True))
    return messages <= settings.window_messages and tokens <= settings.window_tokens


def _join(a: PlannedWindow, b: PlannedWindow) -> PlannedWindow:
    """Both windows as one, with each message once."""
    here = set(a.message_ids)
    more = [(turn, row) for turn, row in zip(b.window.turns, b.message_ids, strict=True) if row not in here]
    start = len(a.window.turns)
    turns = tuple(replace(turn, index=start + n) for n, (turn, _) in enumerate(more))
    window = replace(a.window, turns=a.window.turns + turns)
    rows = a.message_ids + tuple(row for _, row in more)
    return PlannedWindow(window, rows, tuple(dict.fromkeys(a.new_ids + b.new_ids)))


def first_of_each(planned: Sequence[PlannedWindow]) -> list[PlannedWindow]:
    """The windows that can be read now, in parallel: of windows with a common speaker in one scope only the first.

    `planned` are in order of time.
    """
    ready: list[PlannedWindow] = []
    waiting: set[tuple[str, str]] = set()
    for each in planned:
        who = {(each.window.scope, name) for name in speakers_of(each) or {each.window.conversation_id}}
        if waiting.isdisjoint(who):
            ready.append(each)
        waiting |= who
    return ready


# Time windows: old messages are read day by day, week by week or month by month (§6.5).


Period = Literal["day", "week", "month"]
PERIODS: dict[Period, str] = {"day": "1d", "week": "1w", "month": "1mo"}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Messages of [since, until), and the number of them to read."""

    since: datetime
    until: datetime
    messages: int

    @property
    def name(self) -> str:
        """The shown name."""
        return window_name(self.since, self.until)


def window_name(since: datetime, until: datetime) -> str:
    """A whole month as 2026-04; otherwise the first day."""
    is_month = since.day == until.day == 1 and (until - since).days in range(28, 32)
    return f"{since:%Y-%m}" if is_month else f"{since:%Y-%m-%d}"


def moment(given: date | datetime | None) -> datetime | None:
    """A day or time as a time: of a day its first moment; in UTC without a zone."""
    if given is None or isinstance(given, datetime):
        return in_utc(given) if given is not None else None
    return datetime.combine(given, time(), UTC)


def plan_time_windows(
    times: pl.Series, period: Period, start: datetime | None = None, end: datetime | None = None
) -> list[TimeWindow]:
    """The windows of the calendar (UTC; weeks begin on Monday) with messages, oldest first.

    `times` are the times of messages. [start, end) cuts the first and the last window.
    """
    at = pl.col("at")
    within = [at >= start] if start is not None else []
    within += [at < end] if end is not None else []
    step = PERIODS[period]
    frame = times.cast(pl.Datetime("us", "UTC")).alias("at").to_frame().drop_nulls().filter(*within)
    counted = frame.group_by(since=at.dt.truncate(step)).len("messages").sort("since")
    rows = counted.with_columns(until=pl.col("since").dt.offset_by(step)).select("since", "until", "messages")
    return [
        TimeWindow(max(since, start or since), min(until, end or until), messages)
        for since, until, messages in rows.iter_rows()
    ]


def limited(windows: Iterable[TimeWindow], limit: int | None) -> list[TimeWindow]:
    """The windows of the first `limit` messages, the last window in part; all windows without a limit."""
    if limit is None:
        return list(windows)
    taken: list[TimeWindow] = []
    for each in windows:
        if limit <= 0:
            break
        taken.append(replace(each, messages=min(each.messages, limit)))
        limit -= each.messages
    return taken
