"""Reversals in a sentence: "from A to B", "X instead of Y", "no longer Y", "forget Y", "Y is off".

Only statements count: a sentence that supposes, asks, weighs or wishes reverses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slowwave.lexicon.verbs import EVENTS
from slowwave.text import word_set

from .clauses import ARTICLE, read_object
from .date_words import MONTH_NAME
from .names import is_pronoun

MAX_CHARS = 400
_SIGNS = re.compile(
    r"\b(?:from|instead|rather|replac\w+|swap\w+|not|no|longer|any\s?more|forget|scrap\w*|never|drop|ditch\w*|off"
    r"|cancel\w*|minds?|dead|history|fell|out|over|ya|vez|lugar|stopp?\w*|quit|gave|given|moved|was|were|closed|shut)\b|n['’]t\b",
    re.IGNORECASE,
)
UNREAL = re.compile(
    r"\b(?:if|whether|should|shall|could|would|might|may(?!\s\d)(?<!\bMay)|maybe|perhaps|possibly|probably|consider(?:s|ed|ing)?|thought\s"
    r"about|think(?:s|ing)?|want(?:s|ed)?\sto|wants|wish(?:es)?|hop(?:e|es|ing)|plan(?:s|ning|ned)?\sto|going\sto|gonna"
    r"|sometimes|occasionally|temporarily|propos(?:e|ed|es)|suggest(?:s|ed)?|imagine|suppose|instead\sof\sthat|almost|nearly"
    r"|stay(?:ed)?\swith|but\sstayed|but\skept|tried|try|recommend\w*|debat\w+|discuss\w*|ideally|unless|had\sto\schoose"
    r"|si\s|quizás|tal\svez|podríamos|debería)\b|\?\s*$|['’]d\b(?!\srather)",
    re.IGNORECASE,
)
"""What supposes, asks, weighs or wishes."""
_A = r"(?:[^,;:?!]|(?<=\d)[,:](?=\d))"
_B = r"(?:[^,;:?!.]|(?<=\w)[,:.](?=\w))"
_C = r"(?:[^;:?!]|(?<=\d):(?=\d))"
_CHANGED_VERB = (
    r"(?:moved|switched|migrated|changed|went|upgraded|updated|bumped|raised|lowered|increased|reduced|cut|dropped|rose|fell"
    r"|slipped|postponed|shifted|rescheduled|converted|ported|transitioned|extended|pushed|delayed|brought|put|grew|came"
    r"|renamed|transferred|relocated|downgraded|set|improved|jumped|shrank|moving\sup|cambi(?:é|amos|ó|aron)|pas(?:é|amos|ó|aron))"
)
_FROM_TO = re.compile(
    rf"\b{_CHANGED_VERB}\b(?P<thing>{_A}{{0,60}}?)\s(?:from|de)\s(?P<old>{_A}{{1,60}}?)\s(?:over\s)?(?:to|a)\s(?P<new>{_C}+)",
    re.IGNORECASE,
)
_TO_FROM = re.compile(
    rf"\b{_CHANGED_VERB}\b{_A}{{0,60}}?\sto\s(?P<new>{_A}{{1,60}}?)\sfrom\s(?P<old>{_A}{{1,60}})", re.IGNORECASE
)
_INSTEAD = re.compile(
    rf"\b(?:instead\sof|rather\sthan|in\splace\sof|en\svez\sde|en\slugar\sde)\s(?P<old>{_C}+)", re.IGNORECASE
)
_REPLACED = re.compile(
    rf"\b(?:replaced|swapped(?:\sout)?|exchanged|substituted)\s(?P<old>{_A}{{2,60}}?)\s(?:with|by|for)\s(?P<new>{_C}+)",
    re.IGNORECASE,
)
_REPLACES = re.compile(
    rf"\b(?:replaces|has\sreplaced|have\sreplaced|took\sover\sfrom|takes\sover\sfrom)\s(?P<old>{_A}+)", re.IGNORECASE
)
_REPLACED_BY = re.compile(
    rf"(?P<old>{_A}{{2,60}}?)\s(?:was|were|is|are|has\sbeen|have\sbeen|got)\s(?:now\s)?replaced\s(?:by|with)\s(?P<new>{_C}+)",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"(?:,\s(?:and\s|so\s|but\s)?|\s[–—-]\s|;\s)(?:not|no\slonger|no\smore|nicht\smehr|ya\sno)\s"
    r"(?!only\b|just\b|sure\b|yet\b|even\b|all\b|too\b|so\b|very\b|really\b|because\b|to\b|that\b|until\b|before\b|after\b"
    r"|necessarily\b|a\s(?:single\s)?\w+\s(?:has|have|was|were|is)\b|one\b|the\s(?:problem|issue|point|only|same|best|case)\b|for\sme\b|mine\b|yours\b|much\b|if\b|when\b|as\b|every\w*\b)"
    rf"(?:(?P<by>in|on|at|with|by|for|through|via|to)\s)?(?P<old>{_A}+)",
    re.IGNORECASE,
)
_NO_LONGER = re.compile(
    rf"\b(?:no\slonger|ya\sno)\s(?P<verb>[\w'’-]+)\s(?P<rest>{_A}+)"
    r"|(?:\b(?:do|does|did|is|are|am|was|were|has|have|can|will)\s?(?:not|n['’]t)|\b(?:['’]m|['’]re|['’]s)\snot|\bnever)\s"
    rf"(?P<verb2>[\w'’-]+)\s(?P<rest2>{_A}+?)\s(?:any\s?more|any\slonger)\b",
    re.IGNORECASE,
)
_OVER = re.compile(rf"\bprefers?\s{_A}{{2,60}}?\s(?:over|to)\s(?P<old>{_A}+)", re.IGNORECASE)
_TURNED = re.compile(r"\b(?:now|from\snow\son|these\sdays|nowadays|since)\b", re.IGNORECASE)
_ONCE = re.compile(
    r"\b(?:was|were|had|went|took|ate|drank|bought|ordered|watched|picked|got|made|came|did|saw|read|chose|wore|sent|met|spent"
    r"|played|used|wrote|gave|told|this\stime|yesterday|today|tonight|last\snight)\b|^(?:give|bring|send|show|take|put|make|get"
    r"|buy|order|talk|ask|tell)\s",
    re.IGNORECASE,
)
_STOPPED = re.compile(rf"\b(?:(?:stopped|quit)\s\w+ing|(?:gave|given)\sup(?:\son)?)\s(?P<old>{_A}+)", re.IGNORECASE)
_FORGET = re.compile(
    r"(?:^|[.!:,;]\s)(?:(?:ok|okay|so|and|please|well|actually|let['’]s)[,\s]+)?"
    rf"(?:forget(?:\sabout)?|scrap|never\s?mind(?:\sabout)?|ditch|drop)\s(?!that\b|it\b|this\b|to\b|what\b|about\sit\b)(?P<old>{_B}+)",
    re.IGNORECASE,
)
_SINCE = "now|because|since|so|as|after|due|again|for|this|next|until|and|but|then|I|we|they|he|she"
EVENT = re.compile(
    r"^(?:(?!(?:to|in|with|of|for|at|on|by|from|near|around|between|about|after|before|next|this)\s)\S+\s){0,5}?"
    rf"(?:{EVENTS}|date|idea|plan|project|deal|collaboration|partnership|cooperation)s?"
    r"(?=\s(?:to|in|with|of|for|at|on|by|from|near|around|between|about"
    r"|after|before|next|this)\s|$)",
    re.IGNORECASE,
)
"""An event, at the start of a text: it is off when it is cancelled; a device is off when nobody uses it."""
_OFF = re.compile(
    rf"(?:^|[,;:]\s(?:and\s|but\s|so\s)?)(?P<old>{_A}{{3,60}}?)\s(?:(?P<bare>(?:is|are)\s(?:now\s|all\s)?(?:off(?!\sthe\stable)"
    r"|dead|history|no\slonger\s(?:on|needed))|(?:was|were|has\sbeen|have\sbeen|got)\s(?:now\s)?(?:dropped|abandoned)|fell\sthrough)"
    rf"(?=\s*(?:[.,;:!–—-]|$)|\s(?:{_SINCE})\b)|(?:(?:is|are)\s(?:now\s|all\s)?(?:off\sthe\stable"
    r"|cancell?ed|called\soff|scrapped|out\sof\sthe\s(?:question|race)|not\shappening|no\slonger\s(?:happening|planned"
    r"|valid))|(?:was|were|has\sbeen|have\sbeen|got)\s(?:now\s)?(?:cancell?ed|called\soff|scrapped|axed)"
    r"|(?:won['’]t|will\snot|isn['’]t|is\snot|aren['’]t)\s(?:happen|happening|take\splace|taking\splace))\b)",
    re.IGNORECASE,
)
_CLOSED = re.compile(
    r"(?:^|[,;:]\s(?:and\s|but\s|so\s)?)(?P<old>(?:(?!(?:not|never|almost|nearly|next|near|opposite|across|behind|beside|like|other|another)\b|\w+n['’]t\b)[\w'’-]+\s){2,8}?)"
    r"(?:has\s|have\s|was\s|were\s)?(?:closed\sdown(?!\s(?:for|over|until|till|during|at|from|between|early|again|when|every|each)\b)"
    r"|(?:closed|shut)(?:\sdown|\s(?:its|their)\sdoors)?\s(?:for\sgood|permanently|forever))\b",
    re.IGNORECASE,
)
_CANCELLED = re.compile(
    rf"\b(?:we|i|they|he|she)(?:['’]ve|\shave|\shas|\sjust)?\s(?:cancell?ed|called\soff|scrapped|abandoned)\s(?P<old>{_A}+)",
    re.IGNORECASE,
)
_MIND = re.compile(
    rf"\bchanged\s(?:my|our|his|her|their)\sminds?\b(?:\s(?:about|on)\s(?P<about>{_B}+))?", re.IGNORECASE
)
_KEEPS_MIND = re.compile(r"(?:\bnot|n['’]t|\bnever)\s(?:\w+\s)?chang\w*\s\w+\sminds?\b", re.IGNORECASE)
_NO_THING = re.compile(rf"(?:^|[,:;.!–—-]\s?)(?:so\s|and\s)?(?:no|not|without)\s(?P<old>{_B}+)", re.IGNORECASE)
_WILL_NOT = re.compile(
    rf"\b(?:won['’]t|will\snot|(?:am|are|is|['’]m|['’]re|['’]s)\snot\s(?:going\sto|gonna))\s(?P<old>{_B}+)",
    re.IGNORECASE,
)
_VERB_FIRST = re.compile(
    r"^(?:be\s|get\s|go\s|take\s|buy\s|use\s|using\s|have\s|having\s|do\s|build\s|make\s|open\s|move\s)(?:to\s|with\s|in\s)?",
    re.IGNORECASE,
)
_ARTICLE = re.compile(rf"(?:{ARTICLE.pattern}|^(?:el|la|los|las|un|una|mi|su|en|con|usar)\s)", re.IGNORECASE)
_PREPOSITION = re.compile(
    r"^(?:in|on|at|with|by|for|through|via|to|from|into|out\s(?:with|of)|up|as|of|about|using)\s", re.IGNORECASE
)
_ENDS = re.compile(
    r"\s(?:now|any\s?more|any\slonger|last|next|this|since|because|so|as|until|after|before|yesterday|today|over\sthe"
    rf"|on\s(?:mon|tues|wednes|thurs|fri|satur|sun)day|in\s(?:{MONTH_NAME})|and\s(?:i|we|he|she|it|they|the)|which|who|for\sthe"
    r"|from\snow|at\sall|altogether|either"
    r"|completely|entirely|pues|porque|ahora)\b|[.…](?=\s|$).*$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"[$€£]?\d[\d.,:/%-]*(?:\s?(?:am|pm|%|€|(?!(?:from|now|in|on|at|since|because|and|or|but|so|as|to|for|by|with|per|last|next|this|until"
    r"|instead|any|anymore|which|when|after|before|over|is|are|was|the|a)\b)[a-zäöü]{1,12}))?"
    rf"(?:\s(?:{MONTH_NAME})\b)?(?:\s\d{{4}}\b)?",
    re.IGNORECASE,
)
_DATE_FIRST = re.compile(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s)?(?:the\s)?(?:\d{1,2}(?:st|nd|rd|th)?(?:\sof)?\s)?"
    rf"(?:{MONTH_NAME})(?:\s\d{{1,2}}(?:st|nd|rd|th)?)?(?:,?\s\d{{4}})?",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"v?\d[\d.,]*$")
_THING_BEFORE = re.compile(r"(?P<name>[A-ZÀ-Þ][\w.+#-]*(?:\s[A-ZÀ-Þ][\w.+#-]*)?)$")
_VAGUE = word_set(
    """one ones way time times day days thing things part parts bit lot end top side people person it that this
    there here him her them us me you what which something anything nothing someone everything work place now
    then least first last next other another good bad new old many much more less scratch home now-on beginning
    start"""
)
MAX_WORDS = 6


@dataclass(frozen=True, slots=True)
class Reversal:
    """The words that no longer hold, and the action: supersede (something replaces them) or retract (nothing does)."""

    old: str
    action: str = "supersede"


def find_reversals(sentence: str, previous: str = "") -> list[Reversal]:
    """The reversals of a sentence, each once; `previous` is the sentence before it, which may begin the reversal."""
    text = sentence[:MAX_CHARS]
    if not _SIGNS.search(text):
        return []
    kept: list[Reversal] = []
    for found in _found(text, previous[-MAX_CHARS:]):
        if _is_thing(found.old) and not any(found.old.lower() in other.old.lower() for other in kept):
            kept.append(found)
    return kept


def _found(text: str, previous: str) -> Iterator[Reversal]:
    yield from _called_off(text, previous)
    if UNREAL.search(text):
        return
    if found := _FROM_TO.search(text) or _TO_FROM.search(text):
        yield Reversal(_old_value(found))
    if _TURNED.search(text) and (found := _OVER.search(text)):
        yield Reversal(_phrase(found["old"]))
    if found := _REPLACED.search(text) or _REPLACED_BY.search(text) or _REPLACES.search(text):
        yield Reversal(_phrase(found["old"]))
    for found in _NO_LONGER.finditer(text):
        yield Reversal(_phrase(found["rest"] or found["rest2"] or ""), "retract")
    for found in _STOPPED.finditer(text):
        yield Reversal(_phrase(found["old"]), "retract")
    if _ONCE.search(text) and not _TURNED.search(text):
        return  # "I had tea instead of coffee" is about one time
    for found in _INSTEAD.finditer(text):
        yield Reversal(_phrase(found["old"]))
    for found in _NOT.finditer(text):
        if not found["by"] or re.search(rf"\b{found['by']}\b", text[: found.start()], re.IGNORECASE):
            yield Reversal(_phrase(found["old"]))


def _called_off(text: str, previous: str) -> Iterator[Reversal]:
    """Dropped plans, cancelled events, changed minds."""
    is_doubted = re.search(r"\b(?:if|whether|might|maybe|unless)\b|\?", text, re.IGNORECASE)
    for pattern in () if is_doubted else (_FORGET, _OFF, _CANCELLED):
        found = pattern.search(text)
        if found and (pattern is not _OFF or not found["bare"] or EVENT.match(found["old"])):
            yield Reversal(_phrase(found["old"]), "retract")
    closed = None if is_doubted or UNREAL.search(text) else _CLOSED.search(text)
    if closed and " " in (old := _phrase(closed["old"])):  # "the shop" may be any
        yield Reversal(old, "retract")
    turned = _MIND.search(text)
    if turned and not _KEEPS_MIND.search(text):
        if turned["about"]:
            yield Reversal(_phrase(turned["about"]), "retract")
        rest = text[turned.end() :]
        for pattern in (_NO_THING, _WILL_NOT):
            for found in pattern.finditer(rest):
                yield Reversal(_phrase(found["old"]), "retract")
    elif _MIND.search(previous) and not _KEEPS_MIND.search(previous) and (found := _NO_THING.match(text)):
        yield Reversal(_phrase(found["old"]), "retract")


def _old_value(found: re.Match[str]) -> str:
    """The value before "to": a bare number gets the name of its thing ("Node from 18 to 22")."""
    old = found["old"].strip()
    value = _DATE_FIRST.match(old) or _VALUE.match(old)
    words = (value.group().strip() if value else "") or _phrase(old)
    thing = _THING_BEFORE.search((found.groupdict().get("thing") or "").rstrip())
    return f"{thing['name']} {words}" if thing and _BARE_NUMBER.fullmatch(words) else words


def _phrase(words: str) -> str:
    """The noun phrase at the start of the words, without verb, preposition and article; a whole date or amount."""
    bare = words.strip(" \"'“”‘’")
    for _ in range(2):
        bare = _VERB_FIRST.sub("", bare) if len(bare.split()) > 1 else bare
        bare = _ARTICLE.sub("", _PREPOSITION.sub("", bare))
    value = _DATE_FIRST.match(bare) or _VALUE.match(bare)
    if value and any(map(str.isdigit, value.group())):
        return value.group().strip(" .,")
    end = _ENDS.search(bare)
    bare = (bare[: end.start()] if end else bare).strip(" .,'\"“”")
    return bare if len(bare.split()) <= MAX_WORDS else read_object(bare)


def _is_thing(words: str) -> bool:
    """Whether the words are specific enough to find a statement by."""
    parts = words.lower().split()
    if not 0 < len(parts) <= MAX_WORDS + 2 or (len(words) == 1 and not words.isdigit()):
        return False
    is_vague = all(part in _VAGUE or is_pronoun(part) for part in parts)
    return not (is_vague or is_pronoun(parts[0]) or parts[0] in ("i", "my", "your"))
