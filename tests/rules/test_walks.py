"""Walks over a graph: breadth first and spreading activation beside plain loops, and paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common import frames
from slowwave.common.settings import SpreadSettings, WalkSettings
from slowwave.graph.graph import EDGE_TYPES, Graph, build_graph
from slowwave.graph.walks import (
    TYPE_WEIGHTS,
    Seeds,
    Walk,
    WalkGraph,
    boosted,
    breadth_first,
    spread,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)
EVERYTHING = 10_000
Edge = dict[str, Any]


def edge(name: str, source: str, target: str, weight: float = 0.9, kind: str = "semantic", **more: Any) -> Edge:
    return {
        "id": name, "subject_id": source, "object_id": target, "predicate": "knows", "weight": weight,
        "edge_type": kind, **more,
    }  # fmt: skip


def graph_of(edges: Sequence[Edge], ids: Iterable[str] = ()) -> Graph:
    named = {end for one in edges for end in (one["subject_id"], one["object_id"])}
    relations = pl.DataFrame(list(edges), schema=frames.EDGES)
    return build_graph(pl.Series("id", sorted(named | {*ids}), pl.String), relations)


def from_(graph: Graph, **scores: float) -> Seeds:
    return Seeds(graph.places(list(scores)), np.array(list(scores.values())))


def levels(graph: Graph, walk: Walk) -> dict[str, float]:
    return dict(zip(graph.ids.gather(walk.nodes), walk.levels.tolist(), strict=True))


def told(graph: Graph, walk: Walk) -> list[tuple[str, float, int]]:
    """The relations of a walk: id, score, hops."""
    ids = graph.edges["id"].gather(walk.edges)
    return list(zip(ids, walk.scores.tolist(), walk.hops.tolist(), strict=True))


CHAIN = [edge("ab", "A", "B"), edge("bc", "B", "C"), edge("cd", "C", "D")]


def walking(**spreading: Any) -> WalkSettings:
    return WalkSettings(spread=SpreadSettings(**spreading))


# Golden values


@pytest.mark.parametrize(
    ("base", "days", "rate", "expected"),
    [(0.2, 1, 1.0, 0.3), (0.36, 30, 0.1, 0.45), (0.36, 365, 0.1, 0.3696), (0.36, 365, 0.0, 0.36), (0.2, 0, 5.0, 0.4)],
)
def test_s2_35_what_is_recent_counts_up_to_twice(base: float, days: float, rate: float, expected: float) -> None:
    assert boosted(np.array([base]), np.array([float(days)]), rate)[0] == pytest.approx(expected, abs=1e-4)


def test_s2_35_what_nobody_dated_gets_no_boost_and_a_future_time_counts_as_now() -> None:
    later, undated = edge("f", "A", "B", valid_from=NOW + timedelta(days=9)), edge("u", "A", "C")
    graph = graph_of([later, undated])
    walk = breadth_first(WalkGraph(graph), from_(graph, A=1.0), WalkSettings(temporal_decay_rate=1.0), NOW, 9)
    assert {name: score for name, score, *_ in told(graph, walk)} == pytest.approx({"f": 1.8, "u": 0.9})


def test_s2_41_activation_runs_along_a_chain_and_comes_back_as_an_echo() -> None:
    graph = graph_of(CHAIN)
    walk = spread(WalkGraph(graph), from_(graph, A=1.0), WalkSettings(), NOW, 9)
    assert levels(graph, walk) == pytest.approx({"A": 1.0, "B": 1.0, "C": 0.585225, "D": 0.447697}, abs=1e-6)
    depth = dict(zip(graph.ids.gather(walk.nodes), walk.depths.tolist(), strict=True))
    assert depth == {"A": 0, "B": 3, "C": 2, "D": 3}


def test_s2_41_the_threshold_itself_is_enough() -> None:
    graph = graph_of([edge("ab", "A", "B", 0.5)])
    for threshold, lit in ((0.425, {"A", "B"}), (0.4251, {"A"})):  # 1 × .85 × .5
        walk = spread(WalkGraph(graph), from_(graph, A=1.0), walking(activation_threshold=threshold), NOW, 9)
        assert {*levels(graph, walk)} == lit
        assert len(walk.edges) == len(lit) - 1


def test_s2_43_an_entity_with_enough_receives_no_more_within_a_hop_or_after_it() -> None:
    ways = [edge("1", "A", "D", 0.5), edge("2", "B", "D", 0.5), edge("3", "C", "D", 0.2)]
    graph = graph_of(ways)
    walk = spread(WalkGraph(graph), from_(graph, A=1.0, B=1.0, C=1.0), walking(max_hops=1), NOW, 9)
    assert levels(graph, walk)["D"] == pytest.approx(0.85)  # the third way would make it 1
    late = [edge("1", "E", "D", 0.9), edge("2", "A", "D", 0.95), edge("3", "A", "E", 0.5)]
    graph = graph_of(late)
    walk = spread(WalkGraph(graph), from_(graph, A=1.0), walking(max_hops=2), NOW, 9)
    assert levels(graph, walk)["D"] == pytest.approx(0.8075)  # E, lit in the first hop, would make it 1
    weaker = spread(WalkGraph(graph), from_(graph, A=1.0), walking(max_hops=2, inhibition_threshold=0.9), NOW, 9)
    assert levels(graph, weaker)["D"] == 1.0


@pytest.mark.parametrize(
    ("kind", "level"),
    [("causal", 0.612), ("semantic", 0.51), ("temporal", 0.459), ("hierarchical", 0.408), ("co_occurrence", 0.306)],
)
def test_s2_31_each_type_of_relation_passes_on_its_share(kind: str, level: float) -> None:
    graph = graph_of([edge("ab", "A", "B", 0.6, kind)])
    walk = spread(WalkGraph(graph), from_(graph, A=1.0), walking(max_hops=1), NOW, 9)
    assert levels(graph, walk)["B"] == pytest.approx(level)
    near = breadth_first(WalkGraph(graph), from_(graph, A=0.5), WalkSettings(), NOW, 9)
    assert near.scores.tolist() == pytest.approx([0.5 * 0.6 * TYPE_WEIGHTS[kind]])


def test_s2_31_a_relation_counts_less_the_farther_its_nearer_end_is() -> None:
    graph = graph_of([edge("ba", "B", "A", 0.5), edge("bc", "B", "C", 0.5), edge("dc", "D", "C", 0.5)])
    walk = breadth_first(WalkGraph(graph), from_(graph, A=0.8), WalkSettings(max_hops=3), NOW, 9)
    assert told(graph, walk) == [("ba", 0.4, 0), ("bc", 0.2, 1), ("dc", pytest.approx(0.4 / 3), 2)]


# Beside plain loops


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Edge], dict[str, float]]:
    """A multigraph of a few entities, with relations that repeat, and seeds."""
    ids = "abcdefghij"[: draw(st.integers(2, 10))]
    relations = []
    for number in range(draw(st.integers(1, 25))):
        source, target = draw(st.permutations(ids))[:2]
        since = draw(st.one_of(st.none(), st.integers(-5, 400).map(lambda days: NOW - timedelta(days=days))))
        weight = draw(st.sampled_from([0.0, 0.1, 0.15, 0.3, 0.5, 0.8, 0.9, 1.0]))
        kind, said = draw(st.sampled_from([*EDGE_TYPES, "strange"])), draw(st.sampled_from(["p", "q"]))
        relations.append(edge(f"r{number:02d}", source, target, weight, kind, predicate=said, valid_from=since))
    scores = st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0])
    seeds = draw(st.dictionaries(st.sampled_from(ids), scores, min_size=1, max_size=4))
    return relations, {name: score for name, score in seeds.items() if any(name in _ends(one) for one in relations)}


def _ends(one: Edge) -> tuple[str, str]:
    return one["subject_id"], one["object_id"]


def _kind(one: Edge) -> str:
    return one["edge_type"] if one["edge_type"] in EDGE_TYPES else "semantic"


def _passes(one: Edge, types: Sequence[str]) -> bool:
    return not types or _kind(one) in types


def _age(one: Edge) -> float | None:
    since = one["valid_from"]
    return None if since is None else max((NOW - since) / timedelta(days=1), 0.0)


def _best(found: dict[str, tuple[Any, ...]], by_id: dict[str, Edge]) -> list[tuple[Any, ...]]:
    """Best first, each statement once; a finding is a score and what else is known."""
    kept: dict[tuple[str, ...], tuple[Any, ...]] = {}
    for name, rest in sorted(found.items(), key=lambda item: (-item[1][0], item[0])):
        one = by_id[name]
        kept.setdefault((*_ends(one), one["predicate"], _kind(one)), (name, *rest))
    return list(kept.values())


def plain_breadth_first(edges: list[Edge], seeds: dict[str, float], chosen: WalkSettings) -> list[tuple[Any, ...]]:
    """One walk per seed, with a set of visited entities; of each relation the best of all walks."""
    best: dict[str, tuple[float, int]] = {}
    for seed, match in sorted(seeds.items()):
        depth, ring = {seed: 0}, [seed]
        for hop in range(chosen.max_hops):
            outer: list[str] = []
            for one in edges:
                if not _passes(one, chosen.edge_types) or not {*_ends(one)} & {*ring}:
                    continue
                found = (match / (1 + min(depth.get(end, hop + 1) for end in _ends(one))), hop)
                if one["id"] not in best or (found[0], -hop) > (best[one["id"]][0], -best[one["id"]][1]):
                    best[one["id"]] = found
                outer += [end for end in _ends(one) if end not in depth and end not in outer]
            depth |= dict.fromkeys(outer, hop + 1)
            ring = outer
    by_id = {one["id"]: one for one in edges}
    scored = {}
    for name, (match, hop) in best.items():
        one = by_id[name]
        score, age = match * (one["weight"] * TYPE_WEIGHTS[_kind(one)]), _age(one)
        recent = 0.0 if age is None else 1 / (1 + age * chosen.temporal_decay_rate)
        scored[name] = (score * min(1 + recent, 2) if chosen.temporal_decay_rate else score, hop)
    return _best(scored, by_id)


def plain_spread(
    edges: list[Edge], seeds: dict[str, float], chosen: WalkSettings
) -> tuple[dict[str, float], list[tuple[Any, ...]]]:
    """S2-41 as it is written, in the order of the relations' ids."""
    how, rate = chosen.spread, chosen.temporal_decay_rate
    held = {seed: 1.0 if how.seed_activation == "uniform" else score for seed, score in seeds.items()}
    facts: dict[str, tuple[float]] = {}
    for _ in range(how.max_hops):
        active = {name for name, level in held.items() if level >= how.activation_threshold}
        met = [one for one in edges if _passes(one, chosen.edge_types) and {*_ends(one)} & active]
        fresh: dict[str, float] = {}
        for one in met:
            for start, end in (_ends(one), _ends(one)[::-1]):
                full = max(held.get(end, 0.0), fresh.get(end, 0.0)) >= how.inhibition_threshold
                if start not in active or full:
                    continue
                age = _age(one)
                over = one["weight"] * TYPE_WEIGHTS[_kind(one)]
                over *= 1.0 if rate == 0 or age is None else 1 / (1 + age * rate)
                flow = held[start] * how.decay_lambda * over
                if flow >= how.activation_threshold:
                    fresh[end] = min(1.0, fresh.get(end, 0.0) + flow)
        for name, level in fresh.items():
            held[name] = max(held.get(name, 0.0), level)
        held = dict(sorted(held.items(), key=lambda item: (-item[1], item[0]))[: how.max_activated_nodes])
        for one in met:
            ends = [held.get(end, 0.0) for end in _ends(one)]
            if min(ends) >= how.activation_threshold:
                facts[one["id"]] = (max(*ends, facts.get(one["id"], (0.0,))[0]),)
    lit = {name: level for name, level in held.items() if level >= how.activation_threshold}
    return lit, _best(facts, {one["id"]: one for one in edges})


