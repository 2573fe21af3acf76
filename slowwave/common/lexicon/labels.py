"""Labels: the words of types and relations, English in the store and in sofia's Spanish, both understood (C8)."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from . import table_of

Locale = Literal["en", "es"]
"""The language of shown types and relations; the words of both are always understood."""
DATED = (
    r"^scheduled_for$|(?:^|_)(?:wedding|release|launch|roll_out|rollout|start|end|due|exam|appointment|meeting|party|trip"
    r"|move|opening|delivery|surgery|interview)_date$"
)
"""A pattern of relations whose object is the day of an event; each has one at a time."""
SAID, NOTED, OBSERVED = "said", "noted", "observed"
"""The relations of bare sentences: somebody said it, a document has it, it was observed of an entity."""
UNRELATED = frozenset({SAID, NOTED, OBSERVED})

_TYPES = table_of("types")
"""Each type with its other words; the first one is sofia's."""
_RELATIONS = table_of("relations")
"""Each relation of the default ontology with its Spanish words; the first one is shown (S0-15)."""
_BETWEEN = re.compile(r"[\s_-]+")


def label_key(word: str) -> str:
    """A word in the form for comparison: lower case, without accents, its parts joined by `_`."""
    letters = unicodedata.normalize("NFKD", word).casefold()
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return _BETWEEN.sub("_", bare).strip("_")


TYPES: tuple[str, ...] = tuple(_TYPES)
"""The stored types of entities."""
_TYPE_OF = {label_key(word): name for name, words in _TYPES.items() for word in (name, *words.split())}
_RELATION_OF = {label_key(word): name for name, words in _RELATIONS.items() for word in (name, *words.split())}
_SHOWN_TYPES = {name: label_key(words.split()[0]).capitalize() for name, words in _TYPES.items()}
_SHOWN_RELATIONS = {name: label_key(words.split()[0]) for name, words in _RELATIONS.items()}


def canonical_type(word: str) -> str | None:
    """The type of a word in either language, in any case, with or without accents; None for an unknown word."""
    return _TYPE_OF.get(label_key(word))


def canonical_relation(word: str) -> str:
    """The relation of the default ontology for its name or a Spanish word for it; other words stay unchanged.

    For what people ask for. Relations that are read have more words, learned ones among them: see `canonicalise` and
    `known_relation` in `slowwave/facts/revision/predicates`.
    """
    return _RELATION_OF.get(label_key(word), word)


def relation_forms(canonical: str) -> tuple[str, ...]:
    """The Spanish words of a relation, each with accents and without."""
    words = _RELATIONS.get(canonical, "").split()
    return tuple(dict.fromkeys(form for word in words for form in (word, label_key(word))))


def shown_type(type: str, locale: Locale) -> str:
    """The shown form of a stored type: `session`, or `Sesion` as in sofia; an unknown type stays unchanged."""
    return _SHOWN_TYPES.get(type, type) if locale == "es" else type


DENIAL = re.compile(r"^(?:(?:does|do|did|is|was|has)_not|not|no_longer|stopped)_")
"""How a relation begins that denies another one."""
_AVERSE = frozenset({"dislikes", "hates", "avoids"})


def is_denial(relation: str) -> bool:
    """Whether a relation denies by itself: of "does not eat" and "dislikes" a negated fact says the same."""
    return relation in _AVERSE or DENIAL.match(relation) is not None


def shown_relation(relation: str, locale: Locale) -> str:
    """The shown form of a stored relation: `part_of` or `parte_de`; an unknown one stays unchanged."""
    return _SHOWN_RELATIONS.get(relation, relation) if locale == "es" else relation
