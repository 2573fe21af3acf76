"""Whether a text may tell a time at all: looked at before anything that is slower to import or to run."""

from __future__ import annotations

import re

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
    """Whether a text has a digit or a word without which none tells a time; of most that have one, it is no time."""
    lower = text.lower()
    return _DIGIT_OR_MONTH.search(text) is not None or any(word in lower for word in _TRIGGERS)
