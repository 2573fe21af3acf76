"""Which nodes of a graph belong together, by the algorithm that was chosen (S2-46)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.errors import MissingDependency
from slowwave.settings import CommunitySettings

from .graph import Graph, Offsets, Places

# Leiden: groups that are more related within than chance would have it, by python-igraph (an extra).


ITERATIONS = 2
"""Of the whole algorithm, as igraph and leidenalg have it; more change hardly anything."""
_lock = Lock()  # igraph has one source of chance for the whole process


def leiden_labels(graph: Graph, resolution: float = 1.0, seed: int = 0) -> Places:
    """The group of each node, (n,) int32, by modularity; parallel relations weigh as many as there are.

    A higher resolution finds more and smaller groups. A node without neighbours is a group of its own. The same graph
    and seed give the same groups. Raises `MissingDependency` where igraph is not installed.
    """
    igraph = _igraph()
    pairs, times = _pairs(graph)
    network = igraph.Graph(n=len(graph), edges=pairs)
    with _chance(igraph, seed):
        found = network.community_leiden(
            objective_function="modularity", weights=times, resolution=resolution, n_iterations=ITERATIONS
        )
    return np.asarray(found.membership, dtype=np.int32)


def _igraph() -> Any:
    try:
        import igraph
    except ImportError as error:
        raise MissingDependency("Leiden needs igraph.", 'Run `pip install "slowwave[leiden]"`.') from error
    return igraph


def _pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Each pair of neighbours once, (p, 2), and how many relations it has, (p,)."""
    low, high = np.minimum(graph.source, graph.target), np.maximum(graph.source, graph.target)
    keys, times = np.unique(low.astype(np.int64) * max(len(graph), 1) + high, return_counts=True)
    return np.column_stack(np.divmod(keys, max(len(graph), 1))), times.astype(np.float64)


@contextmanager
def _chance(igraph: Any, seed: int) -> Iterator[None]:
    """Inside, igraph draws from this seed; afterwards from Python's own generator again, as it does by default."""
    with _lock:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            yield
        finally:
            igraph.set_random_number_generator(random)


# Label propagation: nodes take over what most of their neighbours are called, until names settle (S2-46, T15, T16).
# Nodes are updated in place, one after the other, in an order that only depends on their ids. That is done many at a
# time and comes to exactly the same: the level of a node is one more than the highest among its neighbours that come
# earlier, so nodes of one level are never neighbours and all of them may be updated at once, level after level. A
# node whose neighbours kept their labels since it looked at them would choose as before, and is left out.


DIGEST_BYTES = 8
"""Of blake2b, read as one number, the most significant byte first; equal digests are ordered by id."""
_NARROW = np.iinfo(np.uint32).max


def propagate_labels(graph: Graph, max_rounds: int = 50) -> Places:
    """The label of each node, (n,) int32: the place of the node whose name it bears; its own where it has no neighbour.

    A node takes the label that most of its relations lead to, parallel ones counted each, of equally many the smallest.
    All nodes are visited once a round, in `visiting_order`; a round that changes nothing is the last.
    """
    sweep = _Sweep(graph)
    for _ in range(max_rounds):
        if not sweep.goes_round():
            break
    return sweep.labels()


def visiting_order(ids: pl.Series) -> Offsets:
    """Places in the order of the digests of these sorted ids, (n,) int64: the same for an id in every graph."""
    new = hashlib.blake2b
    digests = b"".join([new(each.encode(), digest_size=DIGEST_BYTES).digest() for each in ids.to_list()])
    return np.argsort(np.frombuffer(digests, dtype=f">u{DIGEST_BYTES}").astype(np.uint64), kind="stable")


