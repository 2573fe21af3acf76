"""Leiden: groups that are more related within than chance would have it, by python-igraph (an extra)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from slowwave.errors import MissingDependency
from slowwave.graph.graph import Graph, Places

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
