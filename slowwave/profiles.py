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
    # Where as many unrelated pairs of sentences pass as .60 lets pass for all-MiniLM-L6-v2, of which the vectors are
    # distilled: 3.3 of 1,000 on LoCoMo, 2.1 on BEAM. Of SICK's near-identical entailments (relatedness >= 4.8) 96 %
    # are above it, of all its entailments 83 % (the transformer: 100 % and 96 %). A lower cosine would ask a model
    # about chance: at .64, which keeps 95 % of the entailments, 70 of 1,000 unrelated LoCoMo pairs pass.
    DEFAULT_EMBEDDER: SimilarityProfile(resolve=0.77),
}


def has_profile(model: str) -> bool:
    """Whether thresholds were measured for this embedding model."""
    return model in _PROFILES


def profile_of(model: str) -> SimilarityProfile:
    """The thresholds of an embedding model; those of a transformer where it is not known."""
    return _PROFILES.get(model, SimilarityProfile())
