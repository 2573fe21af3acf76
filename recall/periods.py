"""What a question asks for besides its words: a time, whose facts are preferred, and a relation.

"Where does Nora live?" asks for the relation lives_in, in whatever words a fact states it. Months and days that are
named in German, French, Portuguese, Chinese or Japanese become the English words that the rules for times read; Spanish
is read by the rules themselves. "letzte Woche" or "先月" name no stretch here, and words alone then decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import polars as pl

from slowwave.common.lexicon.labels import DATED
from slowwave.common.lexicon.languages import ENGLISH, language_of
from slowwave.common.lexicon.statement_words import may_tell_when
from slowwave.common.timestamps import MONTH_NAMES
from slowwave.common.validity import time_sql
from slowwave.common.words import stems
from slowwave.facts.revision.predicates import DEFAULT, known_relation

_EVENT = re.compile(
    r"\b(before|after|since)\s+((?:(?:the|a|an|I|(?i:my|your|his|her|its|our|their|she|he|they|we|you|it))\b"
    r"|(?!All\b|Long\b)[A-Z]\w+)[^,?;]+)"
)
_KIN = r"(?:(?:grand|step)?(?:mother|father|mum|mom|dad|parents?|ma|pa)|aunt|uncle|sister|brother|side)"
_NO_TIME = re.compile(
    r"\b(?:look(?:s|ed|ing)?(?: (?:her|him|it|them|you|me|us))?|sought"
    r"|(?:named|naming)(?: [\w'’]+){0,3}|names? (?:the|my|your|his|her|its|our|their|him|it|them)(?: \w+){0,2})"
    r"\s+after\b"
    rf"|\b(?:takes?|taking|took|taken)\s+after\s+(?:\w+\s+)?(?:\w+['’]s\s+)?{_KIN}\b"
    r"|\bone\s+after\s+the\s+other\b",
    re.IGNORECASE,
)
"""Where "after" is part of a verb: "looks after the dog", "named after the lake", "takes after her father"."""
UNDATED_WITHIN = timedelta(days=14)
"""The longest time from an undated event to its message."""
_YEAR_LONG = timedelta(days=366)
_ANY_DAY = datetime(2000, 6, 15, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to `end` (excluded), either open; or, where no year is named, these `months` of any.

    With `day` only that day of the month is, or those up to `last_day`, which is of the last month. `words` are those
    of the question that name it.
    """

    start: datetime | None = None
    end: datetime | None = None
    months: tuple[int, ...] = ()
    day: int | None = None
    last_day: int | None = None
    words: str = field(default="", compare=False, repr=False)

    @property
    def _days(self) -> tuple[int, int]:
        return self.day or 1, self.last_day or self.day or 31

    def covers(self, at: datetime | None) -> bool:
        """Whether a moment lies in it."""
        if at is None:
            return False
        if self.months:
            first, last = self._days
            is_early = at.month == self.months[0] and at.day < first
            is_late = at.month == self.months[-1] and at.day > last
            return at.month in self.months and not (is_early or is_late)
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)

    def meets(self, start: datetime | None, end: datetime | None) -> bool:
        """Whether what holds from `start` to `end` (excluded), None for open, holds at some time in it."""
        if not self.months:
            return not (start and self.end and start >= self.end) and not (end and self.start and end <= self.start)
        if start is None or end is None or end - start >= _YEAR_LONG:
            return True
        days = range(max((end - start).days, 0) + 1)
        return any(self.covers(start + timedelta(days=n)) for n in days if start + timedelta(days=n) < end)

    def where(self, columns: Sequence[str]) -> str:
        """The filter of rows with one of these columns, all times, within the period."""
        return "(" + " OR ".join(f"({self._of(column)})" for column in columns) + ")"

    def expression(self, columns: Sequence[str]) -> pl.Expr:
        """The same of a frame."""
        return pl.any_horizontal([self._met(pl.col(column)).fill_null(False) for column in columns])

    def _of(self, column: str) -> str:
        parts = [f"{column} IS NOT NULL"]
        if self.months:
            parts.append(f"date_part('month', {column}) IN ({', '.join(map(str, self.months))})")
        if self.day is not None:
            first, last = self._days
            for month, side in ((self.months[0], f">= {first}"), (self.months[-1], f"<= {last}")):
                parts.append(f"(date_part('month', {column}) <> {month} OR date_part('day', {column}) {side})")
        if self.start is not None:
            parts.append(f"{column} >= {time_sql(self.start)}")
        if self.end is not None:
            parts.append(f"{column} < {time_sql(self.end)}")
        return " AND ".join(parts)

    def _met(self, at: pl.Expr) -> pl.Expr:
        met = at.is_not_null()
        if self.months:
            met &= at.dt.month().is_in(self.months)
        if self.day is not None:
            first, last = self._days
            met &= (at.dt.month() != self.months[0]) | (at.dt.day() >= first)
            met &= (at.dt.month() != self.months[-1]) | (at.dt.day() <= last)
        if self.start is not None:
            met &= at >= self.start
        if self.end is not None:
            met &= at < self.end
        return met

    def without_words(self, text: str) -> str:
        """A text without the words that name the period: facts of that time rarely repeat them."""
        named = rf"(?<!\w){re.escape(self.words)}(?!\w)"
        return re.sub(named, " ", text, count=1, flags=re.IGNORECASE) if self.words else text


