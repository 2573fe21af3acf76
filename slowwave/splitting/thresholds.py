"""How much is too much for an entity, and whether what it holds is of several topics (S0-07, S0-08, T1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from slowwave.errors import UnknownName, UnusableInput
from slowwave.labels import TYPES, canonical_type
from slowwave.settings import SplitSettings

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