class _Sweep:
    """The connected nodes in order of their levels; all arrays are in this order, and `near` names places in it."""

    def __init__(self, graph: Graph) -> None:
        rank = np.empty(len(graph), dtype=np.int32)
        rank[visiting_order(graph.ids)] = np.arange(len(graph), dtype=np.int32)
        levels = list(_levels(graph, rank))
        self._nodes = np.concatenate([np.empty(0, dtype=np.int32), *levels])
        self._bounds = np.concatenate(([0], np.cumsum([len(level) for level in levels], dtype=np.int64)))
        self._counts = graph.degree[self._nodes]
        self._starts = np.concatenate(([0], np.cumsum(self._counts)))
        place = np.zeros(len(graph), dtype=np.int32)
        place[self._nodes] = np.arange(len(self._nodes), dtype=np.int32)
        self._near = place[graph.steps(self._nodes).end]
        self._labels = self._nodes.astype(np.uint32)
        self._is_due = np.ones(len(self._nodes), dtype=bool)
        self._limit = len(graph)

    def labels(self) -> Places:
        """As `propagate_labels` returns them."""
        whole = np.arange(self._limit, dtype=np.int32)
        whole[self._nodes] = self._labels
        return whole

    def goes_round(self) -> bool:
        """Visit all nodes that are due, level by level; returns whether any label changed."""
        has_changed = False
        for first, last in zip(self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True):
            due = np.flatnonzero(self._is_due[first:last]) + first
            if len(due):
                has_changed |= self._has_effect(due, is_all=len(due) == last - first)
        return has_changed

    def _has_effect(self, due: Offsets, *, is_all: bool) -> bool:
        """Visit these nodes of one level, in their order; returns whether a label changed."""
        first, last = due[0], due[-1] + 1
        if is_all:
            near, counts = self._near[self._starts[first] : self._starts[last]], self._counts[first:last]
        else:
            near, counts = self._neighbours(due), self._counts[due]
        chosen = _most_frequent(self._labels[near], counts, self._limit)
        is_new = chosen != self._labels[due]
        self._is_due[due] = False
        self._labels[due] = chosen
        self._is_due[self._neighbours(due[is_new])] = True
        return bool(is_new.any())

    def _neighbours(self, nodes: Offsets) -> Places:
        return self._near[_slots(self._starts[nodes], self._counts[nodes])]


def _slots(starts: Offsets, counts: Offsets) -> Offsets:
    """The numbers from each start, as many as counted."""
    ends = np.cumsum(counts)
    slots = np.repeat(starts - (ends - counts), counts)
    slots += np.arange(len(slots))
    return slots


def _levels(graph: Graph, rank: Places) -> Iterator[Places]:
    """Nodes with neighbours by level: a node waits for its neighbours of lower rank, and is at once after the last."""
    owner = np.repeat(np.arange(len(graph), dtype=np.int32), graph.degree)
    is_later = rank[graph.near] > rank[owner]
    later, counts = graph.near[is_later], np.bincount(owner[is_later], minlength=len(graph))
    starts = np.cumsum(counts) - counts
    waits_for = graph.degree - counts
    ready = np.flatnonzero((waits_for == 0) & (graph.degree > 0)).astype(np.int32)
    while len(ready):
        yield ready
        followers = later[_slots(starts[ready], counts[ready])]
        np.subtract.at(waits_for, followers, 1)
        ready = np.unique(followers[waits_for[followers] == 0])


def _most_frequent(labels: npt.NDArray[np.uint32], counts: Offsets, limit: int) -> npt.NDArray[np.uint32]:
    """The most frequent of each row of labels, which are below `limit`; of equally frequent ones the smallest.

    Rows lie one after the other, `counts` long, none empty.
    """
    wide = np.uint32 if len(counts) * limit <= _NARROW else np.uint64
    keys = np.repeat(np.arange(0, len(counts) * limit, limit, dtype=wide), counts)
    np.add(keys, labels, out=keys)
    keys.sort()
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    times = np.diff(starts, append=len(keys))
    row, label = np.divmod(keys[starts], wide(limit))
    first_of_row = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
    best = np.maximum.reduceat(times * limit + (limit - 1 - label.astype(np.int64)), first_of_row)
    return (limit - 1 - best % limit).astype(np.uint32)


NO_GROUP = -1


def find_groups(graph: Graph, settings: CommunitySettings) -> Places:
    """The group of each node, (n,) int32: 0 to g − 1 in order of their smallest ids; NO_GROUP where it is alone.

    The same graph always gives the same groups. Fewer than two nodes are no group. Raises `MissingDependency` where
    Leiden is asked for and igraph is not installed.
    """
    if settings.algorithm == "leiden":
        return _numbered(leiden_labels(graph, settings.resolution))
    return _numbered(propagate_labels(graph, settings.max_rounds))


def _numbered(labels: Places) -> Places:
    """Labels as group numbers, in order of their first place; what one node alone bears is none."""
    _, first, group, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    is_group = sizes > 1
    numbers = np.full(len(sizes), NO_GROUP, dtype=np.int32)
    by_place = np.flatnonzero(is_group)[np.argsort(first[is_group])]
    numbers[by_place] = np.arange(len(by_place), dtype=np.int32)
    return numbers[group]
