"""The stretch of time that words such as "last week", "since March" or "5 de mayo" mean."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

from dateparser.date import DateDataParser

from slowwave.reading.hints import COUNT

Tense = Literal["past", "future", "unknown"]

_MONTHS = {name.lower(): i for i, name in enumerate(calendar.month_name) if name}
_MONTHS |= {
    "jan": 1,
    "feb": 2,
    "apr": 4,
    "jun": 6,
    "jul": 7,
    "aug": 8,
    "sep": 9,
    "sept": 9,
    "oct": 10,
    "nov": 11,
    "dec": 12,
}
_MONTHS |= {
    "enero": 1, "febrero": 2, "marzo": 3, "abril": 4, "mayo": 5, "junio": 6, "julio": 7, "agosto": 8,
    "septiembre": 9, "octubre": 10, "noviembre": 11, "diciembre": 12,
}  # fmt: skip
_WEEKDAYS = {name.lower(): i for i, name in enumerate(calendar.day_name)}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple of": 2, "a couple of": 2, "three": 3, "few": 3, "a few": 3,
    "several": 4,
    "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "fifteen": 15,
    "twenty": 20,
    "un": 1, "una": 1, "dos": 2, "tres": 3, "cuatro": 4, "cinco": 5, "seis": 6,
}  # fmt: skip
_UNITS = frozenset({"second", "minute", "hour", "day", "week", "weekend", "month", "year", "decade"})

_FUTURE = re.compile(
    r"\b(?:will|'ll|going to|gonna|plan(?:s|ning)? to|plans?_to|upcoming|starts?|begins?|leaves?"
    r"|want(?:s)? to|about to|due|deadline"
    r"|release|scheduled|can't wait|looking forward|(?:am|is|are|'m|'re) (?:moving|leaving|starting|going"
    r"|getting|flying|having|coming))\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|did|had|went|got|left|quit|met|made|took|began|became|came|saw|bought|built|since|ago|\w{3,}ed)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^(?:ever since|back in|since|starting on|starting|from|as of|around|during|for|in|on|desde|en|el)\s+",
    re.IGNORECASE,
)
_OPEN_ENDED = re.compile(r"^(?:ever since|since|from|starting|as of|desde)\b", re.IGNORECASE)
_UP_TO_NOW = re.compile(rf"^(?:the\s+)?(?:last|past)\s+{COUNT}\s+\w+$", re.IGNORECASE)
_SINCE = re.compile(r"^(?:ever since|since|desde)\b", re.IGNORECASE)
_NO_START = re.compile(r"^(?:until|till|by|before|after)\b", re.IGNORECASE)
_CLASH = re.compile(
    r"\b(?:yesterday|last|ago|past)\b.*\b(?:tomorrow|next|from now)\b|\b(?:tomorrow|next)\b.*\b(?:yesterday|ago)\b"
)
_AMOUNT = re.compile(
    rf"^(?:(in|within)\s+)?(?:the\s+)?(?:(last|past)\s+)?({COUNT})\s+(\w+?)s?(?:\s+(ago|from now))?$", re.IGNORECASE
)
_DAY_OF = re.compile(r"^(?:(\w+day),?\s+)?the\s+(\d{1,2})(?:st|nd|rd|th)$", re.IGNORECASE)
_RELATIVE = re.compile(r"^(last|next|this|this past|past|this coming|coming)\s+(\w+)$", re.IGNORECASE)
_NTH_WEEK = re.compile(
    r"^the\s+(first|second|third|last)\s+(weekend|week)\s+(?:of|in)\s+(\w+)(?:\s+(\d{4}))?$", re.IGNORECASE
)
_PART = re.compile(
    r"^(?:the\s+)?(early|mid|late|end of|beginning of|start of|middle of)[\s-]+(?:([^\W\d]+)\s*)?(\d{4})?$",
    re.IGNORECASE,
)
_SEASON = re.compile(r"^(?:the\s+)?(spring|summer|autumn|fall|winter)(?:(?:\s+of)?\s+(\d{4}))?$", re.IGNORECASE)
_MONTH_YEAR = re.compile(r"^([^\W\d]+)(?:,?\s+(?:de\s+)?(\d{4}))?$")
_FARTHEST_YEARS = 150


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start` (included) to `end` (excluded); no end means that it goes on."""

    start: datetime
    end: datetime | None = None


