"""Groups in a graph of a million relations, beside igraph and networkit, and how well planted groups are found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.common import frames
from slowwave.graph.community_detection import propagate_labels
from slowwave.graph.graph import Graph, build_graph

from .figures import Absent, Cost, Figure, Options, measured
from .metrics import mean

SEED = 19
REPEATS = 5
LONG_S = 5.0  # what takes longer is measured once
IGRAPH_BAR, NETWORKIT_BAR = 1.0, 3.0  # times of peers
GRAPHS = 20
SETTINGS = ((10, 10, 0.5, 0.5), (10, 10, 0.5, 1.0), (20, 10, 0.5, 0.5), (5, 20, 0.2, 0.5))
"""Groups, members of each, chance that two members are related, share of nodes with a relation to outside."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Planted:
    """A graph, the group of each node as it was planted (None: there are none), and what it is called."""

    name: str
    graph: Graph
    truth: Rows | None = None


def run(options: Options) -> Iterable[Figure]:
    """Time of each engine on each graph, all in one run, then how much of what was planted is found."""
    missing = [name for name in ("igraph", "networkit") if not find_spec(name)]
    if missing:
        raise Absent(f"{' and '.join(missing)} not installed: pip install -e .[bench]")
    edges = 100_000 if options.is_quick else 1_000_000
    for planted in (in_groups(edges), with_hubs(edges)):
        yield from _times(planted)
    yield from _found()


def in_groups(edges: int) -> Planted:
    """Groups of a hundred; seven of ten relations stay within one."""
    random = np.random.default_rng(SEED)
    nodes, size = edges // 10, 100
    start = random.integers(0, nodes, edges)
    inside = start // size * size + random.integers(0, size, edges)
    end = np.where(random.random(edges) < 0.7, inside, random.integers(0, nodes, edges))
    return Planted("planted groups", _graph(nodes, start, end), np.arange(nodes) // size)


def with_hubs(edges: int) -> Planted:
    """Both ends by Zipf's law: a few nodes have thousands of relations."""
    random = np.random.default_rng(SEED)
    nodes = edges // 10
    share = (np.arange(nodes) + 1.0) ** -0.8
    start, end = random.permutation(nodes)[random.choice(nodes, (2, edges), p=share / share.sum())]
    return Planted("hubs", _graph(nodes, start, end))


def small(groups: int, members: int, within: float, outside: float, seed: int) -> Planted:
    """Groups whose ids are in the order in which they were made, as in a store."""
    random = np.random.default_rng(seed)
    nodes = groups * members
    truth = np.arange(nodes) // members
    first, second = np.triu_indices(nodes, 1)
    related = (truth[first] == truth[second]) & (random.random(len(first)) < within)
    drawn = random.permutation(nodes)[: int(nodes * outside) // 2 * 2].reshape(-1, 2)
    drawn = drawn[truth[drawn[:, 0]] != truth[drawn[:, 1]]]
    start, end = np.vstack([np.column_stack([first[related], second[related]]), drawn]).T
    return Planted(f"{groups} × {members}", _graph(nodes, start, end, f"e{seed}-"), truth)


def _graph(nodes: int, start: Rows, end: Rows, prefix: str = "e") -> Graph:
    ids = pl.select(pl.lit(prefix) + pl.int_range(nodes).cast(pl.String).str.zfill(7)).to_series()
    edges = pl.DataFrame({"subject_id": ids.gather(start), "object_id": ids.gather(end)})
    named = edges.with_columns(id=pl.lit("f") + pl.int_range(pl.len()).cast(pl.String).str.zfill(7))
    return build_graph(ids, frames.conform(named, frames.EDGES))


def _times(planted: Planted) -> Iterator[Figure]:
    graph = planted.graph
    name = f"{len(graph.source):,} relations, {planted.name}"
    graph.steps(np.zeros(1, dtype=np.int32))  # what a graph computes once
    costs, notes = _in_turn(planted, _engines(graph))
    for engine, cost in costs.items():
        yield Figure("communities", f"{name}: {engine}", cost.wall_s, "s", note=notes[engine])
    for ours, peer, bar in (
        ("label propagation", "igraph label propagation", IGRAPH_BAR),
        ("label propagation", "networkit, 1 thread", NETWORKIT_BAR),
    ):
        ratio, note = costs[ours].cpu_s / costs[peer].cpu_s, "processor time; each has one thread"
        yield Figure("communities", f"{name}: {ours} beside {peer}", ratio, "×", bar, "lower", note)


def _engines(graph: Graph) -> dict[str, Callable[[], Any]]:
    """Each returns the label of every node; graphs are built in every engine's own form beforehand."""
    import igraph
    import networkit

    network = igraph.Graph(n=len(graph), edges=np.column_stack([graph.source, graph.target]))
    other = networkit.Graph(len(graph))
    other.addEdges((graph.source.astype(np.uint64), graph.target.astype(np.uint64)))

    def by_networkit(threads: int) -> list[int]:
        networkit.setNumberOfThreads(threads)
        found = networkit.community.PLP(other)
        return list(found.run().getPartition().getVector())

    return {
        "label propagation": lambda: propagate_labels(graph),
        "igraph label propagation": lambda: network.community_label_propagation().membership,
        "igraph Leiden": lambda: network.community_leiden("modularity").membership,
        "networkit, 1 thread": lambda: by_networkit(1),
        "networkit, all threads": lambda: by_networkit(os.cpu_count() or 1),
    }


def _in_turn(planted: Planted, engines: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Cost], dict[str, str]]:
    """The least that each took, and what it found; they take turns, so that a busy moment meets all of them."""
    costs: dict[str, Cost] = {}
    notes: dict[str, str] = {}
    for _ in range(REPEATS):
        for engine, work in engines.items():
            if costs.get(engine, Cost()).wall_s < LONG_S:
                with measured() as cost:
                    labels = work()
                known = costs.get(engine, cost)
                costs[engine] = Cost(min(known.wall_s, cost.wall_s), min(known.cpu_s, cost.cpu_s))
                notes[engine] = _told(planted, labels)
    return costs, notes


def _told(planted: Planted, labels: Any) -> str:
    sizes = np.unique(np.asarray(labels), return_counts=True)[1]
    groups = f"{int((sizes > 1).sum()):,} groups"
    return groups if planted.truth is None else f"{groups}, NMI {likeness(planted.truth, labels):.3f}"


def _found() -> Iterator[Figure]:
    """Mean NMI of planted groups."""
    for setting in SETTINGS:
        drawn = [small(*setting, seed) for seed in range(GRAPHS)]
        groups, members, within, outside = setting
        name = f"{groups} × {members}, {within:g} within, {outside:g} outside"
        labels = [propagate_labels(each.graph) for each in drawn]
        found = mean(likeness(each.truth, own) for each, own in zip(drawn, labels, strict=True))
        note = f"{mean(len(np.unique(own)) for own in labels):.1f} of {groups} groups, {GRAPHS} graphs"
        yield Figure("communities", f"{name}: NMI", found, note=note)


def likeness(truth: Any, labels: Any) -> float:
    """Normalised mutual information of two partitions, 0 to 1; two that do not part anything are the same."""
    _, first = np.unique(np.asarray(truth), return_inverse=True)
    _, second = np.unique(np.asarray(labels), return_inverse=True)
    joint = first.astype(np.int64) * (second.max(initial=0) + 1) + second
    whole, one, other = (_entropy(np.unique(part, return_counts=True)[1]) for part in (joint, first, second))
    return 1.0 if one + other == 0.0 else 2.0 * (one + other - whole) / (one + other)


def _entropy(sizes: Rows) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())
