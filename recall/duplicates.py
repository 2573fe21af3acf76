"""Observations of an entity that look alike, with what they say, for a person or an agent to review (S0-04)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from slowwave.comparison.similarity import SimilarityThresholds
from slowwave.deduplication.observations import KINDS, SimilarObservations, find_duplicates, unit_rows
from slowwave.errors import UnusableInput
from slowwave.types import DuplicatePair, DuplicateReport, Observation
from slowwave.validity import live_sql
from storage.rows import quoted
from storage.snapshots import Snapshot

from .entities import find_entity

NEEDED = ("id", "statement", "scope", "message_id", "valid_from", "similarity_flag")
DIGITS = 4


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
    facts = _observations(snapshot, now, f"owner_entity_id = {quoted(entity.id)}")
    return _reviewed(
        facts, snapshot.dims, entity.id, entity.name, SimilarityThresholds(threshold, containment_threshold), limit
    )


def duplicates_among(
    snapshot: Snapshot, now: datetime, entities: Mapping[str, str], limit: int
) -> tuple[DuplicateReport, ...]:
    """`duplicates_of` with its defaults for several entities, name by id, read at once; in their order (S0-28)."""
    if not entities:
        return ()
    facts = _observations(snapshot, now, f"owner_entity_id IN ({', '.join(map(quoted, entities))})")
    parts = facts.partition_by("owner_entity_id", as_dict=True)
    return tuple(
        _reviewed(parts.get((id_,), facts.clear()), snapshot.dims, id_, name, SimilarityThresholds(), limit)
        for id_, name in entities.items()
    )


def _observations(snapshot: Snapshot, now: datetime, whose: str) -> pl.DataFrame:
    kinds = ", ".join(map(quoted, KINDS))
    where = f"{whose} AND kind IN ({kinds}) AND {live_sql(now)}"
    return snapshot.frame("facts", where, [*NEEDED, "owner_entity_id", "vector"])


def _reviewed(
    facts: pl.DataFrame, dims: int, entity_id: str, name: str, likeness: SimilarityThresholds, limit: int | None
) -> DuplicateReport:
    vectors = unit_rows(facts["vector"], dims)
    found = find_duplicates(facts.drop("vector"), vectors, likeness, limit)
    observations = {
        fact: Observation(fact, statement or "", bool(flag))
        for fact, statement, flag in facts.select("id", "statement", "similarity_flag").iter_rows()
    }
    clusters = tuple(tuple(observations[fact] for fact in members) for members in found.clusters)
    return DuplicateReport(name, entity_id, found.total, found.found, _pairs(found, observations), clusters)


def _pairs(found: SimilarObservations, observations: dict[str, Observation]) -> tuple[DuplicatePair, ...]:
    rounded = found.pairs.with_columns(pl.col("cosine", "containment").round(DIGITS))
    return tuple(
        DuplicatePair(observations[a], observations[b], cosine, share, match_type, one_sentence)
        for a, b, cosine, share, match_type, one_sentence in rounded.iter_rows()
    )
