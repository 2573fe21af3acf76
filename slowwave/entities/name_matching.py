"""Whether two names can belong to one thing: their words are paired, and differences and leftovers are weighed.

Names are compared in ASCII (other scripts are transliterated), without titles and company forms, in any order of their
parts. `_WEIGHTS` come from a logistic regression over labelled pairs of names; `bench names` measures it. Different
numbers always mean two things.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
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

SHORT_NAMES: dict[str, frozenset[str]] = {}
"""Each short form of a first name with its possible whole names."""
for _group in words_of("short_names").split(";"):
    _whole, _, _short = _group.partition(":")
    for _name in _short.split():
        SHORT_NAMES[_name] = SHORT_NAMES.get(_name, frozenset()) | word_set(_whole)
SAME_NAMES = {name: frozenset(group.split()) for group in words_of("same_names").split(";") for name in group.split()}
"""First names that are the same name in several languages."""

NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80",
    "ninety": "90", "first": "1", "second": "2", "third": "3",
}  # fmt: skip
ROMAN = {numeral: str(n + 2) for n, numeral in enumerate("ii iii iv v vi vii viii ix x xi xii xiii xiv xv".split())}


SAME = 0.5
_WEIGHTS = {
    "bias": 2.9, "edits": -3.3, "swapped": -4.3, "whole": -2.0, "extra_thing": -2.5, "extra_single": -1.0, "forms": -1.6
}  # fmt: skip
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
_DIGITS = re.compile(r"\d+")
UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
_SPELT_OUT = str.maketrans(UMLAUTS)
_PAIRED = 0.45  # two words below this similarity do not match
_GLUED = 0.9
_VOWELS = re.compile(r"(?<!^)[aeiouy]")
_INITIAL, _SHORT = 0.85, 0.92  # the similarity of an initial, and of a short form, to the whole


@dataclass(frozen=True, slots=True)
class NameMatch:
    """The probability, 0 to 1, that two names mean one thing, and whether their spelling makes it sure."""

    score: float
    is_sure: bool = False

    @property
    def is_same(self) -> bool:
        """Whether the pair is likely enough for a question."""
        return self.score >= SAME


@dataclass(frozen=True, slots=True)
class NameParts:
    """A name in the form for comparison: its words in ASCII, its numbers, its company form."""

    words: tuple[str, ...]
    numbers: tuple[str, ...]
    form: str
    particles: tuple[str, ...]
    glued: str
    is_person: bool
    is_titled: bool = False

    @property
    def joined(self) -> str:
        """The words as one."""
        return "".join(self.words)


def match_names(a: str, b: str, entity_type: str = "person") -> NameMatch:
    """Whether two names of things of this type mean one thing; symmetric.

    Spellings of one name are sure: the same words in another script, order or punctuation, with or without a title or
    company form; in a person's long name also one wrong letter in the last name, or a silent one.
    """
    is_person = entity_type not in _THINGS
    first, second = name_parts(a, is_person=is_person), name_parts(b, is_person=is_person)
    if must_differ(a, b) or _surely_differ(first, second):
        return NameMatch(0.0)
    if not first.words or not second.words:
        return NameMatch(float(first == second), first == second)
    values = features(first, second)
    score = _WEIGHTS["bias"] + sum(_WEIGHTS[name] * value for name, value in values.items())
    is_sure = _is_sure(first, second)
    one, other = a.translate(_SPELT_OUT), b.translate(_SPELT_OUT)
    if not is_sure and (one, other) != (a, b):  # "Müller", "Mueller"
        is_sure = _is_sure(name_parts(one, is_person=is_person), name_parts(other, is_person=is_person))
    are_signs = all(SIGNS.fullmatch(ADDRESS.sub("", each)) for each in (a, b))
    if are_signs and ADDRESS.sub("", a) != ADDRESS.sub("", b):  # they only sound alike: 王芳 and 王方
        is_sure = False
    return NameMatch(1.0 / (1.0 + math.exp(-score)), is_sure)


def must_differ(name: str, other: str) -> bool:
    """Whether two names differ on purpose: another number, sign ("C++") or closing parenthesis."""
    return _marks(name) != _marks(other)


def _marks(name: str) -> tuple[list[str], list[str], str]:
    qualifier = _QUALIFIER.search(name.lower())
    return sorted(_NUMBER.findall(name)), _SIGN.findall(name), qualifier[1].strip() if qualifier else ""


def _is_sure(a: NameParts, b: NameParts) -> bool:
    if a.form and b.form and a.form != b.form:
        return False
    if sorted(a.words) == sorted(b.words) or a.glued == b.glued or a.joined == b.joined:
        return True
    if not a.is_person or len(a.words) != len(b.words) or len(a.words) < 2:
        return False
    if min(len(a.joined), len(b.joined)) < _LONG_NAME:
        return False
    unlike = [(place, one, two) for place, (one, two) in enumerate(zip(a.words, b.words, strict=True)) if one != two]
    (place, one, two), *more = unlike
    if more or min(len(one), len(two)) < _LONG_WORD:
        return False
    is_last = place == len(a.words) - 1
    return skeleton(one) == skeleton(two) or (is_last and one[0] == two[0] and OSA.distance(one, two) == 1)


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
    numbers = tuple(sorted(_numbers(words, is_person=is_person)))
    words, form = _without_form(words)
    words = [word for word in words if not _is_number(word, is_person=is_person) and word not in _AND]
    particles = tuple(word for word in words if word in PARTICLES)
    kept = [word for word in words if word not in PARTICLES] or words
    kept = _without_titles(kept) if is_person else [word for word in kept if word not in ("of", "for")] or kept
    is_titled = is_person and len(words) > 1 and words[0] in TITLES
    return NameParts(tuple(dict.fromkeys(kept)), numbers, form, particles, "".join(words), is_person, is_titled)


def _numbers(words: Sequence[str], *, is_person: bool) -> Iterator[str]:
    tens = 0
    for word in words:
        if digits := _DIGITS.findall(word):
            yield from digits
        elif not is_person and word in NUMBER_WORDS:
            value = int(NUMBER_WORDS[word])
            if value >= 20:  # the words of "forty-four" are one number
                tens = value
                continue
            yield str(tens + value)
            tens = 0
        elif not is_person and word in ROMAN:
            yield ROMAN[word]
    if tens:
        yield str(tens)


def _is_number(word: str, *, is_person: bool) -> bool:
    return word.isdigit() or (not is_person and (word in NUMBER_WORDS or word in ROMAN))


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


def _surely_differ(a: NameParts, b: NameParts) -> bool:
    """Whether two names surely differ: by a number, or by the order of father and son."""
    is_descent = "bin" in a.particles and "bin" in b.particles and len(a.words) == len(b.words) > 2
    is_turned = a.words != b.words and sorted(a.words) == sorted(b.words)
    return a.numbers != b.numbers or (is_descent and is_turned)


@lru_cache(_CACHE)
def skeleton(word: str) -> str:
    """The rough sound of a word, equal for spellings of one sound in several languages."""
    for pattern, sound in _SOUNDS:
        word = pattern.sub(sound, word)
    return word


_SOUNDS = tuple(
    (re.compile(pattern), sound)
    for pattern, sound in (
        (r"tsch|tch|tsh", "c"), (r"sch|sh|ch", "c"), (r"zh|dj|dzh", "j"), (r"ph", "f"), (r"kh|gh|ck|q|x", "k"),
        (r"th", "t"), (r"dh", "d"), (r"w", "v"), (r"ou|oo|ow", "u"), (r"ee|ie|ii|iy|yi", "i"),
        (r"[yj](?=[^aeiou]|$)", "i"), (r"c(?=[ei])", "s"), (r"z", "s"), (r"ts", "s"), (r"(?<!^)h(?=[^aeiou]|$)", ""),
        (r"(.)\1+", r"\1"), (r"ae|ai|ei|ay|ey", "e"), (r"i+$", "i"),
    )
)  # fmt: skip


@lru_cache(_CACHE)
def word_similarity(a: str, b: str) -> float:
    """The similarity of two words, 0 to 1: by letters, sounds, initials, short names."""
    if a == b:
        return 1.0
    if len(a) == 1 or len(b) == 1:
        return _INITIAL if a[0] == b[0] else 0.0
    if b in SHORT_NAMES.get(a, ()) or a in SHORT_NAMES.get(b, ()) or b in SAME_NAMES.get(a, ()):
        return _SHORT
    longer = max(len(a), len(b))
    letters = 1 - OSA.distance(a, b) / longer
    one, two = skeleton(a), skeleton(b)
    sounds = 1 - (OSA.distance(one, two) + 0.25) / max(len(one), len(two), 1)
    return max(letters, sounds, 0.8 if _sound_alike(a, b) else 0.0)


def _sound_alike(a: str, b: str) -> bool:
    """Whether two words differ only in vowels."""
    one, two = (_VOWELS.sub("", re.sub(r"^[aeiou]", "a", skeleton(word))) for word in (a, b))
    return one == two and len(one) > 1 and min(len(a), len(b)) > 3


def features(a: NameParts, b: NameParts) -> dict[str, float]:
    """The weighed features, each 0 to 1 and symmetric: different letters in the least similar pair of words, words
    without a counterpart on both sides, the whole names, words of only one name, and different company forms."""
    short, long = sorted((a, b), key=lambda each: (len(each.words), len(each.joined), each.words))
    pairs, left, more = _aligned(*_abbreviated(short.words, long.words))
    glued = _glued(short, long)
    if glued >= _GLUED:
        pairs, left, more = [(short.joined, long.joined, glued)], [], []
    whole = OSA.normalized_similarity("".join(sorted(short.words)), "".join(sorted(long.words)))
    edits = max((_edits(one, two) for one, two, value in pairs if value not in (_INITIAL, _SHORT)), default=0.0)
    return {
        "edits": min(edits, 3.0) / 3,
        "swapped": float(bool(left) and bool(more)),
        "whole": 1 - max(whole, glued),
        "extra_thing": (not a.is_person) * sum(map(len, more)) / len(long.joined),
        "extra_single": float(a.is_person and len(short.words) == 1 and bool(more)),
        "forms": float(bool(a.form) and bool(b.form) and a.form != b.form),
    }


def _edits(a: str, b: str) -> float:
    """The number of different letters or sounds."""
    sounds = OSA.distance(skeleton(a), skeleton(b)) + 0.5
    return min(float(OSA.distance(a, b)), sounds, 1.0 if _sound_alike(a, b) else sounds)


def _glued(a: NameParts, b: NameParts) -> float:
    """Similarity of both names as one word each, if they differ in word breaks: "van der Bilt"."""
    if len(a.words) == len(b.words) and len(a.particles) == len(b.particles):
        return 0.0
    return float(max(OSA.normalized_similarity(a.joined, b.joined), OSA.normalized_similarity(a.glued, b.glued)))


def _abbreviated(short: tuple[str, ...], long: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both names, with words replaced by their abbreviation if the other name has it: "JC", "PLA"."""
    for one, two in ((short, long), (long, short)):
        for word in one:
            for start in range(len(two) - len(word) + 1):
                run = two[start : start + len(word)]
                if len(word) > 1 and word not in two and "".join(each[0] for each in run) == word:
                    cut = (*two[:start], word, *two[start + len(word) :])
                    return (one, cut) if two is long else (cut, one)
    return (short, long) if len(short) <= len(long) else (long, short)


