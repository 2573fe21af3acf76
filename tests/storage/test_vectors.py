"""The rows nearest to a vector are found exactly, whether all are compared whole or most are ruled out before."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from storage import vectors
from storage.vectors import VectorRows, Vectors

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


def written(rows: Vectors) -> VectorRows:
    made = VectorRows(len(rows), rows.shape[1])
    for start in range(0, len(rows), 97):
        made.write(start, rows[start : start + 97])
    made.seal()
    return made


def brute_force(rows: Vectors, vector: Vectors, k: int, is_met: np.ndarray) -> list[int]:
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
    kept = written(rows)
    assert (kept[np.array([2999, 0, 5, 5])] == rows[[2999, 0, 5, 5]]).all()
    asked = np.concatenate([drawn(6, axes, seed=8)[1:], rows[1:3], np.eye(1, DIMS, dtype=np.float32)])
    random = np.random.default_rng(9)
    for is_met in (np.ones(3000, np.bool_), random.random(3000) < 0.01, np.zeros(3000, np.bool_)):
        penalties = np.where(is_met & kept.is_there, np.float32(0), np.float32(-np.inf))
        for k in (1, 30, 4000):
            alone = [kept.nearest(vector, k, penalties) for vector in asked]
            with kept.foreseen(asked):
                for vector, (places, cosines) in zip(asked, alone, strict=True):
                    assert places.tolist() == brute_force(rows, vector, k, is_met)
                    again, same = kept.nearest(vector, k, penalties)
                    assert places.tolist() == again.tolist()
                    assert cosines.tolist() == same.tolist()


def test_most_rows_are_ruled_out_by_their_short_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "IN_MEMORY", 0)
    kept, compared = written(drawn(3000, 4)), []
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
    kept = written(drawn(300, 4))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del kept
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
