"""Seeds: the entities at which walks begin, by how well a query's words name them and how connected they are."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from slowwave.graph.graph import EDGE_TYPES, Graph, Numbers, Offsets, Places
from slowwave.graph.walks import Seeds
from slowwave.merging.guard_words import FUNCTION_WORDS
from slowwave.settings import WalkSettings

MOST_WORDS = 5
SHORTEST_WORD = 3
LEAST_SCORE = 0.1
NO_COMMUNITY = -1
_DEGREE_SHARE, _TYPES_SHARE = 0.6, 0.4
_WORD = re.compile(r"[^\W_]+")


def query_words(query: str) -> list[str]:
    """The first five words of three or more characters by which entities are looked up, else the whole query (S2-27).

    One of two characters counts too if it looks like a name: it begins with a capital, or is of a script that needs no
    more.
    Words that hold a sentence together name nothing and never count.
    """
    words = [word for word in dict.fromkeys(_WORD.findall(query)) if word.lower() not in FUNCTION_WORDS]
    naming = [word for word in words if len(word) >= SHORTEST_WORD or (len(word) == 2 and _may_name(word))]
    return naming[:MOST_WORDS] or [query]


def _may_name(word: str) -> bool:
    return word[0].isupper() or not word.isascii()


def choose_seeds(graph: Graph, nodes: Places, scores: Numbers, communities: Places, settings: WalkSettings) -> Seeds:
    """At most `seeds` of these candidates, the best first (S2-28, S2-29).

    `scores`, (c,), say how well the query names each of `nodes`, 0 to 1; `communities`, (n,), is a number for each node
    of the graph, -1 for none. At most `seed_community_cap` of one community are taken. Scores of seeds are 0.1 to 1.
    """
    share = settings.seed_structural_weight
    hybrid = scores * (1.0 - share) + structural_scores(graph, nodes) * share
    order = np.lexsort((nodes, -hybrid))
    chosen = _capped(order, communities[nodes], settings.seed_community_cap)[: settings.seeds]
    return Seeds(nodes[chosen], np.clip(hybrid[chosen], LEAST_SCORE, 1.0))


def structural_scores(graph: Graph, nodes: Places) -> Numbers:
    """How connected each node is, 0 to 1: 0.6 × degree / largest degree + 0.4 × share of the five types it has (S2-28).

    The largest degree is that of these nodes: beside the hub of a whole store nobody would be connected at all.
    """
    return connectedness(graph.degree[nodes], graph.types[nodes])


def connectedness(degrees: Offsets, types: Offsets) -> Numbers:
    """`structural_scores` from degrees and numbers of distinct types."""
    largest = max(int(degrees.max(initial=0)), 1)
    connected: Numbers = _DEGREE_SHARE * degrees / largest + _TYPES_SHARE * np.minimum(types / len(EDGE_TYPES), 1.0)
    return connected


def _capped(order: Offsets, communities: Places, cap: int) -> Offsets:
    """In their order, those that are among the first `cap` of their community; 0, or none: all."""
    if cap == 0:
        return order
    met: Counter[int] = Counter()
    kept = []
    for place in order:
        community = int(communities[place])
        met[community] += 1
        if community == NO_COMMUNITY or met[community] <= cap:
            kept.append(place)
    return np.array(kept or order, order.dtype)
