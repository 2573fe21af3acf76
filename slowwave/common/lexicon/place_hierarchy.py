"""How wide a place is: a person lives in a country and in a town of it at the same time.

A place without an entry may be a quarter, a suburb or a village of another place.
"""

from __future__ import annotations

from slowwave.common.text import normalise_name

from . import words_of

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
