"""Clauses of reason in a sentence: "I bought a Bosch because the Makita is sold out until June"."""

from __future__ import annotations

import re

from .date_patterns import ANY_TIME
from .tense import has_verb

_CONJUNCTION = re.compile(r"\b(?:because|given that|seeing that|porque|ya que|due to|as|since)\b", re.IGNORECASE)
_CLAUSE = re.compile(
    r"\s(?:it|they|there|we|i|I|he|she|the|this|that|these|my|our|his|her|their|its|no|most|some|all|[A-ZÀ-Þ]\w+)\s"
)
_TIME = re.compile(rf"\s{ANY_TIME}")
_PRESENT = "is|are|isn['’]t|aren['’]t|has|have|hasn['’]t|haven['’]t|can|can['’]t|cannot|will|won['’]t|costs?|needs?"
_IS_SO = re.compile(rf"\b(?:{_PRESENT})\b", re.IGNORECASE)
_IS_OR_WAS = re.compile(rf"\b(?:{_PRESENT}|was|were|wasn['’]t|weren['’]t|had|did|didn['’]t)\b", re.IGNORECASE)
_IT_IS_SO = re.compile(rf"\s(?:it|they|there|we|i|I|he|she)\s(?i:{_PRESENT})\b")
_THING = re.compile(r"\s(?:the|an?|my|our|his|her|its|their|this|these)\s")
_IS = ("be ", "is ", "are ", "was ", "were ", "am ")

_UP_TO_COMMA = re.compile(r"[^,;]*,")
_UP_TO_NEXT_CLAUSE = re.compile(r"(?:(?!,\s(?:and|but|so|then|which)\s)[^;])*")
_NOUN = re.compile(r"because of|due to", re.IGNORECASE)
_AND = re.compile(
    r"""
    \sand\s
    (?=(?:it|they|there|we|I|he|she|the|this|that|these|my|our|his|her|their|have|has|am|will|[A-ZÀ-Þ]\w+)\s)
    (?![^;]*\b(?:until|till|up\ to|through|by|before|hasta)\b)
    """,
    re.VERBOSE,
)


def without_reasons(sentence: str) -> str:
    """The sentence with ";" in place of each reason; a clause of its own after a reason and "and" stays."""
    kept, done = "", 0
    for found in _CONJUNCTION.finditer(sentence):
        start, end = found.span()
        if start < done or not _begins_reason(sentence, start, end):
            continue
        leads = _UP_TO_COMMA.match(sentence, end) if start == 0 else None  # "As it is late, we go home"
        over = leads or _UP_TO_NEXT_CLAUSE.match(sentence, end)
        last = over.end() if over else end
        kept += sentence[done:start] + _clause_after(sentence[start:last])
        done = last
    return kept + sentence[done:]


def has_noun_as_reason(sentence: str) -> bool:
    """Whether a reason of the sentence is a noun: "because of repairs"."""
    return bool(_NOUN.search(sentence))


def _begins_reason(sentence: str, start: int, end: int) -> bool:
    """Whether a conjunction begins a reason: "as it is late", but not "since March", "as the manager", "is due to"."""
    word, rest = sentence[start:end].lower(), sentence[end:]
    if word == "due to":
        return bool(_THING.match(rest)) and not sentence[:start].endswith(_IS)
    if word not in ("as", "since"):
        return True
    if not _CLAUSE.match(rest) or _TIME.match(rest):
        return False
    clause = re.split(r"[,;]", rest, maxsplit=1)[0]
    opens = (start == 0 and word == "as") or sentence[:start].endswith(", ")
    if opens and _IS_OR_WAS.search(clause):
        return True
    if word == "as":
        return bool(_IT_IS_SO.match(rest))
    return bool(_IS_SO.search(re.split(r"\sand\s", clause, maxsplit=1)[0]))


def _clause_after(reason: str) -> str:
    """What follows in the words of a reason and is no part of it: a clause of its own after "and"."""
    for found in _AND.finditer(reason):
        before, after = reason[: found.start()], reason[found.end() :]
        if (_NOUN.match(reason) or has_verb(before)) and has_verb(after):
            return f" ; {after}"
    return " ; "
