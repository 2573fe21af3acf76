"""The time that a question names: its words, its start and its end.

Questions name more kinds of time than statements ("after March 2023", "in March or April", "in the last few days").
They mean the past unless they are about the future: "What did she do on Monday?" is about the last Monday.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slowwave.common.lexicon.statement_words import DIA, FUNCTION_WORDS, MES, in_english
from slowwave.common.timestamps import MONTH_NAMES

from .date_words import Stretch, Tense, count_of, meaning_of, shift
from .dates import CORE, COUNT, DATE, FEAST, MONTH, NTH, PART_OF_DAY, SEASON, UNIT, WEEKDAY, YEAR

_READ = 1000  # characters of a question that are searched for a time

# Words that name a time. Bare ones ("March", "Monday") need a preposition; years need one that rarely precedes a count.
_BOUND = (
    r"(?:(?:ever )?since|after|following|later than|before|prior to|earlier than|(?:up )?until|till|up to|by"
    r"|no later than|starting(?: on| from| in)?|desde|despu[ée]s del?|antes del?|hasta)"
)
_IN_YEAR = r"(?:back in|in|during|throughout|through|around|from|between|en|durante|entre)"
_IN = rf"(?:{_IN_YEAR}|on|at|over|within|for|para|el|del)"
_PREPOSITION = rf"(?i:(?:{_BOUND}|{_IN})\s+(?:(?:the|el)\s+)?)"
_OF_YEAR = rf"(?:,?\s+(?:(?:of|in)\s+)?{YEAR}|\s+(?:of\s+)?(?i:last|this|next)\s+year\b)"
_CLEAR = rf"(?:(?:{DATE}|{MONTH}|(?:the\s+)?{SEASON}|{FEAST}){_OF_YEAR}|{CORE})"
_NO_WEEK = rf"(?!,?\s+(?:of\s+)?(?:the\s+)?(?i:(?:last|past|this|next)\s+week|week\s|{COUNT}\s+weeks?\s+ago)\b)"
_BARE = (
    rf"(?:{MONTH}(?!\s+\d)|(?!(?i:fall)\b){SEASON}|{FEAST}|{WEEKDAY}(?!s){PART_OF_DAY}{_NO_WEEK}|(?i:weekend)\b"
    rf"|(?i:{MES})\b(?:\s+de\s+{YEAR})?|(?i:{DIA})\b)"
)
_TO = r"\s*(?:[-–—&]|\b(?:to|until|till|through|and|or|y|o|al?)\b)\s*(?:(?:in|on|the|el)\s+){0,2}"
_TIME = re.compile(
    r"\b(?:"
    rf"{_PREPOSITION}?{_CLEAR}"
    rf"|{_PREPOSITION}{_BARE}"
    r"|(?i:(?:in|during|since)\s+(?:the\s+)?fall)\b"
    rf"|(?i:{_BOUND}|{_IN_YEAR})\s+{YEAR}"
    rf"|{_PREPOSITION}{NTH}(?={_TO})|{NTH}(?={_TO}{NTH}(?:\s+of)?\s+{MONTH})"
    rf"|{MONTH}(?=\s*(?:[-–—]|to\b|through\b)\s*{MONTH})"
    r"|(?i:on|since|until|from|by|before|after)\s+the\s+\d{1,2}(?:st|nd|rd|th)\b"
    r"(?=\s*(?:$|[?,.;!]|\b(?:at|in|with|and|for)\b))"
    rf"|(?i:in|within)\s+{COUNT}\s+{UNIT}"
    r")(?i:\s+(?:onwards?|on(?=\s*(?:[?,.;!]|$))))?"
)
_JOINED = re.compile(rf"(?P<comma>,\s+)|{_TO}")
_BRIEF = re.compile(
    rf"(?:{_BARE}|(?i:now)\b|{YEAR}(?!-\d\d-)|{NTH}(?!\s*(?:%|[ap]\.?m\b|people\b|[a-z]{{3,}}s\b)))(?:,?\s+{YEAR})?"
)
"""A time after another time: "in March or April", "from 3 to 7"."""
_UNCAPPED = re.compile(
    r"\b(?:in|since|during|before|after|until|till|by|last|next|this|early|mid|late|of|and|or|between|from|to)\s+"
    r"(?:may|march)\b|\b(?:may|march)(?=,?\s+(?:of\s+)?(?:19|20)\d\d)"
)
# Words after an apparent time that show another meaning: "May Road", "2019 dollars", "the Monday meeting".
_OTHER = re.compile(
    r"\s+(?:[A-Z]\w+\s+)?(?:Road|Rd|Street|St|Avenue|Ave|Lane|Drive|Close|Court|Square|Boulevard|Place|Terrace|Gardens)\b"
)
_COUNTED = re.compile(
    r"\s+(?:met(?:er|re)s?|k?m|kilomet(?:er|re)s|miles?|feet|k?g|dollars?|euros?|pounds?|people|percent|calories|steps"
    r"|points|pages|words|users|items|times)\b"
)
_POSSESSIVE = re.compile(r"['’]s\b")
_OF_MONTH = re.compile(rf"{_PREPOSITION}?{MONTH}")
_FOR_MONTH = re.compile(rf"(?i:for)\s+(?:the\s+)?{MONTH}(?:\s*(?:,|&|\b(?:and|or)\b)\s*{MONTH})*")
_NEXT_WORD = re.compile(r"['’]s\b|\s+(\w+)")
_NOT_NAMING = FUNCTION_WORDS | {"besides", "apart", "regarding", "concerning", "except", "instead"}

_LEAD = re.compile(
    r"(?:(?P<since>(?:ever )?since|starting(?: on| from| in)?)|(?P<after>after|following|later than)"
    r"|(?P<before>before|prior to|earlier than)|(?P<until>(?:up )?until|till|up to|by|no later than)"
    rf"|(?P<within>in|within)(?= {COUNT} {UNIT})|(?P<at>{_IN}))\s+"
)
_ISO = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(\d\d)\b")
_ONWARDS = re.compile(r" on(?:wards?)?$")
_NAMED = re.compile(rf"\b(?:(?i:{MONTH})|{SEASON}|{FEAST}|q[1-4]\b)")
_OF_ONE_YEAR = re.compile(
    r"\b(?:1[5-9]|20)\d\d\b|\d0'?s\b|\b(?:today|now|yesterday|tomorrow|tonight|ago|last|past|next|this|coming|first|second"
    r"|third)\b"
)
_YEAR_BESIDE = re.compile(
    rf"((?:(?i:{MONTH})|{SEASON}|{FEAST})(?: \d\d?(?:st|nd|rd|th)?)?) (?:of )?(last|this|next) year\b"
)
_WINDOW = re.compile(r"(?:the last|(?:the )?past) (week|month|year|decade)|(?:the )?(?:last|past) (.+)")
_ENDS = re.compile(r"(.+?)(?: (?:to|until|till|through|and|or) | ?[-–—&] ?)(.+)")
_WAS = re.compile(r"\b(?:did|was|were|had|didn['’]t|wasn['’]t|weren['’]t)\b", re.IGNORECASE)
_AHEAD = re.compile(r"\b(?:will|going|plans?|schedule|agenda|appointments?|to come|would)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NamedTime:
    """From `start` to `end` (excluded); None is open. Both are None where the time is not one stretch.

    `is_yearly`: the question names no year, so the stretch is of one possible year. `words` are the words of the time.
    """

    words: str
    start: datetime | None
    end: datetime | None
    is_yearly: bool = False


def time_in(question: str, now: datetime) -> NamedTime | None:
    """The first time that a question names, if it names one. Days begin at midnight of `now`'s zone."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    question = question[:_READ]
    tense: Tense = "past" if _WAS.search(question) else "future" if _AHEAD.search(question) else "unknown"
    text = _UNCAPPED.sub(lambda found: found[0].replace("may", "May").replace("march", "March"), question)
    for found in _TIME.finditer(text):
        for end in dict.fromkeys((_whole(text, found.end()), found.end())):
            if _is_of_something_else(text, found.start(), end):
                continue
            words = question[found.start() : end].strip(" ,")
            with suppress(ValueError, OverflowError):  # no such day, or one before the first year
                if (named := _named(words, day, tense)) is not None:
                    owner = _POSSESSIVE.match(question, end)
                    return replace(named, words=words + owner[0]) if owner else named
    return None


