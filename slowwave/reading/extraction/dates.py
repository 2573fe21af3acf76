"""The three times of a statement: when it was stated, when it holds and when the event happens, each with a precision.

The date of a model holds. The words of time check it, and give the date where the model gives none (DESIGN §9.5). Words
alone do not tell whether "on Monday" is over: without a model such words give no date, and stay in the statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

from slowwave.common.lexicon.statement_words import DIA, MES, in_english, may_tell_when

from .date_words import MONTHS, WEEKDAYS, Meaning, Precision, Stretch, Tense, count_of, counted, meaning_of, unit_span

MONTH = rf"(?:(?i:{'|'.join(sorted(MONTHS.keys() - {'may', 'march', 'mar'}))})|May|March|Mar)\b"
WEEKDAY = rf"(?i:{'|'.join(WEEKDAYS)})\b"
SEASON = r"(?i:spring|summer|autumn|fall|winter)\b"
FEAST = (
    r"(?i:Christmas(?: Eve| Day)?|New Year[’']s (?:Eve|Day)|Halloween|Valentine[’']s(?: Day)?|Navidad|Nochebuena"
    r"|Nochevieja)\b"
)
PART_OF_DAY = r"(?i:(?:\s+(?:morning|afternoon|evening|night))?)\b"
COUNT = (
    r"(?i:\d{1,3}|half an?|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty|fifty|several|(?:a )?few|(?:a )?couple of)"
)
UNIT = r"(?i:minute|hour|day|week|weekend|month|year|decade)s?\b"
_ROUGH = r"(?i:(?:about|around|roughly|approximately|almost|nearly|over|more than|at least)\s+)"
AMOUNT = rf"(?:{_ROUGH})?{COUNT}\s+{UNIT}(?i:\s+and a half)?"
YEAR = r"(?:19|20)\d\d(?![\d%:.]*\d)(?![’']?s\b)"
THAT_YEAR = rf"(?:{YEAR}|(?i:(?:of\s+)?(?:last|this|next)\s+year)\b)"
NTH = r"\d{1,2}(?:st|nd|rd|th)?\b"
_MES, _DIA = rf"(?i:{MES})\b", rf"(?i:{DIA})\b"
_TIEMPO = rf"(?i:semana|mes|año|fin de semana|verano|otoño|invierno|primavera|{_DIA})"
_UNIDAD = r"(?:días?|semanas?|mes(?:es)?|años?)\b"
PREPOSITION = (
    r"(?i:(?:ever since|after|back in|since|starting on|starting|until|till|from|as of|around|about|during|for|over|in"
    r"|on|by|before|no later than|within|through|desde|hasta|para|antes del?|despu[ée]s del?|en|el)\s+(?:el\s+)?)"
)
DATE = "|".join(
    (
        r"\d{4}-\d{2}-\d{2}\b",
        r"\d{1,2}\.\d{1,2}\.\d{4}\b",
        r"\d{1,2}/\d{1,2}/\d{4}\b",
        rf"(?:{WEEKDAY},?\s+)?(?:the\s+)?{NTH}(?:\s+of)?\s+{MONTH}(?:,?\s+{THAT_YEAR})?",
        rf"(?:{WEEKDAY},?\s+)?{MONTH}\s+(?:the\s+)?{NTH}(?!\s*(?:people|of us|%))(?:,?\s+{THAT_YEAR})?",
        rf"{NTH}\s+de\s+{_MES}(?:\s+de\s+{YEAR})?",
    )
)
_POINT = rf"(?:{DATE}|{MONTH}(?:\s+{YEAR})?|{WEEKDAY}|{_MES}(?:\s+de\s+{YEAR})?|{YEAR})"
_TO = r"\s*(?:-|–|to\b|and\b|until\b|through\b|&)\s*"
RANGE = "|".join(
    (
        rf"(?i:from|between)\s+(?:{_POINT}|{NTH}){_TO}(?:{_POINT}|{NTH})",
        rf"(?:(?i:on|from)\s+)?{MONTH}\s+{NTH}{_TO}{NTH}(?!\s*(?i:people|%|[ap]\.?m\b))(?:,?\s+{YEAR})?",
        rf"(?:(?i:on|from)\s+)?(?:the\s+)?{NTH}{_TO}(?:the\s+)?{NTH}(?:\s+of)?\s+{MONTH}(?:,?\s+{YEAR})?",
        rf"{MONTH}\s+{NTH}(?:,?\s+{YEAR})?\s*(?:-|–|to\b)\s*{MONTH}\s+{NTH}(?:,?\s+{YEAR})?",
        rf"(?i:del)\s+{NTH}\s+al\s+{NTH}\s+de\s+{_MES}(?:\s+de\s+{YEAR})?",
        rf"(?i:entre)\s+{_POINT}\s+y\s+{_POINT}",
    )
)
CORE = "|".join(
    (
        DATE,
        rf"(?:the\s+)?(?:first|second|third|last)\s+(?:weekend|week)\s+(?:of|in)\s+{MONTH}(?:\s+{YEAR})?",
        rf"(?:the\s+)?(?i:early|mid|late|(?:end|beginning|start|middle) of)[\s-]+(?:{MONTH}(?:\s+{YEAR})?|{YEAR}"
        r"|(?:19|20)?\d0s\b"
        r"|(?i:(?:the|this|next) (?:week|month|year))\b)",
        rf"{MONTH},?\s+{THAT_YEAR}",
        r"(?:the\s+)?(?i:(?:week|weekend|month|year) (?:before last|after next))\b",
        rf"(?:the\s+)?(?i:last|past|next|coming)\s+{COUNT}\s+{UNIT}",
        r"(?:the\s+)?(?i:last|next|this past|this coming|this|past|coming|earlier this|later this)\s+"
        rf"(?:{WEEKDAY}{PART_OF_DAY}|{MONTH}|{SEASON}|{FEAST}|(?i:week|weekend|month|year|night|morning|afternoon|evening)\b)",
        rf"{AMOUNT}\s+(?i:ago|from now)\b",
        r"(?i:the day before yesterday|the day after tomorrow"
        r"|(?:yesterday|tomorrow)(?: (?:morning|afternoon|evening|night))?|today|tonight)\b",
        rf"{WEEKDAY},?\s+the\s+{NTH}",
        rf"(?:the\s+)?{SEASON}(?:\s+of)?\s+{THAT_YEAR}",
        rf"Q[1-4](?:\s+{YEAR})?\b",
        r"(?:the\s+)?(?:19|20)?\d0s\b",
        rf"(?i:(?:el |la |este |esta )?(?:próxim[oa] |proxim[oa] ){_TIEMPO})\b",
        rf"(?i:(?:el |la )?{_TIEMPO} (?:pasad[oa]|que viene|próxim[oa]))",
        rf"(?i:(?:este|esta) {_TIEMPO})\b",
        r"(?i:anteayer|ayer|anoche|hoy|pasado mañana|esta mañana|(?<!la )mañana(?! por))\b",
        rf"(?i:(?:desde )?hace\s+(?:\w+\s+){{1,2}}(?:de\s+)?{_UNIDAD}|dentro de (?:\w+ ){{1,3}}{_UNIDAD})",
        rf"(?i:a )?(?i:principios|comienzos|mediados|finales|fines) de (?:{_MES}|{YEAR})",
    )
)
BOUND = "|".join(
    (
        r"(?i:since|after|until|from|on|by|before|starting on|starting)\s+the\s+\d{1,2}(?:st|nd|rd|th)\b",
        rf"(?i:in|since|after|until|from|by|before|starting|last|next|during|to|for)\s+{MONTH}(?!\s+\d)",
        rf"(?i:on|after|since|ever since|until|from|by|before|for|starting(?: on)?)\s+{WEEKDAY}(?!s){PART_OF_DAY}",
        rf"(?<!day\s)(?<!days\s)(?i:to)\s+{WEEKDAY}(?!s){PART_OF_DAY}",
        rf"(?i:in|within)\s+{COUNT}\s+{UNIT}",
        rf"(?i:in|since|after|until|from|by|before|back in|around|during|desde|en|hasta)\s+{YEAR}",
        rf"(?i:desde|después de|en|hasta|para)\s+{_MES}(?:\s+de\s+{YEAR})?",
        rf"(?i:el|hasta el|antes del|para el|desde el)\s+{_DIA}",
        rf"(?i:in|since|after|during)\s+(?:the\s+)?{SEASON}",
        r"(?i:over|on|during|at)\s+the\s+weekend\b",
        rf"(?i:on|at|for|after|before|since|by|over|until|en)\s+{FEAST}",
    )
)


# The three times of a statement.


HINT = re.compile(rf"\b(?:{RANGE}|{PREPOSITION}?(?:the\s+)?(?:{CORE})|{BOUND})")
_FOR_LENGTH = re.compile(rf"\b(?i:for)\s+{AMOUNT}(?i:\s+(?:now|already))?")


def find_hint(sentence: str) -> str:
    """The first words of time in a sentence, unchanged, else the first words of duration; empty without either."""
    if not may_tell_when(sentence):
        return ""
    found = HINT.search(sentence) or _FOR_LENGTH.search(sentence)
    return found.group() if found else ""


TimeKind = Literal["event", "plan", "deadline", "since", "until", "state", "before", ""]
TIME_KINDS = frozenset({"event", "plan", "deadline", "since", "until", "state"})
"""The kinds of time that a model may give."""

_MAX_WORDS = 80
_FARTHEST_YEARS = 150
_NEAR = timedelta(days=31)  # a model's date this far from the words may still be what they mean
_FARTHEST_AHEAD = 50  # years, for a date from the model alone
_LEAD = re.compile(
    r"(?P<since>ever since|since|as of|dating back to|back to)\s+"
    r"|(?P<start>starting|beginning)(?:\s+(?:on|from|in))?\s+|(?P<from>from)\s+"
    r"|(?P<until>up until|until|till|til|up to)\s+|(?P<by>by|no later than|not later than|before|prior to)\s+"
    r"|(?P<within>within|in)\s+|(?P<length>for)\s+"
    r"|(?:back in|sometime in|sometime|on|at|during|to|over(?= (?:the|this|these|christmas))|through|between|along)\s+"
)
_ROUGHLY = re.compile(r"(?:about|around|approximately|roughly|circa|ca\.?|close to) (?=\w)")
_LENGTH = re.compile(r"(?P<amount>.+?)(?P<now> now| already| straight)?")
_TURNING = re.compile(
    r"\d|\b(?:after|before|until|till|by|when|while|every|each|not|never|since|from|to|and|for|or|ago|now|once|ever|last"
    r"|next|later|earlier|early|late|mid|end|antes|después|hasta|desde|para|cada)\b",
    re.IGNORECASE,
)
_ORDER: tuple[Precision, ...] = ("day", "week", "month", "season", "year", "around")
_ISO = re.compile(r"(\d{4})(?:-(\d\d?))?(?:-(\d\d?))?(?:T[\d:.+Z-]*)?")


@dataclass(frozen=True, slots=True)
class Times:
    """When a statement holds (`valid_from`, `valid_to`) and when it happens (`event_at` to `event_until`, excluded).

    A plan holds from the time of the statement and happens later. `precision` belongs to the event, else to the
    beginning or end; empty without words of time. `is_disputed`: words and model tell different times; the fact is no
    less sure for it. `reason` explains why a date of the model was dropped.
    """

    valid_from: datetime
    valid_to: datetime | None = None
    event_at: datetime | None = None
    event_until: datetime | None = None
    precision: Precision | Literal[""] = ""
    kind: TimeKind = ""
    is_disputed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _TimeMeaning:
    """The meaning of the words or of the model's date: a stretch of time and its role in the statement."""

    span: Stretch
    kind: TimeKind
    is_range: bool = False


