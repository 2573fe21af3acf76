"""Walks: which relations are near the entities that a query names, and how much each counts (S2-30 … S2-35, S2-41).

A walk starts at several seeds at once. The score of a relation is the best that any single seed would give it: a
seed's score is carried along, and only a better one is carried on, so the cost does not grow with the number of seeds.

Each hop, every active entity sends its level along its relations. What arrives at one entity adds up, in order of the
relations' ids, until it is activated so much that it is inhibited: then it receives no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import numpy as np
import numpy.typing as npt

from slowwave.common.settings import WalkSettings

from .graph import EDGE_TYPES, UNKNOWN_TIME, Graph, Numbers, Offsets, Places, Steps

TYPE_WEIGHTS = {"causal": 1.2, "semantic": 1.0, "temporal": 0.9, "hierarchical": 0.8, "co_occurrence": 0.6}
MOST_BOOSTED = 2.0
_WEIGHT_OF_KIND = np.array([TYPE_WEIGHTS[name] for name in EDGE_TYPES])
_DAY = 86_400_000_000  # microseconds
_LAST = np.iinfo(np.int32).max

Flags = npt.NDArray[np.bool_]
IsOver = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where walks begin: places in the graph, each once, (s,), and how well the query means them, (0, 1], (s,)."""

    nodes: Places
    scores: Numbers


@dataclass(frozen=True, slots=True)
class WalkGraph:
    """The relations that a walk may follow, or those that are `allowed`, (m,), and links from entities to similar ones.

    `similar` has the same entities; its weights are cosines. A link leads on and is a hop, and is no fact (S2-71).
    """

    graph: Graph
    allowed: Flags | None = None
    similar: Graph | None = None

    def steps(self, nodes: Places, edge_types: Sequence[str] = ()) -> Steps:
        """All that leads on from these nodes, of these types if any are named; link j is the edge m + j."""
        found = self.graph.steps(nodes)
        passed = None if self.allowed is None else self.allowed[found.edge]
        if edge_types:
            is_wanted = np.isin(EDGE_TYPES, list(edge_types))[self.graph.kind[found.edge]]
            passed = is_wanted if passed is None else passed & is_wanted
        if passed is not None:
            found = Steps(found.start[passed], found.end[passed], found.edge[passed])
        if self.similar is None:
            return found
        links = self.similar.steps(nodes)
        edge = np.concatenate((found.edge, links.edge + np.int32(len(self.graph.edges))))
        return Steps(np.concatenate((found.start, links.start)), np.concatenate((found.end, links.end)), edge)

    def cosines(self, links: Places) -> Numbers:
        """The weights of links, counted from 0."""
        return self.similar.weight[links] if self.similar is not None else np.zeros(0)


@dataclass(frozen=True, slots=True)
class Walk:
    """Relations that were found, best first: places of edges, scores, hops, all (f,). Empty if time ran out (S2-44).

    Of spreading activation also the active nodes, (a,), the most active first, with their levels, 0 to 1, and the hop
    at which each got its level.
    """

    edges: Places = field(default_factory=lambda: np.zeros(0, np.int32))
    scores: Numbers = field(default_factory=lambda: np.zeros(0))
    hops: Places = field(default_factory=lambda: np.zeros(0, np.int32))
    nodes: Places = field(default_factory=lambda: np.zeros(0, np.int32))
    levels: Numbers = field(default_factory=lambda: np.zeros(0))
    depths: Places = field(default_factory=lambda: np.zeros(0, np.int32))


def never() -> bool:
    """Of a walk that may take its time."""
    return False


def breadth_first(
    walk_graph: WalkGraph, seeds: Seeds, settings: WalkSettings, now: datetime, limit: int, is_over: IsOver = never
) -> Walk:
    """At most `limit` relations within `max_hops` of the seeds, in either direction, each statement once (S2-30…32).

    Score: match of the seed × 1 / (1 + hop) × weight of the relation × weight of its type, boosted if it is recent; hop
    is the distance of its nearer end. Relations are those that a walk goes over: none between two entities that are
    both `max_hops` away. Over a link the match is multiplied by its cosine. Once there are `limit` relations that score
    more than any farther one can, the walk goes no farther: that changes nothing but the time it takes.
    """
    graph = walk_graph.graph
    nodes, edges = _Best(len(graph)), _Best(len(graph.edges))
    ring, worst = nodes.offer(seeds.nodes, seeds.scores, 0), 0.0
    boost = MOST_BOOSTED if settings.temporal_decay_rate else 1.0
    for hop in range(settings.max_hops):
        if is_over():
            return Walk()
        ring = distinct(ring, len(graph))
        # The most that a relation can score at this match and hop.
        ring = ring[nodes.value[ring] / (1 + hop) * max(TYPE_WEIGHTS.values()) * boost >= worst]
        steps = walk_graph.steps(ring, settings.edge_types)
        match = nodes.value[steps.start]
        facts = np.count_nonzero(steps.edge < len(graph.edges))  # they come before links
        edges.offer(steps.edge[:facts], match[:facts] / (1 + hop), hop)
        if hop + 1 < settings.max_hops:
            match[facts:] *= walk_graph.cosines(steps.edge[facts:] - len(graph.edges))
            ring = nodes.offer(steps.end, match, hop + 1)
            found = _best_met(graph, edges, settings, now, limit)
            worst = found.scores[-1] if len(found.scores) == limit else 0.0
    return Walk() if is_over() else _best_met(graph, edges, settings, now, limit)


