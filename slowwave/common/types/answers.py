"""Answers of recall: facts with their sources, entities, and where knowledge comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from slowwave.common.records import Usage

NOTHING_KNOWN = "Nothing is known about that."
"""What people and agents read where a recall found nothing."""
_HIDDEN = ("cosine", "rank", "subject_id", "object_id", "parts")


class Plain:
    """A record that is shown as it is."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Its fields by name."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]


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

    `event_at` is when it happens, as exactly as `event_precision` says (day, week, month, season, year, around; without
    an event that of `valid_from`). `polarity` is affirmed or negated, `conflicts_with` facts whose relations seem to
    contradict it and that nobody has decided about yet (S2-75), `replaces` what it took the place of, first what
    matches the query. `parts` say how its score came about (`recall.order`).
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
    event_at: datetime | None = None
    event_precision: str | None = None
    conflicts_with: tuple[Mention, ...] = ()
    replaces: tuple[Mention, ...] = ()
    cosine: float = 0.0
    rank: int = 0
    subject_id: str | None = None
    object_id: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def match(self) -> float | None:
        """How well the fact itself matches the query, 0 to 3: words, meaning and overlap, 1 each at most.

        Less where it is about somebody else than the query names; neither a walk, a period nor use lifts it. None where
        nothing was searched.
        """
        if "words" not in self.parts:
            return None
        own = self.parts["words"] + max(self.parts["meaning"], 0.0) + self.parts["overlap"]
        return own * self.parts.get("about", 1.0)

    def as_json(self, *, explained: bool = False) -> dict[str, Any]:
        """The contract of a fact in `--json`; other facts are named by their ids. `explained` adds the parts."""
        shown = {key: value for key, value in asdict(self).items() if key not in _HIDDEN}
        shown["replaces"] = [other.id for other in self.replaces]
        shown["conflicts_with"] = [other.id for other in self.conflicts_with]
        return shown | ({"parts": {name: round(part, 6) for name, part in self.parts.items()}} if explained else {})


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a message that answers a query, for what no fact says; `score` compares with that of facts.

    `text` are whole sentences of the message; `role` is user, assistant or document. With the role outline the text is
    a line that a model wrote about the topic that begins with the message. `match` is how well it matches, compared
    with `RecalledFact.match`; None where nothing was searched. `is_long`: a piece of a message of more than 300
    characters.
    """

    conversation_id: str
    message_id: str
    role: str
    speaker: str
    text: str
    occurred_at: datetime | None
    score: float
    match: float | None = None
    is_long: bool = False

    def as_json(self) -> dict[str, Any]:
        """The contract of a passage in `--json`."""
        return {key: value for key, value in asdict(self).items() if key not in ("match", "is_long")}


@dataclass(frozen=True, slots=True)
class UncertainFact(Plain):
    """A belief that too little was said for; `probability` is what its evidence amounts to now, 0 to 1."""

    id: str
    statement: str
    predicate: str
    scope: str
    probability: float
    evidence: tuple[Provenance, ...]
    first_at: datetime
    last_at: datetime
    is_uncertain: bool = True


def best_match(facts: Iterable[RecalledFact], passages: Iterable[Passage]) -> float | None:
    """How well the best of them matches; None where nothing was searched or found."""
    found = [*(fact.match for fact in facts), *(passage.match for passage in passages)]
    return max((match for match in found if match is not None), default=None)


def in_one_order(facts: Iterable[RecalledFact], passages: Iterable[Passage]) -> list[RecalledFact | Passage]:
    """Facts and passages by their scores, best first; of equals facts first."""
    return sorted([*facts, *passages], key=lambda each: -each.score)


@dataclass(frozen=True, slots=True)
class Recollection:
    """The facts that answer a query, best first; passages of messages for what no fact says, best first.

    Apart from them what may hold between entities that it names, and, for a question over the whole time, the lines of
    the `outline`, best first. Where it `is_timed_out`, reading took longer than it may (S2-44): it has no answer, which
    does not mean that nothing is known.
    """

    query: str
    facts: tuple[RecalledFact, ...] = field(default_factory=tuple)
    took_ms: float = 0.0
    uncertain: tuple[UncertainFact, ...] = ()
    passages: tuple[Passage, ...] = ()
    is_timed_out: bool = False
    outline: tuple[Passage, ...] = ()

    @property
    def match(self) -> float | None:
        """How well the best of them matches; None where nothing was found."""
        return best_match(self.facts, self.passages)

    def as_json(self, *, explained: bool = False) -> dict[str, Any]:
        """The contract of `recall --json`; `uncertain` and `timed_out` are there where they say anything."""
        shown = {
            "query": self.query,
            "facts": [fact.as_json(explained=explained) for fact in self.facts],
            "took_ms": round(self.took_ms, 2),
            "passages": [passage.as_json() for passage in self.passages],
        }
        if self.uncertain:
            shown["uncertain"] = [belief.as_json() for belief in self.uncertain]
        return shown | ({"timed_out": True} if self.is_timed_out else {})


# What a model answers to a question from what is remembered.


UNKNOWN = "Not known."


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in words, and the facts and passages that it rests on, in the order in which the model read them.

    Where memory does not hold the answer `text` is "Not known.", and it rests on nothing. `notes` say what of the
    model's answer was left out. `usage` is what this reply cost: nothing where nobody was asked, or where the same
    question about the same lines had been paid for.
    """

    question: str
    text: str = UNKNOWN
    is_known: bool = False
    facts: tuple[RecalledFact, ...] = ()
    passages: tuple[Passage, ...] = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The contract of `ask --json`; facts and passages are as those of `recall --json`."""
        return {
            "question": self.question,
            "answer": self.text,
            "known": self.is_known,
            "facts": [fact.as_json() for fact in self.facts],
            "passages": [passage.as_json() for passage in self.passages],
            "model": self.model,
            "llm": self.usage.paid,
            "notes": list(self.notes),
            "took_ms": round(self.took_ms, 2),
        }


# Entities and the groups that they form.


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


# The surroundings of an entity.


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
    """One document; `chars` is its length, `content` its text if requested, else empty."""

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
