"""Words of statements: negation, amounts, times, names; stop words; a quick check for words of time (§6.2 G1, S0-09).

English first, with the commonest words in Spanish and German. A needless word here only prevents a merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slowwave.common.text import word_set

from . import words_of


def _spellings(table: str) -> Mapping[str, str]:
    """Each spelling, and the name itself, with its name; of "name: spelling spelling | …"."""
    rows = (row.split(":") for row in table.split("|"))
    return {spelling: name.strip() for name, spellings in rows for spelling in (name.strip(), *spellings.split())}


# Longest first within a pattern: the first alternative that fits wins. Keys are the names of the markers.
POLARITY: Mapping[str, str] = {
    "no longer": r"no longer|not any ?more|\w{0,12}n't any ?more|ya no|nicht mehr|kein(?:e[nrms]?)? mehr",
    "used to": r"used to|formerly|former|previously|ex-\w+|solía|früher",
    "not": r"not|cannot|cant|dont|doesnt|didnt|isnt|arent|wasnt|werent|wont|wouldnt|shouldnt|couldnt|hasnt|havent|"
    r"hadnt|"
    r"\w{0,12}n't|nicht",
    "never": r"never|nunca|jamás|niemals|nie",
    "no": r"no|none|nobody|nothing|nowhere|no-one|neither|nor|ningun[ao]?|ningún|nadie|nada|tampoco|"
    r"kein(?:e[nrms]?)?|niemand|nichts|weder",
    "without": r"without|lacks?|lacking|sin|ohne",
    "stop": r"stop(?:s|ped|ping)?|quit(?:s|ting)?|ceased?|ceases|gave up|giv(?:e|es|ing|en) up|dej(?:ó|é|a|ar|ado) "
    r"de|aufgehört|hört auf",
    "except": r"except(?:ing)?|unless|instead of|rather than|other than|but not|excepto|außer",
    "hardly": r"hardly|barely|scarcely|rarely|seldom|almost|nearly|kaum|apenas|casi",
    "refuse": r"refus(?:e|es|ed|ing)|declin(?:e|es|ed|ing)|den(?:y|ies|ied|ying)|reject(?:s|ed|ing)?|fail(?:s|ed|"
    r"ing)?|"
    r"avoid(?:s|ed|ing)?|cancel(?:s|led|ed|ling|ing)?|miss(?:es|ed)?|prevent(?:s|ed|ing)?",
    "false": r"false|untrue|wrong|incorrect|fake|falso|falsch",
    "unable": r"unable|incapable|impossible|unlikely|unsupported|unavailable|disabled?|disables|deprecated",
}

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

PERSONS: Mapping[str, str] = {
    word: person
    for person, words in {
        "i": "i i'm i've i'd i'll me my mine myself im ive yo mi mis ich mich mir mein meine",
        "we": "we we're we've we'll us our ours nosotros wir uns",
        "you": "you you're you've you'll your yours yourself tú tu usted du dich dir dein deine",
        "he": "he he's he'll him his himself él er ihn",
        "she": "she she's she'll her hers herself ella sie",
        "they": "they they're they've they'll them their theirs ellos ellas",
    }.items()
    for word in words.split()
}
MODALITY: Mapping[str, str] = {
    word: kind
    for kind, words in {
        "future": "will shall won't gonna i'll we'll you'll he'll she'll they'll",
        "possible": "may might could maybe perhaps possibly probably likely can",
        "would": "would wouldn't should shouldn't ought",
        "must": "must needs need required mandatory",
        "if": "if whether unless provided assuming",
        "wish": "want wants wanted hope hopes hoped wish wishes plan plans planned planning intend intends "
        "considering consider considers thinking wonder wondering dream tried tries try trying",
        "belief": "think thinks thought believe believes believed guess suppose seems seem apparently allegedly "
        "supposedly heard claims claimed says said",
    }.items()
    for word in words.split()
}


# Doublets (spellings of one word) and scales (words with their opposites) (§6.2, T29). Doublets are few on purpose:
# spellings, short forms, and words that differ only in register. Boy and kid, man and person stay separate, and so does
# bike, which may be a bicycle or a motorbike.


_DOUBLETS = words_of("doublets")
_SCALES = words_of("scales")
# Phrases with the meaning of one word; replaced before single words are read.
PHRASES: Mapping[str, str] = {
    r"close to": "near",
    r"next to": "beside",
    r"(?:a lot|lots) of": "many",
    r"(?:cell|mobile|smart) ?phone": "cellphone",
    r"(has|have) got": "$1",
    r"(?:a )?(?:pair|couple) of": "two",
    r"make ?up": "makeup",
    r"due to": "because of",
    r"on to": "onto",
    r"in to": "into",
}
# Prefixes that negate a word: "unhappy", "inactive", "disagree".
TURNING = r"^(?:un|in|im|ir|il|dis|non|de|anti|mis)-?([^\W\d_]{3,})$"


def _groups(table: str) -> Iterator[str]:
    return (group.strip() for group in table.replace("\n", "|").split("|") if group.strip())


def _ends() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, scale in enumerate(_groups(_SCALES)):
        high, low = scale.split("/")
        for sign, words in (("+", high), ("-", low)):
            for word in words.split():
                found[word] = f"{found[word]} {number}{sign}" if word in found else f"{number}{sign}"
    return found


DOUBLETS: Mapping[str, str] = {word: group.split()[0] for group in _groups(_DOUBLETS) for word in group.split()}
# Each word with its ends of scales: number and sign, separated by spaces.
ENDS: Mapping[str, str] = _ends()


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
