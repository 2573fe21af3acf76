"""Windows: consecutive messages that are extracted in one call (S2-16, S2-17).

A window is measured by what people said. For a model it is made brief: of an assistant's message remains what the
person answers to, of code and long pastes nothing, and short conversations of the same people share one window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from typing import Any, Literal

import numpy as np
import polars as pl

from slowwave.filters.noise import group_topics
from slowwave.records import KnownFact, RosterEntry, Turn, Window
from slowwave.settings import ExtractSettings, NoiseSettings
from slowwave.text import sentences, strip_code
from slowwave.timestamps import in_utc

CHARS_PER_TOKEN = 4  # common estimate for English text and byte-pair vocabularies
COLUMNS = ("id", "conversation_id", "ordinal", "role", "speaker", "content", "occurred_at", "scope")
ORDER = ("conversation_id", "ordinal", "occurred_at", "id")
PEOPLE = frozenset({"user", "document"})
"""Roles of those whose statements are kept; what others say is shown for understanding."""
ANSWERED_CHARS = 400
"""Of an assistant's message: the first and the last sentence, and those that share words with what follows."""
PERSON_CHARS = 12_000
"""Of a person's message: the beginning and the end; what stands between is mostly pasted."""
_SHARED_WORDS = 2
_WORD = re.compile(r"[^\W\d_]{5,}|\d[\d.,:/-]*\d")


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window with the row id of each of its turns, context included, and the rows that it settles."""

    window: Window
    message_ids: tuple[str, ...]
    settles: tuple[str, ...] = field(default=())

    @property
    def new_ids(self) -> tuple[str, ...]:
        """Rows that are to be extracted."""
        return self.settles or self.speaking_ids

    @property
    def speaking_ids(self) -> tuple[str, ...]:
        """Rows that facts may come from."""
        return tuple(row for turn, row in zip(self.window.turns, self.message_ids, strict=True) if not turn.is_context)

    def knowing(self, known: Sequence[KnownFact], roster: Sequence[RosterEntry] = ()) -> PlannedWindow:
        """The same window with the facts it may repeat or end, and the people and things in play."""
        return replace(self, window=replace(self.window, known=tuple(known), roster=tuple(roster)))


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


def brief_windows(planned: Sequence[PlannedWindow], settings: ExtractSettings) -> list[PlannedWindow]:
    """The windows as a model reads them, in the order in which they were said.

    Neighbours of one scope and the same speakers are one window as long as it stays within the limits, unless a window
    ends with its topic.
    """
    ordered = sorted(planned, key=lambda each: each.window.turns[-1].occurred_at)  # equal ones as they were planned
    joined: list[PlannedWindow] = []
    for each in map(_brief, ordered):
        if joined and _fit(joined[-1], each, settings):
            joined[-1] = _join(joined[-1], each)
        else:
            joined.append(each)
    return joined


def speakers_of(planned: PlannedWindow) -> frozenset[str]:
    """Who speaks in a window, assistants and documents left out."""
    return frozenset(turn.speaker.lower() for turn in planned.window.turns if turn.role in PEOPLE - {"document"})


def with_topics(messages: pl.DataFrame, settings: NoiseSettings) -> pl.DataFrame:
    """The messages in order, with the number of their `topic` within their conversation (S4-22).

    They have `COLUMNS` and a `vector`. One without a vector does not turn the talk: what comes next is compared with
    the one before it.
    """
    parts = messages.sort(ORDER).partition_by("conversation_id", maintain_order=True)
    return pl.concat([_with_topic(rows, settings) for rows in parts or [messages]])


def _with_topic(rows: pl.DataFrame, settings: NoiseSettings) -> pl.DataFrame:
    place = pl.when(pl.col("vector").is_not_null()).then(pl.int_range(pl.len())).forward_fill().backward_fill()
    places = rows.select(place=place)["place"]
    silent = bool(places.null_count())  # all of it: it is parted by length alone
    vectors = np.ones((len(rows), 1), np.float32) if silent else rows["vector"].gather(places).to_numpy()
    lengths = rows["content"].str.len_chars().fill_null(0).to_numpy()
    return rows.with_columns(pl.Series("topic", group_topics(vectors, lengths, settings)))


def _conversation(rows: list[dict[str, Any]], settings: ExtractSettings) -> Iterator[PlannedWindow]:
    for group in _groups(rows, settings):
        first = group[0]
        context = [n for n in range(max(0, first - settings.context_messages), first) if n not in group]
        yield _window([rows[n] for n in context], [rows[n] for n in group])


def _groups(rows: list[dict[str, Any]], settings: ExtractSettings) -> Iterator[list[int]]:
    """Positions of the new messages of each window.

    It is full by what people said, by count or by tokens, or ended by an older message or another topic.
    """
    group: list[int] = []
    tokens = messages = 0
    for n, row in enumerate(rows):
        is_said = row["role"] in PEOPLE
        cost = is_said * (len(row["content"] or "") // CHARS_PER_TOKEN + 1)
        full = is_said and (messages >= settings.window_messages or tokens + cost > settings.window_tokens)
        if group and ((full and messages) or not row["is_new"] or row["topic"] != rows[group[-1]]["topic"]):
            yield group
            group, tokens, messages = [], 0, 0
        if row["is_new"]:
            group.append(n)
            tokens += cost
            messages += is_said
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
    """Without code, pastes, and the parts of an assistant's messages that nobody answers to; these are context only."""
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


