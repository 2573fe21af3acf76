"""Fusion of orders that have no common scale: reciprocal ranks (Cormack, Clarke and Büttcher, SIGIR 2009; S0-26)."""

from __future__ import annotations

from collections.abc import Sequence

RANK_CONSTANT = 60


def fuse_ranks(
    orders: Sequence[Sequence[str]], weights: Sequence[float] | None = None, k: int = RANK_CONSTANT
) -> dict[str, float]:
    """Every id of the orders → Σ weight / (k + rank) over those that name it, ranks from 1; best first, ties by id.

    An order counts an id once, where it comes first. Weights are 1 unless given, one per order, and at least 0. Scores
    are ranks, no similarities: nothing may compare them with a cosine (T6).
    """
    scores: dict[str, float] = {}
    for order, weight in zip(orders, weights or [1.0] * len(orders), strict=True):
        for rank, name in enumerate(dict.fromkeys(order), 1):
            scores[name] = scores.get(name, 0.0) + weight / (k + rank)
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))
