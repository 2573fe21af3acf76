"""Which names a text says, word for word."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from slowwave.merging.guard_words import FUNCTION_WORDS
from slowwave.text import normalise_name

_WORD = re.compile(r"\w+", re.UNICODE)
LONGEST = 8  # words of a name that is looked for


def words_of(name: str) -> tuple[str, ...]:
    """The words by which a name is looked for: normalised, without marks between them."""
    return tuple(_WORD.findall(normalise_name(name)))


def named_in(text: str, names: Mapping[tuple[str, ...], Collection[str]]) -> list[str]:
    """What the names in a text stand for, in order, each once; `names` are words (`words_of`) → ids.

    Of names that begin at one word the longest counts, and no word counts twice: "Anna Lee" does not name Anna.
    """
    said = words_of(text)
    found: dict[str, None] = {}
    start = 0
    while start < len(said):
        lengths = range(min(LONGEST, len(said) - start), 0, -1)
        length = next((n for n in lengths if said[start : start + n] in names), 0)
        found |= dict.fromkeys(names.get(said[start : start + length], ()))
        start += length or 1
    return list(found)


def entities_named(text: str, names: Mapping[str, str]) -> set[str]:
    """Ids of the entities that a text names, by their whole name or its first word; `names` are id → name.

    A first word counts where the text spells it as the name does, with a capital: "Anna" for Anna Lee, no "new" for
    New York.
    """
    by_words: dict[tuple[str, ...], set[str]] = {}
    spelt = {*_WORD.findall(text)}
    for id_, name in names.items():
        words, first = words_of(name), next(iter(_WORD.findall(name)), "")
        by_words.setdefault(words, set()).add(id_)
        if len(words) > 1 and first in spelt and first[0].isupper() and first.lower() not in FUNCTION_WORDS:
            by_words.setdefault(words[:1], set()).add(id_)
    return set(named_in(text, by_words))