def resolve_times(words: str, stated_at: datetime, *, model_date: str = "", kind: str = "") -> Times:
    """The times of the words of time in a statement made at `stated_at`.

    `kind` is the kind of time by the model: event, plan, deadline, since, until, state; empty without a model.
    `model_date` is its date: YYYY, YYYY-MM, YYYY-MM-DD or two of them with a slash between. It holds where it can be;
    it is disputed where the words mean another time, and the words count where it is impossible or far off.
    """
    day = stated_at.replace(hour=0, minute=0, second=0, microsecond=0)
    model_kind = cast(TimeKind, kind if kind in TIME_KINDS else "")
    words = " ".join(words.strip(" ,.;:!?").split())
    hint = find_hint(words)
    rest = words.replace(hint, " ", 1)
    if hint and not _TURNING.search(rest) and not find_hint(rest):  # the other words cannot change the sense of these
        words = hint
    ruled = _by_words(words, day, model_kind, _tense_of(model_kind))
    if not model_date.strip():
        return _times(ruled, stated_at) if ruled else Times(stated_at)
    understood = model_span(model_date, day)
    past, future = (_by_words(words, day, model_kind, tense) for tense in ("past", "future"))
    readings = [each for each in (ruled, past, future) if each]
    # "March 29" said on 5 April is nearer than a year later: what was to be done by then is over
    is_just_over = past is not None and future is not None and day - past.span.end < future.span.start - day
    may_be_past = _tense_of(model_kind) != "future" or is_just_over
    fitting = [each for each in readings if each is not past or may_be_past]
    agreed = next((each for each in fitting if understood and _agree(each.span, understood)), None)
    reason = "" if agreed else _why_impossible(understood, readings, day, model_kind, words)
    if understood is None or reason:
        return replace(_times(ruled, stated_at) if ruled else Times(stated_at), reason=f"{model_date[:40]}: {reason}")
    by_words = agreed or ruled
    if by_words is None:
        meant = _TimeMeaning(understood, _settled(model_kind, understood, day), "/" in model_date)
        return replace(_times(meant, stated_at), is_disputed=bool(readings))
    span = _finer(understood, agreed.span) if agreed else understood
    meant = replace(by_words, span=span, kind=_settled(by_words.kind, span, day))
    return replace(_times(meant, stated_at), is_disputed=not agreed)


