"""Which event does a sentence give a day, and which does it move to another day?

"The team dinner is at Luigi's on 3 July" gives an event a day, "The team dinner was moved to 10 July" moves it. A verb
can stand for an event: "We marry on 12 September" gives a wedding a day. Other languages than English are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from slowwave.lexicon.statement_words import FUNCTION_WORDS
from slowwave.lexicon.verbs import EVENT_VERBS, EVENTS, RESCHEDULED
from slowwave.text import word_set
from slowwave.words import without_ending

from .clauses import ROLES
from .date_patterns import CORE, MONTH, WEEKDAY
from .names import is_pronoun
from .reversals import UNREAL

_DAY = rf"(?:the\s)?(?:{CORE}|{MONTH}|{WEEKDAY})"
_OPENING = (
    r"^(?i:(?:so|and|but|well|oh|hey|hi|ok|okay|also|update|unfortunately|luckily|apparently|actually)[,:!–—-]*\s)*"
    rf"(?:(?i:on|in|at|over)\s{_DAY},?\s)?"
)
_NOBODY = r"not|never|nobody|no|none|neither|hardly|barely"
_WORD = (
    r"(?!(?i:am|is|are|was|were|be|been|being|has|have|had|having|got|gets?|will|would|do|does|did|"
    rf"{_NOBODY})\b)[\w'’-]+"
)
_PHRASE = rf"(?:{_WORD}\s){{0,7}}?{_WORD}"
_NOUN = rf"(?P<event>{_PHRASE})"
_WHO = rf"(?P<who>(?:{_WORD}\s){{0,2}}?(?!\w+n['’]t|(?i:{_NOBODY})\b)[\w-]+)(?:['’](?:m|re|s|ve|ll))?\s"
_WAS = r"(?i:(?:has|have|had)(?:\s(?:now|just))?\sbeen|(?:was|were|is|are|got|gets|will\sbe)(?:\s(?:now|just|being))?)"
_PARTED = r"(?:\s(?i:back|forward|up|out|off))?"
_TO_DAY = (
    rf"(?:\s(?i:by)\s[\w\s'’]{{2,30}}?)?(?:\s(?i:from)\s(?P<old>[^,;.]{{1,40}}?))?\s(?i:to|for|until|till)\s(?={_DAY})"
)
_MOVED = (
    # "The dinner was moved back to Friday", "The exam has been postponed by the school until 3 May"
    re.compile(rf"{_OPENING}{_NOUN}\s{_WAS}\s(?i:{RESCHEDULED}){_TO_DAY}"),
    # "The launch slipped from March to May"
    re.compile(rf"{_OPENING}{_NOUN}\s(?i:(?:(?:has|have)\s)?(?:just\s)?(?:moved|slipped|shifted)){_PARTED}{_TO_DAY}"),
    # "They brought my exam forward to 3 May"
    re.compile(
        rf"{_OPENING}{_WHO}(?i:(?:have\s|has\s)?(?:just\s)?(?:{RESCHEDULED}|brought|put))\s"
        rf"(?P<event>(?i:the|my|our|\S+['’]s)\s{_PHRASE}){_PARTED}{_TO_DAY}"
    ),
)
_LIMITED = re.compile(
    r"\b(?i:back|again|only|except|unless|every|each|when|whenever|provided|as\slong\sas|in\scase|in\sthe\sevent|by\smistake"
    rf"|for\s(?!(?:me|us|all|everyone|everybody|good)\b))\b|\b(?i:but|then|it\sis|it['’]s|stays|still)\b.*?\s{_DAY}"
)
"""Words after the new day: the move is for some people or in some cases, or was taken back."""
_NOW = re.compile(r"\b(?:is|are)\snow\s", re.IGNORECASE)
_CORRECTED = re.compile(r"^(?:sorry|correction|oops|my\s(?:mistake|bad))[\s,.:;!–—-]+(?:but\s)?", re.IGNORECASE)
_IS_NOW = re.compile(rf"{_OPENING}{_NOUN}\s(?i:is|are|will\sbe)\s(?i:now\s)?(?i:on|in|at)\s(?={_DAY})")
_IS = re.compile(
    rf"{_OPENING}{_NOUN}\s(?:(?i:(?:will\s)?takes?\splace|(?P<first>starts?|begins?)|happens?)\s"
    r"|(?i:is|are|will\sbe|(?:has|have)\sbeen)\s(?:(?i:now|still|also|already|actually|currently|just)\s)*"
    r"(?=(?i:on|in|at|from|for|near|by\sthe|outside|inside|around|over|against|with|here|there|online|held|taking\splace"
    rf"|going\sto\sbe|planned|scheduled|set|booked|due|{RESCHEDULED})\b|{_DAY}))"
)
"""A day or a place of an event: not "The exam is marked by 3 May"."""
_HAS = re.compile(
    rf"{_OPENING}{_WHO}(?i:(?:am|is|are|will|just|also)\s)*"
    r"(?i:have|has|having|got|hosts?|hosting|holds?|holding|throws?|throwing|takes?|taking|sits?|sitting|retakes?|retaking|booked)\s"
    rf"(?i:got\s)?{_NOUN}(?=\s(?i:on|in|at|with|for|by|next|this|tomorrow)\b)"
)
_THERE_IS = re.compile(rf"{_OPENING}(?i:there(?:['’]s|\sis|\sare|\swill\sbe))\s{_NOUN}(?=\s(?i:on|in|at|next|this)\b)")
_ACTS = tuple(
    (
        nouns.split()[0],
        re.compile(
            rf"{_OPENING}{_WHO}(?i:(?:am|is|are|will|be|being|get|gets|getting|going\sto|having)\s)*"
            rf"(?i:{'|'.join(verbs.split())})\b{then}"
        ),
    )
    for nouns, verbs, then in EVENT_VERBS
)
_KINDS = {noun: nouns.split()[0] for nouns, _, _ in EVENT_VERBS for noun in nouns.split()}
_MORE = re.compile(
    r"[;:.!?]\s+\S|\s[(–—-]|,\s(?!(?i:on|in|at|from|near|with|this|next|around)\s|\d|"
    rf"{_DAY})"
    r"|\s(?i:and|but|so|because|while|although|though|then|where|which|who|whose|when|if|unless|every|each)\s"
)
"""Another claim in the same statement, which would be lost with the day; or an event of many days."""
_SERIES = word_set("course class training semester term season series league school programme program")
"""Their first day is not the day to which one of them is moved."""
_PREPOSITION = re.compile(r"\s(?=(?:in|at|with|of|for|to|on|from|by|near|about|between|after|before)\s)")
_OF_DATE = re.compile(r"^(?:(?:the|our|my)\s)?(?:new\s)?(?:date|day|start)\s(?:of|for)\s|\s(?:date|day)$", re.I)
_OTHER_MOVER = re.compile(r"\b(?:his|her|their|your|other|another)\b", re.IGNORECASE)
_TAIL = 200  # characters after the new day that are searched
_OTHERS = word_set("his her their your its this that these those another no every some")


@dataclass(frozen=True, slots=True)
class Event:
    """An event as a sentence names it.

    `kind` is its noun; a verb has the kind of its noun. `which` are the stems before the noun ("team" dinner), `where`
    the `places` after it (fair in "Ghent"), and the old day that a move names. `owner` is "my", "our", as in "tom's" or
    "my sister's", or empty. `phrase` is the noun with these words as written; empty for a verb.
    """

    kind: str
    which: frozenset[str] = frozenset()
    where: frozenset[str] = frozenset()
    owner: str = ""
    phrase: str = ""


@lru_cache(maxsize=4096)
def moved_event(sentence: str) -> Event | None:
    """The event that a sentence says was moved to another day; None if it supposes, asks or says nothing like it."""
    if UNREAL.search(sentence):
        return None
    corrected = _CORRECTED.match(sentence)
    rest = sentence[corrected.end() :] if corrected else sentence
    found = next((found for pattern in _MOVED if (found := pattern.match(rest))), None)
    is_new = found or (_IS_NOW.match(rest) if corrected or _NOW.search(rest) else None)
    if is_new is None or _LIMITED.search(rest[is_new.end() :][:_TAIL]):
        return None
    event, given = _named(is_new["event"]), is_new.groupdict()
    who = given.get("who") or ""
    if event is None or _OTHER_MOVER.search(who):
        return None
    owner = re.match(r".*['’]s(?=\s)", _my(who))  # "Tom's school moved the exam": it is Tom's
    return replace(
        event,
        where=event.where | places(given.get("old") or ""),
        owner=event.owner or (owner.group() if owner else ""),
    )


@lru_cache(maxsize=4096)
def dated_events(statement: str) -> tuple[Event, ...]:
    """The events to which a statement of one claim may give a day; it has a time, which this does not read."""
    return tuple(_dated(statement))


def _dated(statement: str) -> Iterator[Event]:
    noun = None
    for pattern in (*_MOVED, _IS, _HAS, _THERE_IS):
        found = pattern.match(statement)
        is_series = found and found.groupdict().get("first") and found["event"].split()[-1].lower() in _SERIES
        noun = _named(found["event"]) if found and not is_series and not _MORE.search(statement, found.end()) else None
        if found and noun:
            is_mine = pattern is _HAS and not noun.owner  # "Mia has an exam"
            yield replace(noun, owner=_owner_of(found["who"])) if is_mine else noun
            break
    for kind, pattern in _ACTS:
        found = pattern.match(statement)
        if found and not _MORE.search(statement, found.end()) and (noun is None or noun.kind != kind):
            yield Event(kind, owner=_owner_of(found["who"]))


def stems(text: str) -> frozenset[str]:
    """The stems of the words of a text that tell something."""
    return _telling(re.sub(r"['’]s?$", "", word) for word in re.findall(r"[\w'’-]+", text.lower()))


def places(text: str) -> frozenset[str]:
    """The stems of words that follow a noun, other than `stems` for "Mia's parents" and "Mia", "from Rome" and "to
    Rome"."""
    joined = re.sub(r"\bfrom\s(?:the\s)?(?=\w)", "from-", text.lower().replace("’", "'"))
    return _telling(re.findall(r"[\w'-]+", joined))


