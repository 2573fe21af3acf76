"""The small frozen records that cross the borders between the rules, the seats and the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from operator import add
from types import MappingProxyType
from typing import Any

REFUSED = "refused"
"""How the error of an entry begins whose model declined to answer."""
DEDUP, CONSOLIDATED = "dedup", "consolidated"
REDUNDANT = (DEDUP, CONSOLIDATED)
"""Reasons of lineage by which a fact says what the other said: merged by a rule, and by a model or a person."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as an extractor sees it: redacted text, and who said it when."""

    index: int
    speaker: str
    role: str
    text: str
    occurred_at: datetime
    is_context: bool = False


@dataclass(frozen=True, slots=True)
class Observations:
    """Texts about an entity. With `create` an unknown entity is made, of this type.

    `instead_of` is the id of a live fact that the first text replaces.
    """

    name: str
    texts: Sequence[str]
    entity_type: str | None = None
    create: bool = False
    instead_of: str | None = None

    def parameters(self) -> dict[str, Any]:
        """What the row of a run says of it."""
        return {"entity": self.name, "texts": len(self.texts), "type": self.entity_type, "create": self.create}


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A live fact near the window, shown to the extractor under an index it may point at.

    `said_at` is when it was first said. `subject`, `predicate` and `object` are names as they are stored; a message
    that says it again is evidence of it. `is_disputed` marks one that another live fact contradicts, `is_over`
    one that says that its relation no longer holds.
    """

    index: int
    fact_id: str
    statement: str
    said_at: datetime | None
    subject: str = ""
    predicate: str = ""
    object: str = ""
    is_disputed: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """A person or thing in play, shown to the extractor under a number: who speaks, and who or what is mentioned.

    `entity_id` is empty for a speaker who is not stored yet. `role` says who a speaker is: user, assistant or speaker;
    empty for everything else.
    """

    number: int
    name: str
    entity_type: str = "person"
    entity_id: str = ""
    aliases: tuple[str, ...] = ()
    role: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive messages that are extracted in one call, the facts known before and the people and things in play."""

    conversation_id: str
    scope: str
    turns: tuple[Turn, ...]
    known: tuple[KnownFact, ...] = ()
    roster: tuple[RosterEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class NameQuestion:
    """Two names that may mean one thing: the new one (a) and the known one (b), with the cosine of their texts."""

    number: int
    name_a: str
    type_a: str
    summary_a: str
    name_b: str
    type_b: str
    summary_b: str
    similarity: float


@dataclass(frozen=True, slots=True)
class PairFact:
    """A fact as it is shown beside another one: what it says, since when, and who said it when.

    `start` is when it began to hold, where that is another day than the one on which it was said; `event` is when it
    happens, no more exact than it was said. What `is_fixed` is pinned or an axiom: nothing closes it.
    """

    statement: str
    subject: str
    relation: str
    object: str
    speaker: str
    said_at: datetime | None
    start: datetime | None = None
    valid_to: datetime | None = None
    event: str = ""
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Two facts, the earlier one first; `attempt` counts the questions before that got no usable answer."""

    number: int
    facts: tuple[PairFact, PairFact]
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class RelationQuestion:
    """A relation that no table knows, with a statement it was read from."""

    number: int
    relation: str
    example: str


@dataclass(frozen=True, slots=True)
class CommunityQuestion:
    """A community that is to be summarised: how many members, some of their names, its strongest facts.

    Names and facts are one line each.
    """

    number: int
    members: int
    names: tuple[str, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionQuestion:
    """A conversation that is to be summarised: its newest turns, how many are left out before them, an earlier summary.

    The earlier summary is one line; it is shown only where turns are left out.
    """

    number: int
    turns: tuple[Turn, ...]
    earlier: str
    left_out: int


@dataclass(frozen=True)
class Prompt:
    """One question to a model: `context` is what a keyless seat reads.

    What `is_urgent` is few questions on which the next step waits: they are asked live where others wait for a batch.
    Its system part and its text are rendered when they are first read, so that a keyless run never renders any.
    """

    name: str
    head: Callable[[], str]
    body: Callable[[], str]
    context: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    is_urgent: bool = False

    @cached_property
    def system(self) -> str:
        """The rendered system part."""
        return self.head()

    @cached_property
    def text(self) -> str:
        """The rendered text, without the system part."""
        return self.body()


COSTS = ("calls", "tokens_in", "tokens_out", "usd")
"""What is paid for."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of one or more model calls."""

    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    @property
    def paid(self) -> dict[str, Any]:
        """COSTS by name."""
        return {name: getattr(self, name) for name in COSTS}

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One row of `llm_calls`: prompt, model, answer and cost."""

    id: str
    provider: str
    model: str
    role: str
    prompt_name: str
    prompt_hash: str
    schema_hash: str
    response: str = ""
    error: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    latency_s: float = 0.0
    attempts: int = 0
    calls: int = 0

    @property
    def is_final(self) -> bool:
        """Whether asking again is pointless: it was answered, or the model refused.

        Answers that were cut, stayed invalid or were rejected by the server are asked again by a later run: settings,
        servers and models change, and the caller counts the attempts of a message (S2-25).
        """
        return bool(self.response) or self.error.startswith(REFUSED)

    def after(self, earlier: LedgerEntry | None) -> LedgerEntry:
        """This entry in place of an earlier one of the same id, with the cost of both."""
        if earlier is None:
            return self
        sums = ("tokens_in", "tokens_out", "usd", "latency_s", "attempts", "calls")
        return replace(self, **{name: getattr(self, name) + getattr(earlier, name) for name in sums})


SUBMITTING, UNSURE, SUBMITTED, COLLECTED, LOST = "submitting", "unsure", "submitted", "collected", "lost"
OPEN_BATCH = (SUBMITTING, UNSURE, SUBMITTED)
"""States of a batch whose answers may still come, so that none of its prompts may be asked again."""


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """One row of `llm_batches`: prompts that were handed over together, to be answered within a day.

    `keys` are ledger keys, and what the provider calls each prompt by; names and hashes of the prompts stand in the
    same order. Tokens and dollars are what it will probably cost. `is_abandoned` says that nobody works at it any more.
    """

    id: str
    provider: str
    model: str
    role: str
    schema_hash: str
    state: str
    keys: tuple[str, ...]
    prompt_names: tuple[str, ...]
    prompt_hashes: tuple[str, ...]
    begun_at: datetime
    batch_id: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    owner: str = ""
    is_abandoned: bool = False

    @property
    def expected(self) -> Usage:
        """The probable cost."""
        return Usage(len(self.keys), 0, self.tokens_in, self.tokens_out, self.usd)
