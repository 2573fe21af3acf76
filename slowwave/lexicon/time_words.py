"""A quick check whether a text may have words of time, and Spanish words of time in English."""

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
    """Whether a text has a digit or a word that every time needs; most such texts have no time."""
    lower = text.lower()
    return _DIGIT_OR_MONTH.search(text) is not None or any(word in lower for word in _TRIGGERS)


# Spanish words of time and their English words: "hace dos años" is "two years ago".


MES = "enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre|noviembre|diciembre"
DIA = "lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo"
"""Months and days of the week as alternatives of a pattern."""
_WORDS = {
    "enero": "january", "febrero": "february", "marzo": "march", "abril": "april", "mayo": "may", "junio": "june",
    "julio": "july", "agosto": "august", "septiembre": "september", "setiembre": "september", "octubre": "october",
    "noviembre": "november", "diciembre": "december", "lunes": "monday", "martes": "tuesday", "miércoles": "wednesday",
    "miercoles": "wednesday", "jueves": "thursday", "viernes": "friday", "sábado": "saturday", "sabado": "saturday",
    "domingo": "sunday", "día": "day", "dia": "day", "días": "days", "dias": "days", "semana": "week",
    "semanas": "weeks", "mes": "month", "meses": "months", "año": "year", "años": "years", "hora": "hour",
    "horas": "hours", "primavera": "spring", "verano": "summer", "otoño": "autumn", "invierno": "winter", "un": "a",
    "una": "a", "unos": "a few", "unas": "a few", "dos": "two", "tres": "three", "cuatro": "four", "cinco": "five",
    "seis": "six", "siete": "seven", "ocho": "eight", "nueve": "nine", "diez": "ten", "doce": "twelve", "quince": "15",
    "veinte": "twenty", "treinta": "thirty", "algunos": "a few", "algunas": "a few", "varios": "several",
    "varias": "several", "este": "this", "esta": "this", "estos": "these", "estas": "these", "hoy": "today",
    "ayer": "yesterday", "anteayer": "the day before yesterday", "antier": "the day before yesterday",
    "anoche": "last night", "mañana": "tomorrow", "tarde": "afternoon", "noche": "night", "desde": "since",
    "hasta": "until", "navidad": "christmas", "nochebuena": "christmas eve", "nochevieja": "new year's eve",
    "en": "in", "durante": "during", "sobre": "around", "hacia": "around", "para": "by", "y": "and", "a": "to",
    "al": "to", "de": "", "del": "", "el": "", "la": "", "los": "", "las": "",
}  # fmt: skip
_PHRASES = tuple(
    (re.compile(pattern), english)
    for pattern, english in (
        (r"\bpasado mañana\b", "the day after tomorrow"),
        (r"\b(?:esta|hoy por la|de la|por la|de) mañana\b", "this morning"),
        (r"\bfin(?:es)? de semana\b", "weekend"),
        (r"\bpar de\b", "couple of"),
        (r"\b(?:desde hace|hace ya|llevo|llevamos|lleva|llevan) (.+)", r"for \1 now"),
        (r"\bhace (?:unas? )?(?:como |casi |aproximadamente )?(.+)", r"\1 ago"),
        (r"\bdentro de (.+)", r"in \1"),
        (r"\ba (?:principios|comienzos|inicios) de\b", "early"),
        (r"\ba mediados de\b", "mid"),
        (r"\b(?:a |hasta |para )?(?:finales|fines|final) de\b", "end of"),
        (r"\b(?:el |la )?(?:próxim|proxim)[oa]s? (\w+)", r"next \1"),
        (r"\b(?:el |la )?(\w+) (?:que viene|próxim[oa]|siguiente|entrante)\b", r"next \1"),
        (r"\b(?:el |la )?(\w+) pasad[oa]\b", r"last \1"),
        (r"\b(?:los|las) (?:últim|ultim)[oa]s\b", "the last"),
        (r"\b(?:los|las) (?:próxim|proxim)[oa]s\b", "the next"),
        (r"\bantes (?:de|del)\b", "before"),
        (r"\ba partir (?:de|del)\b", "starting"),
        (r"\bdel (\d)", r"from \1"),
        (r"\bde (\w+) a (\w+)", r"from \1 to \2"),
        (r"\bentre\b", "between"),
        (r"\baños (\d\d)\b", r"\g<1>s"),
    )
)
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
