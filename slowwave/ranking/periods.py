"""Periods: which time a question names, so that what was said of it or happened in it is looked for first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from slowwave.validity import time_sql

_MAY_NAME_ONE = re.compile(
    r"\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|spring|summer"
    r"|autumn|fall|winter|today|yesterday|tonight|ago|weekend|week|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r")\b",
    re.IGNORECASE,
)
_EVENT = re.compile(
    r"\b(before|after|since)\s+((?:(?i:the|a|an|my|your|his|her|its|our|their|she|he|they|we|you|i|it)|[A-Z]\w*)\b[^,?;]+)"
)
SAID_WITHIN = timedelta(days=14)
"""How long before it was said something without a date of its own may have happened."""
_YEAR_LONG = timedelta(days=366)
_YEAR = re.compile(r"\b\d{4}\b")
_RELATIVE = re.compile(r"\b(?:today|yesterday|tonight|ago|last|past|next|this|previous|coming)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to `end` (excluded), either open; or, where no year is named, these `months` (and `day`) of any."""

    start: datetime | None = None
    end: datetime | None = None
    months: tuple[int, ...] = ()
    day: int | None = None

    def covers(self, at: datetime | None) -> bool:
        """Whether a moment lies in it."""
        if at is None:
            return False
        if self.months:
            return at.month in self.months and self.day in (None, at.day)
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)

    def meets(self, start: datetime | None, end: datetime | None) -> bool:
        """Whether what holds from `start` to `end` (excluded), None for open, holds at some time in it."""
        if not self.months:
            return not (start and self.end and start >= self.end) and not (end and self.start and end <= self.start)
        if start is None or end is None or end - start >= _YEAR_LONG:
            return True
        days = range(max((end - start).days, 0) + 1)
        return any(self.covers(start + timedelta(days=n)) for n in days if start + timedelta(days=n) < end)

    def where(self, columns: Sequence[str]) -> str:
        """The filter of rows of which one of these columns, all times, lies in it."""
        return "(" + " OR ".join(f"({self._of(column)})" for column in columns) + ")"

    def expression(self, columns: Sequence[str]) -> pl.Expr:
        """The same of a frame."""
        return pl.any_horizontal([self._met(pl.col(column)).fill_null(False) for column in columns])

    def _of(self, column: str) -> str:
        parts = [f"{column} IS NOT NULL"]
        if self.months:
            parts.append(f"date_part('month', {column}) IN ({', '.join(map(str, self.months))})")
        if self.day is not None:
            parts.append(f"date_part('day', {column}) = {self.day}")
        if self.start is not None:
            parts.append(f"{column} >= {time_sql(self.start)}")
        if self.end is not None:
            parts.append(f"{column} < {time_sql(self.end)}")
        return " AND ".join(parts)

    def _met(self, at: pl.Expr) -> pl.Expr:
        met = at.is_not_null()
        if self.months:
            met &= at.dt.month().is_in(self.months)
        if self.day is not None:
            met &= at.dt.day() == self.day
        if self.start is not None:
            met &= at >= self.start
        if self.end is not None:
            met &= at < self.end
        return met


def period_of(question: str, now: datetime) -> Period | None:
    """The period that a question names; None where it names none. "in October" is that of any year."""
    if not _MAY_NAME_ONE.search(question):
        return None
    from slowwave.reading.dates import resolve_times  # slow to import, and most questions name no time
    from slowwave.reading.hints import find_hint

    words = find_hint(question)
    times = resolve_times(words, now, question) if words else None
    if times is None:
        return None
    if times.kind in ("since", "before", "until", "deadline"):
        start = times.valid_from if times.kind == "since" else None
        end = None if times.kind == "since" else times.valid_to or times.event_until or times.valid_from
        return Period(start, end)
    if times.event_at is None or times.event_until is None:
        return None
    if _YEAR.search(words) or _RELATIVE.search(words):
        return Period(times.event_at, times.event_until)
    if times.precision not in ("day", "month", "season"):
        return None
    months = {"season": 3}.get(times.precision, 1)
    first = times.event_at.month
    day = times.event_at.day if times.precision == "day" else None
    return Period(months=tuple((first + n - 1) % 12 + 1 for n in range(months)), day=day)


def event_in(question: str) -> tuple[str, str] | None:
    """("before", "she moved") of "Where did Anna live before she moved?"; None where no event is named as a time."""
    found = _EVENT.search(question)
    return (found[1], found[2].strip()) if found else None


def period_beside(side: str, event: datetime | None, known: datetime | None) -> Period | None:
    """The time before an event, or from it on. If only the day it was said is known, it may be SAID_WITHIN earlier."""
    if side == "before":
        return Period(end=event or known) if event or known else None
    start = event or (known - SAID_WITHIN if known else None)
    return Period(start=start) if start else None
