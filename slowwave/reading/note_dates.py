"""The date of a note, from its heading or the name of its file: "Kickoff, 8 September 2026", "2026-09-08-kickoff"."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from slowwave.reading.dates import resolve_times
from slowwave.reading.hints import find_hint

_ANY_DAY = datetime(2000, 6, 15, tzinfo=UTC)  # dates with a year mean the same on every day
_IN_DIGITS = re.compile(r"(?<!\d)(\d{4})[-_. ]?(\d\d)[-_. ]?(\d\d)(?!\d)")
_OF_SOMETHING_ELSE = re.compile(
    r"(?:^|\W)(?:by|for|from|since|until|till|before|after|due|deadline|starting|release[ds]?|launch|para|hasta|desde)\W*$",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")


def note_date(*names: str) -> datetime | None:
    """The day that the first of the names tells that tells one with its year, and not as a date to come."""
    return next((day for name in names if (day := _day_in(name))), None)


def passage_date(passage: str) -> datetime | None:
    """The day of a passage of a journal: the last heading above it, where that is a date and nothing else."""
    heading = passage.partition("\n")[0].rpartition(" > ")[2].strip(" ,.:")
    plain = _IN_DIGITS.sub(r"\1-\2-\3", heading)
    return _day_in(heading) if find_hint(plain[:80]) == plain else None


def _day_in(name: str) -> datetime | None:
    plain = _IN_DIGITS.sub(r" \1-\2-\3 ", name)
    hint = find_hint(plain)
    before = plain.partition(hint)[0] if hint else ""
    if not _YEAR.search(hint) or _OF_SOMETHING_ELSE.search(before) or _OF_SOMETHING_ELSE.search(hint.split(" ", 1)[0]):
        return None
    times = resolve_times(hint, _ANY_DAY)
    return times.event_at if times.precision == "day" else None