@given(graphs(), st.integers(0, 4), st.sampled_from([0.0, 0.1]), st.sampled_from([(), ("causal", "semantic")]))
def test_s2_30_a_walk_from_several_seeds_is_the_best_of_the_walks_from_each(
    made: tuple[list[Edge], dict[str, float]], hops: int, rate: float, types: tuple[str, ...]
) -> None:
    edges, seeds = made
    graph = graph_of(edges)
    chosen = WalkSettings.model_validate({"max_hops": hops, "temporal_decay_rate": rate, "edge_types": types})
    expected = plain_breadth_first(edges, seeds, chosen)
    walk = breadth_first(WalkGraph(graph), from_(graph, **seeds), chosen, NOW, EVERYTHING)
    assert told(graph, walk) == [(name, pytest.approx(score), hop) for name, score, hop in expected]
    cut = breadth_first(WalkGraph(graph), from_(graph, **seeds), chosen, NOW, 3)
    assert told(graph, cut) == told(graph, walk)[:3]


@given(
    graphs(), st.integers(1, 4), st.sampled_from([0.0, 0.01]), st.sampled_from([0.05, 0.1, 0.3]),
    st.sampled_from([0.5, 0.8, 1.0]), st.sampled_from([3, 50]), st.booleans(),
)  # fmt: skip
def test_s2_41_spreading_in_arrays_is_spreading_in_a_loop(
    made: tuple[list[Edge], dict[str, float]],
    hops: int, rate: float, threshold: float, inhibition: float, most: int, is_hybrid: bool,
) -> None:  # fmt: skip
    edges, seeds = made
    graph = graph_of(edges)
    chosen = WalkSettings(
        temporal_decay_rate=rate,
        spread=SpreadSettings(
            max_hops=hops, activation_threshold=threshold, inhibition_threshold=inhibition, max_activated_nodes=most,
            seed_activation="hybrid" if is_hybrid else "uniform",
        ),
    )  # fmt: skip
    lit, facts = plain_spread(edges, seeds, chosen)
    walk = spread(WalkGraph(graph), from_(graph, **seeds), chosen, NOW, EVERYTHING)
    assert list(levels(graph, walk).items()) == sorted(lit.items(), key=lambda item: (-item[1], item[0]))
    assert [(name, score) for name, score, *_ in told(graph, walk)] == facts


