"""Histories of facts, and the whole story of a row, as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from .facts import Mention, Provenance, RecalledFact


@dataclass(frozen=True, slots=True)
class Version:
    """One fact in a history: when the store believed it, why it ended, and by which other fact."""

    fact: RecalledFact
    known_from: datetime | None
    known_to: datetime | None
    why: str
    ended_by: Mention | None

    def as_json(self) -> dict[str, Any]:
        """The fact as everywhere, and what its history adds."""
        ended_by = self.ended_by.id if self.ended_by else None
        more = {"known_from": self.known_from, "known_to": self.known_to, "why": self.why, "ended_by": ended_by}
        return {**self.fact.as_json(), **more}


@dataclass(frozen=True, slots=True)
class Chain:
    """Facts that replaced each other, oldest first; `has_circle`: the chain is damaged; `is_cut`: it is longer."""

    versions: tuple[Version, ...]
    has_circle: bool
    is_cut: bool

    def as_json(self) -> dict[str, Any]:
        """One document."""
        versions = [version.as_json() for version in self.versions]
        return {"facts": versions, "has_circle": self.has_circle, "is_cut": self.is_cut}


@dataclass(frozen=True, slots=True)
class Pair:
    """What was decided about a fact and another one that was compared with it."""

    other_id: str
    kind: str
    outcome: str
    guard: str
    decided_by: str
    cosine: float | None
    at: datetime | None


class Decided(NamedTuple):
    """One decision: when, what, by whom and why, in which run, about which row, and the ids of others beside it."""

    at: datetime | None
    action: str
    decided_by: str
    reason: str
    run: str
    about: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the store knows about how a row came to be what it is.

    Of facts: `evidence` is who said it, `absorbed` who said it in words that it took the place of; `lineage` steps
    (old, new, reason); `statements` the words of the facts that are named by id; `speakers` who speaks in the messages
    of the evidence, by conversation and message. Of a message: `heard`, the facts that it says, as (id, statement,
    status, reason).
    """

    id: str
    kind: str
    title: str
    columns: dict[str, Any]
    evidence: tuple[Provenance, ...]
    lineage: tuple[tuple[str, str, str], ...]
    decisions: tuple[Decided, ...]
    absorbed: tuple[Provenance, ...] = ()
    pairs: tuple[Pair, ...] = ()
    artifacts: tuple[tuple[str, str], ...] = ()
    statements: Mapping[str, str] = field(default_factory=dict)
    heard: tuple[tuple[str, str, str, str], ...] = ()
    speakers: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The story in plain sentences, as `slowwave why` prints it."""
        from .plain_stories import text_of  # which imports the records of this module

        return text_of(self)

    def as_json(self) -> dict[str, Any]:
        """One document; who speaks stands beside each quote."""
        told = asdict(self)
        del told["speakers"]
        for name in ("evidence", "absorbed"):
            told[name] = [
                asdict(each) | {"speaker": self.speakers.get((each.conversation_id, each.message_id), "")}
                for each in getattr(self, name)
            ]
        told["decisions"] = [each._asdict() for each in self.decisions]
        told["artifacts"] = [{"id": id_, "title": title} for id_, title in self.artifacts]
        return told
