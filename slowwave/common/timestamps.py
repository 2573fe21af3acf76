"""Points in time: in the forms of files (`parse_time`), and in the form of commands (`parse_moment`, S2-39)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from .errors import UnusableInput

MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Months and days in English whatever the locale of the process, as those of `calendar` are not."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds_of(at: datetime) -> int:
    """A moment with a zone as microseconds since 1970, the form in which a store keeps it."""
    return (at - _EPOCH) // MICROSECOND


_FIRST = microseconds_of(datetime(1, 1, 2, tzinfo=UTC))
_LAST = microseconds_of(datetime(9999, 12, 30, tzinfo=UTC))


def parse_moment(text: str) -> datetime:
    """A moment in UTC from `YYYY-MM-DD HH:MM:SS`, `YYYY-MM-DD` (its first moment) or other ISO 8601 (S2-39).

    Without a zone it is UTC. Stricter than `parse_time`: in a file 2026 may be a number of seconds, here it is a
    mistake. Raises `UnusableInput` for anything else.
    """
    try:
        return in_utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise UnusableInput(
            f"{text!r} is not a time.", "Write it like 2026-01-31, 2026-01-31 14:30:00 or 2026-01-31T14:30:00+01:00."
        ) from None


def in_utc(moment: datetime) -> datetime:
    """The moment in UTC; without a zone it is taken for UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def parse_time(value: object) -> int | None:
    """Microseconds since 1970 UTC of ISO 8601, RFC 2822 or an epoch in s, ms, µs or ns; no zone is UTC.

    None for a missing value; ValueError for one that is no time.
    """
    if isinstance(value, str):
        value = value.strip()
        try:
            if value[4:5] == "-":
                return _micros(datetime.fromisoformat(value))
            number = float(value) if len(value) != 8 else None
        except ValueError:
            number = None
        if number is None:
            return _micros(_written_time(value)) if value else None
        value = number
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ValueError("not a time")
    size = abs(value)
    if size > 1e17:
        return _in_calendar(int(value) // 1000)
    return _in_calendar(round(value * (10**6 if size < 1e11 else 10**3 if size < 1e14 else 1)))


def _written_time(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        try:
            return parsedate_to_datetime(value)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise ValueError("not a time") from error


def _micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # in_utc leaves the calendar at its edges
    return _in_calendar(microseconds_of(aware))


def _in_calendar(micros: int) -> int:
    if not _FIRST <= micros <= _LAST:
        raise ValueError("a time outside the years 1 to 9999")
    return micros


def season_of(at: datetime) -> str:
    """The season of a moment in the northern half of the world; December begins the winter."""
    return ("winter", "spring", "summer", "autumn")[at.month % 12 // 3]


def date_in_words(at: datetime, precision: str | None = None) -> str:
    """A moment as exactly as it is known: 7 May 2023, the week of 1 May 2023, summer 2023, around 2023."""
    month = f"{MONTH_NAMES[at.month - 1]} {at.year}"
    day = f"{at.day} {month}"
    return {
        "week": f"the week of {day}",
        "month": month,
        "season": f"{season_of(at)} {at.year}",
        "year": f"{at.year}",
        "around": f"around {at.year}",
    }.get(precision or "day", day)


def day_of(at: datetime, precision: str | None = None) -> str:
    """The same, short: 2023-05-07, 2023-05, 2023, ~2023, summer 2023, week of 2023-05-01."""
    day = f"{at:%Y-%m-%d}"
    return {
        "week": f"week of {day}",
        "month": f"{at:%Y-%m}",
        "season": f"{season_of(at)} {at:%Y}",
        "year": f"{at:%Y}",
        "around": f"~{at:%Y}",
    }.get(precision or "day", day)
