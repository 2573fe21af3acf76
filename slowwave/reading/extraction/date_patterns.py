"""Patterns for words of time: "last week", "since March", "from 3 to 7 May", "el 5 de mayo".

`dates` finds times with them; `question_times` builds its own, because questions name times in more ways.
"""

from __future__ import annotations

from slowwave.common.lexicon.statement_words import DIA, MES

from .date_words import MONTHS, WEEKDAYS

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
    r"(?i:(?:ever since|back in|since|starting on|starting|until|till|from|as of|around|about|during|for|over|in|on|by"
    r"|before|no later than|within|through|desde|hasta|para|antes del?|en|el)\s+(?:el\s+)?)"
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
        r"(?i:since|until|from|on|by|before|starting on|starting)\s+the\s+\d{1,2}(?:st|nd|rd|th)\b",
        rf"(?i:in|since|until|from|by|before|starting|last|next|during|to|for)\s+{MONTH}(?!\s+\d)",
        rf"(?i:on|since|ever since|until|from|by|before|for|starting(?: on)?)\s+{WEEKDAY}(?!s){PART_OF_DAY}",
        rf"(?<!day\s)(?<!days\s)(?i:to)\s+{WEEKDAY}(?!s){PART_OF_DAY}",
        rf"(?i:in|within)\s+{COUNT}\s+{UNIT}",
        rf"(?i:in|since|until|from|by|before|back in|around|during|desde|en|hasta)\s+{YEAR}",
        rf"(?i:desde|en|hasta|para)\s+{_MES}(?:\s+de\s+{YEAR})?",
        rf"(?i:el|hasta el|antes del|para el|desde el)\s+{_DIA}",
        rf"(?i:in|since|during)\s+(?:the\s+)?{SEASON}",
        r"(?i:over|on|during|at)\s+the\s+weekend\b",
        rf"(?i:on|at|for|before|since|by|over|until|en)\s+{FEAST}",
    )
)