def period_of(question: str, now: datetime) -> Period | None:
    """The period that a question names; None where it names none. "in October" is that of any year."""
    if language_of([question]) != ENGLISH:
        question = dates_in_english(question)
    if not may_tell_when(question):
        return None
    from slowwave.reading.extraction.question_times import time_in  # slow to import, and most questions name no time

    named = time_in(question, now)
    if named is None:
        return None
    if not (named.is_yearly and named.start and named.end):
        return Period(named.start, named.end, words=named.words)
    first, last = named.start, named.end - timedelta(days=1)
    count = (last.year - first.year) * 12 + last.month - first.month + 1
    months = tuple((first.month + n - 1) % 12 + 1 for n in range(min(count, 12)))
    if count > 12 or (first.day == 1 and named.end.day == 1):
        return Period(months=months, words=named.words)
    last_day = last.day if last.date() > first.date() else None
    return Period(months=months, day=first.day, last_day=last_day, words=named.words)


def event_in(question: str) -> tuple[str, str] | None:
    """("before", "she moved") of "Where did Anna live before she moved?"; None where no event is named as a time."""
    found = _EVENT.search(_NO_TIME.sub(lambda phrase: "-" * len(phrase[0]), question))
    if found is None or _begins_with_time(f"{found[1]} {found[2]}"):
        return None
    return found[1], found[2].strip()


def _begins_with_time(words: str) -> bool:
    """Whether what is before or after is no event, but a time: "after March 2023"."""
    if not may_tell_when(words):
        return False
    from slowwave.reading.extraction.question_times import time_in

    named = time_in(words, _ANY_DAY)
    return named is not None and words.startswith(named.words)


def period_beside(side: str, event: datetime | None, known: datetime | None) -> Period | None:
    """The time before an event, or from it on; UNDATED_WITHIN earlier if only the day of its message is known."""
    if side == "before":
        return Period(end=event or known) if event or known else None
    start = event or (known - UNDATED_WITHIN if known else None)
    return Period(start=start) if start else None


