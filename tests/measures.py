"""Similarity of two texts by its definition, word by word: what rules on columns are compared with (S0-03, S1-03)."""

from __future__ import annotations

from slowwave.common.comparison.similarity import SimilarityThresholds
from slowwave.common.words import tokens


def containment(a: str, b: str) -> float:
    """Share of the shorter text's words that the longer one has; 1.0 if the shorter has none."""
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    words = tokens(shorter)
    return len(words & tokens(longer)) / len(words) if words else 1.0


def jaccard(a: str, b: str) -> float:
    """Shared words over all words; both empty 1.0, one empty 0.0."""
    first, second = tokens(a), tokens(b)
    both = first | second
    return len(first & second) / len(both) if both else 1.0


def match_type(a: str, b: str, cosine: float, least: SimilarityThresholds | None = None) -> str | None:
    """`cosine`, or `containment` if one text is much longer, or None."""
    least = least or SimilarityThresholds()
    if cosine >= least.cosine:
        return "cosine"
    if max(len(a), len(b)) / max(min(len(a), len(b)), 1) < least.length_ratio:
        return None
    return "containment" if containment(a, b) >= least.containment else None
