"""The meaning of words such as "last week", "3 to 7 May" or "two years ago" on the day of the statement."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

from slowwave.common.timestamps import MONTH_NAMES, WEEKDAY_NAMES

Tense = Literal["past", "future", "unknown"]
Precision = Literal["day", "week", "month", "season", "year", "around"]

MONTH_NAME = "|".join(MONTH_NAMES).lower()
"""The whole names of the months as alternatives of a pattern; `dates.MONTH` also has the short ones."""
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
    over = day - (_RECENT if tense == "unknown" else timedelta(0))
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


Side = Literal["past", "future", "until_now", ""]
"""The side of now that the words themselves name, in any tense: "ago", "next", "the last two years"."""

MONTHS = {name.lower(): i for i, name in enumerate(MONTH_NAMES, 1)}
MONTHS |= {name[:3]: i for name, i in MONTHS.items()} | {"sept": 9}
WEEKDAYS = {name.lower(): i for i, name in enumerate(WEEKDAY_NAMES)}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_FEASTS = {
    "christmas": (12, 25), "christmas day": (12, 25), "christmas eve": (12, 24), "new year's eve": (12, 31),
    "new year's day": (1, 1), "new year's": (1, 1), "new year": (1, 1), "halloween": (10, 31),
    "valentine's day": (2, 14), "valentine's": (2, 14),
}  # fmt: skip
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "half a": 0.5, "half an": 0.5,
}  # fmt: skip
_VAGUE = {"couple of": 2, "couple": 2, "few": 3, "some": 3, "several": 4, "many": 10}
_COUNT = (
    rf"\d{{1,3}}|(?:a )?(?:{'|'.join(sorted(_VAGUE, key=len, reverse=True))})|half an?"
    rf"|{'|'.join(word for word in _NUMBERS if ' ' not in word)}"
)
_M = "|".join(sorted(MONTHS, key=len, reverse=True))
_W = "|".join(WEEKDAYS)
_Y = r"(?:1[5-9]|20)\d\d"
_THIS_WHEN: dict[str, Literal["past", "future"]] = {"earlier": "past", "later": "future"}
_PART_OF = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}

_AMOUNT = re.compile(
    rf"(?P<rough>(?:about|around|almost|nearly|over|roughly|approximately|more than|at least|some) )?"
    rf"(?:(?P<count>{_COUNT}) )?(?P<unit>\w+?)s?(?P<half> and a half)?"
)
_AGO = re.compile(r"(?P<amount>.+?) (?:(?P<back>ago|earlier|back)|from now|from today|later)(?: (?:today|now))?")
_REACH = re.compile(r"(?:the |these )?(?P<which>last|past|next|coming|following) (?P<amount>.+)")
_RELATIVE = re.compile(
    r"(?:the )?(?P<which>earlier this|later this|this past|this coming|this last|last|next|past|coming|this)"
    r" (?P<what>.+)"
)
_TURN = re.compile(r"(?:the )?(?P<unit>week|weekend|month|year) (?P<which>before last|after next)")
_DAY_OF = re.compile(rf"(?:(?:{_W}) )?(?:the )?(?P<day>\d\d?)(?:st|nd|rd|th)|(?:{_W}) the (?P<bare>\d\d?)")
_DAY_MONTH = re.compile(rf"(?P<day>\d\d?)(?:st|nd|rd|th)? (?P<month>{_M})(?: (?P<year>{_Y}))?")
_MONTH_DAY = re.compile(rf"(?P<month>{_M}) (?P<day>\d\d?)(?:st|nd|rd|th)?(?: (?P<year>{_Y}))?")
_ISO = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d?)(?:-(?P<day>\d\d?))?(?:[t ].*)?")
_DIGITS = re.compile(r"(?P<a>\d\d?)(?P<by>[./])(?P<b>\d\d?)(?P=by)(?P<year>\d{4})")
_MONTH = re.compile(rf"(?P<month>{_M})(?: (?P<year>{_Y}))?")
_SEASON = re.compile(rf"(?P<season>{'|'.join(_SEASONS)})(?: (?P<year>{_Y}))?")
_QUARTER = re.compile(rf"q(?P<quarter>[1-4])(?: (?P<year>{_Y}))?")
_FEAST = re.compile(rf"(?P<feast>{'|'.join(sorted(_FEASTS, key=len, reverse=True))})(?: (?P<year>{_Y}))?")
_DECADE = re.compile(r"(?:(?P<century>1[5-9]|20))?(?P<decade>\d0)'?s")
_THAT_YEAR = re.compile(r"(?<=\w),? (?:of )?(?P<which>last|this|next) year$")
_YEARS_ON = {"last": -1, "this": 0, "next": 1}
_NTH = re.compile(
    rf"(?P<nth>first|second|third|last) (?P<unit>week|weekend)(?: in)? (?P<month>{_M})(?: (?P<year>{_Y}))?"
)
_PART = re.compile(rf"(?P<part>{'|'.join(_PART_OF)})[ -](?:in )?(?P<whole>.+)")
_RANGE = re.compile(r"(?P<a>.+?)\s*(?:\b(?:to|until|till|through|and|or)\b|[-–—&]|/(?!\d))\s*(?P<b>.+)")
_TIME_OF_DAY = re.compile(
    rf"(?<=day|row) (?:morning|afternoon|evening|night|noon|lunchtime)$| at (?:\d|noon|midnight).*$"
    rf"|^(?:{_W}) (?=\d|(?:{_M}) \d)"
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """A stretch of time, and the side of now that its words name."""

    span: Stretch
    side: Side = ""
    is_range: bool = False


_Yearly = tuple[int | None, Callable[[int], Stretch]]


@lru_cache(maxsize=8192)
def meaning_of(core: str, day: datetime, tense: Tense) -> Meaning | None:
    """The meaning of words without a preposition and in lower case; None for words that name no time."""
    core = re.sub(r"^the (last|past) (week|month|year|decade)$|^(past) (month|year|decade)$", r"\1\3 one \2\4", core)
    core = _TIME_OF_DAY.sub("", re.sub(r"\b(?:of|the) (?!day |week |weekend )", "", core))
    for rule in (_fixed, _turned, _amount, _reach, _relative, _day_of, _weekday, _calendar, _range):
        try:
            found = rule(core, day, tense)
        except (ValueError, OverflowError):
            return None
        if found is not None:
            return found
    return None


def count_of(words: str) -> tuple[float, str, bool] | None:
    """(number, unit, is_rough) of "two weeks", "about a year and a half"."""
    found = _AMOUNT.fullmatch(words)
    if not found or found["unit"] not in UNITS or not (found["count"] or found["rough"]):
        return None
    word = found["count"] or "a"
    vague = _VAGUE.get(word.removeprefix("a "))
    count = float(word) if word.isdigit() else vague or _NUMBERS[word]
    count += 0.5 if found["half"] else 0.0
    unit = found["unit"]
    if unit == "decade":
        count, unit = count * 10, "year"
    if count % 1 and unit == "year":
        count, unit, vague = count * 12, "month", vague or 1
    elif count % 1 and unit in ("month", "week"):
        count, unit, vague = count * {"month": 30, "week": 7}[unit], "day", vague or 1
    return count, unit, bool(vague or found["rough"])


def counted(count: float, unit: str, rough: bool, day: datetime) -> Stretch:
    """The unit that is `count` units after the day, or before it."""
    span = unit_span(shift(day, count, unit), unit)
    return span.roughly() if rough else span


def _fixed(core: str, day: datetime, tense: Tense) -> Meaning | None:
    steps = {
        "today": 0, "tonight": 0, "yesterday": -1, "last night": -1, "tomorrow": 1, "tomorrow night": 1,
        "the day before yesterday": -2, "day before yesterday": -2, "the day after tomorrow": 2,
        "day after tomorrow": 2, "this morning": 0, "this afternoon": 0, "this evening": 0,
    }  # fmt: skip
    if core not in steps:
        return None
    step = steps[core]
    is_ahead = step > 0 or (core == "tonight" and tense != "past")
    return Meaning(unit_span(day + timedelta(step), "day"), "past" if step < 0 else "future" if is_ahead else "")


def _turned(core: str, day: datetime, _: Tense) -> Meaning | None:
    """ "the week before last", "the weekend after next"."""
    found = _TURN.fullmatch(core)
    if not found:
        return None
    step = -2 if found["which"] == "before last" else 2
    return Meaning(unit_span(shift(day, step, found["unit"]), found["unit"]), "past" if step < 0 else "future")


def _amount(core: str, day: datetime, _: Tense) -> Meaning | None:
    """ "two months ago", "three weeks from now"."""
    found = _AGO.fullmatch(core)
    amount = count_of(found["amount"]) if found else None
    if not found or amount is None:
        return None
    count, unit, rough = amount
    if unit in ("second", "minute", "hour"):
        count, unit = count // 24 if unit == "hour" else 0, "day"
    span = counted(-count if found["back"] else count, unit, rough, day)
    return Meaning(span, "past" if found["back"] else "future")


def _reach(core: str, day: datetime, _: Tense) -> Meaning | None:
    """ "the past ten years" reach until now, "the next few days" from now on."""
    found = _REACH.fullmatch(core)
    words = found["amount"] if found else ""
    amount = count_of(words) or (count_of(f"few {words}") if words in ("days", "weeks", "months", "years") else None)
    if not found or amount is None:
        return None
    count, unit = amount[:2]
    if found["which"] in ("last", "past"):
        began = unit_span(shift(day, -count, unit), unit).start
        return Meaning(Stretch(began, day + timedelta(1), "around"), "until_now")
    return Meaning(Stretch(day, shift(day, count, unit) + timedelta(1), "around"), "future")


def _relative(core: str, day: datetime, tense: Tense) -> Meaning | None:
    """ "last week", "next Monday", "this weekend", "last March", "next summer".

    A next weekday is at least three days ahead: on Sunday or Monday people say "tomorrow" or "on Tuesday" for the day
    that is near, and "next Tuesday" for the one of the following week. "The coming Tuesday" is the near one.
    """
    found = _RELATIVE.fullmatch(core)
    if not found:
        return _this("weekend", day, tense) if core in ("weekend", "the weekend") else None
    which, what = found["which"].split()[-1], found["what"]
    step = {"last": -1, "past": -1, "next": 1, "coming": 1, "this": 0}[which]
    if step == 0:
        when = _THIS_WHEN.get(found["which"].split()[0])
        this = _this(what, day, when or tense)
        return replace(this, side=when) if this and when else this
    side: Side = "past" if step < 0 else "future"
    if what in WEEKDAYS:
        near = near_weekday(day, WEEKDAYS[what], step)
        is_too_near = which == "next" and near - day <= timedelta(days=2)
        return Meaning(unit_span(near + timedelta(days=7 if is_too_near else 0), "day"), side)
    if what in ("week", "weekend", "month", "year"):
        is_near = what == "weekend" and which == "coming"
        return Meaning(unit_span(shift(day, 0 if is_near else step, what), what), side)
    dated = _dated(what, day)
    if dated is None or dated[0] is not None:
        return None
    spans = yearly(dated[1], day)
    if step < 0:
        return next((Meaning(span, side) for span in reversed(spans) if span.end <= day), None)
    return next((Meaning(span, side) for span in spans if span.start > day), None)


def _this(what: str, day: datetime, tense: Tense) -> Meaning | None:
    if what == "weekend":
        is_over = tense == "past" and day.weekday() < 5
        return Meaning(unit_span(shift(day, -1 if is_over else 0, "week"), "weekend"))
    if what in ("week", "month", "year"):
        return Meaning(unit_span(day, what))
    if what in WEEKDAYS:
        step = -1 if tense == "past" else 1
        return Meaning(unit_span(near_weekday(day - timedelta(step), WEEKDAYS[what], step), "day"))
    dated = _dated(what, day)
    span = choose(yearly(dated[1], day), day, tense) if dated and dated[0] is None else None
    return Meaning(span) if span else None


def _day_of(core: str, day: datetime, tense: Tense) -> Meaning | None:
    """ "the 15th", "Monday the 13th": that day of this month, or of the month that fits the tense."""
    found = _DAY_OF.fullmatch(core)
    if not found or tense == "unknown":
        return None
    number, first, spans = int(found["day"] or found["bare"]), day.replace(day=1), []
    for step in (-2, -1, 0, 1, 2):
        month = shift(first, step, "month")
        if number <= calendar.monthrange(month.year, month.month)[1]:
            spans.append(unit_span(month.replace(day=number), "day"))
    span = choose(spans, day, tense)
    return Meaning(span) if span else None


def _weekday(core: str, day: datetime, tense: Tense) -> Meaning | None:
    if core not in WEEKDAYS or tense == "unknown":
        return None
    return Meaning(unit_span(near_weekday(day, WEEKDAYS[core], -1 if tense == "past" else 1), "day"))


def _calendar(core: str, day: datetime, tense: Tense) -> Meaning | None:
    """A date, month, season, part of them or year, with its year or the year that fits the tense."""
    dated = _dated(core, day)
    if dated is None:
        return None
    year, make = dated
    span = make(year) if year is not None else choose(yearly(make, day), day, tense)
    return Meaning(span) if span else None


def _range(core: str, day: datetime, tense: Tense) -> Meaning | None:
    """ "3 to 7 May", "November 21 and 23", "March and May", "2011 to 2014", "Monday to Friday"."""
    found = _RANGE.fullmatch(core)
    if not found:
        return None
    a, b = re.sub(r"^(?:in|on|from|the) ", "", found["a"]), re.sub(r"^(?:in|on|the) ", "", found["b"])
    if a in WEEKDAYS and b in WEEKDAYS:
        if tense == "unknown":
            return None
        last = near_weekday(day, WEEKDAYS[b], -1 if tense == "past" else 1)
        first = near_weekday(last, WEEKDAYS[a], -1)
        if tense != "past" and first < day:
            first, last = first + timedelta(7), last + timedelta(7)
        return Meaning(Stretch(first, last + timedelta(1), "day"), is_range=True)
    if re.fullmatch(r"\d\d?(?:st|nd|rd|th)?", a):  # "3 to 7 May 2024": the second has month and year
        a += " " + re.sub(r"^\d\d?(?:st|nd|rd|th)? ", "", b)
    if re.fullmatch(r"\d\d?(?:st|nd|rd|th)?(?: \d{4})?", b) and (month := re.match(rf"(?:{_M})\b", a)):
        b = f"{month[0]} {b}"
    first_one, last_one = _dated(a, day), _dated(b, day)
    if first_one is None or last_one is None:
        return None

    def pair(year: int) -> Stretch:
        last = last_one[1](last_one[0] or year)
        start = first_one[1](first_one[0] or last.start.year)
        if start.start > last.start and first_one[0] is None:
            start = first_one[1](last.start.year - 1)
        if start.start > last.start:
            raise ValueError
        return Stretch(start.start, last.end, "around" if start.precision == "around" else last.precision)

    span: Stretch | None
    if last_one[0] or first_one[0]:
        span = pair(last_one[0] or first_one[0] or day.year)
    else:
        spans = yearly(pair, day)
        begun = [each for each in spans if unit_span(each.end - timedelta(1), each.precision).start <= day]
        span = begun[-1] if tense == "past" and begun else choose(spans, day, tense)
    return Meaning(span, is_range=True) if span else None


def _dated(core: str, day: datetime) -> _Yearly | None:
    """The year in the words, if any, and their meaning in a given year."""
    core = _THAT_YEAR.sub(lambda found: f" {day.year + _YEARS_ON[found['which']]}", core)
    if re.fullmatch(_Y, core):
        return int(core), lambda year: unit_span(day.replace(year=year, month=1, day=1), "year")
    if found := _DAY_MONTH.fullmatch(core) or _MONTH_DAY.fullmatch(core):
        month, number = MONTHS[found["month"]], int(found["day"])
        return _year(found), lambda year: unit_span(day.replace(year=year, month=month, day=number), "day")
    if found := _MONTH.fullmatch(core):
        month = MONTHS[found["month"]]
        return _year(found), lambda year: months_from(day, year, month, 1, "month")
    if found := _SEASON.fullmatch(core):
        month = _SEASONS[found["season"]]
        return _year(found), lambda year: months_from(day, year, month, 3, "season")
    if found := _QUARTER.fullmatch(core):
        month = int(found["quarter"]) * 3 - 2
        return _year(found), lambda year: months_from(day, year, month, 3, "season")
    if found := _FEAST.fullmatch(core):
        month, number = _FEASTS[found["feast"]]
        return _year(found), lambda year: unit_span(day.replace(year=year, month=month, day=number), "day")
    if found := _NTH.fullmatch(core):
        return _year(found), lambda year: _nth_week(found["nth"], found["unit"], day, year, MONTHS[found["month"]])
    if found := _PART.fullmatch(core):
        return _part(found["part"], found["whole"], day)
    return _written(core, day)


def _written(core: str, day: datetime) -> _Yearly | None:
    """ "2024-05-03", "2024-05", "15.03.2024", "15/03/2024", "the 90s"; "3/5/2024" could be two days and is none."""
    if found := _ISO.fullmatch(core):
        whole = day.replace(year=int(found["year"]), month=int(found["month"]), day=int(found["day"] or 1))
        return whole.year, lambda _: unit_span(whole, "day" if found["day"] else "month")
    if found := _DIGITS.fullmatch(core):
        a, b = int(found["a"]), int(found["b"])
        if a <= 12 and b <= 12 and a != b and found["by"] == "/":
            return None
        number, month = (b, a) if b > 12 else (a, b)
        return int(found["year"]), lambda year: unit_span(day.replace(year=year, month=month, day=number), "day")
    if found := _DECADE.fullmatch(core):
        decade = int(found["decade"])
        first = int(found["century"] or (19 if decade > day.year % 100 else 20)) * 100 + decade
        return first, lambda year: Stretch(
            day.replace(year=year, month=1, day=1), day.replace(year=year + 10, month=1, day=1), "around"
        )
    return None


def _year(found: re.Match[str]) -> int | None:
    return int(found["year"]) if found["year"] else None


def _nth_week(nth: str, unit: str, day: datetime, year: int, month: int) -> Stretch:
    """ "the first weekend of April"; the last week of a month is its last seven days."""
    whole = months_from(day, year, month, 1, "month")
    first = whole.start + timedelta(days=(5 - whole.start.weekday()) % 7 if unit == "weekend" else 0)
    start = first + timedelta(days=7 * {"first": 0, "second": 1, "third": 2, "last": 3}[nth])
    if nth == "last" and unit == "week":
        start = whole.end - timedelta(7)
    elif nth == "last" and start + timedelta(7) < whole.end:
        start += timedelta(7)
    return Stretch(start, start + timedelta(2 if unit == "weekend" else 7), "day" if unit == "weekend" else "week")


def _part(part: str, whole: str, day: datetime) -> _Yearly | None:
    """ "early May", "the end of 2023", "the end of this month": a third of the whole."""
    if named := re.fullmatch(r"(?:(the|this|next|last) )?(week|month|year)", whole):
        span = unit_span(shift(day, {"next": 1, "last": -1}.get(named[1], 0), named[2]), named[2])
        return span.start.year, lambda _: third(span, part)
    dated = _dated(whole, day)
    return (dated[0], lambda year: third(dated[1](year), part)) if dated else None


def third(span: Stretch, part: str) -> Stretch:
    """The first, second or last third of a stretch."""
    index, length = _PART_OF[part], (span.end - span.start) / 3
    first, last = (unit_span(span.start + length * step, "day").start for step in (index, index + 1))
    return Stretch(first, span.end if index == 2 else last, "around")
