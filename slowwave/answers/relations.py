"""What is around an entity, and how two are related, as it is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .facts import RecalledFact


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One entity and how many relations it is away."""

    id: str
    name: str
    entity_type: str
    depth: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The entities that were reached, nearest first, and the facts that lead to them, nearest first."""

    entities: tuple[Neighbour, ...]
    facts: tuple[RecalledFact, ...]

    def as_json(self) -> dict[str, Any]:
        """As it is shown."""
        return {"entities": [asdict(one) for one in self.entities], "facts": [fact.as_json() for fact in self.facts]}


@dataclass(frozen=True, slots=True)
class Path(Neighbourhood):
    """The entities on the way from one to another, and between each two of them the fact that relates them."""
