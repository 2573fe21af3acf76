"""Whether two names are spellings of one, or one is short for the other.

Names are compared in ASCII (other scripts are transliterated), without titles and company forms. Different numbers
always mean two things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from anyascii import anyascii
from rapidfuzz.distance import OSA

from slowwave.common.lexicon import table_of, words_of
from slowwave.common.lexicon.labels import TYPES
from slowwave.common.text import word_set

TITLES = word_set(words_of("titles_of_people"))
"""Titles before a name; in ASCII, without full stops."""
SUFFIXES = word_set("jr sr ii iii iv phd md esq mba msc bsc")
PARTICLES = word_set(words_of("particles_of_names"))
"""Small words inside a name that do not distinguish names."""

COMPANY_FORMS = {
    tuple(form.split()): kind for kind, forms in table_of("company_forms").items() for form in forms.split(", ")
}
"""Each spelling of a company form, as words in ASCII, with the form."""
LONGEST_FORM = max(map(len, COMPANY_FORMS))

SPELLINGS = table_of("other_spellings_in_names")
"""Another way to write a word, with the usual one."""


_LONG_WORD, _LONG_NAME = 6, 11  # a word and a name of this many letters may have one wrong
_THINGS = frozenset(TYPES) - {"person"}
_QUALIFIER = re.compile(r"\(([^()]+)\)\s*$")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_SIGN = re.compile(r"[+#]")
_CACHE = 65_536
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ][a-zà-ÿ])")
_INITIALS = re.compile(r"\b(?:[a-z]\.\s?){2,}|\b[a-z](?:\.[a-z])+\b")
_WORD = re.compile(r"[a-z0-9]+")
_AND = frozenset({"and", "und", "et", "y"})
UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
_SPELT_OUT = str.maketrans(UMLAUTS)


@dataclass(frozen=True, slots=True)
class NameParts:
    """A name for comparison: its words in ASCII, its company form, and all its words as one."""

    words: tuple[str, ...]
    form: str
    glued: str
    is_person: bool
    is_titled: bool = False

    @property
    def joined(self) -> str:
        """The words as one."""
        return "".join(self.words)


def is_one_name(a: str, b: str, entity_type: str = "person") -> bool:
    """Whether two names of things of this type are surely spellings of one; symmetric.

    They have the same words in another script or punctuation, with or without a title or company form; in a person's
    long name the last name may have one wrong letter.
    """
    if must_differ(a, b):
        return False
    are_signs = all(SIGNS.fullmatch(ADDRESS.sub("", each)) for each in (a, b))
    if are_signs and ADDRESS.sub("", a) != ADDRESS.sub("", b):  # they only sound alike: 王芳 and 王方
        return False
    pairs = dict.fromkeys(((a, b), (a.translate(_SPELT_OUT), b.translate(_SPELT_OUT))))  # "Müller", "Mueller"
    is_person = entity_type not in _THINGS
    return any(_are_alike(*(name_parts(name, is_person=is_person) for name in pair)) for pair in pairs)


def must_differ(name: str, other: str) -> bool:
    """Whether two names differ on purpose: another number, sign ("C++") or closing parenthesis."""
    return _marks(name) != _marks(other)


def _marks(name: str) -> tuple[list[str], list[str], str]:
    qualifier = _QUALIFIER.search(name.lower())
    return sorted(_NUMBER.findall(name)), _SIGN.findall(name), qualifier[1].strip() if qualifier else ""


def _are_alike(a: NameParts, b: NameParts) -> bool:
    if not a.words or not b.words:
        return a == b
    if a.form and b.form and a.form != b.form:
        return False
    if a.glued == b.glued or a.joined == b.joined:
        return True
    *first, one = a.words
    *firsts, two = b.words
    if not a.is_person or not first or first != firsts or min(len(a.joined), len(b.joined)) < _LONG_NAME:
        return False
    return min(len(one), len(two)) >= _LONG_WORD and one[0] == two[0] and OSA.distance(one, two) == 1


@lru_cache(_CACHE)
def name_parts(name: str, *, is_person: bool) -> NameParts:
    """The parts of a name for comparison."""
    bare = ADDRESS.sub("", name) if is_person else name
    spelt = anyascii(_CAMEL.sub(" ", bare.replace("ь", "").replace("ъ", ""))).lower()
    spelt = re.sub(r"(?<=[a-z])['`](?=[a-z])", "", spelt)
    spelt = _INITIALS.sub(lambda found: re.sub(r"[.\s]", "", found.group()) + " ", spelt)
    if is_person and "," in spelt:  # "Frost, William W."
        last, _, rest = spelt.partition(",")
        spelt = f"{rest} {last}"
    words = [SPELLINGS.get(word, word) for word in _WORD.findall(spelt)]
    words, form = _without_form(words)
    words = [word for word in words if word not in _AND]
    kept = [word for word in words if word not in PARTICLES] or words
    kept = _without_titles(kept) if is_person else [word for word in kept if word not in ("of", "for")] or kept
    is_titled = is_person and len(words) > 1 and words[0] in TITLES
    return NameParts(tuple(dict.fromkeys(kept)), form, "".join(words), is_person, is_titled)


def _without_titles(words: list[str]) -> list[str]:
    kept = list(words)
    while len(kept) > 1 and kept[0] in TITLES:
        kept.pop(0)
    while len(kept) > 2 and kept[-1] in SUFFIXES:
        kept.pop()
    return kept


def _without_form(words: list[str]) -> tuple[list[str], str]:
    """(words, form): the words without a company form at either end, and the last form that was removed."""
    for length in range(min(LONGEST_FORM, len(words) - 1), 0, -1):
        for end, rest in ((words[-length:], words[:-length]), (words[:length], words[length:])):
            if kind := COMPANY_FORMS.get(tuple(end)):
                kept, _ = _without_form(rest)
                return kept, kind
    return words, ""


def ascii_words(name: str) -> frozenset[str]:
    """The words of a name in ASCII, initials left out, umlauts in both spellings; of a name in signs also both ends."""
    bare = ADDRESS.sub("", name)
    spelt = " ".join(map(anyascii, (name, bare, name.translate(_SPELT_OUT)))).lower()
    words = frozenset(word for word in _WORD.findall(spelt) if len(word) > 1)
    return words | {bare[:2], bare[-2:]} if SIGNS.fullmatch(bare) else words


@lru_cache(_CACHE)
def short_form(name: str, whole: str) -> bool:
    """Whether one name of a person is the other with words left out or shortened to initials.

    The first name must be there, or a title before the last one: "Anna", "Anna K.", "Ms Keller" of "Anna Maria Keller".
    In Han and Hangul a name at either end is a family name or a given name: "田中さん" of "田中美咲".
    """
    if is_phrase(whole):
        return False
    if all(SIGNS.fullmatch(ADDRESS.sub("", each)) for each in (name, whole)):
        return is_part(name, whole)
    short, long = (name_parts(each, is_person=True) for each in (name, whole))
    if not short.words or len(long.words) < 2 or short.words == long.words or must_differ(name, whole):
        return False
    if len(short.words) == 1 and short.is_titled:
        return short.words[0] == long.words[-1]
    if len(short.words[0]) == 1 and len(short.words) == 1:
        return False
    if not _stands_for(short.words[0], long.words[0]) or len(short.words) > len(long.words):
        return False
    rest = iter(long.words[1:])
    return all(any(_stands_for(word, each) for each in rest) for word in short.words[1:])


def _stands_for(short: str, whole: str) -> bool:
    return short == whole or (len(short) == 1 and whole.startswith(short))


# Names of people in Han and Hangul, which have no space between family name and given name.


JAPANESE_FAMILIES = word_set(words_of("japanese_family_names"))
"""Common family names in Japan; not 小林, which in Chinese is also "little Lin"."""
FAMILIES = frozenset(words_of("family_names_in_signs"))
"""Common family names of one sign in China and Korea: a name of two signs that begins so is often a whole one."""
_HONOURED = "[\u3005\u3041-\u30ff\u3400-\u9fff]"
ADDRESS = re.compile(
    r"(?<=[^\x00-\x7f])[ \u30fb]?(?:さん|さま|くん|ちゃん|せんせい|先生|女士|小姐|씨|님)$"
    rf"|(?:(?<=[\u3041-\u30ff])|(?<={_HONOURED}{{3}}))[ \u30fb]?[君様氏]$"
)
"""Forms of address behind a person's name in Japanese, Chinese and Korean; 君 also ends given names: 王丽君."""
SIGNS = re.compile("[\u3005\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]{2,}")
"""A name in Han or Hangul."""
_JAPANESE = re.compile("[\u3005\u3041-\u3096様]")
_PHRASE = re.compile(
    r"的|(?<=..)之(?![介助丞]|$)|(?:父母|父[亲親]|母[亲親]|丈夫|妻子|老公|老婆|[儿兒]子|女[儿兒]|朋友|同事|家人|([爸妈媽爷爺奶哥姐弟妹])\1)$"
)
"""Signs that make a phrase of a name: "the parents of", "his friend"; 之 is also a part of given names."""
_PART, _WHOLE = 2, 4
_JAPANESE_PART, _JAPANESE_WHOLE = 3, 6
_LONG = 4
_KANA = re.compile("[\u3041-\u3096]+$")


