"""Which facts are read to be compared: the new ones and their neighbours, however many others there are (S1-02)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from conftest import EPOCH

from slowwave.deduplication.blocking import find_pairs
from slowwave.settings import MergeSettings
from storage.search import unit_matrix
from storage.store import Store
from tasks.nightly import fact_reconciliation
from tasks.runtime.runs import Run

KNOWN, NEW = 4000, 30


def facts_of(seed: int) -> pl.DataFrame:
    """Known facts in random directions, and new ones each near to a hundredth known one."""
    rows = np.random.default_rng(seed).standard_normal((KNOWN, 4)).astype(np.float32)
    rows = np.concatenate([rows, rows[: NEW * 100 : 100] + 0.01])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    numbers = range(KNOWN + NEW)
    return pl.DataFrame(
        {
            "id": [f"f{n:05d}" for n in numbers],
            "scope": "global",
            "kind": "note",
            "status": "active",
            "statement": [f"matter{n} thing{n}" for n in numbers],
            "vector": pl.Series(rows.tolist(), dtype=pl.Array(pl.Float32, 4)),
        }
    )


def test_new_facts_of_a_large_store_get_the_same_pairs_without_reading_the_others(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, frame, settings = new_store(), facts_of(5), MergeSettings()
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", frame)
    run = Run("r", "ingest", store.uri, store.namespace, EPOCH, "test")
    seeds = frame["id"].tail(NEW)

    def pairs(facts: pl.DataFrame) -> pl.DataFrame:
        asked = facts.with_columns(is_seed=pl.col("id").is_in(seeds.implode()))
        found = find_pairs(asked, unit_matrix(asked["vector"], 4), settings, 0.9)
        return found.select("a_id", "b_id")

    snapshot = store.snapshot()
    expected = pairs(fact_reconciliation.whole_scopes(run, snapshot, pl.Series(["global"])))
    monkeypatch.setattr(fact_reconciliation, "whole_scopes", pytest.fail)
    read = fact_reconciliation._compared(run, snapshot, seeds, settings)
    assert pairs(read).equals(expected)
    assert len(expected) >= NEW
    assert len(read) < len(frame) / 2
