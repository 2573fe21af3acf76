"""The road from the scores of search to places in the order of recall, stage by stage; each leaves its number behind.

Score of search → fused with the walk along relations → less for facts about others than the people named → more for
facts of the time that is named → × use of the entities (S0-26) → × what a suspect fact counts → × the current
conversation (S2-74) → sorted again (T22) → spread over what differs → the first k. Every stage changes the score by one
factor or one sum, so the parts of a fact tell how its score came about: fused = search + weight × graph, and score =
((fused, else search) × about + period) × limbic × suspect × episode × diversity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slowwave.comparison.similarity import Vectors
from slowwave.lexicon.statement_words import FUNCTION_WORDS
from slowwave.text import normalise_name

from .ranking import RankedFact

# Diversity: a fact like an earlier one adds little. Maximal marginal relevance (Carbonell and
# Goldstein, SIGIR 1998) picks one after the other what is relevant and new. We take likeness off as a share of the
# score instead of as an amount, so that the scale of the scores does not matter.


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


class Step(NamedTuple):
    """One fact that a walk came by: how strongly, and how many relations from where it began."""

    score: float
    hops: int


def fuse(order: Sequence[RankedFact], walk: Mapping[str, Step], weight: float) -> list[RankedFact]:
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
        parts = {"graph": graph, "hops": float(step.hops)} if graph else {}
        fused.append(replace(place, score=score, parts={**place.parts, **parts, "fused": score}))
    return sorted(fused, key=lambda place: -place.score)


def weighted(order: Sequence[RankedFact], factors: Mapping[str, Mapping[str, float]], name: str) -> list[RankedFact]:
    """The facts with their scores × the factor `name` of each, and all its factors among their parts; sorted again."""
    raised = []
    for place in order:
        own = factors.get(place.fact_id or "", {})
        raised.append(replace(place, score=place.score * own.get(name, 1.0), parts={**place.parts, **own}))
    return sorted(raised, key=lambda place: -place.score)


def raised(order: Sequence[RankedFact], those: Collection[str], by: float, name: str) -> list[RankedFact]:
    """The facts with `by` added to the scores of `those`, named `name` among their parts; sorted again."""
    lifted = []
    for place in order:
        more = by if place.fact_id in those else 0.0
        lifted.append(replace(place, score=place.score + more, parts={**place.parts, name: more}))
    return sorted(lifted, key=lambda place: -place.score)


def spread(order: Sequence[RankedFact], vectors: Vectors, diversity: float, k: int) -> list[RankedFact]:
    """The first `k`, each unlike those before it; `vectors` (n, d) are those of the facts, in order (`diversify`)."""
    if not diversity:
        return list(order[:k])
    picked = diversify([place.score for place in order], vectors, diversity, k)
    return [
        replace(order[n], score=order[n].score * share, parts={**order[n].parts, "diversity": share})
        for n, share in picked
    ]


# The names in a text, word for word.


_WORD = re.compile(r"\w+", re.UNICODE)
LONGEST = 8  # words of a name that is looked for


def words_of(name: str) -> tuple[str, ...]:
    """The words by which a name is looked for: normalised, without marks between them."""
    return tuple(_WORD.findall(normalise_name(name)))


def named_in(text: str, names: Mapping[tuple[str, ...], Collection[str]]) -> list[str]:
    """The ids of the names in a text, in order, each once; `names` are words (`words_of`) → ids.

    Of names that begin at one word the longest counts, and no word counts twice: "Anna Lee" does not name Anna.
    """
    words = words_of(text)
    found: dict[str, None] = {}
    start = 0
    while start < len(words):
        lengths = range(min(LONGEST, len(words) - start), 0, -1)
        length = next((n for n in lengths if words[start : start + n] in names), 0)
        found |= dict.fromkeys(names.get(words[start : start + length], ()))
        start += length or 1
    return list(found)


def entities_named(text: str, names: Mapping[str, str]) -> set[str]:
    """Ids of the entities that a text names, by their whole name or its first word; `names` are id → name.

    A first word counts where the text spells it as the name does, with a capital: "Anna" for Anna Lee, no "new" for
    New York.
    """
    by_words: dict[tuple[str, ...], set[str]] = {}
    spelt = {*_WORD.findall(text)}
    for id_, name in names.items():
        words, first = words_of(name), next(iter(_WORD.findall(name)), "")
        by_words.setdefault(words, set()).add(id_)
        if len(words) > 1 and first in spelt and first[0].isupper() and first.lower() not in FUNCTION_WORDS:
            by_words.setdefault(words[:1], set()).add(id_)
    return set(named_in(text, by_words))