def _whole(text: str, end: int) -> int:
    """The end of a range or list of times; `end` is the end of its first time."""
    reach = end
    while joined := _JOINED.match(text, reach):
        more = _TIME.match(text, joined.end()) or _BRIEF.match(text, joined.end())
        if more is None:
            break
        reach = more.end()
        end = end if joined["comma"] else reach
    return end


def _is_of_something_else(text: str, start: int, end: int) -> bool:
    """Whether the apparent time is part of an address, a count or the name of a thing: "the Monday meeting"."""
    words, rest = text[start:end].lower(), text[end:]
    if _OTHER.match(rest) or (re.search(r"\d{4}$", words) and _COUNTED.match(rest)):
        return True
    if re.match(r"may \d+$", words) and not text[:start].strip() and re.match(r"\s+[a-z]", rest):
        return True  # "May 12 guests come?"
    if _OF_MONTH.fullmatch(text[start:end]) and re.match(rf"['’]s\b(?!\s+{YEAR})", rest):
        return True  # "in June's garden": somebody's
    if _FOR_MONTH.fullmatch(text[start:end]) and not _AHEAD.search(text):
        return True  # "a book for April"
    if re.match(r"\s+of\b", rest) and re.search(r"\b(?:last|past|next)\b", words):
        return True  # "the last year of school"
    if re.search(r"(?<!the )\b\d0s$", words):
        return True  # "her 30s"
    following = _NEXT_WORD.match(rest)
    if following is None or not re.match(_BOUND + r"\b", words):
        return False
    is_bare = not _OF_ONE_YEAR.search(words) and not re.search(r"\d", words)
    return following[1] is None or (is_bare and following[1].lower() not in _NOT_NAMING)