def is_phrase(name: str) -> bool:
    """Whether it speaks of a person by another one: "林晓雯的父母" are the parents of 林晓雯."""
    return bool(_PHRASE.search(name))


def is_part(name: str, whole: str) -> bool:
    """Whether a name in signs, with or without a form of address, is surely the family or given name of another.

    It has two signs and the other at most four; in Japanese three and six. A family name of two signs is Japanese: a
    Japanese form of address shows it, or four signs of the whole name. A given name is the end of the whole and begins
    with no family name: 高明 is not surely short for 李高明.
    """
    part, signs = ADDRESS.sub("", name), ADDRESS.sub("", whole)
    if is_phrase(whole) or not (SIGNS.fullmatch(part) and SIGNS.fullmatch(signs)):
        return False
    is_japanese = bool(_JAPANESE.search(name + whole)) or not JAPANESE_FAMILIES.isdisjoint({signs[:2], signs[:3]})
    longest, longest_whole = (_JAPANESE_PART, _JAPANESE_WHOLE) if is_japanese else (_PART, _WHOLE)
    if len(part) > longest or not len(part) < len(signs) <= longest_whole:
        return False
    is_given = signs.endswith(part) and part[0] not in FAMILIES
    is_family = signs.startswith(part) or signs.endswith(part)
    return is_given or (is_family and (len(signs) >= _LONG or bool(_KANA.search(name))))
