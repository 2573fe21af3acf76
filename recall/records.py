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
class RecalledFact:
    """One fact as it answers a query; `score` orders, `cosine` is the similarity to the query."""

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
    cosine: float = 0.0
    rank: int = 0
    subject_id: str | None = None
    object_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The contract of a fact in `--json`."""
        return {key: value for key, value in asdict(self).items() if key not in _HIDDEN}


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
