"""What a cosine means depends on who made the vectors: thresholds by embedding model (§6.2, T45)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slowwave.settings import DEFAULT_EMBEDDER


@dataclass(frozen=True, slots=True)
class SimilarityProfile:
    """Cosines of one embedding model: `resolve` is where two facts may say the same and a model is asked (§6.2 S7)."""

    resolve: float = 0.60


_PROFILES: Mapping[str, SimilarityProfile] = {
    # Static word vectors lie closer together than a transformer's: unrelated turns have a median cosine of .63.
    DEFAULT_EMBEDDER: SimilarityProfile(resolve=0.80),
}


def profile_of(model: str) -> SimilarityProfile:
    """The thresholds of an embedding model; those of a transformer where it is not known."""
    return _PROFILES.get(model, SimilarityProfile())
