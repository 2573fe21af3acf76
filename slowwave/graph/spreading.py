"""Spreading activation: entities pass on what reaches them, so that what many ways lead to lights up (S2-41 … S2-43).

Each hop, every active entity sends its level along its relations. What arrives at one entity adds up, in order of the
relations' ids, until it is activated so much that it is inhibited: then it receives no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from slowwave.settings import WalkSettings

from .graph import Graph, Numbers, Offsets, Places, Steps
from .walks import IsOver, Seeds, Walk, WalkGraph, best_facts, days_since, never, ranked, recency, weights


def spread(
    walk_graph: WalkGraph, seeds: Seeds, settings: WalkSettings, now: datetime, limit: int, is_over: IsOver = never
) -> Walk:
    """At most `limit` relations between activated entities, each statement once, best first.

    A relation's score is the level of its more activated end, the highest that it was after any hop. An entity may
    light up an earlier one again (an echo), unless `no_backflow`: then nothing passes back over the relation by which
    it came. Seeds start at 1, or at their scores (S2-42). Where nobody said since when a relation is true, its age
    costs nothing. Entities that inhibited ones point to still receive: inhibited is who has enough (S2-43).
    """
    chosen, graph = settings.spread, walk_graph.graph
    state = _State(graph)
    state.levels[seeds.nodes] = 1.0 if chosen.seed_activation == "uniform" else seeds.scores
    state.origin[seeds.nodes] = seeds.nodes
    for hop in range(chosen.max_hops):
        if is_over():
            return Walk()
        active = np.flatnonzero((state.levels >= chosen.activation_threshold) & (state.levels > 0.0)).astype(np.int32)
        steps = walk_graph.steps(active, settings.edge_types)
        state.receive(_flows(walk_graph, steps, state, settings, now), settings, hop + 1)
        state.keep_top(chosen.max_activated_nodes)
        state.collect(steps.edge[steps.edge < len(graph.edges)], chosen.activation_threshold)
    return Walk() if is_over() else _walk(graph, state, chosen.activation_threshold, limit)


@dataclass(frozen=True, slots=True)
class _Flows:
    """The levels sent, (s,): from, to, over which edge, how much; in order of receiver, then edge."""

    start: Places
    end: Places
    edge: Places
    level: Numbers


class _State:
    """Levels of entities, how many hops they came over and from which seed; relations that were lit up so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.levels, self.facts = np.zeros(len(graph)), np.zeros(len(graph.edges))
        self.is_lit = np.zeros(len(graph.edges), np.bool_)
        self.depths, self.origin = np.zeros(len(graph), np.int32), np.zeros(len(graph), np.int32)
        self.came_by = np.zeros(0, np.int64)  # edge and receiver, as one number

    def receive(self, flows: _Flows, settings: WalkSettings, depth: int) -> None:
        """Add up what arrives at each entity; it rises to that if it is more than it had."""
        taken, ends, arrived = _arrivals(flows, settings.spread.inhibition_threshold)
        rising, is_fresh = arrived > self.levels[ends], self.levels[ends] == 0.0
        by_strength = taken[np.lexsort((-flows.level[taken], flows.end[taken]))]
        strongest = by_strength[np.unique(flows.end[by_strength], return_index=True)[1]]
        self.origin[ends[is_fresh]] = self.origin[flows.start[strongest[is_fresh]]]
        self.levels[ends[rising]], self.depths[ends[rising]] = arrived[rising], depth
        if settings.spread.no_backflow:
            self.came_by = np.union1d(self.came_by, _passages(flows.edge[taken], flows.end[taken], len(self.levels)))

    def keep_top(self, count: int) -> None:
        """Only the most activated entities stay."""
        lit = np.flatnonzero(self.levels).astype(np.int32)
        if len(lit) > count:
            self.levels[ranked(self.levels, lit)[count:]] = 0.0

    def collect(self, edges: Places, threshold: float) -> None:
        """Relations of which both ends are active light up as their more activated end."""
        ends = np.stack((self.levels[self.graph.source[edges]], self.levels[self.graph.target[edges]]))
        is_lit = (ends.min(axis=0) >= threshold) & (ends.min(axis=0) > 0.0)
        lit = edges[is_lit]
        self.is_lit[lit] = True
        self.facts[lit] = np.maximum(self.facts[lit], ends.max(axis=0)[is_lit])


def _flows(walk_graph: WalkGraph, steps: Steps, state: _State, settings: WalkSettings, now: datetime) -> _Flows:
    """The level sent over each step, if it is high enough and the receiver is not inhibited yet."""
    chosen, graph, relations = settings.spread, walk_graph.graph, len(walk_graph.graph.edges)
    over = np.empty(len(steps.edge))
    is_link = steps.edge >= relations
    facts = steps.edge[~is_link]
    over[is_link] = walk_graph.cosines(steps.edge[is_link] - relations)
    over[~is_link] = weights(graph, facts)
    if settings.temporal_decay_rate:
        recent = recency(days_since(graph.since[facts], now), settings.temporal_decay_rate)
        over[~is_link] *= np.nan_to_num(recent, nan=1.0)
    level = state.levels[steps.start] * chosen.decay_lambda * over
    passes = (level >= chosen.activation_threshold) & (level > 0.0)
    passes &= state.levels[steps.end] < chosen.inhibition_threshold
    if chosen.no_backflow:
        passes &= ~np.isin(_passages(steps.edge, steps.start, len(graph)), state.came_by)
    kept = np.flatnonzero(passes)
    kept = kept[np.lexsort((steps.edge[kept], steps.end[kept]))]
    return _Flows(steps.start[kept], steps.end[kept], steps.edge[kept], level[kept])


def _arrivals(flows: _Flows, inhibition: float) -> tuple[Offsets, Places, Numbers]:
    """Which flows are taken, who takes any, and how much each takes in all, at most 1.

    One after the other at each receiver, until it has `inhibition` or more; so a few turns over all receivers do.
    """
    ends, first, count = np.unique(flows.end, return_index=True, return_counts=True)
    total, taken = np.zeros(len(ends)), [np.zeros(0, np.int64)]
    waiting, turn = np.arange(len(ends)), 0
    while len(waiting):
        taken.append(first[waiting] + turn)
        total[waiting] += flows.level[taken[-1]]
        turn += 1
        waiting = waiting[(count[waiting] > turn) & (total[waiting] < inhibition)]
    return np.concatenate(taken), ends, np.minimum(total, 1.0)


def _passages(edge: Places, node: Places, nodes: int) -> Offsets:
    """An edge with one of its ends, as one number."""
    return edge.astype(np.int64) * nodes + node


def _walk(graph: Graph, state: _State, threshold: float, limit: int) -> Walk:
    met = np.flatnonzero(state.is_lit).astype(np.int32)
    best = best_facts(graph, met, state.facts[met], limit)
    edges = met[best]
    source, target = graph.source[edges], graph.target[edges]
    leading = np.where(state.levels[source] >= state.levels[target], source, target)
    hops = np.minimum(state.depths[source], state.depths[target])
    nodes = ranked(state.levels, np.flatnonzero((state.levels >= threshold) & (state.levels > 0.0)).astype(np.int32))
    found = (edges, state.facts[edges], hops, state.origin[leading])
    return Walk(*found, nodes, state.levels[nodes], state.depths[nodes])