def _tense_of(kind: TimeKind) -> Tense:
    return "past" if kind in ("event", "since") else "future" if kind in ("plan", "deadline") else "unknown"


def model_span(date: str, day: datetime) -> Stretch | None:
    """The stretch of a date or range in the form that models write; None for an impossible one."""
    first, _, last = date.strip().partition("/")
    try:
        spans = [_iso_span(part.strip(), day) for part in (first, last or first)]
    except (ValueError, OverflowError):
        return None
    a, b = spans
    if a is None or b is None or b.end <= a.start:
        return None
    if max(abs(each.start.year - day.year) for each in (a, b)) > _FARTHEST_YEARS:
        return None
    return Stretch(a.start, b.end, max(a.precision, b.precision, key=_ORDER.index))


def _iso_span(text: str, day: datetime) -> Stretch | None:
    found = _ISO.fullmatch(text)
    if not found:
        return None
    unit = "day" if found[3] else "month" if found[2] else "year"
    return unit_span(day.replace(year=int(found[1]), month=int(found[2] or 1), day=int(found[3] or 1)), unit)


def _why_impossible(
    span: Stretch | None, readings: list[_TimeMeaning], day: datetime, kind: TimeKind, words: str
) -> str:
    """Why a model's date cannot be what the words mean; empty if it can."""
    if span is None:
        return "no date that can be"
    if span.start.year - day.year > _FARTHEST_AHEAD:
        return "too far ahead"
    if kind in ("plan", "deadline") and span.end <= day and str(span.start.year) not in words:
        to_come = [each.span for each in readings if each.span.start > day]
        if not to_come or min(each.start for each in to_come) - day < day - span.end:
            return "over, and planned"
        return ""
    if len({each.span for each in readings}) != 1:
        return ""  # without words of time, or of a year that they do not name
    meant = readings[0].span
    gap = max(meant.start - span.end, span.start - meant.end)
    is_far = gap > max(_NEAR, abs(meant.start - day) / 2)  # what is long ago is told less exactly
    return "far from the words" if is_far else ""


