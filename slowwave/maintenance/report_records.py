"""What a consolidation report says: a record for each finding, with a sentence that names the next command (S0-17).

`entity_name` is that by which commands find the entity alone: its name, where others have the same one `name (type)`,
and where that is shared, too, its id. A count of observations is of those of entities that are not archived.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """An entity that holds too much of several topics; `topic_diversity` is its split score, 2 decimals (S0-18).

    `topics` counts those that are no singletons.
    """

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    topic_diversity: float
    topics: int
    recommendation: str


@dataclass(frozen=True, slots=True)
class FlaggedObservation:
    """An observation that looked like another when it came in; the preview is its first 80 characters (S0-19)."""

    id: str
    entity_id: str
    content_preview: str
    content_length: int
    similar_to_id: str | None
    similarity_score: float | None


@dataclass(frozen=True, slots=True)
class FlaggedEntity:
    """The flagged observations of one entity, in order of their ids."""

    entity_id: str
    entity_name: str
    observations: tuple[FlaggedObservation, ...]
    recommendation: str


@dataclass(frozen=True, slots=True)
class StaleEntity:
    """An entity that hardly anybody ever read and nobody lately; no `last_access`: never (S0-20).

    `days_since_access` are whole days. `archival_candidate`: it is also among those of S0-22.
    """

    entity_id: str
    entity_name: str
    entity_type: str
    status: str
    observation_count: int
    created_at: datetime | None
    last_access: datetime | None
    access_count: int
    days_since_access: int | None
    archival_candidate: bool
    recommendation: str


@dataclass(frozen=True, slots=True)
class LargeEntity:
    """An entity near its threshold or beyond it that is no split candidate; `ratio` is count by threshold (S0-21).

    `band` says it in words: approaching, near threshold — monitor, or evaluate for split. `is_distinct`: its topics are
    clearly apart, so that it may be split early (S0-16).
    """

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    ratio: float
    band: str
    topics: int
    is_distinct: bool
    recommendation: str


@dataclass(frozen=True, slots=True)
class ArchivalCandidate:
    """An entity of no importance (0 to 1.38) that was not read for years, and is not pinned (S0-22)."""

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    importance: float
    temporal: float
    last_access: datetime | None
    recommendation: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A live fact that leans on one that no longer holds."""

    id: str
    content: str
    entity_id: str | None
    entity_name: str | None
    suspect_of: str
    leans_on: str
    recommendation: str


@dataclass(frozen=True, slots=True)
class AlikePair:
    """Two observations that look alike, the earlier one first (S0-04)."""

    a_id: str
    a_content: str
    b_id: str
    b_content: str
    similarity_score: float
    containment: float
    match_type: str


@dataclass(frozen=True, slots=True)
class ReviewedEntity:
    """What looks alike in one of the most read entities: how many pairs, and the nearest few of them (S0-28)."""

    entity_id: str
    entity_name: str
    access_count: int
    total_observations: int
    duplicates_found: int
    pairs: tuple[AlikePair, ...]
    recommendation: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a report, whatever of it is shown."""

    total_entities: int
    total_observations: int
    split_candidates_count: int
    flagged_observations_count: int
    stale_entities_count: int
    large_entities_count: int
    archival_candidates_count: int
    suspects_count: int
    pending_proposals_count: int


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """The health of a memory at `generated_at`, as of commit `commit`; nothing was changed to find it (S0-17).

    `duplicates` are those of the `reviewed` most read entities in which anything looks alike.
    """

    commit: int
    generated_at: datetime
    stale_days: float
    summary: Summary
    split_candidates: tuple[SplitCandidate, ...]
    flagged_observations: tuple[FlaggedEntity, ...]
    stale_entities: tuple[StaleEntity, ...]
    large_entities: tuple[LargeEntity, ...]
    archival_candidates: tuple[ArchivalCandidate, ...]
    suspects: tuple[Suspect, ...]
    duplicates: tuple[ReviewedEntity, ...]
    reviewed: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered yet."""
        return not self.summary.total_entities and not self.summary.total_observations

    def as_json(self) -> dict[str, Any]:
        """The report in the names of sofia's `consolidation_report`; times are ISO 8601, flags by name of entity."""
        plain = {name: _plain(getattr(self, name)) for name in ("summary", *SECTIONS)}
        plain["split_candidates"] = [_in_short(each) for each in plain["split_candidates"]]
        flagged = {each["entity_name"]: each["observations"] for each in plain["flagged_observations"]}
        about = {"commit": self.commit, "generated_at": self.generated_at.isoformat(), "stale_days": self.stale_days}
        return {**plain, "flagged_observations": flagged, "reviewed_entities": self.reviewed, **about}


SECTIONS = (
    "split_candidates", "flagged_observations", "stale_entities", "large_entities", "archival_candidates", "suspects",
    "duplicates",
)  # fmt: skip
"""The sections of a report, in the order in which they are shown."""


_SHORT = {"entity_name": "name", "entity_type": "type", "observation_count": "count"}


def _in_short(candidate: dict[str, Any]) -> dict[str, Any]:
    """A split candidate in the names that S0-18 gives its fields."""
    return {_SHORT.get(name, name): value for name, value in candidate.items()}


def _plain(value: Any) -> Any:
    """A record as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value
