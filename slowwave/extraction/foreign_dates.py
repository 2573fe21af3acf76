"""Months and days that questions name in other languages, as the English words that the rules for times read.

German, French, Portuguese, Chinese and Japanese; Spanish is read by the rules themselves. Only what has a month or a
year: "letzte Woche" or "先月" name no stretch here, and words alone then decide.
"""

from __future__ import annotations

import re

from slowwave.timestamps import MONTH_NAMES

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
