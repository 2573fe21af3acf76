"""The nearest vectors are found exactly, by queries and in memory: against brute force."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from storage import migrations, search, upkeep, vectors
from storage.search import MATCHED, matching_many, nearest, nearest_among
from storage.store import Store
from storage.vectors import VectorRows, Vectors


def unit_rows(count: int, dims: int = 4, *, copies: int = 0) -> np.ndarray:
    """Random directions, the first `copies` of them the same."""
    rows = np.random.default_rng(count).standard_normal((count, dims)).astype(np.float32)
    rows[:copies] = rows[0]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def brute_force(ids: list[str], corpus: np.ndarray, vector: np.ndarray, k: int) -> list[str]:
    cosines = (corpus @ vector).astype(np.float32)
    return sorted(ids, key=lambda name: (-round(float(cosines[ids.index(name)]), 5), name))[:k]


@pytest.mark.proof
@pytest.mark.parametrize(("count", "k"), [(30, 5), (2000, 3), (2000, 7), (5000, 19)])
def test_the_nearest_are_those_that_brute_force_finds(count: int, k: int) -> None:
    rows = unit_rows(count)
    ids = [f"v{n:05d}" for n in range(count)]
    found = nearest_among(pl.Series(ids), rows, k)
    for query in range(0, count, count // 10):
        ours = found.filter(pl.col("query") == query)
        others = [name for n, name in enumerate(ids) if n != query]
        expected = brute_force(others, np.delete(rows, query, axis=0), rows[query], k)
        places = [ids.index(name) for name in expected]
        assert ours["cosine"].to_list() == pytest.approx((rows[places] @ rows[query]).tolist(), abs=1e-5)
        assert ours["cosine"].is_sorted(descending=True)


@pytest.mark.parametrize("copies", [40, 1500])
def test_of_many_equal_vectors_each_query_gets_only_as_many_as_it_asked_for(copies: int) -> None:
    ids = pl.Series([f"v{n:05d}" for n in range(2000)])
    found = nearest_among(ids, unit_rows(2000, copies=copies), 5)
    assert found["query"].value_counts()["count"].unique().to_list() == [5]
    assert found.filter(pl.col("query") < copies)["cosine"].min() == pytest.approx(1.0, abs=1e-5)


def test_a_store_finds_the_rows_that_pass_the_filter_and_have_a_vector(new_store: Callable[[], Store]) -> None:
    store, rows = new_store(), unit_rows(12)
    frame = pl.DataFrame(
        {
            "id": [f"f{n:02d}" for n in range(12)],
            "status": ["active", "rejected"] * 6,
            "vector": pl.Series([None, *rows[1:].tolist()], dtype=pl.Array(pl.Float32, 4)),
        }
    )
    with store.commit("r", "test") as tx:
        tx.upsert("facts", frame)
    found = nearest(store.snapshot(), "facts", rows[:2], 20, "status = 'active'")
    assert set(found["id"]) == {"f02", "f04", "f06", "f08", "f10"}
    assert found["query"].value_counts()["count"].to_list() == [5, 5]


def indexed(store: Store, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """1,200 facts, every eighth without a vector, every second rejected and one in a hundred pinned, with an index."""
    monkeypatch.setattr(migrations, "VECTOR_INDEX_FROM", 1000)
    rows = unit_rows(1200)
    vectors = [None if n % 8 == 7 else row for n, row in enumerate(rows.tolist())]
    frame = pl.DataFrame(
        {
            "id": [f"f{n:04d}" for n in range(1200)],
            "status": ["active", "rejected"] * 600,
            "pinned": [n % 100 == 0 for n in range(1200)],
            "vector": pl.Series(vectors, dtype=pl.Array(pl.Float32, 4)),
        }
    )
    with store.commit("r", "test") as tx:
        tx.upsert("facts", frame)
    assert "facts.vector" in upkeep.tend(store, "r", datetime(2026, 1, 1, tzinfo=UTC), thorough=True).indexed
    return rows


@pytest.mark.parametrize("where", [None, "status = 'active'", "pinned", "pinned AND status = 'rejected'"])
@pytest.mark.parametrize("few", [-1, 2_000], ids=["by the index alone", "few rows by comparison"])
def test_the_index_finds_what_a_comparison_with_all_rows_finds(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch, where: str | None, few: int
) -> None:
    store = new_store()
    asked = indexed(store, monkeypatch)[:150:7]
    exact = nearest(store.snapshot(), "facts", asked, 15, where)
    monkeypatch.setattr(search, "EXACT_ROWS", 1000)
    monkeypatch.setattr(search, "_FEW", few)
    if few < 0:
        monkeypatch.setattr(search, "_exact", pytest.fail)
    found = nearest(store.snapshot(), "facts", asked, 15, where)
    assert found.drop("cosine").equals(exact.drop("cosine"))
    assert found["cosine"].to_list() == pytest.approx(exact["cosine"].to_list(), abs=1e-5)


@pytest.mark.parametrize("where", [None, "status = 'active'", "pinned"])
@pytest.mark.parametrize("most", [1000, 30], ids=["some rows are not indexed", "many rows are not indexed"])
def test_rows_that_the_index_does_not_contain_yet_are_found_as_well(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch, where: str | None, most: int
) -> None:
    store = new_store()
    asked = indexed(store, monkeypatch)[:1200:40]
    old = store.snapshot().frame("facts", columns=["id", "status", "pinned", "vector"]).sort("id")
    vectors = pl.Series(unit_rows(60).tolist(), dtype=pl.Array(pl.Float32, 4))
    changed = old[100:140].with_columns(vector=vectors[:40], status=pl.lit("active"))
    new = old[:140:7].with_columns(id="new-" + pl.col("id"), pinned=pl.lit(True), vector=vectors[40:])
    for rows in (changed, new):
        with store.commit("r", "test") as tx:
            tx.upsert("facts", rows)
    with store.commit("r", "test") as tx:
        tx.delete("facts", [*old["id"][10:20], *new["id"][3:6]])
    snapshot = store.snapshot()
    exact = nearest(snapshot, "facts", asked, 5, where)
    monkeypatch.setattr(search, "EXACT_ROWS", most)
    newer = search._unindexed(snapshot.handle("facts"), "vector_idx", None)
    assert (newer is None) == (most == 30)
    if newer is not None:
        assert sorted(newer["id"]) == sorted([*changed["id"], *new["id"][:3], *new["id"][6:]])
    found = nearest(snapshot, "facts", asked, 5, where)
    assert any(name.startswith("new-") for name in found["id"])
    assert found.drop("cosine").equals(exact.drop("cosine"))
    assert dict(snapshot.by_numbers("facts", found["_rowid"].unique(), ["_rowid", "id"]).iter_rows()) == dict(
        found.select("_rowid", "id").iter_rows()
    )


def said(store: Store, *statements: str) -> None:
    """Facts of these statements, every third of them rejected."""
    status = ["rejected" if place % 3 == 2 else "active" for place in range(len(statements))]
    frame = pl.DataFrame(
        {"id": [f"f{n:02d}" for n in range(len(statements))], "statement": statements, "status": status}
    )
    with store.commit("r", "test") as tx:
        tx.upsert("facts", frame)


def test_many_texts_find_what_each_finds_alone(new_store: Callable[[], Store]) -> None:
    store = new_store()
    said(
        store, "Ana keeps bees", "Ben keeps bees and goats", "Cleo sold the goats", "Ana bakes bread", "Bread is cheap"
    )
    snapshot, asked = (
        store.snapshot(),
        ["who keeps bees", "bread", "nothing known", "", "bread", 'goats (sold) OR "bees"'],
    )
    found = matching_many(snapshot, "facts", asked, 2, "status = 'active'")
    assert dict(found.schema) == MATCHED
    for place, text in enumerate(asked):
        alone = matching_many(snapshot, "facts", [text], 2, "status = 'active'").drop("query")
        assert found.filter(pl.col("query") == place).drop("query").equals(alone)
    assert set(found.filter(pl.col("query") == 1)["id"]) == {"f03", "f04"}
    assert "f02" not in found["id"]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_in_a_large_table_each_text_finds_what_it_finds_in_a_small_one(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    store = new_store()
    said(store, *(f"bees {'goats ' * (n % 3 == 2)}{'bread ' * n}" for n in range(40)))
    asked = ["bees", "goats", "bread", "nothing known", "bees"]
    small = matching_many(store.snapshot(), "facts", asked, k, "status = 'active'")
    monkeypatch.setattr(search, "EXACT_ROWS", 30)
    large = matching_many(store.snapshot(), "facts", asked, k, "status = 'active'")
    assert large.select("query", "id").equals(small.select("query", "id"))  # each way weighs words by its own rows
    assert len(large) == 3 * k


# Vectors in memory, compared whole or after most are ruled out


DIMS = 64


def drawn(count: int, axes: int, seed: int = 7) -> Vectors:
    """Unit vectors near some axes, some of them equal, every tenth missing."""
    random = np.random.default_rng(seed)
    made = random.normal(size=(count, axes)) @ random.normal(size=(axes, DIMS)) + 0.3 * random.normal(
        size=(count, DIMS)
    )
    made[count // 2 : count // 2 + count // 8] = made[: count // 8]
    unit = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    unit[::10] = 0.0
    return unit


def held(rows: Vectors) -> VectorRows:
    made = VectorRows(len(rows), rows.shape[1])
    for start in range(0, len(rows), 97):
        made.write(start, rows[start : start + 97])
    made.seal()
    return made


def by_sorting(rows: Vectors, vector: Vectors, k: int, is_met: np.ndarray) -> list[int]:
    cosines = np.einsum("ij,j->i", rows.astype(np.float64), vector.astype(np.float64))
    order = np.lexsort((np.arange(len(rows)), -cosines))
    return [int(place) for place in order if is_met[place] and rows[place].any()][:k]


@pytest.mark.parametrize("axes", [4, DIMS])
@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("has_file", [False, True])
def test_the_nearest_are_those_of_brute_force(
    axes: int, is_large: bool, has_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "IN_MEMORY", 0 if is_large else 1 << 30)
    if not has_file:
        monkeypatch.setattr(vectors, "_reserved", lambda size: None)
    rows = drawn(3000, axes)
    kept = held(rows)
    assert (kept[np.array([2999, 0, 5, 5])] == rows[[2999, 0, 5, 5]]).all()
    asked = np.concatenate([drawn(6, axes, seed=8)[1:], rows[1:3], np.eye(1, DIMS, dtype=np.float32)])
    random = np.random.default_rng(9)
    for is_met in (np.ones(3000, np.bool_), random.random(3000) < 0.01, np.zeros(3000, np.bool_)):
        penalties = np.where(is_met & kept.is_there, np.float32(0), np.float32(-np.inf))
        for k in (1, 30, 4000):
            alone = [kept.nearest(vector, k, penalties) for vector in asked]
            with kept.foreseen(asked):
                for vector, (places, cosines) in zip(asked, alone, strict=True):
                    assert places.tolist() == by_sorting(rows, vector, k, is_met)
                    again, same = kept.nearest(vector, k, penalties)
                    assert places.tolist() == again.tolist()
                    assert cosines.tolist() == same.tolist()


def test_most_rows_are_ruled_out_by_their_short_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "IN_MEMORY", 0)
    kept, compared = held(drawn(3000, 4)), []
    exact = kept._cosines
    monkeypatch.setattr(kept, "_cosines", lambda near, vector: (compared.append(len(near)), exact(near, vector))[1])
    kept.nearest(drawn(2, 4, seed=8)[1], 10, np.zeros(3000, np.float32))
    assert sum(compared) < 50


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_the_file_of_large_vectors_has_no_name_and_goes_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "IN_MEMORY", 0)

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    kept = held(drawn(300, 4))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del kept
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
