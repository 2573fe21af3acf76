"""Which entities belong together: label propagation and the groups that are made of it (S2-46)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.communities import likeness, small
from slowwave.common import frames
from slowwave.graph.community_detection import NO_GROUP, find_groups, propagate_labels, visiting_order
from slowwave.graph.graph import Graph, build_graph

Pairs = Sequence[tuple[int, int]]


def graph(nodes: int, pairs: Pairs, prefix: str = "e") -> Graph:
    """The graph of nodes that are named in order, and of relations between them."""
    names = [f"{prefix}{number:06d}" for number in range(nodes)]
    ends = {"subject_id": [names[a] for a, _ in pairs], "object_id": [names[b] for _, b in pairs]}
    edges = pl.DataFrame({"id": [f"f{number:05d}" for number in range(len(pairs))], **ends})
    return build_graph(pl.Series(names, dtype=pl.String), frames.conform(edges, frames.EDGES))


def one_by_one(of: Graph, max_rounds: int = 50, order: Sequence[int] | None = None) -> list[int]:
    """Label propagation as it is told: one node after the other, in order of the digests of their ids."""
    ids = of.ids.to_list()
    neighbours: list[list[int]] = [[] for _ in ids]
    for a, b in zip(of.source.tolist(), of.target.tolist(), strict=True):
        neighbours[a].append(b)
        neighbours[b].append(a)
    digests = [hashlib.blake2b(each.encode(), digest_size=8).digest() for each in ids]
    order = order or sorted(range(len(ids)), key=lambda node: digests[node])
    labels = list(range(len(ids)))
    for _ in range(max_rounds):
        before = list(labels)
        for node in order:
            votes = Counter(labels[other] for other in neighbours[node])
            if votes:
                labels[node] = min(votes, key=lambda label: (-votes[label], label))
        if labels == before:
            break
    return labels


def ascending(of: Graph) -> list[int]:
    """The same, but visited in order of the ids."""
    return one_by_one(of, order=range(len(of)))


def clique(first: int, size: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(first, first + size) for b in range(a + 1, first + size)]


def star(centre: int, first: int, size: int) -> list[tuple[int, int]]:
    return [(centre, leaf) for leaf in range(first, first + size)]


def chain(first: int, size: int) -> list[tuple[int, int]]:
    return [(node, node + 1) for node in range(first, first + size - 1)]


@st.composite
def multigraphs(draw: st.DrawFn) -> Graph:
    """Random relations, some of them parallel, over cliques, a star and a chain; some nodes have none."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 45), st.integers(0, 45)), max_size=120))
    pairs += clique(0, draw(st.integers(0, 9))) + clique(10, draw(st.integers(0, 9)))
    pairs += star(20, 21, draw(st.integers(0, 12))) + chain(34, draw(st.integers(1, 8)))
    return graph(50, pairs, draw(st.sampled_from(["e", "x", "name "])))


def groups(found: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(found == number).tolist()) for number in set(found.tolist()) - {NO_GROUP}}


@given(multigraphs(), st.sampled_from([0, 1, 2, 50]))
def test_s2_46_whom_nothing_changed_for_may_be_left_out(of: Graph, max_rounds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slowwave.graph.community_detection.MAX_ROUNDS", max_rounds)
        assert propagate_labels(of).tolist() == one_by_one(of, max_rounds)


@pytest.mark.parametrize(
    ("pairs", "nodes"), [([(0, 1)], 2), (chain(0, 10), 10), (star(0, 1, 6), 7), (clique(0, 12), 12)]
)
def test_t16_a_pair_a_chain_a_star_and_a_clique_are_one_group_each(pairs: Pairs, nodes: int) -> None:
    names = [graph(nodes, pairs, prefix) for prefix in "abcdefgh"]
    found = [groups(find_groups(of)) for of in names]
    assert all(len(parts) >= 1 and all(len(part) > 1 for part in parts) for parts in found)
    if nodes != 10:  # a chain is cut where the visits of some order begin
        assert found == [{frozenset(range(nodes))}] * len(names)


def test_t15_the_order_of_visits_depends_on_ids_alone_and_not_on_their_order() -> None:
    few, many = (pl.Series([f"e{number}" for number in range(100, 100 + size)]) for size in (40, 200))
    order = [many[place] for place in visiting_order(many).tolist()]
    assert [few[place] for place in visiting_order(few).tolist()] == [each for each in order if each in set(few)]
    assert order != sorted(order)


def test_s2_46_fewer_than_two_related_entities_are_no_group() -> None:
    assert find_groups(graph(0, [])).tolist() == []
    assert find_groups(graph(1, [(0, 0)])).tolist() == [NO_GROUP]
    assert find_groups(graph(4, [(1, 2)])).tolist() == [NO_GROUP, 0, 0, NO_GROUP]


def test_t15_planted_groups_are_found_though_ids_are_in_their_order() -> None:
    drawn = [small(10, 10, 0.5, 0.5, seed) for seed in range(8)]
    means = [
        np.mean([likeness(each.truth, found(each.graph)) for each in drawn]) for found in (propagate_labels, ascending)
    ]
    assert means[0] > 0.90
    assert means[1] < 0.87
