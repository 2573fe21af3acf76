"""What recall gives back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

_HIDDEN = ("cosine", "rank", "subject_id", "object_id")


@dataclass(frozen=True, slots=True)
class Provenance:
    """One message that supports a fact."""

    conversation_id: str
    message_id: str
    quote: str
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class Mention:
    """Another fact, named with its words."""

    id: str
    statement: str


@dataclass(frozen=True, slots=True)
class RecalledFact:
    """One fact as it answers a query; `score` orders, `cosine` is the similarity to the query.

    `polarity` is affirmed or negated, `suspect_of` a fact that no longer holds and that this one leans on,
    `conflicts_with` facts whose relations seem to contradict it and that nobody has decided about yet (S2-75).
    """

    id: str
    statement: str
    subject: str
    predicate: str
    object: str | None
    score: float
    confidence: float
    status: str
    valid_from: datetime | None
    valid_to: datetime | None
    aspects: tuple[str, ...]
    provenance: tuple[Provenance, ...]
    polarity: str = "affirmed"
    suspect_of: Mention | None = None
    conflicts_with: tuple[Mention, ...] = ()
    cosine: float = 0.0
    rank: int = 0
    subject_id: str | None = None
    object_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The contract of a fact in `--json`; other facts are named by their ids."""
        told = {key: value for key, value in asdict(self).items() if key not in _HIDDEN}
        told["suspect_of"] = self.suspect_of.id if self.suspect_of else None
        told["conflicts_with"] = [other.id for other in self.conflicts_with]
        return told


@dataclass(frozen=True, slots=True)
class Recollection:
    """The facts that answer a query, best first."""

    query: str
    facts: tuple[RecalledFact, ...] = field(default_factory=tuple)
    took_ms: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The contract of `recall --json`."""
        return {
            "query": self.query,
            "facts": [fact.as_json() for fact in self.facts],
            "took_ms": round(self.took_ms, 2),
        }
