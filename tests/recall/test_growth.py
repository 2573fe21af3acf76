"""What the models of a memory cost, over time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import polars as pl
from conftest import EPOCH

from recall.overview import costs_by_day
from storage.store import Store

DAY = timedelta(days=1)


def test_costs_are_summed_by_day_and_model_and_an_entry_that_was_written_again_counts_once(
    new_store: Callable[[], Store],
) -> None:
    store = new_store()

    def paid(id: str, model: str, usd: float) -> pl.DataFrame:
        return pl.DataFrame([{"id": id, "provider": "p", "model": model, "tokens_in": 10, "tokens_out": 1, "usd": usd}])

    for rows, at in (
        (paid("l1", "a", 0.5), EPOCH),
        (paid("l1", "a", 0.75), EPOCH + timedelta(hours=1)),
        (paid("l2", "a", 1.0), EPOCH + timedelta(hours=2)),
        (paid("l3", "b", 2.0), EPOCH),
        (paid("l4", "a", 4.0), EPOCH + DAY),
    ):
        store.append("llm_calls", rows, now=at, run_id="r")
    costs = [(str(each["day"]), each["model"], each["calls"], each["usd"]) for each in costs_by_day(store)]
    assert costs == [
        ("2026-01-02", "p/a", 1, 4.0),
        ("2026-01-01", "p/a", 2, 1.75),
        ("2026-01-01", "p/b", 1, 2.0),
    ]
