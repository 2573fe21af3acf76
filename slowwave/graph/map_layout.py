"""Where each entity lies on the map: communities apart from each other, neighbours near each other, nothing on top.

Relations draw groups together first, each as one disc, and then nodes within their discs; what comes too near is moved
apart after each round. No chance: the same graph gives the same map.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from .graph import Numbers, Places

Points = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

GROUP_ROUNDS, NODE_ROUNDS, SPACING_ROUNDS = 120, 100, 40
GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
LOOSENESS = 1.7
"""How much wider than the nodes the disc of a group is."""
FOREIGN = 0.08
"""The pull of a relation into another group, as a share of one within the group."""


def lay_out(nodes: int, source: Places, target: Places, groups: Places, room: Numbers) -> Points:
    """Positions (nodes, 2) around the origin, for edges (m,) between nodes.

    `groups` (nodes,) are labels from 0 on, -1 for nodes in no group: those lie with what they are related to.
    `room` (nodes,) is the radius that each node wants for itself, in the units of the positions.
    """
    if not nodes:
        return np.zeros((0, 2))
    homes = _homes(nodes, source, target, groups)
    is_loose = np.bincount(np.concatenate((source, target)), minlength=nodes) == 0
    is_loose &= np.bincount(homes)[homes] == 1
    places = np.zeros((nodes, 2))
    tied = np.flatnonzero(~is_loose)
    if len(tied):
        index = np.full(nodes, -1)
        index[tied] = np.arange(len(tied))
        names, inner = np.unique(homes[tied], return_inverse=True)
        edges = (index[source].astype(np.int32), index[target].astype(np.int32))
        places[tied] = _tied(*edges, inner.astype(np.int32), len(names), room[tied])
    reach = np.hypot(*places[tied].T).max() if len(tied) else 0.0
    places[is_loose] = _ring(int(is_loose.sum()), reach, float(room[is_loose].max(initial=1.0)))
    return places


def _homes(nodes: int, source: Places, target: Places, groups: Places) -> Places:
    """The group of every node; nodes without one make groups of those that hang together among themselves."""
    ungrouped = (groups < 0)[source] & (groups < 0)[target]
    ends = (source[ungrouped], target[ungrouped])
    part = connected_components(coo_matrix((np.ones(len(ends[0])), ends), shape=(nodes, nodes)), directed=False)[1]
    homes = np.where(groups >= 0, groups, groups.max(initial=-1) + 1 + part)
    between = (groups < 0)[source] != (groups < 0)[target]
    for alone, other in ((source[between], target[between]), (target[between], source[between])):
        is_guest = (groups[alone] < 0) & (np.bincount(homes)[homes[alone]] == 1)
        homes[alone[is_guest]] = groups[other[is_guest]]
    homes = np.unique(homes, return_inverse=True)[1].astype(np.int32)
    return np.asarray(homes)


def _tied(source: Places, target: Places, homes: Places, groups: int, room: Numbers) -> Points:
    """Positions of nodes that have a relation or a group: every group gets a disc, its nodes settle within."""
    areas: Numbers = np.bincount(homes, weights=(LOOSENESS * room) ** 2, minlength=groups).astype(np.float64)
    middles = _packed(source, target, homes, areas)
    degree = np.bincount(np.concatenate((source, target)), minlength=len(homes))
    unit = LOOSENESS * float(np.median(room))
    middle, radius = middles[homes], np.sqrt(areas)[homes]
    places = middle + _rosettes(homes, degree, areas)
    weight = np.where(homes[source] != homes[target], FOREIGN, 1.0)
    pull = weight / np.sqrt(np.minimum(degree[source], degree[target]))
    for step in np.geomspace(6.0 * unit, 0.05 * unit, NODE_ROUNDS):
        force = np.zeros_like(places)
        _add_pull(force, places, source, target, pull, 4.0 * unit)
        away = places - middle
        length = np.hypot(*away.T)
        beyond: Numbers = np.maximum(length - radius, 0.0) / np.maximum(length, 1e-12)
        places += _at_most(force * unit - away * beyond[:, None], step)
        places = _spaced(places, room, 1)
    return _spaced(places - places.mean(axis=0), room, SPACING_ROUNDS)


def _packed(source: Places, target: Places, homes: Places, areas: Numbers) -> Points:
    """The middle of each group: discs that touch but do not overlap, those that are related near each other."""
    pairs = np.sort(np.stack((homes[source], homes[target])), axis=0)
    pairs, count = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1, return_counts=True)
    order = np.argsort(-areas, kind="stable")
    radius, places = 1.12 * np.sqrt(areas), np.zeros((len(areas), 2))
    places[order] = _spiral(np.sqrt(np.cumsum(areas[order]) / 0.5))
    span, weight = float(np.sqrt(areas.sum())), np.log1p(count)
    busy = np.bincount(pairs.ravel(), weights=np.tile(weight, 2), minlength=len(areas)) + 1.0
    for step in np.geomspace(span / 8.0, span / 200.0, min(GROUP_ROUNDS, 20 + 30_000 // len(areas))):
        force = -0.5 * places / (np.hypot(*places.T)[:, None] + radius.mean())
        drawn = np.zeros_like(force)
        _add_pull(drawn, places, pairs[0], pairs[1], weight, span / 8.0)
        places += _at_most((force + drawn / busy[:, None]) * step, step)
        places = _spaced(places, radius, 3)
    return _spaced(places, radius, SPACING_ROUNDS)


def _spiral(radius: Numbers) -> Points:
    """Points of a sunflower at these distances from its middle."""
    angle = GOLDEN_ANGLE * np.arange(len(radius))
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)


def _rosettes(homes: Places, degree: Cells, areas: Numbers) -> Points:
    """Where each node begins, seen from the middle of its group: the most related in the middle."""
    order = np.lexsort((np.arange(len(homes)), -degree, homes))
    sizes = np.bincount(homes, minlength=len(areas))
    rank = np.arange(len(homes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    radius = np.sqrt((rank + 0.5) / sizes[homes[order]] * areas[homes[order]] / 2.0)
    angle = GOLDEN_ANGLE * rank
    found = np.zeros((len(homes), 2))
    found[order] = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
    return found


def _ring(count: int, reach: float, room: float) -> Points:
    """Places for nodes without relations: rings around the rest."""
    radius = np.sqrt((1.05 * reach + 2.0 * room) ** 2 + np.arange(count) * (2.4 * room) ** 2 / 2.0)
    return _spiral(radius)


def _at_most(moves: Points, longest: float) -> Points:
    """The moves, none longer than that."""
    length = np.hypot(*moves.T)[:, None]
    share: Numbers = np.minimum(1.0, longest / np.maximum(length, 1e-12))
    return moves * share


def _add_pull(force: Points, places: Points, source: Places, target: Places, weight: Numbers, far: float) -> None:
    """Add the pull of the edges: it grows with their length, hardly beyond `far`."""
    apart = places[target] - places[source]
    pull = weight[:, None] * apart / (far + np.hypot(*apart.T)[:, None])
    for axis in range(2):
        force[:, axis] += np.bincount(source, weights=pull[:, axis], minlength=len(places))
        force[:, axis] -= np.bincount(target, weights=pull[:, axis], minlength=len(places))


def _spaced(places: Points, room: Numbers, rounds: int) -> Points:
    """The places moved apart until hardly any two are nearer than the room that both want."""
    widest = 2.0 * float(room.max())
    for _ in range(rounds if len(places) > 1 else 0):
        pairs = cKDTree(places).query_pairs(widest, output_type="ndarray")
        apart = places[pairs[:, 1]] - places[pairs[:, 0]]
        length = np.hypot(*apart.T)
        lacking = room[pairs].sum(axis=1) - length
        is_near = lacking > 0
        if not is_near.any():
            break
        first, second = pairs[is_near].T
        towards = np.where(length[is_near, None] > 1e-9, apart[is_near], _turned(first, second))
        push = 0.5 * lacking[is_near, None] * towards / np.maximum(np.hypot(*towards.T), 1e-9)[:, None]
        yielding = (room[first] ** 2 / (room[first] ** 2 + room[second] ** 2))[:, None]  # the smaller gives way
        for axis in range(2):
            places[:, axis] += np.bincount(second, (yielding * push)[:, axis], len(places))
            places[:, axis] -= np.bincount(first, ((1.0 - yielding) * push)[:, axis], len(places))
    return places


def _turned(first: Cells, second: Cells) -> Points:
    """Directions for pairs that lie on the same spot, none like the next."""
    angle = GOLDEN_ANGLE * (first + second)
    return np.stack((np.cos(angle), np.sin(angle)), axis=1)
