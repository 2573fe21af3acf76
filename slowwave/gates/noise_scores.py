"""Worth against noise: how near a text is to what is kept, and to what is refused (S4-16, S4-18, S4-22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.gates.noise_phrases import NOISE_PROTOTYPES, QUALITY_PROTOTYPES
from slowwave.settings import NoiseSettings

Vectors = npt.NDArray[np.float32]

TEACHING_GATES = ("pre_filter", "durability")  # a refusal by score must not teach the score (T19)
_SAME = 0.95
_BLOCK = 8192


class Prototypes(NamedTuple):
    """The texts that stand for worth and for noise, to be embedded by the caller."""

    quality: tuple[str, ...]
    noise: tuple[str, ...]


def prototype_texts(settings: NoiseSettings | None = None) -> Prototypes:
    """The built-in prototypes, or those of the settings where it names some."""
    settings = settings or NoiseSettings()
    return Prototypes(settings.quality_prototypes or QUALITY_PROTOTYPES, settings.noise_prototypes or NOISE_PROTOTYPES)


@dataclass(frozen=True, slots=True, eq=False)
class ContentScorer:
    """Scores texts by their vectors; `quality` and `noise` are unit rows, noise with what was learned."""

    quality: Vectors
    noise: Vectors
    top_k: int = 3

    def score(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        """q / (q + n) in [0, 1] per row: q the mean cosine to worth, n the mean of the nearest noise (S4-16)."""
        if not len(vectors) or not len(self.quality) or not len(self.noise):
            return np.full(len(vectors), 0.5)
        worth = vectors.astype(np.float64) @ self.quality.mean(axis=0).astype(np.float64)
        noise = np.concatenate(
            [self._noise(vectors[start : start + _BLOCK]) for start in range(0, len(vectors), _BLOCK)]
        )
        total = worth + noise
        ratio = np.divide(worth, total, out=np.full(len(vectors), 0.5), where=total > 0)
        return np.asarray(np.clip(ratio, 0.0, 1.0), dtype=np.float64)

    def _noise(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        near = (vectors @ self.noise.T).astype(np.float64)
        k = min(self.top_k, near.shape[1])
        return np.asarray(np.partition(near, near.shape[1] - k, axis=1)[:, -k:].mean(axis=1), dtype=np.float64)


class LearnedNoise(NamedTuple):
    """Noise prototypes learned from refusals, newest first, and how many teaching refusals had been seen by then."""

    texts: tuple[str, ...]
    vectors: Vectors
    teaching_count: int


def is_relearning_due(teaching_count: int, learned_at: int, settings: NoiseSettings) -> bool:
    """Whether so many refusals have come since the last rebuild, or some are gone."""
    return not 0 <= teaching_count - learned_at < settings.rebuild_every


def plan_prototypes(
    refusals: pl.DataFrame, defaults: Vectors, settings: NoiseSettings, *, teaching_count: int, learned_at: int
) -> LearnedNoise | None:
    """The learned prototypes, rebuilt from the ring of refusals; None while not due.

    `refusals` has `text`, `created_at`, `gate` and `vector`; `defaults` are the unit rows of the built-in noise, which
    always stay beside the learned ones (T19). `teaching_count` is how many teaching refusals there are, `learned_at`
    that number at the last rebuild: due after `rebuild_every` more, however many came at once (T17), or when some are
    gone, so that what was forgotten teaches no longer.
    """
    if not is_relearning_due(teaching_count, learned_at, settings):
        return None
    ring = refusals.with_row_index("row").sort(["created_at", "row"], descending=True).head(settings.rejection_capacity)
    newest = ring.filter(pl.col("gate").is_in(TEACHING_GATES) & pl.col("vector").is_not_null()).head(
        settings.max_learned
    )
    texts: Sequence[str] = newest["text"].to_list()
    vectors = np.array(newest["vector"].to_list(), dtype=np.float32).reshape(len(texts), defaults.shape[1])
    kept = _distinct(vectors, defaults)
    return LearnedNoise(tuple(texts[row] for row in kept), vectors[kept], teaching_count)


def _distinct(vectors: Vectors, known: Vectors) -> list[int]:
    """Rows that are not nearly equal to a known one or to an earlier kept row."""
    alike = vectors @ vectors.T >= _SAME
    fresh = ~(vectors @ known.T >= _SAME).any(axis=1) & vectors.any(axis=1)
    kept: list[int] = []
    for row in np.flatnonzero(fresh):
        if not alike[row, kept].any():
            kept.append(int(row))
    return kept


def group_topics(vectors: Vectors, lengths: npt.NDArray[np.integer], settings: NoiseSettings) -> npt.NDArray[np.int64]:
    """Group number of each consecutive passage: a new one where the topic turns or the group gets too long (S4-22)."""
    turns = np.ones(len(vectors), dtype=bool)
    turns[1:] = np.einsum("ij,ij->i", vectors[1:], vectors[:-1]) < settings.topic_boundary
    groups = np.zeros(len(vectors), dtype=np.int64)
    group, size = -1, 0
    for row, (turn, length) in enumerate(zip(turns.tolist(), np.asarray(lengths).tolist(), strict=True)):
        if turn or size + length > settings.max_group_chars:
            group, size = group + 1, 0
        groups[row], size = group, size + length
    return groups
