"""Labels: the words of types and relations, English in the store and in sofia's Spanish, both understood (C8).

And how wide a place is, by its name.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from slowwave.common.text import normalise_name

from . import table_of, words_of

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


# How wide a place is: a person lives in a country and in a town of it at the same time. A place without an entry may be
# a quarter, a suburb or a village of another place.


TOWN, REGION, COUNTRY, CONTINENT = 0, 1, 2, 3

_CONTINENTS = words_of("continents")
_COUNTRIES = words_of("countries")
_REGIONS = words_of("regions")
# Large towns far from each other, none a part of another.
_TOWNS = words_of("towns")


def _groups(names: str) -> list[list[str]]:
    """The names of each place of a list; "=" separates names of one place."""
    return [[normalise_name(name) for name in place.split("=")] for place in names.split("|")]


_LISTS = ((TOWN, _TOWNS), (REGION, _REGIONS), (COUNTRY, _COUNTRIES), (CONTINENT, _CONTINENTS))
_LEVELS = {name: level for level, names in _LISTS for place in _groups(names) for name in place}
_REGION_NAMES = frozenset(name for place in _groups(_REGIONS) for name in place)
# The first name of each town and country, without countries that share the name of a region.
_KNOWN = {
    name: (level, place[0])
    for level, names in ((TOWN, _TOWNS), (COUNTRY, _COUNTRIES))
    for place in _groups(names)
    for name in place
    if name not in _REGION_NAMES
}
_SIDES = tuple(f"{side} " for side in "northern southern eastern western central north south east west upstate".split())


def level_of(name: str) -> int:
    """TOWN, REGION, COUNTRY or CONTINENT; an unlisted place counts as a town, part of a country as a region."""
    known = normalise_name(name).removeprefix("the ")
    if known in _LEVELS:
        return _LEVELS[known]
    side = next((side for side in _SIDES if known.startswith(side)), "")
    return REGION if side and known.removeprefix(side) in _LEVELS else TOWN


def is_listed(name: str) -> bool:
    """Whether a list has the place."""
    return normalise_name(name).removeprefix("the ") in _LEVELS


def are_apart(a: str, b: str) -> bool:
    """Whether the names are two known towns or two known countries; regions overlap (the East Coast, Vermont)."""
    one, other = (_KNOWN.get(normalise_name(name).removeprefix("the ")) for name in (a, b))
    return one is not None and other is not None and one[0] == other[0] and one[1] != other[1]
