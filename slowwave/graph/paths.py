"""Paths: what lies around one entity, ring by ring, and the shortest way from one to another (S2-37).

Over relations only: links between similar entities connect nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowwave.graph.graph import Numbers, Offsets, Places, Steps
from slowwave.graph.walks import Ground

UNREACHED = -1
NEVER = -1.0
_LAST = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Rings:
    """Everything around a node: how far away each node of the graph is, (n,), -1 if it was not reached.

    `edges` were gone over, nearest first, then in order of ids; `distances`, from 1, says of each how far its farther
    end is at least, by this edge.
    """

    depths: Places
    edges: Places
    distances: Places


def rings(ground: Ground, start: int, hops: int, edge_types: Sequence[str] = ()) -> Rings:
    """All that is at most `hops` relations away from a node, in either direction."""
    depths = np.full(len(ground.graph), UNREACHED, np.int32)
    depths[start] = 0
    is_new = np.ones(len(ground.graph.edges), np.bool_)
    ring, edges = np.array([start], np.int32), []
    for depth in range(1, hops + 1):
        steps = ground.steps(ring, edge_types)
        met = np.unique(steps.edge[is_new[steps.edge]])
        is_new[met] = False
        edges.append(met)
        ring = np.unique(steps.end[depths[steps.end] == UNREACHED])
        depths[ring] = depth
        if not len(ring):
            break
    found = np.concatenate([np.zeros(0, np.int32), *edges])
    return Rings(depths, found, np.repeat(np.arange(1, len(edges) + 1), [len(met) for met in edges]).astype(np.int32))


def shortest_path(ground: Ground, start: int, end: int, hops: int, edge_types: Sequence[str] = ()) -> Places | None:
    """The fewest relations that lead from one node to another, in order; None if it takes more than `hops`.

    Of ways with as few the surest: the one whose weights multiply to most, then the one with the smallest ids.
    """
    size = len(ground.graph)
    sureness = np.full(size, NEVER)
    came_over, came_from = np.full(size, _LAST, np.int32), np.zeros(size, np.int32)
    sureness[start], ring = 1.0, np.array([start], np.int32)
    for _ in range(hops):
        if sureness[end] != NEVER or not len(ring):
            break
        steps = ground.steps(ring, edge_types)
        arrives = steps.end == end
        wanted = np.flatnonzero(arrives if arrives.any() else sureness[steps.end] == NEVER)
        steps = Steps(steps.start[wanted], steps.end[wanted], steps.edge[wanted])
        best = _surest(steps, sureness, ground.graph.weight[steps.edge], came_over)
        ring = steps.end[best]
        came_from[ring] = steps.start[best]
    return _way_back(start, end, came_over, came_from) if sureness[end] != NEVER else None


def _surest(steps: Steps, sureness: Numbers, weight: Numbers, came_over: Places) -> Offsets:
    """For each end the step that makes it surest, then the one over the smallest edge; both are noted down."""
    offered = sureness[steps.start] * weight
    np.maximum.at(sureness, steps.end, offered)
    best = np.flatnonzero(offered == sureness[steps.end])
    np.minimum.at(came_over, steps.end[best], steps.edge[best])
    chosen: Offsets = best[steps.edge[best] == came_over[steps.end[best]]]
    return chosen


def _way_back(start: int, end: int, came_over: Places, came_from: Places) -> Places:
    edges: list[int] = []
    while end != start:
        edges.append(int(came_over[end]))
        end = int(came_from[end])
    return np.array(edges[::-1], np.int32)
