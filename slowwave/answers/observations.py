"""Observations that look alike, and what became of those that were added, as it is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation as it is reviewed; `flag` says that it looked like another when it came in."""

    id: str
    content: str
    flag: bool


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Two observations that look alike, the earlier one first; `one_sentence`: two readings of the same sentence."""

    a: Observation
    b: Observation
    similarity_score: float
    containment: float
    match_type: str
    one_sentence: bool


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """All that looks alike; `pairs` may hold fewer than `duplicates_found`, the nearest ones."""

    entity: str
    entity_id: str
    total_observations: int
    duplicates_found: int
    pairs: tuple[DuplicatePair, ...]
    clusters: tuple[tuple[Observation, ...], ...]

    def as_json(self) -> dict[str, Any]:
        """The contract of `duplicates --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one text: added, known (said before word for word), confirmed, waiting or refused.

    `fact_id` is the new fact, or the one that says the same (known, confirmed); `reason` why it was refused.
    """

    content: str
    outcome: str
    fact_id: str | None = None
    reason: str | None = None
    similarity_flag: bool = False
    similar_to_id: str | None = None
    similarity_score: float | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """What became of the texts, in their order; `is_new`: the entity was made for them; `run` can be undone."""

    entity: str
    entity_id: str
    is_new: bool
    outcomes: tuple[Outcome, ...]
    redacted: int = 0
    run: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many texts ended how."""
        return dict(Counter(each.outcome for each in self.outcomes))
