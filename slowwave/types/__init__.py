"""Answers of the Python API, as plain frozen records that need no other part of the project."""

from .entities import (
    Added,
    Community,
    DuplicatePair,
    DuplicateReport,
    Entity,
    FoundEntity,
    Member,
    Neighbour,
    Neighbourhood,
    Observation,
    Outcome,
    Path,
    RankedEntity,
)
from .facts import Mention, Passage, Provenance, RecalledFact, Recollection, Reply, UncertainFact, best_match
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
