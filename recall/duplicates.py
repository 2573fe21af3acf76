"""Observations of an entity that look alike, with what they say, for a person or an agent to review (S0-04)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.errors import UnusableInput
from slowwave.merging.duplicates import Duplicates, find_duplicates
from slowwave.merging.observations import KINDS, unit_rows
from slowwave.merging.similar_pairs import Likeness
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Snapshot

from .entities import find_entity

NEEDED = ("id", "statement", "scope", "message_id", "valid_from", "similarity_flag")
DIGITS = 4


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


def duplicates_of(
    snapshot: Snapshot,
    now: datetime,
    name: str,
    threshold: float = 0.85,
    containment_threshold: float = 0.70,
    limit: int | None = 1000,
) -> DuplicateReport:
    """Pairs of live observations that look alike, flagged or not, and what they connect; raises for an unknown entity.

    Observations are the live facts that are filed under the entity. At most `limit` pairs are listed; clusters are made
    of all of them.
    """
    for given in (threshold, containment_threshold):
        if not 0.0 <= given <= 1.0:
            raise UnusableInput(f"A threshold of {given} is out of range.", "It is a number from 0 to 1.")
    entity = find_entity(snapshot, now, name)
    kinds = ", ".join(map(quoted, KINDS))
    where = f"owner_entity_id = {quoted(entity.id)} AND kind IN ({kinds}) AND {live_sql(now)}"
    facts = snapshot.frame("facts", where, [*NEEDED, "vector"])
    vectors = unit_rows(facts["vector"], snapshot.dims)
    found = find_duplicates(facts.drop("vector"), vectors, Likeness(threshold, containment_threshold), limit)
    told = {
        fact: Observation(fact, statement or "", bool(flag))
        for fact, statement, flag in facts.select("id", "statement", "similarity_flag").iter_rows()
    }
    clusters = tuple(tuple(told[fact] for fact in members) for members in found.clusters)
    return DuplicateReport(entity.name, entity.id, found.total, found.found, _pairs(found, told), clusters)


def _pairs(found: Duplicates, told: dict[str, Observation]) -> tuple[DuplicatePair, ...]:
    rounded = found.pairs.with_columns(pl.col("cosine", "containment").round(DIGITS))
    return tuple(
        DuplicatePair(told[a], told[b], cosine, share, match_type, one_sentence)
        for a, b, cosine, share, match_type, one_sentence in rounded.iter_rows()
    )