def _telling(words: Iterable[str]) -> frozenset[str]:
    return frozenset(without_ending(word, 5) for word in words if word not in FUNCTION_WORDS)


def other_words(event: str) -> tuple[str, ...]:
    """The verbs that stand for the event that a phrase names, and other nouns of it: "wedding" is also "marry"."""
    kind = _KINDS.get(event.split()[-1].lower()) if event else None
    rows = (row for row in EVENT_VERBS if kind and kind in row[0].split())
    return tuple(word for nouns, verbs, _ in rows for word in f"{nouns} {verbs}".split() if word != event)


def _named(phrase: str) -> Event | None:
    """The event of a noun phrase; None for a name, a pronoun, or an event of somebody whom no word names."""
    bare = _OF_DATE.sub("", phrase)
    head, *after = _PREPOSITION.split(bare, maxsplit=1)
    words = head.split()
    owned = max((place for place, word in enumerate(words) if re.search(r"['’]s?$", word)), default=-1)
    owner = " ".join(words[: owned + 1]).lower()
    first = words[0].lower() if words else ""
    if owned < 0 and first in ("the", "a", "an", "my", "our"):
        owner, owned = (first if first in ("my", "our") else ""), 0
    rest = words[owned + 1 :]
    noun = rest[-1].lower() if rest else ""
    is_name = noun and rest[-1][0].isupper() and not re.fullmatch(rf"(?:{EVENTS})s?", noun)
    is_word = len(noun) > 2 and noun.isalpha() and not is_pronoun(noun) and noun not in FUNCTION_WORDS
    if first in _OTHERS or is_name or not is_word or {noun, noun.removesuffix("s")} & ROLES:
        return None
    name = " ".join([*rest, *after])  # the plural is another kind: "my exam" is one of "my exams"
    return Event(_KINDS.get(noun, noun), stems(" ".join(rest[:-1])), places(" ".join(after)), _my(owner), name)


def _owner_of(who: str) -> str:
    """The owner of the event of a subject: "we" have our wedding, "Mia" has Mia's, and "the shop" none."""
    words = _my(who)
    if words in ("i", "we"):
        return "my" if words == "i" else "our"
    return "" if words.startswith(("the ", "there")) else f"{words}'s"


def _my(owner: str) -> str:
    """The words of an owner in lower case, "our sister's" as "my sister's"."""
    return re.sub(r"^our ", "my ", owner.lower().replace("’", "'"))
