"""Candidate pairs: what is close in meaning, against brute force (S1-02, S1-03, S1-09, S1-12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from measures import jaccard

from slowwave.common.comparison import similarity
from slowwave.common.comparison.similarity import close_pairs
from slowwave.common.settings import MergeSettings
from slowwave.facts.deduplication.duplicates import SEED_MATCHES, Vectors, find_pairs

FACT = {"scope": "global", "kind": "relation", "statement": "", "is_seed": True}
SETTINGS = MergeSettings()
WORDS = st.lists(st.sampled_from("ana ben likes tea not in oslo now".split()), max_size=7).map(" ".join)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "scope": st.sampled_from(["global", "work"]),
            "kind": st.sampled_from(["relation", "observation", "note", "structural", "similarity"]),
            "statement": WORDS,
            "is_seed": st.booleans(),
            "vector": st.tuples(*[st.integers(-2, 2)] * 3),
        }
    ),
    max_size=14,
)


def table(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Facts named f0000, f0001, … with what is not said filled in."""
    told = [{**FACT, "id": f"f{place:04d}", **row} for place, row in enumerate(rows)]
    schema = {"id": pl.String, "scope": pl.String, "kind": pl.String, "statement": pl.String, "is_seed": pl.Boolean}
    return pl.DataFrame([{name: row[name] for name in schema} for row in told], schema=schema)


def unit(rows: object, dims: int = 3) -> Vectors:
    """Unit rows; zero ones stay."""
    array = np.asarray(rows, dtype=np.float32).reshape(-1, dims)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return np.divide(array, norms, out=np.zeros_like(array), where=norms > 0)


def at_angle(*cosines: float) -> Vectors:
    """The first axis, and rows that have these cosines to it, each along an axis of its own."""
    rows = np.zeros((len(cosines) + 1, len(cosines) + 2), dtype=np.float32)
    rows[0, 0] = 1.0
    for place, cosine in enumerate(cosines, start=1):
        rows[place, 0], rows[place, place + 1] = cosine, np.sqrt(1 - cosine**2)
    return rows


def ends(pairs: pl.DataFrame) -> set[tuple[str, str]]:
    return set(pairs.select("a_id", "b_id").iter_rows())


def brute_force(facts: pl.DataFrame, vectors: Vectors, settings: MergeSettings, resolve: float) -> set[tuple[str, str]]:
    """Every pair looked at, then each seed's best of those that are not seeds."""
    rows = list(zip(facts.iter_rows(named=True), vectors, strict=True))
    close: set[tuple[str, str]] = set()
    existing: dict[str, list[tuple[float, str, float]]] = {}
    for (one, first), (two, second) in combinations(rows, 2):
        is_fit = one["scope"] == two["scope"] and not {one["kind"], two["kind"]} & {"structural", "similarity"}
        cosine, overlap = float(np.vecdot(first, second)), jaccard(one["statement"], two["statement"])
        is_near = cosine > 0 and np.float32(cosine) >= np.float32(resolve)
        if not is_fit or not is_near:
            continue
        if one["is_seed"] and two["is_seed"]:
            close.add((min(one["id"], two["id"]), max(one["id"], two["id"])))
        elif one["is_seed"] or two["is_seed"]:
            seed, other = (one, two) if one["is_seed"] else (two, one)
            existing.setdefault(seed["id"], []).append((-cosine, other["id"], overlap))
    limit = settings.max_existing_matches
    for seed, options in existing.items():
        best = sorted(options)
        if settings.rerank:
            pool = best[: limit * settings.rerank_multiplier]
            best = sorted(pool, key=lambda each: (0.7 * each[0] - 0.3 * each[2], each[1]))
        close |= {(min(seed, other), max(seed, other)) for _, other, _ in best[:limit]}
    return close


