"""Stretches of the calendar: days, weeks, months, seasons and years, and which of several is meant."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

Tense = Literal["past", "future", "unknown"]
Precision = Literal["day", "week", "month", "season", "year", "around"]

MONTH = "|".join(calendar.month_name[1:]).lower()
"""The names of the months as alternatives of a pattern."""
UNITS = frozenset({"second", "minute", "hour", "day", "week", "weekend", "month", "year", "decade"})
_RECENT = timedelta(days=122)
_LENGTHS = {"week": timedelta(days=7), "month": timedelta(days=31), "season": timedelta(days=92)}


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `start` (included) to `end` (excluded), and how exactly the words name it."""

    start: datetime
    end: datetime
    precision: Precision

    def roughly(self) -> Stretch:
        """The same, only about then."""
        return replace(self, precision="around")

    def widened(self, precision: Precision) -> tuple[datetime, datetime]:
        """Start and end where dates of this precision count: whole weeks, months or years; about: its length more."""
        if precision in ("month", "year"):
            return unit_span(self.start, precision).start, unit_span(self.end - timedelta(1), precision).end
        slack = _LENGTHS.get(precision, timedelta(0))
        slack = max(slack, self.end - self.start) if "around" in (precision, self.precision) else slack / 2
        return self.start - slack, self.end + slack


def unit_span(at: datetime, unit: str) -> Stretch:
    """The day, calendar week, weekend, month or year that holds `at`."""
    start = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in ("week", "weekend"):
        start -= timedelta(days=start.weekday())
    if unit == "weekend":
        return Stretch(start + timedelta(days=5), start + timedelta(days=7), "day")
    if unit == "month":
        return Stretch(start.replace(day=1), shift(start.replace(day=1), 1, "month"), "month")
    if unit == "year":
        return Stretch(start.replace(month=1, day=1), shift(start.replace(month=1, day=1), 1, "year"), "year")
    return Stretch(start, shift(start, 1, unit), "week") if unit == "week" else Stretch(start, shift(start, 1), "day")


def shift(at: datetime, count: float, unit: str = "day") -> datetime:
    """`at` moved by units; the day of the month is kept where the month has it."""
    if unit in ("week", "weekend"):
        return at + timedelta(weeks=count)
    if unit not in ("month", "year", "decade"):
        return at + timedelta(**{f"{unit}s": count})
    months = at.year * 12 + at.month - 1 + round(count * {"month": 1, "year": 12, "decade": 120}[unit])
    year, month = divmod(months, 12)
    return at.replace(year=year, month=month + 1, day=min(at.day, calendar.monthrange(year, month + 1)[1]))


def months_from(day: datetime, year: int, month: int, length: int, precision: Precision) -> Stretch:
    """So many months from the first of one."""
    start = day.replace(year=year, month=month, day=1)
    return Stretch(start, shift(start, length, "month"), precision)


def near_weekday(day: datetime, weekday: int, step: int) -> datetime:
    """The nearest such day strictly before (step < 0) or after `day`."""
    ahead = (weekday - day.weekday()) % 7
    return day + timedelta(days=ahead or 7) if step > 0 else day - timedelta(days=(-ahead) % 7 or 7)


def yearly(make: Callable[[int], Stretch], day: datetime) -> list[Stretch]:
    """What comes once a year, in the years about `day`; leaves out years that have none."""
    found = []
    for year in range(day.year - 4, day.year + 5):
        with suppress(ValueError):
            found.append(make(year))
    return found


def choose(spans: list[Stretch], day: datetime, tense: Tense) -> Stretch | None:
    """The one that the tense points at: the last that began, the next that is not over; without a tense the one that
    is over for less than four months, else the next."""
    if tense == "past":
        return next((span for span in reversed(spans) if span.start <= day), None)
    over = day - _RECENT if tense == "unknown" else day
    return next((span for span in spans if span.end > over), None)


def stated_date(at: datetime | None, precision: str | None) -> str:
    """A date as exactly as it was said: 2023, 2023-05, 2023-05-08, or "about" the first day of a wider stretch."""
    if at is None:
        return ""
    if precision == "year":
        return f"{at:%Y}"
    if precision == "month":
        return f"{at:%Y-%m}"
    return f"{at:%Y-%m-%d}" if precision in ("day", "", None) else f"about {at:%Y-%m-%d}"