_MONTHS = (
    "januar janvier janeiro",
    "februar février fevrier fevereiro",
    "märz maerz mars março",
    "april avril abril",
    "mai maio",
    "juni juin junho",
    "juli juillet julho",
    "august août aout agosto",
    "september septembre setembro",
    "oktober octobre outubro",
    "november novembre novembro",
    "dezember décembre decembre dezembro",
)
_MONTH = {name: MONTH_NAMES[n - 1] for n, names in enumerate(_MONTHS, 1) for name in names.split()}
_LATIN = re.compile(
    r"\b(?:(?P<since>seit|ab|depuis|desde)\s+|(?P<before>vor|avant|antes)\s+|(?P<after>nach|après|depois)\s+)?"
    r"(?:(?P<at>im|en|em)\s+|(?:in|am|vom|zum|dem|au|le|du|de|no|d[ao])\s+)?"
    r"(?P<named>(?:mois\s+(?:de\s+|d[’'])|m[êe]s\s+de\s+))?"
    rf"(?:(?P<day>\d{{1,2}})(?:\.|er|º)?\s+(?:de\s+)?)?(?P<month>{'|'.join(_MONTH)})\b"
    r"(?:\s+(?:de\s+)?(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_COUNT = "[0-9０-９]{1,2}|[一二三四五六七八九十]{1,3}"
_SIGNS = re.compile(rf"(?P<year>(?:19|20)\d\d)年(?:(?P<m>{_COUNT})月)?|(?P<month>{_COUNT})月")
_DAY = re.compile(rf"({_COUNT})[日号號]")
_DIGITS = {sign: n for n, sign in enumerate("一二三四五六七八九", 1)}


def dates_in_english(question: str) -> str:
    """The question with the months and years that it names in English words: "im März 2025" as "in March 2025"."""
    found = _LATIN.sub(_of_letters, question)
    return found if found.isascii() else _of_signs(found)


def _of_letters(found: re.Match[str]) -> str:
    if not any(found[name] for name in ("since", "before", "after", "at", "named", "day", "year")):
        return found[0]  # "Mars" and "Mai" are names as well
    side = next((name for name in ("since", "before", "after") if found[name]), "on" if found["day"] else "in")
    return " ".join(part for part in (side, found["day"], _MONTH[found["month"].lower()], found["year"]) if part)


def _of_signs(text: str) -> str:
    parts, end = [], 0
    for found in _SIGNS.finditer(text):
        month, day = _number(found["m"] or found["month"]), _DAY.match(text, found.end())
        if month > 12 or (not month and not found["year"]):
            continue
        of_day = str(_number(day[1])) if day and month else ""
        words = ("on" if of_day else "in", of_day, MONTH_NAMES[month - 1] if month else "", found["year"])
        parts += [text[end : found.start()], " ", " ".join(part for part in words if part), " "]
        end = day.end() if of_day and day else found.end()
    return "".join([*parts, text[end:]])


def _number(text: str | None) -> int:
    """A count in digits, or in Chinese numerals up to 99."""
    if not text:
        return 0
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    return (10 * _DIGITS.get(tens, 1) if ten else 0) + _DIGITS.get(ones, 0)


_ASKING = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), re.compile(relations))
    for words, relations in (
        ("where|dónde|donde|wo|où|onde|dove", r"_(?:in|at|from|to|into)$"),  # lives_in and works_at, not works_on
        ("who|quién|quien|wer|qui|quem|chi", ""),
        ("when|cuándo|cuando|wann|quand|quando", rf"{DATED}|^birthday$|^born_in$"),
        (r"what(?:['’]s|\s(?:is|was|are|were))\s(?:\S+\s){0,3}?(?:\S+['’]s|my|your|his|her|their|our)", ""),
    )
)
"""Question words, and the relations that answer them; "when did she join?" asks for no relation, but for an event.
"What" asks for a relation by a noun: "what is Ana's job?"."""
_NOUNS = {"works_at": "profession occupation employer", "has_role": "profession occupation position"}
_FORMS = {predicate.name: predicate.forms for predicate in DEFAULT}


@lru_cache(maxsize=4096)
def asked_words(question: str, relation: str) -> str:
    """The words of a question that ask for a relation, also in another form of it; empty if it asks for another.

    A fact of that relation says them, whatever its words are: "Nora moved to Zwolle" says where she lives.
    """
    asking = next((answers for words, answers in _ASKING if words.search(question)), None)
    if asking is None or not asking.search(relation):
        return ""
    known = known_relation(relation) or relation
    forms = (*_FORMS.get(known, ()), *_NOUNS.get(known, "").split())
    named = {word for form in {relation, *forms} for word in stems(form.replace("_", " "))}
    return " ".join(word for word in question.split() if not named.isdisjoint(stems(word)))
