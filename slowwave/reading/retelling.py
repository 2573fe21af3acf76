"""First person into third: "I moved to my sister's" becomes "Ana moved to their sister's"."""

from __future__ import annotations

import re

from slowwave.text import word_set

_FIRST = re.compile(r"\b(I(?:['’](?:m|ve|ll|d))?|[Mm]y|me|[Mm]yself|mine)(?![\w'’.-]*[@/])(?![\w-])", re.UNICODE)
_WE_FIRST = re.compile(r"(?:We|we|Our|our)\b(?!.{0,12}\bI\b)")
_JOINED = re.compile(r"(?:^|my\s\w{2,15}\s)[A-ZÀ-Þ][\w-]+\sand\s$")
_LOWER_I = re.compile(r"(?<![\w.'’])i(?=(?:['’](?:m|ve|ll|d))?[\s,])(?!\.)")
_WORD = re.compile(r"\s*([\w'’]+)")
_ADVERBS = word_set(
    """really just also still already always never usually often sometimes now currently actually recently
    finally even only absolutely totally definitely probably mostly mainly honestly simply basically
    kinda once both then first generally rarely hardly almost truly personally officially normally
    typically constantly deeply strongly especially particularly no longer"""
)
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
_PLURAL = {"m": "are", "ve": "have", "ll": "will", "d": "would"}
_THEY = {
    "i": "they", "i'm": "they are", "i've": "they have", "i'll": "they will", "i'd": "they would",
    "my": "their", "me": "them", "myself": "themselves",
    "mine": "theirs",
}  # fmt: skip
_HAD = frozenset({"been", "had", "never", "already", "gone", "done", "seen", "just", "become", "got"})


def retell(words: str, name: str) -> str:
    """The words with `name` for the speaker; one that names nobody gets the speaker's name in front."""
    words = _LOWER_I.sub("I", words)
    if _WE_FIRST.match(words):
        return f"{name}: {words}"
    parts: list[str] = []
    at, named, acted = 0, False, False
    for found in _FIRST.finditer(words):
        if found.start() < at:
            continue
        word = found.group().replace("’", "'")
        before = words[at : found.start()]
        parts.append(before)
        at = found.end()
        if word[0] == "I":
            opens = bool(re.search(r"(?:^|[.!?:]\s)$", "".join(parts)))
            text, at = _subject(words, at, word[2:], name, named, joined=not acted and bool(_JOINED.search(before)))
            parts.append(text[:1].upper() + text[1:] if opens else text)
            acted = True
        else:
            parts.append(_other(word.lower(), name, named))
        named = True
    whole = "".join(parts) + words[at:]
    return whole[:1].upper() + whole[1:] if named else f"{name}: {words}"


def impersonal(words: str) -> str:
    """The words with "they" and "their" for "I" and "my": an object phrase, whose subject stands elsewhere."""
    if not _FIRST.search(words):
        return words
    return _FIRST.sub(lambda found: _THEY.get(found.group().lower().replace("’", "'"), found.group()), words)


def _subject(words: str, at: int, contraction: str, name: str, named: bool, *, joined: bool) -> tuple[str, int]:
    """What stands for "I…" and up to where the words are used up."""
    who = name if not named or joined else "they"
    if contraction:
        table = _CONTRACTIONS if who == name and not joined else _PLURAL
        verb = table[contraction]
        ahead = _WORD.match(words, at)
        if contraction == "d" and ahead and ahead[1].lower() in _HAD:
            verb = "had"
        return f"{who} {verb}", at
    if who == "they" or joined:
        ahead = _WORD.match(words, at)
        plural = {"am": "are", "was": "were", "wasn't": "weren't"}.get(ahead[1].lower()) if ahead else None
        return (f"{who} {plural}", ahead.end()) if ahead and plural else (who, at)
    return _conjugated(words, at, who)


def _conjugated(words: str, at: int, who: str) -> tuple[str, int]:
    """The name, the adverbs after it and the verb in the third person."""
    ahead, lead = _WORD.match(words, at), at
    while ahead and ahead[1].lower() in _ADVERBS:
        lead = ahead.end()
        ahead = _WORD.match(words, lead)
    if not ahead:
        return who, at
    return f"{who}{words[at:lead]} {third_person(ahead[1])}", ahead.end()


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


def _other(word: str, name: str, named: bool) -> str:
    """What stands for "my", "me", "myself", "mine"."""
    if word == "my":
        return "their" if named else f"{name}'s"
    if word == "mine":
        return "theirs" if named else f"{name}'s"
    if word == "myself":
        return "themselves" if named else name
    return "them" if named else name
