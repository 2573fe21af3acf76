"""Suggestions for an entity with too many observations: to split it, and into which parts (S0-11 … S0-13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from slowwave.errors import UnknownName, UnusableInput
from slowwave.lexicon.labels import TYPES, canonical_type
from slowwave.settings import SplitSettings

from .split_plan import SplitPart
from .structure import CONTAINS, INVERSE

DIGITS = 4


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """An entity that should be split: how full it is, and its topics with the number of observations of each."""

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    split_score: float
    topics: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """The contract of `split find --json`, one of its candidates."""
        return asdict(self) | {"split_score": round(self.split_score, DIGITS)}


@dataclass(frozen=True, slots=True)
class TopicAnalysis:
    """How full an entity is, and what it holds: (id, content) of the observations of each topic (S0-12).

    Topics are looked for from `proactive_ratio` of the threshold on; `is_distinct` where enough of them are large.
    """

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    needs_split: bool
    is_distinct: bool
    topics: Mapping[str, tuple[tuple[str, str], ...]]
    split_score: float
    plan_hash: str

    def as_json(self) -> dict[str, Any]:
        """The contract of `split analyze --json`."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        contents = {label: [content for _, content in observations] for label, observations in self.topics.items()}
        return fields | {"topics": contents, "split_score": round(self.split_score, DIGITS)}


@dataclass(frozen=True, slots=True)
class SplitSuggestion:
    """How an entity could be split, with the content of each observation; no splits where it need not be (S0-13)."""

    analysis: TopicAnalysis
    splits: tuple[SplitPart, ...]
    message: str

    def as_json(self) -> dict[str, Any]:
        """The contract of `split propose --json --dry-run`: what to approve, or null and why."""
        return {"proposal": self._plan() if self.splits else None, "message": self.message}

    def _plan(self) -> dict[str, Any]:
        seen, parent = self.analysis, self.analysis.entity_name
        contents = {fact: content for observations in seen.topics.values() for fact, content in observations}
        moved = sum(len(each.observations) for each in self.splits)
        ends = [(parent, each.name) for each in self.splits]
        return {
            "original_entity": parent,
            "entity_id": seen.entity_id,
            "entity_type": seen.entity_type,
            "suggested_splits": [
                {"name": each.name, "entity_type": each.entity_type,
                 "observations": [{"id": fact, "content": contents[fact]} for fact in each.observations]}
                for each in self.splits
            ],
            "relations_to_create": [
                {"from": one, "relation_type": relation, "to": other}
                for whole, part in ends
                for one, relation, other in ((whole, CONTAINS, part), (part, INVERSE[CONTAINS], whole))
            ],
            "analysis": {
                "observation_count": seen.observation_count, "threshold": seen.threshold,
                "split_score": round(seen.split_score, DIGITS), "n_topics": len(seen.topics),
                "moved_observations": moved, "original_observations_remaining": seen.observation_count - moved,
            },
            "plan_hash": seen.plan_hash,
        }  # fmt: skip


# How much is too much for an entity, and whether what it holds is of several topics (S0-07, S0-08, T1).


DEFAULT = "default"
MOST_OF_DIVERSITY = 0.5


def thresholds_of(settings: SplitSettings) -> dict[str, int]:
    """The threshold of every type, by its canonical name; keys of other vocabularies (Sesion) are understood (S0-07).

    What is given is laid over the defaults. Raises `UnknownName` for a key that is no type, `UnusableInput` for two
    that mean the same one.
    """
    given = {**SplitSettings().thresholds, **_by_type(settings.thresholds)}
    return {kind: given.get(kind, given[DEFAULT]) for kind in (*TYPES, DEFAULT)}


def _by_type(given: Mapping[str, int]) -> dict[str, int]:
    keys: dict[str, str] = {}
    for key in given:
        if (first := keys.setdefault(_type_of(key), key)) != key:
            raise UnusableInput(
                f"split.thresholds: {first!r} and {key!r} mean the same type.", "Leave one of them out."
            )
    return {kind: given[key] for kind, key in keys.items()}


def _type_of(key: str) -> str:
    kind = DEFAULT if key.strip().lower() == DEFAULT else canonical_type(key)
    if kind is None:
        raise UnknownName("entity type in split.thresholds", key, (*TYPES, DEFAULT))
    return kind


def threshold_column(types: pl.Series, settings: SplitSettings) -> pl.Series:
    """The threshold of each of these types, in their order; of a type that nobody knows, the default one."""
    known = thresholds_of(settings)
    return types.replace_strict(known, default=known[DEFAULT], return_dtype=pl.Int64).alias("threshold")


def split_score(count: int, threshold: int, n_topics: int) -> float:
    """Fullness plus diversity, from 0 up: `count/threshold + min(n_topics/count, 0.5)` (S0-08)."""
    fullness = count / threshold if threshold else 1.0
    return fullness + min(n_topics / max(count, 1), MOST_OF_DIVERSITY)


def is_candidate(count: int, threshold: int, sizes: Sequence[int], settings: SplitSettings) -> bool:
    """Whether an entity should be split: too full, and at least `min_topics` topics that are no singletons (T1)."""
    is_full = count > threshold and split_score(count, threshold, len(sizes)) > 1.0
    return is_full and large_topics(sizes, settings) >= settings.min_topics


def large_topics(sizes: Sequence[int], settings: SplitSettings) -> int:
    """How many topics have `min_topic_size` observations or more."""
    return sum(size >= settings.min_topic_size for size in sizes)
