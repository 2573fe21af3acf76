"""Stretches of the calendar: days, weeks, months, seasons and years, and the choice between several."""

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
    """From `start` (included) to `end` (excluded), with the precision of the words."""

    start: datetime
    end: datetime
    precision: Precision

    def roughly(self) -> Stretch:
        """The same stretch with the precision `around`."""
        return replace(self, precision="around")

    def widened(self, precision: Precision) -> tuple[datetime, datetime]:
        """Start and end at this precision: whole weeks, months or years; `around` adds the length on each side."""
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
    """`length` months from the first day of a month."""
    start = day.replace(year=year, month=month, day=1)
    return Stretch(start, shift(start, length, "month"), precision)


def near_weekday(day: datetime, weekday: int, step: int) -> datetime:
    """The nearest such day strictly before (step < 0) or after `day`."""
    ahead = (weekday - day.weekday()) % 7
    return day + timedelta(days=ahead or 7) if step > 0 else day - timedelta(days=(-ahead) % 7 or 7)


def yearly(make: Callable[[int], Stretch], day: datetime) -> list[Stretch]:
    """The yearly stretches in the years around `day`; years without one are left out."""
    found = []
    for year in range(day.year - 4, day.year + 5):
        with suppress(ValueError):
            found.append(make(year))
    return found


def choose(spans: list[Stretch], day: datetime, tense: Tense) -> Stretch | None:
    """The stretch that fits the tense: past the last that began, future the next that is not over; without a tense one
    that ended less than four months ago, else the next."""
    if tense == "past":
        return next((span for span in reversed(spans) if span.start <= day), None)
    over = day - _RECENT if tense == "unknown" else day
    return next((span for span in spans if span.end > over), None)


def stated_date(at: datetime | None, precision: str | None) -> str:
    """A date in its own precision: 2023, 2023-05, 2023-05-08, or "about" the first day of a wider stretch."""
    if at is None:
        return ""
    if precision == "year":
        return f"{at:%Y}"
    if precision == "month":
        return f"{at:%Y-%m}"
    return f"{at:%Y-%m-%d}" if precision in ("day", "", None) else f"about {at:%Y-%m-%d}"
