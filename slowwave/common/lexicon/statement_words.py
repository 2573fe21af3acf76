"""Words of statements: negation, amounts, times, names; stop words; a quick check for words of time (§6.2 G1, S0-09).

English first, with the commonest words in Spanish and German. A needless word here only prevents a merge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slowwave.common.text import word_set

from . import table_of, words_of


def _spellings(table: str) -> Mapping[str, str]:
    """Each spelling, and the name itself, with its name; of "name: spelling spelling | …"."""
    rows = (row.split(":") for row in table.split("|"))
    return {spelling: name.strip() for name, spellings in rows for spelling in (name.strip(), *spellings.split())}


def _by_word(table: Mapping[str, str]) -> Mapping[str, str]:
    """Each word of the rows of a table with the name of its row."""
    return {word: name for name, words in table.items() for word in words.split()}


# Longest first within a pattern: the first alternative that fits wins. Keys are the names of the markers.
POLARITY: Mapping[str, str] = table_of("polarity")

NUMBER_WORDS: Mapping[str, str] = dict(pair.split("=") for pair in words_of("numbers").split())

_UNIT_SPELLINGS = words_of("units")
UNITS = _spellings(_UNIT_SPELLINGS)

MONTHS = _spellings(words_of("months"))
WEEKDAYS = _spellings(words_of("weekdays"))
# These are also ordinary words in lower case.
AMBIGUOUS_CALENDAR = frozenset(
    {"mar", "march", "may", "jun", "jul", "sep", "sept", "dec", "mon", "wed", "sat", "sun", "jan", "martes", "mai"}
)

TIME_WORDS: tuple[str, ...] = tuple((words_of("words_of_time")).split())
# Words that make a statement relative to its day.
RELATIVE_TIME = (
    r"today|tonight|tomorrow|yesterday|now|currently|recently|lately|soon|just|this (?:morning|afternoon|evening|"
    r"week|weekend|month|year|time)|"
    r"(?:last|next|past|coming) (?:\w+)|ago|upcoming|the other day|in (?:a|an|one|two|three|\d+) \w+|"
    r"hoy|ayer|mañana|ahora|pasad[oa]|próxim[oa]|heute|gestern|morgen|jetzt|letzte\w*|nächste\w*"
)

FUNCTION_WORDS = frozenset((words_of("function_words")).split())

PERSONS = _by_word(table_of("persons"))

_ENGLISH = word_set(words_of("english_stop_words"))
_SPANISH = word_set(words_of("spanish_stop_words"))
STOP_WORDS = _ENGLISH | _SPANISH | FUNCTION_WORDS


_TRIGGERS = (
    "ago", "day", "night", "week", "month", "year", "decade", "spring", "summer", "autumn", "winter", "fall",
    "last", "next", "since", "this ", "january", "christmas", "halloween", "valentine",
    "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "tomorrow", "tonight", "ayer", "pasad", "hace", "desde", "hoy", "mañana", "semana", " mes",
    "año", "lunes", "martes", "coles", "jueves", "viernes", "bado", "domingo", "verano", "invierno", "otoño",
    "primavera", "enero", "febrero", "marzo", "abril", "junio", "julio", "agosto", "iembre", "octubre", "navidad",
    "noche", "día", "hour", "minute",
)  # fmt: skip
_DIGIT_OR_MONTH = re.compile(r"\d|\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b", re.IGNORECASE)


def may_tell_when(text: str) -> bool:
    """Whether a text has a digit or a word that every time needs; most such texts have no time."""
    lower = text.lower()
    return _DIGIT_OR_MONTH.search(text) is not None or any(word in lower for word in _TRIGGERS)


# Spanish words of time and their English words: "hace dos años" is "two years ago".


MES = "enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre"
DIA = "lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo"
"""Months and days of the week as alternatives of a pattern."""
_WORDS = _by_word(table_of("english_of_spanish_times"))
_PHRASES = [(re.compile(spanish), english) for spanish, english in table_of("english_of_spanish_phrases").items()]
_MARK = re.compile(
    rf"\b(?:{MES}|{DIA}|d[ií]as?|semanas?|mes(?:es)?|años?|primavera|verano|otoño|invierno|hoy|ayer|anteayer|antier|anoche"
    r"|mañana|desde|hasta|navidad|nochebuena|nochevieja|en|entre|hace|principios|mediados|finales)\b"
)


def in_english(words: str) -> str:
    """Spanish words of time in English; other words stay unchanged. The words must be in lower case."""
    if not _MARK.search(words):
        return words
    for pattern, english in _PHRASES:
        words = pattern.sub(english, words)
    return " ".join(" ".join(_WORDS.get(word, word) for word in words.split()).split())
