"""First person to third person where that is sure: "I moved to Porto" becomes "Ana moved to Porto"; else a quotation.

It is sure with one "I" or "my" at the start of the sentence and no other word for the speaker or the listener.
"""

from __future__ import annotations

import re

from slowwave.text import word_set

from .clauses import ACTS

_FIRST = re.compile(r"\b(I(?:['’](?:m|ve|ll|d))?|[Mm]y|me|[Mm]yself|mine)(?![\w'’.-]*[@/])(?![\w-])", re.UNICODE)
_OPENING = re.compile(
    r"(?P<lead>(?:(?:Last|This|Next)\s\w+|(?:In|On|Since|At|For|During)\s[^,;:.!?]{2,30}?|Yesterday|Today|Recently|Lately"
    r"|Now|From\snow\son),?\s)?(?P<who>I(?:['’](?:m|ve|ll|d))?|[Mm]y)(?=\s)"
)
_POINTS = re.compile(
    r"\b(?:I|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself|[Ww]e|[Uu]s|[Oo]urs?|[Oo]urselves|[Yy]ou(?:rs?|rself)?)\b(?![.@/]\w)"
)
_ELSEWHERE = re.compile(
    rf"\b(?:there|hers|theirs|(?:and|but|or)\s(?:{ACTS}|have|am|want|need|like|go|plan|hope|get|do)(?=\s\w))\b"
)
_QUOTES = re.compile(r"[\"“”]")
_LOWER_I = re.compile(r"(?<![\w.'’])i(?=(?:['’](?:m|ve|ll|d))?[\s,])(?!\.)")
_WORD = re.compile(r"\s*([\w'’]+)")
_ADVERBS = word_set(
    """really just also still already always never usually often sometimes now currently actually recently
    finally even only absolutely totally definitely probably mostly mainly honestly simply basically
    kinda once both then first generally rarely hardly almost truly personally officially normally
    typically constantly deeply strongly especially particularly no longer"""
)
_VERBS_IN_LY = word_set("fly apply reply rely supply comply imply multiply ally bully rally tally sully")
_UNCHANGED = word_set(
    """will would can could may might shall should must ought did had was went got made took said came saw
    knew thought found gave told became left felt put brought began kept held wrote stood heard let
    meant set met ran paid sat spoke lay led read grew lost fell sent built understood drew broke spent
    cut rose drove bought wore chose ate drank sang swam flew slept taught caught fought won sold threw
    hit quit hurt cost shut bet rode shook forgot forgave hid stuck swore tore woke bit blew dug fed
    froze hung lent shot slid spun stole swept wept bent bound bred didn't couldn't wouldn't can't
    cannot won't shouldn't mustn't hadn't wasn't gonna used bounced dealt dreamt learnt leapt lit knelt
    sewn sought not myself and or but who which has is does"""
)
_IRREGULAR = {
    "am": "is", "have": "has", "do": "does", "go": "goes", "don't": "doesn't", "haven't": "hasn't",
    "wanna": "wants to", "ain't": "isn't",
    "gotta": "has to",
}  # fmt: skip
_CONTRACTIONS = {"m": "is", "ve": "has", "ll": "will", "d": "would"}
_THEY = {
    "i": "they", "i'm": "they are", "i've": "they have", "i'll": "they will", "i'd": "they would",
    "my": "their", "me": "them", "myself": "themselves",
    "mine": "theirs",
}  # fmt: skip
_HAD = frozenset({"been", "had", "never", "already", "gone", "done", "seen", "just", "become", "got"})


def retell(words: str, name: str) -> str:
    """The words as a sentence about `name`, or as a quotation where the third person is not sure."""
    original, words = words, _LOWER_I.sub("I", words)
    opening = _OPENING.match(words)
    if not opening or len(_POINTS.findall(words)) > 1 or _ELSEWHERE.search(words):
        return quote(original, name)
    found = opening["who"].replace("’", "'")
    lead = opening["lead"] or ""
    if found[0] == "I":
        text, at = _subject(words, opening.end("who"), found[2:], name)
    else:
        text, at = f"{name}'s", opening.end("who")
    whole = f"{lead}{text}{words[at:]}"
    return whole[:1].upper() + whole[1:]


def quote(words: str, name: str) -> str:
    """The words as a quotation with the name of the speaker."""
    return f'{name}: "{_QUOTES.sub(_single, words.strip())}"'


def _single(mark: re.Match[str]) -> str:
    return "'" if mark.group() == '"' else {"“": "‘", "”": "’"}[mark.group()]


def impersonal(words: str) -> str:
    """The words with "they" and "their" for "I" and "my": an object phrase without its subject."""
    if not _FIRST.search(words):
        return words
    return _FIRST.sub(lambda found: _THEY.get(found.group().lower().replace("’", "'"), found.group()), words)


def _subject(words: str, at: int, contraction: str, name: str) -> tuple[str, int]:
    """The words in place of "I…", and the position after them."""
    if not contraction:
        return _conjugated(words, at, name)
    verb = _CONTRACTIONS[contraction]
    ahead = _WORD.match(words, at)
    if contraction == "d" and ahead and ahead[1].lower() in _HAD:
        verb = "had"
    return f"{name} {verb}", at


def _conjugated(words: str, at: int, who: str) -> tuple[str, int]:
    """The name, the adverbs after it and the verb in the third person."""
    ahead, lead = _WORD.match(words, at), at
    while ahead and _is_adverb(ahead[1].lower()):
        lead = ahead.end()
        ahead = _WORD.match(words, lead)
    if not ahead:
        return who, at
    return f"{who}{words[at:lead]} {third_person(ahead[1])}", ahead.end()


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or (word.endswith("ly") and word not in _VERBS_IN_LY)


def third_person(verb: str) -> str:
    """The form of a verb after he, she or it; past forms and modals stay."""
    lower = verb.lower().replace("’", "'")
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if lower in _UNCHANGED or (
        lower.endswith(("ed", "ing", "'t")) and lower not in ("need", "feed", "speed", "bring", "sing")
    ):
        return verb
    if not lower.isalpha():
        return verb
    if lower.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"
