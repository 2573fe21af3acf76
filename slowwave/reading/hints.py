"""Words that tell when, found where they stand: "last week", "since March", "from 3 to 7 May", "el 5 de mayo"."""

from __future__ import annotations

import re

from slowwave.reading.date_words import MONTHS, WEEKDAYS
from slowwave.reading.spanish_dates import DIA, MES

_MONTH = rf"(?:(?i:{'|'.join(sorted(MONTHS.keys() - {'may', 'march', 'mar'}))})|May|March|Mar)\b"
_WEEKDAY = rf"(?i:{'|'.join(WEEKDAYS)})\b"
_SEASON = r"(?i:spring|summer|autumn|fall|winter)\b"
_FEAST = (
    r"(?i:Christmas(?: Eve| Day)?|New Year[’']s (?:Eve|Day)|Halloween|Valentine[’']s(?: Day)?|Navidad|Nochebuena"
    r"|Nochevieja)\b"
)
_PART_OF_DAY = r"(?i:(?:\s+(?:morning|afternoon|evening|night))?)\b"
_COUNT = (
    r"(?i:\d{1,3}|half an?|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty|fifty|several|(?:a )?few|(?:a )?couple of)"
)
_UNIT = r"(?i:minute|hour|day|week|weekend|month|year|decade)s?\b"
_ROUGH = r"(?i:(?:about|around|roughly|approximately|almost|nearly|over|more than|at least)\s+)"
_AMOUNT = rf"(?:{_ROUGH})?{_COUNT}\s+{_UNIT}(?i:\s+and a half)?"
_YEAR = r"(?:19|20)\d\d(?![\d%:.]*\d)(?![’']?s\b)"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?\b"
_MES, _DIA = rf"(?i:{MES})\b", rf"(?i:{DIA})\b"
_TIEMPO = rf"(?i:semana|mes|año|fin de semana|verano|otoño|invierno|primavera|{_DIA})"
_UNIDAD = r"(?:días?|semanas?|mes(?:es)?|años?)\b"
_PREPOSITION = (
    r"(?i:(?:ever since|back in|since|starting on|starting|until|till|from|as of|around|about|during|for|over|in|on|by"
    r"|before|no later than|within|through|desde|hasta|para|antes del?|en|el)\s+(?:el\s+)?)"
)
_DATE = "|".join(
    (
        r"\d{4}-\d{2}-\d{2}\b",
        r"\d{1,2}\.\d{1,2}\.\d{4}\b",
        r"\d{1,2}/\d{1,2}/\d{4}\b",
        rf"(?:{_WEEKDAY},?\s+)?(?:the\s+)?{_NTH}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?",
        rf"(?:{_WEEKDAY},?\s+)?{_MONTH}\s+(?:the\s+)?{_NTH}(?!\s*(?:people|of us|%))(?:,?\s+{_YEAR})?",
        rf"{_NTH}\s+de\s+{_MES}(?:\s+de\s+{_YEAR})?",
    )
)
_POINT = rf"(?:{_DATE}|{_MONTH}(?:\s+{_YEAR})?|{_WEEKDAY}|{_MES}(?:\s+de\s+{_YEAR})?|{_YEAR})"
_TO = r"\s*(?:-|–|to\b|and\b|until\b|through\b|&)\s*"
_RANGE = "|".join(
    (
        rf"(?i:from|between)\s+(?:{_POINT}|{_NTH}){_TO}(?:{_POINT}|{_NTH})",
        rf"(?:(?i:on|from)\s+)?{_MONTH}\s+{_NTH}{_TO}{_NTH}(?!\s*(?i:people|%|[ap]\.?m\b))(?:,?\s+{_YEAR})?",
        rf"(?:(?i:on|from)\s+)?(?:the\s+)?{_NTH}{_TO}(?:the\s+)?{_NTH}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?",
        rf"{_MONTH}\s+{_NTH}(?:,?\s+{_YEAR})?\s*(?:-|–|to\b)\s*{_MONTH}\s+{_NTH}(?:,?\s+{_YEAR})?",
        rf"(?i:del)\s+{_NTH}\s+al\s+{_NTH}\s+de\s+{_MES}(?:\s+de\s+{_YEAR})?",
        rf"(?i:entre)\s+{_POINT}\s+y\s+{_POINT}",
    )
)
_CORE = "|".join(
    (
        _DATE,
        rf"(?:the\s+)?(?:first|second|third|last)\s+(?:weekend|week)\s+(?:of|in)\s+{_MONTH}(?:\s+{_YEAR})?",
        rf"(?:the\s+)?(?i:early|mid|late|(?:end|beginning|start|middle) of)[\s-]+(?:{_MONTH}(?:\s+{_YEAR})?|{_YEAR}"
        r"|(?:19|20)?\d0s\b"
        r"|(?i:(?:the|this|next) (?:week|month|year))\b)",
        rf"{_MONTH},?\s+{_YEAR}",
        r"(?:the\s+)?(?i:(?:week|weekend|month|year) (?:before last|after next))\b",
        rf"(?:the\s+)?(?i:last|past|next|coming)\s+{_COUNT}\s+{_UNIT}",
        r"(?:the\s+)?(?i:last|next|this past|this coming|this|past|coming|earlier this|later this)\s+"
        rf"(?:{_WEEKDAY}{_PART_OF_DAY}|{_MONTH}|{_SEASON}|{_FEAST}|(?i:week|weekend|month|year|night|morning|afternoon|evening)\b)",
        rf"{_AMOUNT}\s+(?i:ago|from now)\b",
        r"(?i:the day before yesterday|the day after tomorrow"
        r"|(?:yesterday|tomorrow)(?: (?:morning|afternoon|evening|night))?|today|tonight)\b",
        rf"{_WEEKDAY},?\s+the\s+{_NTH}",
        rf"(?:the\s+)?{_SEASON}(?:\s+of)?\s+{_YEAR}",
        rf"Q[1-4](?:\s+{_YEAR})?\b",
        r"(?:the\s+)?(?:19|20)?\d0s\b",
        rf"(?i:(?:el |la |este |esta )?(?:próxim[oa] |proxim[oa] ){_TIEMPO})\b",
        rf"(?i:(?:el |la )?{_TIEMPO} (?:pasad[oa]|que viene|próxim[oa]))",
        rf"(?i:(?:este|esta) {_TIEMPO})\b",
        r"(?i:anteayer|ayer|anoche|hoy|pasado mañana|esta mañana|(?<!la )mañana(?! por))\b",
        rf"(?i:(?:desde )?hace\s+(?:\w+\s+){{1,2}}(?:de\s+)?{_UNIDAD}|dentro de (?:\w+ ){{1,3}}{_UNIDAD})",
        rf"(?i:a )?(?i:principios|comienzos|mediados|finales|fines) de (?:{_MES}|{_YEAR})",
    )
)
_BOUND = "|".join(
    (
        r"(?i:since|until|from|on|by|before|starting on|starting)\s+the\s+\d{1,2}(?:st|nd|rd|th)\b",
        rf"(?i:in|since|until|from|by|before|starting|last|next|during|to|for)\s+{_MONTH}(?!\s+\d)",
        rf"(?i:on|since|ever since|until|from|by|before|for|starting(?: on)?)\s+{_WEEKDAY}(?!s){_PART_OF_DAY}",
        rf"(?i:in|within)\s+{_COUNT}\s+{_UNIT}",
        rf"(?i:in|since|until|from|by|before|back in|around|during|desde|en|hasta)\s+{_YEAR}",
        rf"(?i:desde|en|hasta|para)\s+{_MES}(?:\s+de\s+{_YEAR})?",
        rf"(?i:el|hasta el|antes del|para el|desde el)\s+{_DIA}",
        rf"(?i:in|since|during)\s+(?:the\s+)?{_SEASON}",
        r"(?i:over|on|during|at)\s+the\s+weekend\b",
        rf"(?i:on|at|for|before|since|by|over|until|en)\s+{_FEAST}",
    )
)
_HINT = re.compile(rf"\b(?:{_RANGE}|{_PREPOSITION}?(?:the\s+)?(?:{_CORE})|{_BOUND})")
_LENGTH = re.compile(rf"\b(?i:for)\s+{_AMOUNT}(?i:\s+(?:now|already))?")
_TRIGGERS = (
    "ago", "day", "night", "week", "month", "year", "decade", "spring", "summer", "autumn", "winter", "fall",
    "last", "next", "since", "this ", "january", "christmas", "halloween", "valentine",
    "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "tomorrow", "tonight", "ayer", "pasad", "hace", "anoche", "desde", "hoy", "mañana", "semana", " mes",
    "año", "lunes", "martes", "coles", "jueves", "viernes", "bado", "domingo", "verano", "invierno", "otoño",
    "primavera", "enero", "febrero", "marzo", "abril", "junio", "julio", "agosto", "iembre", "octubre", "navidad",
    "noche",
)  # fmt: skip
_DIGIT = re.compile(r"\d")


def find_hint(sentence: str) -> str:
    """The first words of a sentence that say when, as they stand, else how long; empty if none do."""
    lower = sentence.lower()
    if not _DIGIT.search(sentence) and not any(word in lower for word in _TRIGGERS):
        return ""
    found = _HINT.search(sentence) or _LENGTH.search(sentence)
    return found.group().strip(" ,") if found else ""
