"""Points in time as transcripts write them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _MICROSECOND


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
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _in_calendar((aware - _EPOCH) // _MICROSECOND)


def _in_calendar(micros: int) -> int:
    if not _FIRST <= micros <= _LAST:
        raise ValueError("a time outside the years 1 to 9999")
    return micros
