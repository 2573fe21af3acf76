"""The common form of all exports: entities, claims about them, and their source texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.labels import canonical_type, label_key
from slowwave.common.text import digest, normalise_name, readable
from slowwave.common.timestamps import parse_time
from slowwave.reading.ingestion.transcripts import display_name, first, label

Loss = Literal["broken", "gone", "endless", "adjusted"]
"""Why an item is not taken unchanged: unreadable, deleted in its system, an end missing in the file, or repaired."""

_RECENT = 8
ENTITIES: frames.Schema = {
    "place": pl.String(),
    "name": pl.String(),
    "entity_type": pl.String(),
    "known_type": pl.String(),
    "summary": pl.String(),
    "aliases": frames.TEXTS,
    "seen_at": frames.TIME,
}
CLAIMS: frames.Schema = {
    "place": pl.String(),
    "key": pl.String(),
    "kind": pl.String(),
    "subject": pl.String(),
    "relation": pl.String(),
    "object": pl.String(),
    "statement": pl.String(),
    "role": pl.String(),
    "confidence": pl.Float64(),
    "valid_from": frames.TIME,
    "valid_to": frames.TIME,
    "stated_at": frames.TIME,
    "group": pl.String(),
    "episodes": frames.TEXTS,
}
EPISODES: frames.Schema = {
    "place": pl.String(),
    "key": pl.String(),
    "text": pl.String(),
    "stated_at": frames.TIME,
    "group": pl.String(),
}


@dataclass(frozen=True, slots=True)
class Skipped:
    """One item that is not taken unchanged: its place in the file, the reason, and the kind of loss."""

    place: str
    reason: str
    loss: Loss = "broken"


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """The content of an export.

    `entities` (ENTITIES) are its listed entities, `claims` (CLAIMS) the claims about them, `episodes` (EPISODES) the
    source texts of claims. `entity_type` is the word of the system, `known_type` our type, null if we have none. Of a
    claim `valid_to` is the time from which it no longer holds, `stated_at` its last change in the system; times are
    null if the export has none. `key` is the key of the item in its system, or a digest.
    """

    format: str
    entities: pl.DataFrame
    claims: pl.DataFrame
    episodes: pl.DataFrame
    skipped: tuple[Skipped, ...] = ()


@dataclass(slots=True)
class Drafts:
    """The rows of a parser."""

    entities: list[Mapping[str, Any]] = field(default_factory=list)
    claims: list[Mapping[str, Any]] = field(default_factory=list)
    episodes: list[Mapping[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def claim(
        self, place: str, subject: str, target: str | None, relation: str, statement: str = "", key: str = "",
        **more: Any,
    ) -> None:  # fmt: skip
        """Note a claim: an observation, or with a target a relation, which may have no sentence of its own."""
        says = statement or relation_sentence(subject, relation, target or subject)
        ends = [normalise_name(end) for end in (subject, target or "")]
        own = (ends[0], statement) if target is None else (ends[0], relation, ends[1])
        self.claims.append(
            {
                "place": place, "key": key or digest(*own, size=8),
                "kind": "observation" if target is None else "relation", "subject": subject, "relation": relation,
                "object": target, "statement": says, **more,
            }
        )  # fmt: skip

    def skip(self, place: str, reason: str, loss: Loss = "broken") -> None:
        """Note an item that is not taken unchanged; repeated notes on one field count once."""
        note = Skipped(place, reason, loss)
        if note not in self.skipped[-_RECENT:]:
            self.skipped.append(note)

    def foreign(self, format: str, before: Iterable[Skipped] = ()) -> Foreign:
        """Everything in frames; `before` are items that the reader of the file skipped."""
        entities, claims = _frame(self.entities, ENTITIES), _frame(self.claims, CLAIMS)
        return Foreign(format, entities, claims, _frame(self.episodes, EPISODES), (*before, *self.skipped))


def _frame(rows: Sequence[Mapping[str, Any]], schema: frames.Schema) -> pl.DataFrame:
    """A frame of the schema from rows with times in microseconds since 1970 UTC; missing values are null."""
    columns = {
        name: pl.Series(name, [row.get(name) for row in rows], dtype=pl.Int64() if kind == frames.TIME else kind)
        for name, kind in schema.items()
    }
    return frames.conform(pl.DataFrame(columns), schema)


# Our types for the words of other systems; an unknown word is no reason to refuse a name.


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
_WITH_PROPER_NAMES = frozenset({"person", "organization", "place", "event"})


def type_of(word: str | None) -> str | None:
    """Our type for the word of another system; None without one: such things become concepts."""
    if not word:
        return None
    return canonical_type(word) or _TYPE_OF.get(label_key(word))


Item = Mapping[str, Any]

_JOINED = re.compile(r"[^\W_]+(?:_[^\W_]+)+", re.UNICODE)
_OWNER = re.compile(r"^(?:user|agent|run)_id:[_ ]*", re.IGNORECASE)


def text_of(item: Item, *names: str) -> str:
    """The first of these fields with words, on one line; empty without one."""
    found = next((item[name] for name in names if isinstance(item.get(name), str) and item[name].strip()), "")
    return " ".join(readable(found).split())


def name_of(item: Item, *names: str) -> str:
    """The name in the first of these fields with a value; of an address only the name of the person."""
    return display_name(_OWNER.sub("", label(first(dict(item), names)) or ""))


def key_of(drafts: Drafts, place: str, item: Item, *names: str) -> str:
    """A name or identifier, empty without one; a value that is neither text nor number is noted."""
    given = label(first(dict(item), names))
    if given is None:
        drafts.skip(place, f"its {names[0]} is neither a text nor a number", "adjusted")
    return given or ""


def texts_of(drafts: Drafts, place: str, item: Item, name: str) -> list[str]:
    """The texts of a list; other values are left out and noted."""
    given = item.get(name)
    if given is None:
        return []
    found = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    if not isinstance(given, list) or len(found) < len(given):
        drafts.skip(place, f"its {name} are no list of texts", "adjusted")
    return found


def moment_of(drafts: Drafts, place: str, item: Item, *names: str) -> int | None:
    """Microseconds since 1970 UTC of the first of these fields with a time; values that are no time are noted."""
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
    """(place, item) of the lists with these names in an object."""
    if not isinstance(value, Mapping):
        return []
    return [
        (f"{name}[{number}]", item)
        for name in names
        if isinstance(value.get(name), list)
        for number, item in enumerate(value[name])
    ]


def entity(place: str, name: str, word: str | None, *, spaced: bool = False, **more: Any) -> dict[str, Any]:
    """A row of ENTITIES; `Ana_Ruiz` becomes Ana Ruiz in a type with proper names, or in any type if `spaced`."""
    kind = type_of(word)
    own = called(name, kind, spaced=spaced)
    other = name if own != name else name.replace("_", " ")
    is_joined = _JOINED.fullmatch(name) is not None
    aliases = [other] if is_joined else []
    return {"place": place, "name": own, "entity_type": word, "known_type": kind, "aliases": aliases, **more}


def called(name: str, kind: str | None, *, spaced: bool = False) -> str:
    """The name of a thing of our type `kind`: `Ana_Ruiz` becomes Ana Ruiz, `user_service` stays."""
    is_joined = _JOINED.fullmatch(name) is not None
    return name.replace("_", " ") if is_joined and (spaced or kind in _WITH_PROPER_NAMES) else name


def relation_sentence(subject: str, relation: str, target: str) -> str:
    """A sentence for a relation without one."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation).replace("_", " ").strip().lower()
    return " ".join(f"{subject} {words} {target}".split())
