"""Which nodes of a graph belong together, by the algorithm that was chosen (S2-46)."""

from __future__ import annotations

import numpy as np

from slowwave.graph.graph import Graph, Places
from slowwave.graph.label_propagation import propagate_labels
from slowwave.graph.leiden import leiden_labels
from slowwave.settings import CommunitySettings

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
