"""Common given names: who has one is a person, where the name of a firm or a thing might stand as well."""

from __future__ import annotations

from slowwave.common.text import plain_letters, word_set

from . import words_of

_GIVEN_NAMES = word_set(words_of("given_names"))


def is_given_name(word: str) -> bool:
    """Whether a capitalised word is a common given name, with or without its accents."""
    return word[:1].isupper() and plain_letters(word).lower() in _GIVEN_NAMES
