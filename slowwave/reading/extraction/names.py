"""The names in a sentence, and which names become entities.

Models write titles ("Weight Lifting"), and rules see capitals at the start of sentences. So the form of the words in
the source text counts more than the form in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from slowwave.common.lexicon import words_of
from slowwave.common.text import SYLLABIC, normalise_name, plain_letters, word_set

from .date_words import MONTH_NAME
from .kinship import is_role, read_kin

MIN_NAME_CHARS = 3
MAX_NAME_WORDS = 6
_MAX_WORD = 60

_LANGUAGES = words_of("programming_languages")
_TOOLS = words_of("tools")
_KNOWN = dict.fromkeys(_LANGUAGES.split(), "language") | dict.fromkeys(_TOOLS.split(), "tool")
_LOWER_CASE_TOO = frozenset(_KNOWN) - {"spring", "express", "yarn", "poetry", "excel", "zoom", "helm",
"spark", "sentry", "prefect",
                                       "rust", "chroma", "apache", "prettier", "react", "celery", "caddy",
                                       "julia", "dart", "java", "claude"}  # fmt: skip

_NOT_NAMES = word_set(words_of("not_names"))
_PRONOUNS = word_set(words_of("pronouns"))
_JOINERS = frozenset({"of", "de", "da", "do", "dos", "del", "la", "van", "von", "der", "den", "&"})
_ORGANIZATION = re.compile(
    r"\b(?:Inc|Ltd|GmbH|LLC|Corp|Corporation|Company|Labs?|Analytics|Systems|Studios?|Group|Bank"
    r"|University|College|School|Hospital|Institute"
    r"|Foundation|Association|Agency|Technologies|Solutions|Partners|Maps|Airlines|Club|Clinic|Council"
    r"|Department|Society)\b"
)
_PLACE = re.compile(
    r"\b(?:Street|Avenue|Road|Park|Beach|Lake|Mount|Mountains?|River|Island|City|County|Valley|Canyon"
    r"|Square|Museum|Airport)\b"
)
_LIKE_A_VALUE = re.compile(r"^[\W\d_]+$|^\d+(?:[.:/-]\d+)+\w*$|^v?\d+(?:\.\d+)+$")
_PRIVATE = re.compile(
    r"@\w|://|www\.|\[REDACTED|^[/~.]{0,2}/|\\|^[\w.-]+\.(?:py|js|ts|tsx|json|yaml|yml|toml|md|txt|env"
    r"|html|css|sh|ini|cfg|log)$"
)
_TOKEN = re.compile(r"(?<![\w/=\\@.])[^\W_](?:[\w&+#]|[.’'-](?=[^\W_])(?!s\b))*+(?!://)")
_GIVEN_NAMES = word_set(words_of("given_names"))


@dataclass(frozen=True, slots=True)
class Name:
    """A named thing where it stands in a sentence."""

    text: str
    start: int
    end: int
    is_known: bool = False


def type_of(name: str, fallback: str = "concept") -> str:
    """The type of a name by the name alone (S2-02)."""
    known = _KNOWN.get(name.lower())
    if known:
        return known
    if _ORGANIZATION.search(name):
        return "organization"
    return "place" if _PLACE.search(name) else fallback


def is_usable(name: str) -> bool:
    """Whether a name may become an entity: three characters or more, no pronoun, no path, address, number (S2-19).

    Two are enough in scripts in which a character is a syllable or a word: 周凯, むぎ, 민수.
    """
    plain = normalise_name(name)
    least = MIN_NAME_CHARS - 1 if SYLLABIC.search(plain) else MIN_NAME_CHARS
    if len(plain) < least or len(plain) > 80 or len(plain.split()) > MAX_NAME_WORDS:
        return False
    return plain not in _PRONOUNS and not _LIKE_A_VALUE.match(plain) and not _PRIVATE.search(name)


def is_pronoun(word: str) -> bool:
    """Whether a word is a pronoun."""
    return word.lower() in _PRONOUNS


def spot(sentence: str, known: Collection[str] = ()) -> list[Name]:
    """The names in a sentence, in order: known tools, and runs of capitalised words, with joiners ("of") between them.

    A lone word at the beginning must be a given name, in the possessive, or among `known` (lower-cased names).
    """
    found: list[Name] = []
    run: list[re.Match[str]] = []
    for word in [*_TOKEN.finditer(sentence), None]:
        lower = word.group().lower() if word else ""
        is_tool = lower in _LOWER_CASE_TOO or (lower in _KNOWN and word is not None and word.start() > 0)
        is_near = bool(run) and word is not None and sentence[run[-1].end() : word.start()] == " "
        if word and is_near and (_is_capitalised(word) or word.group() in _JOINERS) and not is_tool:
            run.append(word)
            continue
        while run and run[-1].group() in _JOINERS:
            run.pop()
        if run and (name := _name_of(sentence, run[:MAX_NAME_WORDS], known)):
            found.append(name)
        run = [word] if word and not is_tool and _is_capitalised(word) else []
        if word and is_tool and (lower in _LOWER_CASE_TOO or word.group()[0].isupper()):
            found.append(Name(word.group(), word.start(), word.end(), True))
    return found


def _name_of(sentence: str, run: list[re.Match[str]], known: Collection[str]) -> Name | None:
    start, end = run[0].start(), run[-1].end()
    text, is_owned = sentence[start:end], sentence[end : end + 2] in ("'s", "’s")
    is_sure = not _opens(sentence[:start]) or len(run) > 1 or is_owned or text.lower() in known or is_given_name(text)
    return Name(text, start, end) if is_sure and is_usable(text) else None


def is_given_name(word: str) -> bool:
    """Whether a capitalised word is a common given name, with or without its accents: who has one is a person."""
    return word[:1].isupper() and plain_letters(word).lower() in _GIVEN_NAMES


def _is_capitalised(word: re.Match[str]) -> bool:
    """Whether a word has the form of a name: a capital first, no function word, no lone acronym."""
    text = word.group()
    if not text[0].isupper() or len(text) > _MAX_WORD or text.lower().replace("’", "'") in _NOT_NAMES:
        return False
    return not _PRIVATE.search(text)


Standing = Literal["name", "noun", "bare", "unseen"]
"""The form of a name in a text: a name; a noun, after an article or at the start of a sentence; a bare word in lower
case, without a sign before it; or absent."""

_TECHNICAL = frozenset({"tool", "language", "file", "config", "project", "organization", "session"})
_LEARNED = _TECHNICAL | {"place", "event"}
_SPEAKERS = word_set("user assistant system")
_DETERMINERS = word_set(words_of("determiners"))
_BARE_PLACES = word_set(words_of("places_without_names"))
_TIME = re.compile(
    r"^(?:(?:last|next|this|every|early|late|mid|the)[\s-])*(?:mon|tues?|wednes|thurs?|fri|satur|sun)days?$"
    rf"|^(?:(?:last|next|this|every|early|late|mid)[\s-])*(?:{MONTH_NAME})(?:\s\d{{1,2}}(?:st|nd|rd|th)?)?(?:,?\s\d{{4}})?$"
    rf"|^\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{MONTH_NAME})(?:,?\s\d{{4}})?$"
    r"|^(?:(?:last|next|this|every|the)\s)*(?:today|tomorrow|yesterday|tonight|(?:week|month|year|morning|evening"
    r"|afternoon|night|weekend|spring|summer|autumn|fall|winter|day)s?)(?:\s(?:ago|before|after|later|\d{4}))?$"
    r"|^(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo|hoy|ayer|mañana)$",
)
_AMOUNT = re.compile(
    r"^(?:about|around|over|under|almost|nearly|at least|up to|approximately)?\s*"
    r"[$€£~]?\s*\d[\d.,:/]*\s*(?:%|[a-z$€£]+)?"
    r"(?:\s(?:[a-z]+)){0,2}$"
)
_NUMBER_FIRST = re.compile(
    r"^(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|several|many|few)\s[a-z]"
)
_ADDRESS = re.compile(r"@[\w-]+\.|://|www\.")
_MADE = re.compile(r"[\w](?:[._/+#\d-])[\w+#]|\d|[a-z][A-Z]|[+#]$")
_WORD = re.compile(r"[^\W_][\w'’+#.-]*")
_SMALL = word_set("of the and for in on at to a an de la el los del y von van der & with from by")
_ABSTRACT = re.compile(r"(?:ings?|tions?|ments?|ness|ities|ity|isms?|ances?|ences?|ships?|hood)$")
_CACHE = 16_384


def is_entity(name: str, entity_type: str, texts: Iterable[str] = (), *, is_document: bool = False) -> bool:
    """Whether a name may be an entity, judged by its form in the source texts.

    Named things are entities, and so are people and animals with an identity (`read_kin`). Common nouns, activities,
    qualities, groups, values, dates, addresses and pronouns are not. In a document a name with a type counts in any
    case of letters.
    """
    plain = normalise_name(name)
    if plain in _SPEAKERS or plain.removeprefix("the ") in _SPEAKERS or plain.startswith("speaker "):
        return True
    if not plain or is_pronoun(plain) or _ADDRESS.search(plain) or _TIME.match(plain):
        return False
    if read_kin(name) is not None:
        return True
    if not is_usable(name) and entity_type not in _TECHNICAL:
        return False
    if _AMOUNT.match(plain) and not name[:1].isupper():
        return entity_type in _TECHNICAL and _MADE.search(name) is not None and is_document
    if _NUMBER_FIRST.match(name):
        return False
    if type_of(name) in ("tool", "language") or (is_document and entity_type in _LEARNED):
        return True
    return _is_named(name, entity_type, texts)


def has_value(name: str, object: str | None, texts: Iterable[str]) -> bool:
    """Whether the texts give a value to a known thing: "the deadline is 9 November", "our rate limit is 100".

    Such a thing has an identity, because its value may change.
    """
    plain = normalise_name(object or "")
    if not plain or is_pronoun(name) or not (_AMOUNT.match(plain) or _TIME.match(plain)):
        return False
    definite = re.compile(rf"\b(?:the|our|my|el|la|mi|nuestr[oa])\s+{re.escape(name)}\b", re.IGNORECASE)
    return how_it_stands(name, texts) == "name" or any(definite.search(text) for text in texts)


def _is_named(name: str, entity_type: str, texts: Iterable[str]) -> bool:
    standing, words = how_it_stands(name, texts), name.split()
    if standing == "name":
        return not (entity_type == "person" and len(words) == 1 and is_role(name.strip()))
    if entity_type in _TECHNICAL and _MADE.search(name):
        return True
    telling, last = _telling(name), words[-1].lower()
    if standing == "noun" or not telling or is_role(last) or last in _BARE_PLACES:
        return False
    if entity_type in _TECHNICAL:
        return not _ABSTRACT.search(name) and not (entity_type == "organization" and last.endswith("s"))
    if standing == "unseen":
        return all(not word[0].islower() for word in telling)
    return entity_type in ("person", "place") and len(words) <= 3


def _telling(words: str) -> list[str]:
    return [word for word in _WORD.findall(words) if word.lower() not in _SMALL]


def how_it_stands(name: str, texts: Iterable[str]) -> Standing:
    """The form of a name in these texts; one place where it is surely a name is enough."""
    found: set[Standing] = {"unseen", *(standing for text in texts for standing in _places(name, text))}
    return min(found, key=get_args(Standing).index)


def _places(name: str, text: str) -> set[Standing]:
    """The forms of a name at its places in a text."""
    found: set[Standing] = set()
    words = name.split()
    if not words or words[0].lower() not in text.lower():
        return found
    for place in _pattern(name).finditer(text):
        here, before = place.group(), text[max(place.start() - 40, 0) : place.start()]
        telling = _telling(here)
        has_capitals = bool(telling) and all(not word[0].islower() for word in telling) and not text.isupper()
        if has_capitals and (not _opens(before) or len(telling) > 1 or _MADE.search(here)):
            found.add("name")
        elif _DETERMINERS.intersection(before.lower().split()[-1:]) or _ABSTRACT.search(here):
            found.add("noun")
        else:
            found.add("bare")
    return found


@lru_cache(_CACHE)
def _pattern(name: str) -> re.Pattern[str]:
    words = r"\s+".join(re.escape(word) for word in name.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _opens(before: str) -> bool:
    """Whether the next word has a capital because it begins a sentence or a line."""
    bare = before.rstrip(" \t\"'“‘„(*_#>|-•")
    return not bare or bare[-1] in ".!?:\n…¡¿"
