"""Entities and the groups that they form, as answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from .facts import Plain, RecalledFact


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
class FoundEntity(Plain):
    """An entity that a query may mean; the score is 0 to 1: of words beside the best match, of meaning the cosine."""

    id: str
    name: str
    entity_type: str
    summary: str | None
    score: float
    found_by: Literal["words", "meaning"]


@dataclass(frozen=True, slots=True)
class RankedEntity(Plain):
    """An entity that a query may mean; `parts` say how its score came about: base × its factors."""

    id: str
    name: str
    entity_type: str
    summary: str | None
    status: str | None
    score: float
    cosine: float | None
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Member:
    """One entity of a community."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Community(Plain):
    """Entities that are more related to each other than to others, most connected first, then those that joined.

    `facts` counts the relations within, `aspects` how many of them touch which aspect, both as of the last refresh. The
    summary is empty where none was written yet, and where it `is_outdated`: a fact that it rests on no longer
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


# The surroundings of an entity, and the relation between two.


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


# Observations that look alike, and the outcome of added ones.


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
class DuplicateReport(Plain):
    """All that looks alike; `pairs` may hold fewer than `duplicates_found`, the nearest ones."""

    entity: str
    entity_id: str
    total_observations: int
    duplicates_found: int
    pairs: tuple[DuplicatePair, ...]
    clusters: tuple[tuple[Observation, ...], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one text: added, known (said before word for word), confirmed, waiting or refused.

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
    """The outcomes of the texts, in their order; `is_new`: the entity was made for them; `run` can be undone."""

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


# Where knowledge comes from: documents with their versions, and conversations.


@dataclass(frozen=True, slots=True)
class Artifact(Plain):
    """One document or pasted text; `chars` is its length, `content` its text if requested, else empty."""

    id: str
    title: str
    type: str
    summary: str
    version_no: int | None
    is_head: bool
    link: str
    status: str
    scope: str
    group_id: str
    parent_id: str | None
    derived_from: str | None
    replaced_by: str | None
    conversation_id: str
    message_id: str | None
    made_at: datetime | None
    seen_count: int
    confidence: float | None
    linked_fact_ids: tuple[str, ...]
    chars: int
    content: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """One conversation: when it took place, how long it was, and what it was about, if it was summarised (S4-23)."""

    id: str
    conversation_id: str
    started_at: datetime
    ended_at: datetime
    messages: int
    summary: str | None = None
