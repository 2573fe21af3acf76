"""Facts that belong before a model together: connected, cohesive, few (S1-03, T28)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.common.comparison.similarity import Vectors
from slowwave.common.settings import MergeSettings
from slowwave.facts.deduplication import pairs_for_a_model
from slowwave.facts.deduplication.pairs_for_a_model import clusters_of

SCHEMA = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64}


def names(count: int) -> pl.Series:
    return pl.Series([f"f{number:05d}" for number in range(count)], dtype=pl.String)


def unit(rows: np.ndarray) -> Vectors:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def at_angles(*cosines: float) -> Vectors:
    """Vectors in a row on a circle, each with the given cosine to the one before."""
    angles = np.concatenate([[0.0], np.cumsum(np.arccos(cosines))])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def all_pairs(ids: pl.Series, vectors: Vectors, jaccard: float = 0.0) -> pl.DataFrame:
    """Every pair with its exact cosine."""
    first, second = np.triu_indices(len(ids), 1)
    cosines = np.einsum("ij,ij->i", vectors[first], vectors[second]).astype(np.float64)
    return pl.DataFrame(
        {"a_id": ids.gather(first), "b_id": ids.gather(second), "cosine": cosines,
         "jaccard": np.full(len(first), jaccard)}, schema=SCHEMA,
    )  # fmt: skip


def found(vectors: Vectors, resolve: float = 0.60, jaccard: float = 0.0, **more: int) -> list[list[str]]:
    ids = names(len(vectors))
    clusters = clusters_of(ids, vectors, all_pairs(ids, vectors, jaccard), MergeSettings(**more), resolve)
    return clusters.group_by("cluster", maintain_order=True).agg("id")["id"].to_list()


def bunches(count: int, size: int, spread: float, seed: int, dims: int = 16) -> Vectors:
    """`count` random directions, `size` vectors about each; the spread is that of a member about its direction."""
    chance = np.random.default_rng(seed)
    centres = np.repeat(chance.normal(size=(count, dims)), size, axis=0)
    return unit(centres + spread * chance.normal(size=centres.shape))


def test_s1_03_facts_at_the_resolve_cosine_are_one_cluster_and_those_below_are_not() -> None:
    assert found(at_angles(0.60)) == [["f00000", "f00001"]]
    assert found(at_angles(0.59)) == []


def chain(length: int) -> Vectors:
    """Facts of which each is like the one before and no other: every link turns into a direction of its own."""
    apart = np.eye(length, dtype=np.float32)
    for row in range(1, length):
        apart[row] = 0.62 * apart[row - 1] + np.sqrt(1 - 0.62**2) * apart[row]
    return apart


def test_t28_a_chain_above_the_limit_is_cut_into_facts_that_are_alike() -> None:
    apart = chain(13)
    parts = found(apart)
    assert max(map(len, parts)) == 2
    index = {name: row for row, name in enumerate(names(13))}
    for part in parts:
        rows = apart[[index[name] for name in part]]
        assert (rows @ rows.T).min() >= 0.60


def test_s1_03_a_component_that_is_too_large_is_cut_a_little_higher_until_every_part_fits() -> None:
    near = bunches(count=1, size=1, spread=0.0, seed=1)
    chance = np.random.default_rng(2)
    centres = unit(near + 0.15 * chance.normal(size=(3, 16)))
    tight = unit(np.repeat(centres, 8, axis=0) + 0.01 * chance.normal(size=(24, 16)))
    assert len(found(tight, max_cluster_size=24)) == 1
    parts = found(tight, max_cluster_size=12)
    assert [len(part) for part in parts] == [8, 8, 8]
    assert parts[0] == [f"f{number:05d}" for number in range(8)]


def test_s1_03_equal_vectors_that_never_part_are_split_in_order_of_their_ids() -> None:
    parts = found(np.repeat(at_angles(), 30, axis=0), max_cluster_size=12)
    assert [len(part) for part in parts] == [10, 10, 10]
    assert [name for part in parts for name in part] == names(30).to_list()


def clusters(vectors: Vectors, *pairs: tuple[str, str, float | None, float | None], most: int = 12) -> list[list[str]]:
    frame = pl.DataFrame(pairs, schema=SCHEMA, orient="row")
    made = clusters_of(names(len(vectors)), vectors, frame, MergeSettings(max_cluster_size=most), 0.6)
    return made.group_by("cluster", maintain_order=True).agg("id")["id"].to_list()


A, B, C = names(3)


def test_a_pair_counts_in_either_order_with_its_best_values_and_never_for_one_fact() -> None:
    three = np.eye(3, dtype=np.float32)
    assert clusters(three, (B, A, 0.6, 0.0)) == clusters(three, (B, A, 0.1, 0.0), (A, B, 0.6, None)) == [[A, B]]
    assert clusters(three, (C, A, None, 0.9), (B, B, 1.0, 1.0)) == [[A, C]]
    assert clusters(three, (A, B, None, None), (A, C, 0.59, None), (B, C, None, 0.84)) == []


def bridged(vectors: Vectors, step: int) -> Vectors:
    """The vectors and, between each bunch of so many and the next, one that is like both: all hang together."""
    first = vectors[::step]
    return np.concatenate([vectors, unit(first + 0.9 * np.roll(first, 1, axis=0))])


def test_a_component_over_the_limit_is_parted_by_hdbscan_and_loses_no_close_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs_for_a_model, "PARTITION_FROM", 20)
    parted = found(bridged(bunches(count=30, size=3, spread=0.05, seed=3), 3))
    place = {name: number for number, part in enumerate(parted) for name in part}
    trios = [{place.get(name) for name in names(90)[n * 3 : n * 3 + 3]} for n in range(30)]
    assert [places for places in trios if len(places) > 1 or None in places] == []


def test_a_component_too_large_for_memory_is_cut_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_for_a_model, "LARGEST", 20)
    vectors = bunches(count=10, size=4, spread=0.02, seed=4, dims=3)
    parts = found(vectors, resolve=0.6)
    assert {name for part in parts for name in part} == set(names(40))
    assert max(map(len, parts)) <= 12


@st.composite
def _scattered(draw: st.DrawFn) -> tuple[Vectors, int, float]:
    seed, count = draw(st.integers(0, 10_000)), draw(st.integers(0, 40))
    spread = draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(4, 5))[chance.integers(0, 4, count)]
    vectors = unit(centres + spread * chance.normal(size=(count, 5))) if count else np.empty((0, 5), np.float32)
    return vectors, draw(st.integers(2, 12)), draw(st.sampled_from([0.6, 0.8, 0.95]))


@settings(max_examples=12, deadline=None)
@given(_scattered(), st.booleans())
def test_clusters_are_disjoint_never_too_large_and_cohesive_where_they_were_cut(
    drawn: tuple[Vectors, int, float], is_parted: bool
) -> None:
    vectors, size, resolve = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_for_a_model, "PARTITION_FROM", 10 if is_parted else 2000)
        parts = found(vectors, resolve, max_cluster_size=size)
    listed = [name for part in parts for name in part]
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(names(len(vectors)))
    row = {name: number for number, name in enumerate(names(len(vectors)))}
    for part in parts:
        assert 2 <= len(part) <= size
        assert part == sorted(part)
        members = vectors[[row[name] for name in part]]
        outside = vectors[[row[name] for name in row if name not in part]]
        is_whole = not len(outside) or (members @ outside.T).max() < resolve - 1e-4
        mean = (members @ members.T)[np.triu_indices(len(part), 1)].mean()
        assert is_whole or mean >= resolve - 1e-4
    assert [part[0] for part in parts] == sorted(part[0] for part in parts)