@effort(max_examples=25, deadline=None)
@given(ROWS, st.floats(0.05, 0.99), st.integers(1, 4), st.booleans(), st.integers(1, 3))
def test_the_pairs_are_those_that_brute_force_finds(
    rows: list[dict[str, Any]], resolve: float, limit: int, rerank: bool, more: int
) -> None:
    facts, vectors = table(rows), unit([row["vector"] for row in rows])
    settings = MergeSettings(max_existing_matches=limit, rerank=rerank, rerank_multiplier=more)
    found = find_pairs(facts, vectors, settings, resolve)
    assert ends(found) == brute_force(facts, vectors, settings, resolve)
    said = dict(facts.select("id", "statement").iter_rows())
    assert found["jaccard"].to_list() == pytest.approx(
        [jaccard(said[a], said[b]) for a, b in found.select("a_id", "b_id").iter_rows()]
    )


def test_the_bound_is_included() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 0]], dtype=np.float32)
    facts = table([{"statement": text} for text in ("one", "two", "three")])
    assert ends(find_pairs(facts, vectors, SETTINGS, 0.6)) == {("f0000", "f0001")}


def test_a_seed_keeps_its_nearest_existing_facts_and_equals_by_id() -> None:
    vectors = at_angle(0.9, 0.7, 0.8, 0.7)
    facts = table([{"is_seed": place == 0, "statement": f"t{place}"} for place in range(5)])
    found = find_pairs(facts, vectors, MergeSettings(max_existing_matches=3), 0.6)
    assert ends(found) == {("f0000", f"f000{place}") for place in (1, 2, 3)}


def test_reranking_looks_at_more_and_prefers_shared_words() -> None:
    vectors = at_angle(0.82, 0.8)
    said = ["Ana keeps bees", "something else entirely", "Ana keeps goats"]
    facts = table([{"is_seed": place == 0, "statement": text} for place, text in enumerate(said)])
    plain, reranked = (MergeSettings(max_existing_matches=1, rerank=on) for on in (False, True))
    assert ends(find_pairs(facts, vectors, plain, 0.6)) == {("f0000", "f0001")}
    assert ends(find_pairs(facts, vectors, reranked, 0.6)) == {("f0000", "f0002")}


def test_of_thousands_of_seeds_that_say_the_same_each_meets_the_first_few_and_not_all() -> None:
    count = 3000
    rows: list[dict[str, Any]] = [{"statement": "Ana likes tea."}] * count
    facts = table([*rows, {"statement": "ana likes tea", "is_seed": False}])
    found = find_pairs(facts, unit([[1, 0, 0]] * (count + 1)), SETTINGS, 0.6)
    assert found.filter(pl.col("a_id") == "f0000")["b_id"].n_unique() == count
    assert len(found) <= (count + 1) * (SEED_MATCHES + 1)


def exact(vectors: Vectors, seeds: int, threshold: float) -> set[tuple[int, int]]:
    first, second = np.nonzero(vectors[:seeds] @ vectors.T >= threshold)
    return {(int(a), int(b)) for a, b in zip(first, second, strict=True) if a < b}


@pytest.mark.parametrize("seeds", [300, 1800])
def test_over_many_blocks_no_pair_is_lost(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    vectors = unit(random.normal(size=(60, 80))[random.integers(0, 60, 1800)] + random.normal(0, 0.35, (1800, 80)), 80)
    for name, value in (("_STRIPE", 128), ("_TILE", 256), ("_PENDING", 500)):
        monkeypatch.setattr(similarity, name, value)
    found = close_pairs(vectors, seeds, 0.8, 10_000, 10_000)
    assert set(zip(found.first.tolist(), found.second.tolist(), strict=True)) == exact(vectors, seeds, 0.8)
    assert found.cosine == pytest.approx(np.vecdot(vectors[found.first], vectors[found.second]))


def test_the_best_pairs_are_the_same_however_often_they_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit(np.random.default_rng(5).normal(size=(700, 6)) + 1.0, 6)
    whole = close_pairs(vectors, 500, 0.3, 4, 3)
    for name, value in (("_STRIPE", 64), ("_TILE", 96), ("_PENDING", 50)):
        monkeypatch.setattr(similarity, name, value)
    parts = close_pairs(vectors, 500, 0.3, 4, 3)
    assert [part.tolist() for part in parts] == [part.tolist() for part in whole]
    outer = whole.first[whole.second >= 500]
    assert np.bincount(outer).max() == 3
