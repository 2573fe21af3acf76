"""The names in a sentence, and which names become entities.

Models write titles ("Weight Lifting"), and rules see capitals at the start of sentences. So the form of the words in
the source text counts more than the form in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from slowwave.common.lexicon import words_of
from slowwave.common.lexicon.statement_words import FUNCTION_WORDS
from slowwave.common.text import SYLLABIC, normalise_name, plain_letters, word_set

from .kinship import is_role, kin_of

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


def may_be_a_name(word: str) -> bool:
    """Whether a word may be part of a name: no function word, day, greeting or acronym."""
    return word.lower().replace("’", "'") not in _NOT_NAMES


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
    return text[0].isupper() and len(text) <= _MAX_WORD and may_be_a_name(text) and not _PRIVATE.search(text)


_TECHNICAL = frozenset({"tool", "language", "file", "config", "project", "organization", "session"})
_LEARNED = _TECHNICAL | {"place", "event"}
_SPEAKERS = word_set("user assistant system")
_ADDRESS = re.compile(r"@[\w-]+\.|://|www\.")
_MADE = re.compile(r"[\w](?:[._/+#\d-])[\w+#]|\d|[a-z][A-Z]|[+#]$")
"""The form of a name that somebody made: a sign or a digit inside, or a capital."""


def is_entity(name: str, entity_type: str, texts: Iterable[str] = (), *, is_document: bool = False) -> bool:
    """Whether a name may be an entity: of a named thing, or of a person or animal with an identity (`kin_of`).

    No word of a name begins in lower case but small ones, and it never stands in lower case in the source texts: models
    write titles ("Weight Lifting") where people write nouns. Of a place the form in the answer is enough. In a document
    a name with a type counts in any case of letters. Days, months, values, addresses and pronouns are none.
    """
    plain, is_technical = normalise_name(name), entity_type in _TECHNICAL
    if plain.removeprefix("the ") in _SPEAKERS or plain.startswith("speaker "):
        return True
    if not plain or is_pronoun(plain) or _ADDRESS.search(plain) or not any(map(_tells, name.split())):
        return False
    if kin_of(name) is not None:
        return True
    if not is_usable(name) and not is_technical:
        return False
    if type_of(name) in ("tool", "language") or (is_technical and _MADE.search(name)):
        return True
    if is_document and entity_type in _LEARNED:
        return True
    if any(word[0].islower() for word in name.split() if word not in FUNCTION_WORDS) or is_role(name.strip()):
        return False
    noun = re.compile(rf"(?<!\w){re.escape(name.lower())}(?!\w)")
    return entity_type == "place" or not any(map(noun.search, texts))


def _tells(word: str) -> bool:
    """Whether a word can be part of a name and is no number."""
    return may_be_a_name(word) and any(map(str.isalpha, word))


def _opens(before: str) -> bool:
    """Whether the next word has a capital because it begins a sentence or a line."""
    bare = before.rstrip(" \t\"'“‘„(*_#>|-•")
    return not bare or bare[-1] in ".!?:\n…¡¿"
