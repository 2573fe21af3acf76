"""Which of our types another system means by its words for kinds of things; no word is a reason to refuse a name."""

from __future__ import annotations

from collections.abc import Mapping

from slowwave.labels import TYPES, canonical_type, plain

_WORDS: Mapping[str, str] = {
    "person": "user human individual customer client contact employee colleague friend family family_member developer "
    "engineer researcher author character speaker usuario cliente",
    "tool": "software application app library framework database service microservice api package agent assistant bot "
    "product device server component model platform technologies programa aplicacion",
    "concept": "topic idea preference skill fact goal interest requirement procedure term subject pattern "
    "principle method methodology object thing item category",
    "project": "initiative repository repo codebase task proyectos",
    "language": "programming_language",
    "file": "document artifact script notebook documento",
    "config": "setting settings environment environment_variable",
    "organization": "organizacion team department university school institution business startup group equipo",
    "place": "city country region address state town building venue ciudad pais",
    "event": "meeting appointment conference incident milestone trip decision reunion",
    "session": "conversation chat thread",
}
_TYPE_OF = {word: name for name, words in _WORDS.items() for word in words.split()}
_NAMED = frozenset({"person", "organization", "place", "event"})


def type_of(word: str | None) -> str | None:
    """Our type for another system's word; None where it has none of ours: such things are kept as concepts."""
    if not word:
        return None
    return canonical_type(word) or _TYPE_OF.get(plain(word))


def has_proper_name(kind: str | None) -> bool:
    """Whether things of this type are called by words with spaces: `Ana_Ruiz` is Ana Ruiz, `user_service` is itself."""
    return kind in _NAMED


__all__ = ["TYPES", "has_proper_name", "type_of"]
