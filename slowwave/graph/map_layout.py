"""Where each entity lies on the map: communities apart from each other, neighbours near each other, nothing on top.

Groups are discs: first the discs settle, then the nodes within them. Relations draw together, and what comes too near
is moved apart after each round. No chance: the same graph gives the same map.
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

ROUNDS, SPACING_ROUNDS = 100, 40
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
    degree = np.bincount(np.concatenate((source, target)), minlength=nodes)
    radius = np.sqrt(np.bincount(homes, weights=(LOOSENESS * room) ** 2))
    is_loose = (degree == 0) & (np.bincount(homes)[homes] == 1)
    tied = np.unique(homes[~is_loose])
    middles = np.zeros((len(radius), 2))
    middles[tied] = _packed(np.searchsorted(tied, homes[source]), np.searchsorted(tied, homes[target]), radius[tied])
    middle, reach = middles[homes], radius[homes]
    order = np.lexsort((np.arange(nodes), -degree, homes))  # the most related in the middle of its disc
    sizes = np.bincount(homes)
    rank = np.arange(nodes) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = middle.copy()
    places[order] += _sunflower(rank, np.sqrt((rank + 0.5) / sizes[homes[order]] / 2.0) * reach[order])
    weight = np.where(homes[source] != homes[target], FOREIGN, 1.0)
    pull = weight / np.sqrt(np.maximum(np.minimum(degree[source], degree[target]), 1))
    unit = LOOSENESS * float(np.median(room))
    for step in np.geomspace(6.0 * unit, 0.05 * unit, ROUNDS):
        away = places - middle
        length = np.hypot(*away.T)
        beyond = np.maximum(length - reach, 0.0) / np.maximum(length, 1e-12)
        force = unit * _pulled(places, source, target, pull, 4.0 * unit)
        places += _at_most(force - away * beyond[:, None], step)
        places = _spaced(places, room, 1)
    places = _spaced(places, room, SPACING_ROUNDS)
    outside = np.hypot(*places[~is_loose].T).max(initial=0.0)
    loose, widest = np.arange(is_loose.sum()), float(room[is_loose].max(initial=1.0))
    rings = np.sqrt((1.05 * outside + 2.0 * widest) ** 2 + loose * (2.4 * widest) ** 2 / 2.0)
    places[is_loose] = _sunflower(loose, rings)
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
    return np.asarray(np.unique(homes, return_inverse=True)[1].astype(np.int32))


def _packed(source: Cells, target: Cells, radius: Numbers) -> Points:
    """The middle of each disc: they touch but do not overlap, those that are related near each other."""
    places = np.zeros((len(radius), 2))
    if not len(radius):
        return places
    order = np.argsort(-radius, kind="stable")
    places[order] = _sunflower(np.arange(len(radius)), np.sqrt(np.cumsum(radius[order] ** 2) / 0.5))
    is_between, span, wide = source != target, float(np.hypot.reduce(radius)), 1.12 * radius
    pairs, count = np.unique(np.stack((source, target), axis=1)[is_between], axis=0, return_counts=True)
    busy = np.bincount(pairs.ravel(), weights=np.repeat(np.log1p(count), 2), minlength=len(radius)) + 1.0
    for step in np.geomspace(span / 8.0, span / 200.0, min(ROUNDS, 20 + 30_000 // len(radius))):
        inwards = 0.5 * places / (np.hypot(*places.T)[:, None] + wide.mean())
        drawn = _pulled(places, pairs[:, 0], pairs[:, 1], np.log1p(count), span / 8.0) / busy[:, None]
        places = _spaced(places + _at_most((drawn - inwards) * step, step), wide, 3)
    places = _spaced(places, wide, SPACING_ROUNDS)
    return places - np.average(places, axis=0, weights=radius**2)


def _sunflower(rank: Cells, radius: Numbers) -> Points:
    """Points at these distances from a middle, each turned by the golden angle from the one before."""
    angle = GOLDEN_ANGLE * rank
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)


def _at_most(moves: Points, longest: float) -> Points:
    """The moves, none longer than that."""
    length = np.hypot(*moves.T)[:, None]
    share: Numbers = np.minimum(1.0, longest / np.maximum(length, 1e-12))
    return moves * share


def _pulled(
    places: Points, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], weight: Numbers, far: float
) -> Points:
    """The pull of the edges on each place: it grows with their length, hardly beyond `far`."""
    apart = places[target] - places[source]
    pull = weight[:, None] * apart / (far + np.hypot(*apart.T)[:, None])
    sums = [np.bincount(ends, side, len(places)) for side in pull.T for ends in (source, target)]
    return np.stack((sums[0] - sums[1], sums[2] - sums[3]), axis=1)


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
        same_spot = _sunflower(first + second, np.ones(len(first)))
        towards = np.where(length[is_near, None] > 1e-9, apart[is_near], same_spot)
        push = 0.5 * lacking[is_near, None] * towards / np.maximum(np.hypot(*towards.T), 1e-9)[:, None]
        yielding = (room[first] ** 2 / (room[first] ** 2 + room[second] ** 2))[:, None]  # the smaller gives way
        for axis in range(2):
            places[:, axis] += np.bincount(second, (yielding * push)[:, axis], len(places))
            places[:, axis] -= np.bincount(first, ((1.0 - yielding) * push)[:, axis], len(places))
    return places