def _finer(span: Stretch, by_words: Stretch) -> Stretch:
    """The model's stretch, or that of the words where it is a part of it; a day in "last week" is about that day."""
    if span.start <= by_words.start and by_words.end <= span.end and by_words.precision != "around":
        return by_words
    is_about = span.precision == "day" and by_words.precision in ("week", "around")
    return replace(span, precision=by_words.precision) if is_about else span


def _agree(a: Stretch, b: Stretch) -> bool:
    """Whether two stretches touch at the coarser precision of the two."""
    precision = max(a.precision, b.precision, key=_ORDER.index)
    (a_start, a_end), (b_start, b_end) = a.widened(precision), b.widened(precision)
    return a_start < b_end and b_start < a_end


def _by_words(words: str, day: datetime, kind: TimeKind, tense: Tense) -> _TimeMeaning | None:
    """The stretch that the words mean, and whether it is an event, a plan, a beginning or an end."""
    core = " ".join(words.lower().replace(",", " ").replace("’", "'").split())
    if not core or len(core) > _MAX_WORDS:
        return None
    core = in_english(core)
    lead = _LEAD.match(core)
    role = (lead.lastgroup or "") if lead else ""
    rest = core[lead.end() :] if lead else core
    if role in ("length", "since", "within") and (length := _LENGTH.fullmatch(rest)) and count_of(length["amount"]):
        return _of_length(role, length, day, kind, core)
    rough = _ROUGHLY.match(rest)
    rest = rest[rough.end() :] if rough else rest
    if tense == "unknown" and role in ("since", "by", "until"):
        tense = "past" if role == "since" else "future"
    found = meaning_of(rest, day, tense)
    if found is None or abs(found.span.start.year - day.year) > _FARTHEST_YEARS:
        return None
    span = found.span.roughly() if rough else found.span
    if role in ("by", "until") and re.match(r"(?:the )?end of (?!(?:the |this )?week)", rest):
        span = unit_span(span.end - timedelta(1), "day")
    role = "" if found.is_range else role
    return _TimeMeaning(span, _kind_of(role, span, found, day, kind), found.is_range)


