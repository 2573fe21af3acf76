"""In which words results name types and relations (C8); those of both languages are understood on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slowwave.labels import Locale, shown_relation, shown_type

if TYPE_CHECKING:
    from slowwave.answers import RecalledFact

_WORDS: Mapping[str, Callable[[str, Locale], str]] = {
    "entity_type": shown_type,
    "type": shown_type,
    "predicate": shown_relation,
    "relation_type": shown_relation,
}


def worded(document: Any, locale: Locale) -> Any:
    """A document in which types and relations are named as the settings say, wherever they stand in it."""
    if isinstance(document, Mapping):
        return {key: _word(key, value, locale) for key, value in document.items()}
    return [worded(each, locale) for each in document] if isinstance(document, list | tuple) else document


def _word(key: str, value: Any, locale: Locale) -> Any:
    return _WORDS[key](value, locale) if key in _WORDS and isinstance(value, str) else worded(value, locale)


def worded_facts(facts: tuple[RecalledFact, ...], locale: Locale) -> tuple[RecalledFact, ...]:
    """Facts whose relations are named so."""
    return tuple(replace(fact, predicate=shown_relation(fact.predicate or "", locale)) for fact in facts)
