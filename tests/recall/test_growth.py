"""How a memory grew, and what its models cost, over time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import polars as pl
from conftest import EPOCH

from recall.overview import costs_by_day, growth
from storage.store import Store

DAY = timedelta(days=1)


def test_growth_counts_what_was_believed_and_known_at_each_moment(new_store: Callable[[], Store]) -> None:
    store = new_store()
    facts = pl.DataFrame(
        {
            "id": ["f_1", "f_2", "f_3", "f_4"],
            "statement": ["a", "b", "c", "d"],
            "status": ["active", "superseded", "active", "rejected"],
            "created_at": [EPOCH, EPOCH + DAY, EPOCH + 2 * DAY, EPOCH],
            "expired_at": [None, EPOCH + 3 * DAY, None, None],
        }
    )
    entities = pl.DataFrame(
        {
            "id": ["e_1", "e_2", "e_3"],
            "canonical_name": ["a", "b", "c"],
            "created_at": [EPOCH, EPOCH + 2 * DAY, EPOCH],
            "merged_into": [None, None, "e_1"],
        }
    )
    with store.commit("made", "made", EPOCH) as tx:
        tx.upsert("facts", facts)
        tx.upsert("entities", entities)
    grown = growth(store.snapshot(), EPOCH + 4 * DAY, points=5)
    assert [each["facts"] for each in grown] == [1, 2, 3, 2, 2]
    assert [each["entities"] for each in grown] == [1, 1, 2, 2, 2]
    assert [each["at"] for each in grown] == [EPOCH + n * DAY for n in range(5)]


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