def _named(words: str, day: datetime, tense: Tense) -> NamedTime | None:
    """The time of the words on a day, in a question of this tense."""
    core, side = _without_lead(words, day)
    is_ahead = tense == "future"
    if tense == "unknown" and side in ("before", "until"):
        tense = "future"
    if tense == "unknown" and not re.search(r"\bthis\b", core):
        tense = "past"
    if side == "within":
        return _within(words, core, day) if is_ahead else None  # "What did she finish in two weeks?"
    span = _stretch(core, day, tense)
    if span is None:
        return None
    is_bare = not _OF_ONE_YEAR.search(core)
    if side == "at":
        return NamedTime(words, span.start, span.end, is_bare and _NAMED.search(core) is not None)
    if side == "since":
        return NamedTime(words, span.start, None)
    if side == "after":
        if is_bare and tense == "past" and span.end > day:  # in March "after March" is after that of last year
            span = _stretch(core, span.start - timedelta(days=1), tense) or span
        return NamedTime(words, span.end, None)
    end = span.start if side == "before" else span.end
    if end <= day:
        return NamedTime(words, None, end)
    # Before a future time all knowledge counts, so the question can only mean the time from now on.
    return NamedTime(words, day, end) if is_ahead or end > day + timedelta(days=1) else None


def _within(words: str, core: str, day: datetime) -> NamedTime | None:
    found = meaning_of(f"{core} from now", day, "future")
    return NamedTime(words, found.span.start, found.span.end) if found else None


def _without_lead(words: str, day: datetime) -> tuple[str, str]:
    """The words in plain English without the words before the time, and the side of the time: at, since, after …"""
    core = " ".join(words.lower().replace("’", "'").split())
    core = _ISO.sub(lambda found: f"{found[3]} {MONTH_NAMES[int(found[2]) - 1].lower()} {found[1]}", core)
    # of "March, April and May" the first and the last
    core = re.sub(r"(?:(?<=\d{4}),|,(?! \d{4})).*?(?= (?:and|or) )", "", core)
    core = in_english(re.sub(r"\bdespués del?\b|\bdespues del?\b", "after", " ".join(core.replace(",", " ").split())))
    lead = _LEAD.match(core)
    side = (lead.lastgroup or "at") if lead else "at"
    core = core[lead.end() :] if lead else core
    if side == "at" and _ONWARDS.search(core):
        side = "since"
    core = re.sub(r"\b(?:of|in) (?=\d{4}$)", "", _ONWARDS.sub("", core))
    steps = {"last": -1, "this": 0, "next": 1}
    return _YEAR_BESIDE.sub(lambda found: f"{found[1]} {day.year + steps[found[2]]}", core), side


def _stretch(core: str, day: datetime, tense: Tense) -> Stretch | None:
    """The stretch of words without a preposition: a window that ends with the day, a stretch, or a range."""
    window = _WINDOW.fullmatch(core)
    amount = count_of(f"one {window[1]}" if window[1] else window[2]) if window else None
    if amount is not None:
        return Stretch(shift(day, -amount[0], amount[1]), day + timedelta(days=1), "around")
    core = re.sub(r"\bnow\b", "today", core)
    if (found := meaning_of(core, day, tense)) is not None:
        return found.span
    ends = _ENDS.fullmatch(core)
    first = meaning_of(ends[1], day, tense) if ends else None
    if ends is None or first is None:
        return None
    is_bare = not _OF_ONE_YEAR.search(ends[2])
    last = meaning_of(ends[2], first.span.start, "future") if is_bare else meaning_of(ends[2], day, tense)
    if last is None or last.span.end <= first.span.start:
        return None
    return Stretch(first.span.start, last.span.end, "around")
