"""Single fields of an exported item: names, texts, times, and how likely it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slowwave.intake.foreign.entity_types import has_proper_name, type_of
from slowwave.intake.foreign.records import Drafts
from slowwave.intake.message_fields import display_name, first, label
from slowwave.text import readable
from slowwave.timestamps import parse_time

Item = Mapping[str, Any]

_JOINED = re.compile(r"[^\W_]+(?:_[^\W_]+)+", re.UNICODE)
_OWNER = re.compile(r"^(?:user|agent|run)_id:[_ ]*", re.IGNORECASE)


def text_of(item: Item, *names: str) -> str:
    """The first of these fields that holds words, on one line; empty where none does."""
    found = next((item[name] for name in names if isinstance(item.get(name), str) and item[name].strip()), "")
    return " ".join(readable(found).split())


def name_of(item: Item, *names: str) -> str:
    """The name in the first of these fields that has one: of an address the part that names somebody."""
    return display_name(_OWNER.sub("", label(first(dict(item), names)) or ""))


def key_of(drafts: Drafts, place: str, item: Item, *names: str) -> str:
    """A name or identifier, empty where there is none; what is neither text nor number is noted."""
    given = label(first(dict(item), names))
    if given is None:
        drafts.skip(place, f"its {names[0]} is neither a text nor a number", "adjusted")
    return given or ""


def texts_of(drafts: Drafts, place: str, item: Item, name: str) -> list[str]:
    """The texts of a list; what is no list, and what in it is no text, is left out and noted."""
    given = item.get(name)
    if given is None:
        return []
    found = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    if not isinstance(given, list) or len(found) < len(given):
        drafts.skip(place, f"its {name} are no list of texts", "adjusted")
    return found


def moment_of(drafts: Drafts, place: str, item: Item, *names: str) -> int | None:
    """Microseconds since 1970 UTC in the first of these fields that has a value; one that is no time is noted."""
    for name in names:
        if item.get(name) in (None, ""):
            continue
        try:
            return parse_time(item[name])
        except ValueError:
            drafts.skip(place, f"{name} is not a time that can be read", "adjusted")
    return None


def share_of(item: Item, *names: str) -> float | None:
    """A number from 0 to 1 in one of these fields."""
    for name in names:
        value = item.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
    return None


def items_of(value: object, names: Sequence[str]) -> list[tuple[str, Any]]:
    """(place, item) of the lists that stand under these names in an object."""
    if not isinstance(value, Mapping):
        return []
    return [
        (f"{name}[{number}]", item)
        for name in names
        if isinstance(value.get(name), list)
        for number, item in enumerate(value[name])
    ]


def entity(place: str, name: str, word: str | None, *, spaced: bool = False, **more: Any) -> dict[str, Any]:
    """A row of ENTITIES; `Ana_Ruiz` of a type with proper names, or of any where `spaced`, is called Ana Ruiz."""
    kind = type_of(word)
    own = called(name, kind, spaced=spaced)
    other = name if own != name else name.replace("_", " ")
    is_joined = _JOINED.fullmatch(name) is not None
    aliases = [other] if is_joined else []
    return {"place": place, "name": own, "entity_type": word, "known_type": kind, "aliases": aliases, **more}


def called(name: str, kind: str | None, *, spaced: bool = False) -> str:
    """What a thing of our type `kind` is called."""
    is_joined = _JOINED.fullmatch(name) is not None
    return name.replace("_", " ") if is_joined and (spaced or has_proper_name(kind)) else name


def told(subject: str, relation: str, target: str) -> str:
    """The sentence of a relation that its system has no sentence for."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation).replace("_", " ").strip().lower()
    return " ".join(f"{subject} {words} {target}".split())
