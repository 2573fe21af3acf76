"""One form for what any memory system exports: entities, claims about them, the texts they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from slowwave import frames

Loss = Literal["broken", "gone", "endless", "adjusted"]
"""Why an item is not taken as it is: unreadable, deleted in its system, an end that is not in the file; or repaired."""

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
    "is_value": pl.Boolean(),
    "statement": pl.String(),
    "search_terms": pl.String(),
    "role": pl.String(),
    "confidence": pl.Float64(),
    "valid_from": frames.TIME,
    "valid_to": frames.TIME,
    "told_at": frames.TIME,
    "group": pl.String(),
    "episodes": frames.TEXTS,
}
EPISODES: frames.Schema = {
    "place": pl.String(),
    "key": pl.String(),
    "text": pl.String(),
    "told_at": frames.TIME,
    "group": pl.String(),
}


@dataclass(frozen=True, slots=True)
class Skipped:
    """One item that is not taken as it is: where it stands in the file, why, and what that means."""

    place: str
    reason: str
    loss: Loss = "broken"


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """The content of an export.

    `entities` (ENTITIES) are those that it lists, `claims` (CLAIMS) what it holds of them, `episodes` (EPISODES) the
    texts that claims name as their source. `entity_type` is the system's own word, `known_type` ours, null where it has
    none. Of a claim `valid_to` is the time from which it no longer holds, `told_at` when the system wrote it last;
    times are null where the export has none. `is_value`: its object is words and names no entity. `key` is what the
    item is known by in its system, or a digest of it.
    """

    format: str
    entities: pl.DataFrame
    claims: pl.DataFrame
    episodes: pl.DataFrame
    skipped: tuple[Skipped, ...] = ()

    @property
    def lists_entities(self) -> bool:
        """Whether its format lists entities, so that one that is missing means something."""
        return self.format != "mem0"


@dataclass(slots=True)
class Drafts:
    """Rows as a parser finds them."""

    entities: list[Mapping[str, Any]] = field(default_factory=list)
    claims: list[Mapping[str, Any]] = field(default_factory=list)
    episodes: list[Mapping[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, place: str, reason: str, loss: Loss = "broken") -> None:
        """Note an item that is not taken as it is; one field may be read more than once."""
        note = Skipped(place, reason, loss)
        if note not in self.skipped[-_RECENT:]:
            self.skipped.append(note)

    def foreign(self, format: str, before: Iterable[Skipped] = ()) -> Foreign:
        """Everything in frames; `before` was skipped when the file was read."""
        entities, claims = _frame(self.entities, ENTITIES), _frame(self.claims, CLAIMS)
        return Foreign(format, entities, claims, _frame(self.episodes, EPISODES), (*before, *self.skipped))


def _frame(rows: Sequence[Mapping[str, Any]], schema: frames.Schema) -> pl.DataFrame:
    """Rows with times in microseconds since 1970 UTC as a frame of the schema, absent values null."""
    columns = {
        name: pl.Series(name, [row.get(name) for row in rows], dtype=pl.Int64() if kind == frames.TIME else kind)
        for name, kind in schema.items()
    }
    return frames.conform(pl.DataFrame(columns), schema)