def answered_part(text: str, answer: str, most: int = ANSWERED_CHARS) -> str:
    """Of an assistant's message what the person's next message answers to, at most `most` characters.

    The first and the last sentence, and those that share words or figures with the answer. Empty where there is no
    answer, or nothing but code to be answered.
    """
    plain = sentences(strip_code(text)) if answer else []
    if not plain:
        return ""
    words = _words(answer)
    picked = {0, len(plain) - 1} | {n for n, part in enumerate(plain) if len(_words(part) & words) >= _SHARED_WORDS}
    parts: list[str] = []
    left = most
    for n in sorted(picked):
        part = plain[n][: most // 2]
        if len(part) < left:
            parts.append(part)
            left -= len(part) + 3
    return " … ".join(parts)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _shortened(text: str) -> str:
    """A person's message without fenced code, its middle left out where it is very long."""
    plain = strip_code(text).strip()
    shown = plain if plain and plain == text.strip() else f"{plain} [code]".strip()
    half = PERSON_CHARS // 2
    return shown if len(shown) <= PERSON_CHARS else f"{shown[:half]} […] {shown[-half:]}"


def _size(planned: PlannedWindow) -> tuple[int, int]:
    """Messages and tokens of what people say in it."""
    spoken = [turn for turn in planned.window.turns if not turn.is_context]
    return len(spoken), sum(len(turn.text) // CHARS_PER_TOKEN + 1 for turn in spoken)


def _fit(a: PlannedWindow, b: PlannedWindow, settings: ExtractSettings) -> bool:
    speakers = speakers_of(a)
    if settings.by_topic or not speakers or a.window.scope != b.window.scope or speakers != speakers_of(b):
        return False
    shown = {row for turn, row in zip(a.window.turns, a.message_ids, strict=True) if turn.is_context}
    if not shown.isdisjoint(b.speaking_ids):  # clocks that stand still or run back: what one shows the other reads
        return False
    messages, tokens = (one + other for one, other in zip(_size(a), _size(b), strict=True))
    return messages <= settings.window_messages and tokens <= settings.window_tokens


def _join(a: PlannedWindow, b: PlannedWindow) -> PlannedWindow:
    """Both as one; what both show as context, or one shows that the other extracts, stands in it once."""
    here = set(a.message_ids)
    more = [(turn, row) for turn, row in zip(b.window.turns, b.message_ids, strict=True) if row not in here]
    start = len(a.window.turns)
    turns = tuple(replace(turn, index=start + n) for n, (turn, _) in enumerate(more))
    window = replace(a.window, turns=a.window.turns + turns)
    rows = a.message_ids + tuple(row for _, row in more)
    return PlannedWindow(window, rows, tuple(dict.fromkeys(a.new_ids + b.new_ids)))


def first_of_each(planned: Sequence[PlannedWindow]) -> list[PlannedWindow]:
    """The windows that can be read now, beside each other: of those that share a speaker or a scope's memory the first.

    `planned` are in the order of time. What shares nobody with an earlier one does not wait for it.
    """
    ready: list[PlannedWindow] = []
    waiting: set[tuple[str, str]] = set()
    for each in planned:
        who = {(each.window.scope, name) for name in speakers_of(each) or {each.window.conversation_id}}
        if waiting.isdisjoint(who):
            ready.append(each)
        waiting |= who
    return ready


# Time windows: what was said long ago is read day by day, week by week or month by month (§6.5).


Period = Literal["day", "week", "month"]
PERIODS: dict[Period, str] = {"day": "1d", "week": "1w", "month": "1mo"}


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The messages said in [since, until), and how many of them are meant."""

    since: datetime
    until: datetime
    messages: int

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From when to before when."""
        return self.since, self.until

    @property
    def name(self) -> str:
        """What people call it."""
        return window_name(self.since, self.until)


def window_name(since: datetime, until: datetime) -> str:
    """The month, as 2026-04, where it is a whole one; otherwise the day with which it begins."""
    is_month = since.day == until.day == 1 and (until - since).days in range(28, 32)
    return f"{since:%Y-%m}" if is_month else f"{since:%Y-%m-%d}"


def moment(asked: date | datetime | None) -> datetime | None:
    """The time that somebody means: of a day its first moment, in UTC unless a zone is named."""
    if asked is None or isinstance(asked, datetime):
        return in_utc(asked) if asked is not None else None
    return datetime.combine(asked, time(), UTC)


def plan_time_windows(
    said: pl.Series, period: Period, start: datetime | None = None, end: datetime | None = None
) -> list[TimeWindow]:
    """The windows of the calendar (UTC; weeks begin on Monday) in which anything was said, oldest first.

    `said` are the times of messages. The first and the last window end where [start, end) does; without them, with the
    calendar.
    """
    at = pl.col("at")
    within = [at >= start] if start is not None else []
    within += [at < end] if end is not None else []
    step = PERIODS[period]
    frame = said.cast(pl.Datetime("us", "UTC")).alias("at").to_frame().drop_nulls().filter(*within)
    counted = frame.group_by(since=at.dt.truncate(step)).len("messages").sort("since")
    rows = counted.with_columns(until=pl.col("since").dt.offset_by(step)).select("since", "until", "messages")
    return [
        TimeWindow(max(since, start or since), min(until, end or until), messages)
        for since, until, messages in rows.iter_rows()
    ]


def limited(windows: Iterable[TimeWindow], limit: int | None) -> list[TimeWindow]:
    """The windows that hold the first `limit` messages, the last of them only in part; none: all."""
    if limit is None:
        return list(windows)
    taken: list[TimeWindow] = []
    for each in windows:
        if limit <= 0:
            break
        taken.append(replace(each, messages=min(each.messages, limit)))
        limit -= each.messages
    return taken
