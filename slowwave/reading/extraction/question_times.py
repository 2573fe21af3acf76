"""The time that a question names: its words, its start and its end.

Questions name more kinds of time than statements ("after March 2023", "in March or April", "in the last few days").
They mean the past unless they are about the future: "What did she do on Monday?" is about the last Monday.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slowwave.common.lexicon.statement_words import in_english
from slowwave.common.timestamps import MONTH_NAMES

from .date_words import Stretch, Tense, count_of, meaning_of, shift
from .dates import COUNT, FEAST, HINT, MONTH, SEASON, UNIT

_READ = 1000  # characters of a question that are searched for a time
_UNCAPPED = re.compile(
    r"\b(?:in|since|during|before|after|until|till|by|last|next|this|early|mid|late|of|and|or|between|from|to)\s+"
    r"(?:may|march)\b|\b(?:may|march)(?=,?\s+(?:of\s+)?(?:19|20)\d\d)"
)
_LISTED = re.compile(rf"(?:,|\s+(?:or|and))\s+(?:in\s+)?{MONTH}")
"""A further month: "in March or April" is not one stretch."""
_LEAD = re.compile(
    r"(?:(?P<since>(?:ever )?since|starting(?: on| from| in)?)|(?P<after>after|following|later than)"
    r"|(?P<before>before|prior to|earlier than)|(?P<until>(?:up )?until|till|up to|by|no later than)"
    rf"|(?P<within>in|within)(?= {COUNT} {UNIT})"
    r"|(?P<at>back in|in|during|throughout|through|around|about|from|between|on|at|over|for|as of))\s+(?:the )?"
)
_ISO = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(\d\d)\b")
_NAMED = re.compile(rf"\b(?:(?i:{MONTH})|{SEASON}|{FEAST}|q[1-4]\b)")
_OF_ONE_YEAR = re.compile(
    r"\b(?:1[5-9]|20)\d\d\b|\d0'?s\b|\b(?:today|now|yesterday|tomorrow|tonight|ago|last|past|next|this|coming|first|second"
    r"|third)\b"
)
_YEAR_BESIDE = re.compile(
    rf"((?:(?i:{MONTH})|{SEASON}|{FEAST})(?: \d\d?(?:st|nd|rd|th)?)?) (?:of )?(last|this|next) year\b"
)
_WINDOW = re.compile(r"(?:the last|(?:the )?past) (week|month|year|decade)|(?:the )?(?:last|past) (.+)")
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
    for found in HINT.finditer(text):
        if _LISTED.match(text, found.end()):
            continue
        words = question[found.start() : found.end()].strip(" ,")
        with suppress(ValueError, OverflowError):  # no such day, or one before the first year
            if (named := _named(words, day, tense)) is not None:
                owner = re.match(r"['’]s\b", question[found.end() :])
                return replace(named, words=words + owner[0]) if owner else named
    return None


def _named(words: str, day: datetime, tense: Tense) -> NamedTime | None:
    """The time of the words on a day, in a question of this tense."""
    core, side = _without_lead(words, day)
    is_ahead = tense == "future"
    if tense == "unknown" and side in ("before", "until"):
        tense = "future"
    if tense == "unknown" and not re.search(r"\bthis\b", core):
        tense = "past"
    if side == "within":
        # Not of "What did she finish in two weeks?"
        found = meaning_of(f"{core} from now", day, "future") if is_ahead else None
        return NamedTime(words, found.span.start, found.span.end) if found else None
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


def _without_lead(words: str, day: datetime) -> tuple[str, str]:
    """The words in plain English without the words before the time, and the side of the time: at, since, after …"""
    core = " ".join(words.lower().replace("’", "'").split())
    core = _ISO.sub(lambda found: f"{found[3]} {MONTH_NAMES[int(found[2]) - 1].lower()} {found[1]}", core)
    core = in_english(re.sub(r"\bdespu[ée]s del?\b", "after", " ".join(core.replace(",", " ").split())))
    lead = _LEAD.match(core)
    side = (lead.lastgroup or "at") if lead else "at"
    core = re.sub(r"\b(?:of|in) (?=\d{4}$)", "", core[lead.end() :] if lead else core)
    steps = {"last": -1, "this": 0, "next": 1}
    return _YEAR_BESIDE.sub(lambda found: f"{found[1]} {day.year + steps[found[2]]}", core), side


def _stretch(core: str, day: datetime, tense: Tense) -> Stretch | None:
    """The stretch of words without a preposition: a window that ends with the day, a stretch, or a range."""
    window = _WINDOW.fullmatch(core)
    amount = count_of(f"one {window[1]}" if window[1] else window[2]) if window else None
    if amount is not None:
        return Stretch(shift(day, -amount[0], amount[1]), day + timedelta(days=1), "around")
    found = meaning_of(core, day, tense)
    return found.span if found else None