def resolve_hint(words: str, said_at: datetime, statement: str = "") -> Interval | None:
    """What a temporal hint means when said at `said_at`; `statement` gives the tense of bare dates ("on
    Monday"). None for words that name no start ("until May"), that contradict themselves, or that lie
    150 years off."""
    hint = " ".join(words.strip(" ,.;").split())
    if not hint or len(hint) > 60 or _NO_START.match(hint) or _CLASH.search(hint.lower()):
        return None
    core = _LEAD.sub("", hint)
    if _AMOUNT.match(hint) and hint[:2].lower() == "in":
        core = hint
    day = said_at.replace(hour=0, minute=0, second=0, microsecond=0)
    tense = "past" if _SINCE.match(hint) else _tense(f"{hint} {_around(hint, statement)}")
    span = _resolve(core.lower(), day, tense)
    if span is None or abs(span[0].year - said_at.year) > _FARTHEST_YEARS:
        return None
    return Interval(span[0], None if _OPEN_ENDED.match(hint) or _UP_TO_NOW.match(core) else span[1])


def _around(hint: str, statement: str) -> str:
    """The sentence of a statement that holds the hint."""
    return next((part for part in re.split(r"(?<=[.!?])\s+(?=[A-ZÀ-Þ])", statement[:4000]) if hint in part), statement)


def _tense(words: str) -> Tense:
    """Whether a statement speaks of what was or of what is to come."""
    if _FUTURE.search(words):
        return "future"
    return "past" if _PAST.search(words) else "unknown"


Span = tuple[datetime, datetime]


@lru_cache(maxsize=8192)
def _resolve(core: str, day: datetime, tense: Tense) -> Span | None:
    for rule in (_amount, _relative, _day_of, _weekday, _nth_week, _part, _season, _month_or_year, _absolute):
        try:
            span = rule(core, day, tense)
        except (ValueError, OverflowError):
            return None
        if span is not None:
            return span
    return None


def _amount(core: str, day: datetime, _: Tense) -> Span | None:
    """ "two months ago", "in three weeks", "the past ten years"."""
    found = _AMOUNT.match(core)
    spanish = re.match(r"^hace\s+(\w+)\s+(d[ií]a|semana|mes|año)", core)
    if spanish:
        count = int(spanish[1]) if spanish[1].isdigit() else _NUMBERS.get(spanish[1], 0)
        unit = {"día": "day", "dia": "day", "semana": "week", "mes": "month", "año": "year"}[spanish[2]]
        return _unit_span(_shift(day, -count, unit), unit) if count else None
    if not found or not any((found[1], found[2], found[5])):
        return None
    count = int(found[3]) if found[3].isdigit() else _NUMBERS[found[3].lower()]
    unit = found[4]
    if unit not in _UNITS:
        return None
    if unit == "decade":
        count, unit = count * 10, "year"
    back = -1 if found[2] or found[5] == "ago" else 1
    return _unit_span(_shift(day, back * count, unit), unit)


def _relative(core: str, day: datetime, _: Tense) -> Span | None:
    """ "last week", "next Monday", "this morning", "last March", "next summer"."""
    found = _RELATIVE.match(core)
    if not found:
        return None
    which, what = found[1].split()[-1], found[2]
    step = {"last": -1, "past": -1, "next": 1, "coming": 1, "this": 0}[which]
    if what in ("night", "morning", "afternoon", "evening"):
        return _unit_span(day + timedelta(days=-1 if what == "night" and step < 0 else step), "day")
    if what in _WEEKDAYS:
        return _unit_span(_near_weekday(day, _WEEKDAYS[what], step or 1), "day")
    if what in _MONTHS:
        return _near_month(day, _MONTHS[what], step, 1)
    if what in _SEASONS:
        return _near_month(day, _SEASONS[what], step, 3)
    if what in ("week", "weekend", "month", "year"):
        unit = "week" if what == "weekend" else what
        span = _unit_span(_shift(day, step, unit), unit)
        return (span[0] + timedelta(days=5), span[1]) if what == "weekend" else span
    return None


def _day_of(core: str, day: datetime, tense: Tense) -> Span | None:
    """ "the 15th", "Monday the 13th": that day of this month, or of the one the tense asks for."""
    found = _DAY_OF.match(core)
    if not found:
        return None
    this = day.replace(day=int(found[2]))
    if tense == "past" and this > day:
        this = _shift(day.replace(day=1), -1, "month").replace(day=int(found[2]))
    if tense == "future" and this < day:
        this = _shift(day.replace(day=1), 1, "month").replace(day=int(found[2]))
    return _unit_span(this, "day")


def _weekday(core: str, day: datetime, tense: Tense) -> Span | None:
    return (
        _unit_span(_near_weekday(day, _WEEKDAYS[core], 1 if tense == "future" else -1), "day")
        if core in _WEEKDAYS
        else None
    )


