"""The road from the scores of search to places in the order of recall, stage by stage; each leaves its number behind.

Score of search → fused with the walk along relations → less for facts about others than the people named → more for
facts of the time that is named → × use of the entities (S0-26) → × what a suspect fact counts → × the current
conversation (S2-74) → sorted again (T22) → spread over what differs → the first k. Every stage changes the score by one
factor or one sum, so the parts of a fact tell how its score came about: fused = search + weight × graph, and score =
((fused, else search) × about + period) × limbic × suspect × episode × diversity.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from slowwave.ranking.diversity import diversify
from slowwave.ranking.ranking import Recalled
from slowwave.similarity import Vectors


class Step(NamedTuple):
    """One fact that a walk came by: how strongly, and how many relations from where it began."""

    score: float
    hops: int


def fuse(order: Sequence[Recalled], walk: Mapping[str, Step], weight: float) -> list[Recalled]:
    """The facts with `weight` × how strongly the walk came by each, as a share of the strongest; sorted again.

    Every fact of the walk that may answer is in `order`: what search had not found is there with what it would have
    scored. A sum of scores, and not of reciprocal ranks, for the reason that holds for words and meaning: the walk says
    that a fact is near what the question names, hardly ever that it answers, and ranks would make its first as sure as
    the first of search.
    """
    best = max((step.score for step in walk.values()), default=0.0)
    if best <= 0.0:
        return list(order)
    fused = []
    for place in order:
        step = walk.get(place.fact_id or "", Step(0.0, 0))
        graph = step.score / best
        score = place.score + weight * graph
        told = {"graph": graph, "hops": float(step.hops)} if graph else {}
        fused.append(replace(place, score=score, parts={**place.parts, **told, "fused": score}))
    return sorted(fused, key=lambda place: -place.score)


def weighted(order: Sequence[Recalled], factors: Mapping[str, Mapping[str, float]], name: str) -> list[Recalled]:
    """The facts with their scores × the factor `name` of each, and all its factors among their parts; sorted again."""
    raised = []
    for place in order:
        told = factors.get(place.fact_id or "", {})
        raised.append(replace(place, score=place.score * told.get(name, 1.0), parts={**place.parts, **told}))
    return sorted(raised, key=lambda place: -place.score)


def raised(order: Sequence[Recalled], those: Collection[str], by: float, name: str) -> list[Recalled]:
    """The facts with `by` added to the scores of `those`, told among their parts as `name`; sorted again."""
    lifted = []
    for place in order:
        more = by if place.fact_id in those else 0.0
        lifted.append(replace(place, score=place.score + more, parts={**place.parts, name: more}))
    return sorted(lifted, key=lambda place: -place.score)


def spread(order: Sequence[Recalled], vectors: Vectors, diversity: float, k: int) -> list[Recalled]:
    """The first `k`, each unlike those before it; `vectors` (n, d) are those of the facts, in order (`diversify`)."""
    if not diversity:
        return list(order[:k])
    picked = diversify([place.score for place in order], vectors, diversity, k)
    return [
        replace(order[n], score=order[n].score * share, parts={**order[n].parts, "diversity": share})
        for n, share in picked
    ]
