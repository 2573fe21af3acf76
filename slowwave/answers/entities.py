"""Entities and the groups that they form, as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Entity:
    """One named thing as a person sees it; `facts` counts the live facts it takes part in."""

    id: str
    name: str
    entity_type: str
    summary: str | None
    aliases: tuple[str, ...]
    facts: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """An entity that a query may mean; the score is 0 to 1: of words beside the best match, of meaning the cosine."""

    id: str
    name: str
    entity_type: str
    summary: str | None
    score: float
    found_by: Literal["words", "meaning"]

    def as_json(self) -> dict[str, Any]:
        """As it is shown."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RankedEntity:
    """An entity that a query may mean; `parts` say how its score came about: base × its factors."""

    id: str
    name: str
    entity_type: str
    summary: str | None
    status: str | None
    score: float
    cosine: float | None
    parts: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """As it is shown."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Member:
    """One entity of a community."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that are more related to each other than to others, most connected first, then those that joined.

    `facts` counts the relations within, `aspects` how many of them touch which aspect, both as of the last refresh. The
    summary is empty where nobody has told it yet, and where it `is_outdated`: a fact that it was told from no longer
    holds. `summarised_by` is `model` or `rule`.
    """

    id: str
    name: str
    summary: str
    summarised_by: str
    is_outdated: bool
    size: int
    facts: int
    aspects: dict[str, int]
    members: tuple[Member, ...]

    def as_json(self) -> dict[str, Any]:
        """One document."""
        return asdict(self)