def _best_met(graph: Graph, edges: _Best, settings: WalkSettings, now: datetime, limit: int) -> Walk:
    met = np.flatnonzero(edges.is_met).astype(np.int32)
    scores = edges.value[met] * weights(graph, met)
    if settings.temporal_decay_rate:
        scores = boosted(scores, days_since(graph.since[met], now), settings.temporal_decay_rate)
    best = best_facts(graph, met, scores, limit)
    return Walk(met[best], scores[best], edges.hop[met[best]])


class _Best:
    """The best offer that each place had so far, and after how many hops it came."""

    def __init__(self, size: int) -> None:
        self.value, self.hop = np.zeros(size), np.zeros(size, np.int32)
        self.is_met = np.zeros(size, np.bool_)

    def offer(self, places: Places, values: Numbers, hop: int) -> Places:
        """Take what is better than before; the places that took one."""
        is_better = values > self.value[places]
        places = places[is_better]
        np.maximum.at(self.value, places, values[is_better])
        self.is_met[places], self.hop[places] = True, hop
        return places


def distinct(places: Places, size: int) -> Places:
    """Each place once, in order; faster than by sorting them."""
    is_there = np.zeros(size, np.bool_)
    is_there[places] = True
    return np.flatnonzero(is_there).astype(np.int32)


def weights(graph: Graph, edges: Places) -> Numbers:
    """The strength that passes over each relation: its weight × the weight of its type (S2-31)."""
    passing: Numbers = graph.weight[edges] * _WEIGHT_OF_KIND[graph.kind[edges]]
    return passing


def days_since(since: Offsets, now: datetime) -> Numbers:
    """Ages in days at `now`, none below 0; NaN if the beginning is unknown (T48)."""
    age = np.maximum(int(now.timestamp() * 1_000_000) - since, 0) / _DAY
    return np.where(since == UNKNOWN_TIME, np.nan, age)


def recency(days: Numbers, rate: float) -> Numbers:
    """1 / (1 + days × rate); NaN where the age is not known."""
    recent: Numbers = 1.0 / (1.0 + days * rate)
    return recent


def boosted(scores: Numbers, days: Numbers, rate: float) -> Numbers:
    """Scores × (1 + recency), at most doubled; as they are without a rate, or where the age is not known (S2-35)."""
    if rate == 0.0:
        return scores
    return scores * np.minimum(1.0 + np.nan_to_num(recency(days, rate)), MOST_BOOSTED)


def best_facts(graph: Graph, edges: Places, scores: Numbers, limit: int) -> Offsets:
    """Which of these relations are the `limit` best: by score, then id, each statement once (S2-32).

    Two are one statement if source, relation, target and type are the same.
    """
    take = 4 * limit
    while True:
        order = _top(edges, scores, take)
        kept = list(islice(_first_of_each(graph, edges[order]), limit))
        if len(kept) >= limit or take >= len(edges):
            return order[kept]
        take *= 8


def _first_of_each(graph: Graph, edges: Places) -> Iterator[int]:
    """Places of the relations that repeat none before them."""
    parts = (graph.source[edges], graph.target[edges], graph.predicate[edges], graph.kind[edges])
    met: set[tuple[int, ...]] = set()
    for place, key in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        if key not in met:
            met.add(key)
            yield place


def _top(edges: Places, scores: Numbers, take: int) -> Offsets:
    places = np.arange(len(scores))
    if take < len(scores):
        places = np.flatnonzero(scores >= np.partition(scores, -take)[-take])
    order: Offsets = places[np.lexsort((edges[places], -scores[places]))]
    return order[:take]


def ranked(levels: Numbers, nodes: Places) -> Places:
    """The nodes by their levels, the highest first; of equal ones the smaller id."""
    return nodes[np.lexsort((nodes, -levels[nodes]))]


# What lies around one entity, ring by ring (S2-37). Over relations only: links between similar entities connect nothing
# here.


UNREACHED = -1


@dataclass(frozen=True, slots=True)
class Rings:
    """The surroundings of a node: the distance of each node of the graph, (n,), -1 if it was not reached.

    `edges` were gone over, nearest first, then in order of ids; `distances`, from 1, says of each how far its farther
    end is at least, by this edge.
    """

    depths: Places
    edges: Places
    distances: Places


