"""Words that tell when, found where they stand: "last week", "since March", "5 de mayo"."""

from __future__ import annotations

import re

_LONG_MONTH = (
    r"(?:January|February|April|June|July|August|September|October|November|December|Jan|Feb|Apr|Jun|Jul"
    r"|Aug|Sept?|Oct|Nov|Dec)"
)
_MONTH = rf"(?:(?i:{_LONG_MONTH})|May|March)\b"
_WEEKDAY = r"(?i:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
COUNT = (
    r"(?i:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|several|a few"
    r"|few|a couple of|couple of)"
)
_UNIT = r"(?i:minute|hour|day|week|weekend|month|year|decade)s?"
_YEAR = r"(?:19|20)\d\d(?![\d%:.]*\d)"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_MES = r"(?i:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre)"
_PREPOSITION = (
    r"(?i:(?:ever since|back in|since|starting on|starting|until|till|from|as of|around|during|for|in|on"
    r"|desde|en|el)\s+)"
)
_CORE = "|".join(
    (
        r"\d{4}-\d{2}-\d{2}",
        rf"(?:{_WEEKDAY},?\s+)?(?:the\s+)?{_NTH}(?:\s+of)?\s+{_MONTH}(?:,?\s+{_YEAR})?",
        rf"{_MONTH}\s+(?:the\s+)?{_NTH}\b(?!\s*(?:people|of us|%))(?:,?\s+{_YEAR})?",
        rf"the\s+(?:first|second|third|last)\s+(?:weekend|week)\s+(?:of|in)\s+{_MONTH}(?:\s+{_YEAR})?",
        rf"(?:the\s+)?(?:early|mid|late|end of|beginning of|start of"
        rf"|middle of)[\s-]+(?:{_MONTH}(?:\s+{_YEAR})?|{_YEAR})",
        rf"{_MONTH},?\s+{_YEAR}",
        rf"(?i:(?:last|next|this|this past|past|this coming|coming))\s+(?:{_WEEKDAY}|{_MONTH}|(?i:week"
        rf"|weekend|month|year|night|morning|afternoon|evening|spring|summer|autumn|fall|winter)\b)",
        rf"{COUNT}\s+{_UNIT}\s+(?i:ago|from now)",
        rf"(?:the\s+)?(?i:(?:last|past))\s+{COUNT}\s+{_UNIT}",
        r"(?i:the day before yesterday|the day after tomorrow|yesterday|today|tomorrow|tonight)\b",
        rf"{_WEEKDAY},?\s+the\s+{_NTH}\b",
        rf"(?:the\s+)?(?i:spring|summer|autumn|fall|winter)(?:\s+of)?\s+{_YEAR}",
        r"(?i:la semana pasada|el mes pasado|el año pasado|anteayer|ayer|anoche|hace\s+\w+\s+(?:días?"
        r"|semanas?|mes(?:es)?|años?))\b",
        rf"\d{{1,2}}\s+de\s+{_MES}(?:\s+de\s+{_YEAR})?",
    )
)
_BOUND = "|".join(
    (
        r"(?i:since|until|from|on|by|starting on|starting)\s+the\s+\d{1,2}(?:st|nd|rd|th)\b",
        rf"(?i:in|since|until|from|by|starting|last|next|during)\s+{_MONTH}(?!\s+\d)",
        rf"(?i:on|since|until|from|by)\s+{_WEEKDAY}\b(?!s)",
        rf"(?i:in|within)\s+{COUNT}\s+{_UNIT}\b",
        rf"(?i:in|since|until|from|by|back in|around|during|desde|en)\s+{_YEAR}",
        rf"(?i:desde|en)\s+{_MES}\b",
        r"(?i:in|since|during)\s+the\s+(?i:spring|summer|autumn|fall|winter)\b",
    )
)
_HINT = re.compile(rf"\b(?:{_PREPOSITION}?(?:{_CORE})|{_BOUND})")
_TRIGGERS = (
    "ago", "day", "night", "week", "month", "year", "decade", "spring", "summer", "autumn", "winter", "fall",
    "last", "next", "since", "this ", "january",
    "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "tomorrow", "ayer", "pasad", "hace", "anoche", "desde",
)  # fmt: skip
_DIGIT = re.compile(r"\d")


def find_hint(sentence: str) -> str:
    """The first words of a sentence that say when, as they stand; empty if none do."""
    lower = sentence.lower()
    if not _DIGIT.search(sentence) and not any(word in lower for word in _TRIGGERS):
        return ""
    found = _HINT.search(sentence)
    return found.group().strip(" ,") if found else ""
