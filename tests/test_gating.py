"""What gating looks up in the store before it lets a gate decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import polars as pl
import pytest
from conftest import EPOCH

from storage.store import Store
from tasks.gating import _without_stale_repeats

NOW = EPOCH + timedelta(days=30)


def repeat_of(original: str) -> pl.DataFrame:
    """One message that a gate takes for a repetition of another."""
    return pl.DataFrame(
        {
            "id": ["m2"],
            "gate": ["repeat"],
            "reason": ["It was said before."],
            "measure": [0.99],
            "threshold": [0.85],
            "similar_to_id": [original],
        }
    )


@pytest.mark.parametrize(
    ("status", "gate"), [("active", "repeat"), ("superseded", None), ("retracted", None), (None, "repeat")]
)
def test_a_repetition_of_what_no_longer_holds_is_news(
    new_store: Callable[[], Store], status: str | None, gate: str | None
) -> None:
    store = new_store()
    if status is not None:
        with store.commit("r", "test", EPOCH) as tx:
            tx.upsert("facts", pl.DataFrame({"id": ["f"], "status": [status], "valid_from": [EPOCH]}))
            tx.upsert("fact_evidence", pl.DataFrame({"id": ["v"], "fact_id": ["f"], "message_id": ["m1"]}))
    gated = _without_stale_repeats(store.snapshot(), repeat_of("m1"), NOW)
    assert gated["gate"].to_list() == [gate]
    assert gated["similar_to_id"].is_null().all() == (gate is None)