def _of_length(role: str, length: re.Match[str], day: datetime, kind: TimeKind, core: str) -> _TimeMeaning | None:
    """ "for 5 years now" began then; "in two weeks" is to come; "for two weeks" is no date."""
    amount = count_of(length["amount"])
    if amount is None or amount[1] in ("second", "minute", "hour"):
        return None
    count, unit, rough = amount
    if role == "within":
        span = counted(count, unit, rough, day)
        is_past = kind in ("event", "since")
        return None if is_past else _TimeMeaning(span, "deadline" if core.startswith("within") else "plan")
    if role == "length" and not (kind == "since" or length["now"]):
        return None
    return _TimeMeaning(counted(-count, unit, True, day), "since")


def _kind_of(role: str, span: Stretch, found: Meaning, day: datetime, kind: TimeKind) -> TimeKind:
    """The role of a date in the statement: by the words before it, else by the model, else by the date."""
    is_to_come = span.start > day
    if role == "until" or (kind == "until" and role in ("", "within", "length")):
        return "until"
    if role == "by":
        return "before" if span.end <= day else "deadline"
    if role == "since" or found.side == "until_now" or (kind == "since" and role in ("", "within", "length")):
        return "since" if not is_to_come else "plan"
    if role in ("start", "from") and is_to_come:
        return "plan"
    if role == "start":
        return "since"
    if kind in ("deadline", "plan", "state"):
        return _settled(kind, span, day)
    return _settled("plan" if is_to_come or found.side == "future" else "event", span, day)


def _settled(kind: TimeKind, span: Stretch, day: datetime) -> TimeKind:
    """The kind, where it fits the date: no plan is over, no event is still to come."""
    if kind in ("plan", "deadline") and span.end <= day:
        return "event"
    return "plan" if kind not in ("deadline", "until") and span.start > day else kind or "event"


def _times(meant: _TimeMeaning, stated_at: datetime) -> Times:
    span, kind = meant.span, meant.kind
    times = Times(stated_at, precision=span.precision, kind=kind)
    if kind in ("plan", "deadline"):
        return replace(times, event_at=span.start, event_until=span.end)
    if kind == "until":
        return replace(times, valid_from=min(stated_at, span.start), valid_to=span.end)
    began = span.start if span.start <= stated_at else stated_at
    if kind == "event":
        return replace(times, valid_from=began, event_at=span.start, event_until=span.end)
    return replace(times, valid_from=began, valid_to=span.end if kind == "state" and meant.is_range else None)


# The date of a note, from its heading or the name of its file: "Kickoff, 8 September 2026", "2026-09-08-kickoff".


_ANY_DAY = datetime(2000, 6, 15, tzinfo=UTC)  # dates with a year mean the same on every day
_IN_DIGITS = re.compile(r"(?<!\d)(\d{4})[-_. ]?(\d\d)[-_. ]?(\d\d)(?!\d)")
_OF_SOMETHING_ELSE = re.compile(
    r"(?:^|\W)(?:by|for|from|since|until|till|before|after|due|deadline|starting|release[ds]?|launch|para|hasta|desde)\W*$",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")


def note_date(*names: str) -> datetime | None:
    """The day in the first name that has one with its year, unless the words mark it as a date to come."""
    return next((day for name in names if (day := _day_in(name))), None)


def passage_date(passage: str) -> datetime | None:
    """The day of a passage of a journal: the last heading above it, if that heading is only a date."""
    heading = passage.partition("\n")[0].rpartition(" > ")[2].strip(" ,.:")
    plain = _IN_DIGITS.sub(r"\1-\2-\3", heading)
    return _day_in(heading) if find_hint(plain[:80]) == plain else None


def _day_in(name: str) -> datetime | None:
    plain = _IN_DIGITS.sub(r" \1-\2-\3 ", name)
    hint = find_hint(plain)
    before = plain.partition(hint)[0] if hint else ""
    if not _YEAR.search(hint) or _OF_SOMETHING_ELSE.search(before) or _OF_SOMETHING_ELSE.search(hint.partition(" ")[0]):
        return None
    times = resolve_times(hint, _ANY_DAY)
    return times.event_at if times.precision == "day" else None
