"""Answers: what is told to whoever asks, as plain frozen records that need no other part of the project."""

from .entities import Community, Entity, FoundEntity, Member, RankedEntity
from .facts import Mention, Passage, Provenance, RecalledFact, Recollection, UncertainFact, best_match
from .observations import Added, DuplicatePair, DuplicateReport, Observation, Outcome
from .relations import Neighbour, Neighbourhood, Path
from .replies import Reply
from .stories import Chain, Decided, Pair, Story, Version

__all__ = [
    "Added",
    "Chain",
    "Community",
    "Decided",
    "DuplicatePair",
    "DuplicateReport",
    "Entity",
    "FoundEntity",
    "Member",
    "Mention",
    "Neighbour",
    "Neighbourhood",
    "Observation",
    "Outcome",
    "Pair",
    "Passage",
    "Path",
    "Provenance",
    "RankedEntity",
    "RecalledFact",
    "Recollection",
    "Reply",
    "Story",
    "UncertainFact",
    "Version",
    "best_match",
]