def _nth_week(core: str, day: datetime, tense: Tense) -> Span | None:
    """ "the first weekend of April"."""
    found = _NTH_WEEK.match(core)
    month = _month_or_year(f"{found[3]} {found[4] or ''}".strip(), day, tense) if found else None
    if not found or month is None:
        return None
    first = month[0] + timedelta(days=(5 - month[0].weekday()) % 7 if found[2] == "weekend" else 0)
    index = {"first": 0, "second": 1, "third": 2, "last": 3}[found[1]]
    start = first + timedelta(days=7 * index)
    return start, start + timedelta(days=2 if found[2] == "weekend" else 7)


def _part(core: str, day: datetime, tense: Tense) -> Span | None:
    """ "early May", "the end of 2023": a third of the whole."""
    found = _PART.match(core)
    whole = _month_or_year(" ".join(filter(None, found.groups()[1:])), day, tense) if found else None
    if not found or whole is None:
        return None
    third = (whole[1] - whole[0]) / 3
    index = 0 if found[1] in ("early", "beginning of", "start of") else 1 if found[1] in ("mid", "middle of") else 2
    start = (whole[0] + third * index).replace(hour=0, minute=0, second=0, microsecond=0)
    return start, whole[1] if index == 2 else start + third


def _season(core: str, day: datetime, tense: Tense) -> Span | None:
    found = _SEASON.match(core)
    if not found:
        return None
    first = _SEASONS[found[1]]
    if found[2]:
        start = day.replace(year=int(found[2]), month=first, day=1)
        return start, _shift(start, 3, "month")
    return _near_month(day, first, 1 if tense == "future" else -1 if tense == "past" else 0, 3)


def _month_or_year(core: str, day: datetime, tense: Tense) -> Span | None:
    """ "March", "September 2024", "2021"."""
    if core.isdigit() and len(core) == 4:
        return _unit_span(day.replace(year=int(core), month=1, day=1), "year")
    found = _MONTH_YEAR.match(core)
    if not found or found[1] not in _MONTHS:
        return None
    if found[2]:
        return _unit_span(day.replace(year=int(found[2]), month=_MONTHS[found[1]], day=1), "month")
    return _near_month(day, _MONTHS[found[1]], {"past": -1, "future": 1, "unknown": 0}[tense], 1)


def _absolute(core: str, day: datetime, tense: Tense) -> Span | None:
    """Everything else is a date with a day in it, or a word such as "ayer": the library's."""
    settings = {
        "RELATIVE_BASE": day.replace(tzinfo=None), "STRICT_PARSING": False, "RETURN_AS_TIMEZONE_AWARE": False,
        "PREFER_DATES_FROM": {"past": "past", "future": "future", "unknown": "current_period"}[tense],
    }  # fmt: skip
    words = re.sub(r"\b(?:the|of)\s+", "", core)
    data = DateDataParser(languages=["en", "es"], settings=settings).get_date_data(words)
    if data.date_obj is None:
        return None
    found: datetime = data.date_obj.replace(tzinfo=day.tzinfo)
    return _unit_span(found, data.period if data.period in ("week", "month", "year") else "day")


def _near_weekday(day: datetime, weekday: int, step: int) -> datetime:
    """The nearest such day strictly before (step < 0) or after `day`."""
    ahead = (weekday - day.weekday()) % 7
    return day + timedelta(days=ahead or 7) if step > 0 else day - timedelta(days=(-ahead) % 7 or 7)


def _near_month(day: datetime, month: int, step: int, length: int) -> Span:
    """The month, or the stretch of months from it: the last that began (-1), the next (1), or this year's (0)."""
    start = day.replace(month=month, day=1)
    if step < 0 and start > day:
        start = _shift(start, -1, "year")
    if step > 0 and _shift(start, length, "month") <= day:
        start = _shift(start, 1, "year")
    return start, _shift(start, length, "month")


def _unit_span(at: datetime, unit: str) -> Span:
    """The day, calendar week, month or year that holds `at`."""
    start = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in ("week", "weekend"):
        start -= timedelta(days=start.weekday())
    elif unit == "month":
        start = start.replace(day=1)
    elif unit == "year":
        start = start.replace(month=1, day=1)
    return start, _shift(start, 1, unit if unit in ("week", "month", "year") else "day")


def _shift(at: datetime, count: int, unit: str) -> datetime:
    """`at` moved by whole units; the day of the month is kept where the month has it."""
    if unit in ("week", "weekend"):
        return at + timedelta(weeks=count)
    if unit not in ("month", "year"):
        return at + timedelta(**{f"{unit}s": count})
    months = at.year * 12 + at.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    return at.replace(year=year, month=month + 1, day=min(at.day, calendar.monthrange(year, month + 1)[1]))
