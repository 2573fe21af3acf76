"""Diversity: what is like something told before it says little more.

Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998) picks one after the other what is relevant and new. We
take likeness off as a share of the score instead of as an amount, so that the scale of the scores does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slowwave.similarity import Vectors


def diversify(scores: Sequence[float], vectors: Vectors, diversity: float, k: int) -> list[tuple[int, float]]:
    """The places of the `k` that are picked, in order, each with the share of its score that it keeps.

    `scores` (n,) ≥ 0, best first; `vectors` (n, d) are unit rows, zeros where there is none; `diversity` in [0, 1]. The
    share is 1 − diversity × the largest cosine to one picked before; kept scores never rise from one to the next. With
    0 nothing changes. Ties keep their order.
    """
    if not diversity:
        return [(place, 1.0) for place in range(min(k, len(scores)))]
    relevance = np.asarray(scores, dtype=np.float64)
    shares, is_left = np.ones(len(relevance)), np.ones(len(relevance), dtype=bool)
    picked: list[tuple[int, float]] = []
    for _ in range(min(k, len(relevance))):
        best = int(np.argmax(np.where(is_left, relevance * shares, -np.inf)))
        picked.append((best, float(shares[best])))
        is_left[best] = False
        alike = np.clip(vectors @ vectors[best], 0.0, 1.0)
        shares = np.minimum(shares, 1.0 - diversity * alike.astype(np.float64))
    return picked