Aligned = tuple[list[tuple[str, str, float]], list[str], list[str]]


@lru_cache(_CACHE)
def _aligned(short: tuple[str, ...], long: tuple[str, ...]) -> Aligned:
    """The best pairing of the words of both, and the words that are left of each."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    grid = np.array([[word_similarity(one, two) for two in long] for one in short])
    rows, columns = linear_sum_assignment(-grid)
    places = [place for place in zip(rows, columns, strict=True) if grid[place] >= _PAIRED]
    pairs = [(short[row], long[column], float(grid[row, column])) for row, column in places]
    left = [word for n, word in enumerate(short) if n not in {row for row, _ in places}]
    more = [word for n, word in enumerate(long) if n not in {column for _, column in places}]
    return pairs, left, more


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
    """Whether a name in signs is surely the family name or the given name of another.

    A family name of two signs is Japanese: a Japanese form of address shows it, or four signs of the whole name. A
    given name is the end of the whole and begins with no family name: 高明 is not surely short for 李高明.
    """
    if not may_be_part(name, whole):
        return False
    part, signs = ADDRESS.sub("", name), ADDRESS.sub("", whole)
    is_given = signs.endswith(part) and part[0] not in FAMILIES
    return is_given or len(signs) >= _LONG or bool(_KANA.search(name))


def may_be_part(name: str, whole: str) -> bool:
    """Whether a name in signs, with or without a form of address, stands at either end of another.

    It has two signs and the other at most four; in Japanese three and six. A longer name is a full name already.
    """
    part, signs = ADDRESS.sub("", name), ADDRESS.sub("", whole)
    if is_phrase(whole) or not (SIGNS.fullmatch(part) and SIGNS.fullmatch(signs)):
        return False
    is_japanese = bool(_JAPANESE.search(name + whole)) or not JAPANESE_FAMILIES.isdisjoint({signs[:2], signs[:3]})
    longest, longest_whole = (_JAPANESE_PART, _JAPANESE_WHOLE) if is_japanese else (_PART, _WHOLE)
    fits = len(part) <= longest and len(part) < len(signs) <= longest_whole
    return fits and (signs.startswith(part) or signs.endswith(part))