def rings(walk_graph: WalkGraph, start: int, hops: int, edge_types: Sequence[str] = ()) -> Rings:
    """All that is at most `hops` relations away from a node, in either direction."""
    depths = np.full(len(walk_graph.graph), UNREACHED, np.int32)
    depths[start] = 0
    is_new = np.ones(len(walk_graph.graph.edges), np.bool_)
    ring, edges = np.array([start], np.int32), []
    for depth in range(1, hops + 1):
        steps = walk_graph.steps(ring, edge_types)
        met = np.unique(steps.edge[is_new[steps.edge]])
        is_new[met] = False
        edges.append(met)
        ring = np.unique(steps.end[depths[steps.end] == UNREACHED])
        depths[ring] = depth
        if not len(ring):
            break
    found = np.concatenate([np.zeros(0, np.int32), *edges])
    return Rings(depths, found, np.repeat(np.arange(1, len(edges) + 1), [len(met) for met in edges]).astype(np.int32))


def spread(
    walk_graph: WalkGraph, seeds: Seeds, settings: WalkSettings, now: datetime, limit: int, is_over: IsOver = never
) -> Walk:
    """At most `limit` relations between activated entities, each statement once, best first.

    A relation's score is the level of its more activated end, the highest that it was after any hop. An entity may
    light up an earlier one again (an echo). Seeds start at 1, or at their scores (S2-42). Where nobody said since when
    a relation is true, its age costs nothing. Entities that inhibited ones point to still receive: inhibited is who has
    enough (S2-43).
    """
    chosen, graph = settings.spread, walk_graph.graph
    levels, facts, depths = np.zeros(len(graph)), np.zeros(len(graph.edges)), np.zeros(len(graph), np.int32)
    levels[seeds.nodes] = 1.0 if chosen.seed_activation == "uniform" else seeds.scores

    def is_active(level: Numbers) -> Flags:
        return (level >= chosen.activation_threshold) & (level > 0.0)

    for hop in range(1, chosen.max_hops + 1):
        if is_over():
            return Walk()
        steps = walk_graph.steps(np.flatnonzero(is_active(levels)).astype(np.int32), settings.edge_types)
        flow = levels[steps.start] * chosen.decay_lambda * _strength(walk_graph, steps.edge, settings, now)
        passes = np.flatnonzero(is_active(flow) & (levels[steps.end] < chosen.inhibition_threshold))
        passes = passes[np.lexsort((steps.edge[passes], steps.end[passes]))]
        ends, arrived = _arrivals(steps.end[passes], flow[passes], chosen.inhibition_threshold)
        is_rising = arrived > levels[ends]
        levels[ends[is_rising]], depths[ends[is_rising]] = arrived[is_rising], hop
        lit = np.flatnonzero(levels).astype(np.int32)
        levels[ranked(levels, lit)[chosen.max_activated_nodes :]] = 0.0
        edges = steps.edge[steps.edge < len(graph.edges)]
        sides = np.stack((levels[graph.source[edges]], levels[graph.target[edges]]))
        is_lit = is_active(sides.min(axis=0))
        facts[edges[is_lit]] = np.maximum(facts[edges[is_lit]], sides.max(axis=0)[is_lit])
    if is_over():
        return Walk()
    met = np.flatnonzero(facts).astype(np.int32)
    met = met[best_facts(graph, met, facts[met], limit)]
    hops = np.minimum(depths[graph.source[met]], depths[graph.target[met]])
    nodes = ranked(levels, np.flatnonzero(is_active(levels)).astype(np.int32))
    return Walk(met, facts[met], hops, nodes, levels[nodes], depths[nodes])


def _strength(walk_graph: WalkGraph, edges: Places, settings: WalkSettings, now: datetime) -> Numbers:
    """The share of a level that passes over each relation or link."""
    graph = walk_graph.graph
    is_link = edges >= len(graph.edges)
    facts, over = edges[~is_link], np.empty(len(edges))
    over[is_link] = walk_graph.cosines(edges[is_link] - len(graph.edges))
    over[~is_link] = weights(graph, facts)
    if settings.temporal_decay_rate:
        recent = recency(days_since(graph.since[facts], now), settings.temporal_decay_rate)
        over[~is_link] *= np.nan_to_num(recent, nan=1.0)
    return over


def _arrivals(end: Places, flow: Numbers, inhibition: float) -> tuple[Places, Numbers]:
    """Who receives, and how much in all, at most 1; `end` is sorted.

    One flow after the other at each receiver, until it has `inhibition` or more; so a few turns over all receivers do.
    """
    ends, first, count = np.unique(end, return_index=True, return_counts=True)
    total, waiting, turn = np.zeros(len(ends)), np.arange(len(ends)), 0
    while len(waiting):
        total[waiting] += flow[first[waiting] + turn]
        turn += 1
        waiting = waiting[(count[waiting] > turn) & (total[waiting] < inhibition)]
    return ends, np.minimum(total, 1.0)