# What a walk goes over


def test_s2_71_a_link_to_a_similar_entity_leads_on_and_is_no_fact() -> None:
    graph = graph_of([edge("bc", "B", "C")], "A")
    links = build_graph(graph.ids, pl.DataFrame([edge("l1", "A", "B", 0.9)], schema=frames.EDGES))
    alone = breadth_first(WalkGraph(graph), from_(graph, A=1.0), WalkSettings(), NOW, 9)
    assert len(alone.edges) == 0
    near = breadth_first(WalkGraph(graph, similar=links), from_(graph, A=1.0), WalkSettings(), NOW, 9)
    assert told(graph, near) == [("bc", pytest.approx(0.9 / 2 * 0.9), 1)]
    lit = spread(WalkGraph(graph, similar=links), from_(graph, A=1.0), WalkSettings(), NOW, 9)
    assert told(graph, lit) == [("bc", 1.0, 2)]
    assert levels(graph, lit) == pytest.approx({"A": 1.0, "B": 1.0, "C": 0.9 * 0.85 * 0.9 * 0.85})


def test_s2_44_a_walk_whose_time_is_over_finds_nothing() -> None:
    graph = graph_of(CHAIN)
    for walk, hops in ((breadth_first, 1), (breadth_first, 2), (spread, 1), (spread, 3)):  # also after the last hop
        looks = iter([*[False] * hops, True])
        found = walk(WalkGraph(graph), from_(graph, A=1.0), WalkSettings(), NOW, 9, lambda looks=looks: next(looks))
        assert (len(found.edges), len(found.nodes)) == (0, 0)
