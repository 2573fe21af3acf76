"""What gating looks up in the store before it lets a gate decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import EPOCH

from inference.embedding import open_embedder
from slowwave.common.settings import NoiseSettings
from slowwave.reading.filters.noise import prototype_texts
from storage.store import Store
from tasks.ingest.gating import _scorer, _without_stale_repeats, learn_noise

NOW = EPOCH + timedelta(days=30)


def test_a_repetition_of_what_no_longer_holds_is_news(new_store: Callable[[], Store]) -> None:
    states = {"m_on": "active", "m_over": "superseded", "m_wrong": "retracted"}
    store = new_store()
    with store.commit("r", "test", EPOCH) as tx:
        facts = [{"id": f"f_{message}", "status": state, "valid_from": EPOCH} for message, state in states.items()]
        tx.upsert("facts", pl.DataFrame(facts))
        heard = [{"id": f"v_{message}", "fact_id": f"f_{message}", "message_id": message} for message in states]
        tx.upsert("fact_evidence", pl.DataFrame(heard))
    repeated = pl.DataFrame({"similar_to_id": [*states, "m_of_nothing"]}).with_columns(
        id=pl.format("again_{}", "similar_to_id"), gate=pl.lit("repeat"), reason=pl.lit("It was said before."),
        measure=pl.lit(0.99), threshold=pl.lit(0.85),
    )  # fmt: skip
    gated = _without_stale_repeats(store.snapshot(), repeated, NOW).sort("id")
    assert dict(gated.select("id", "gate").iter_rows()) == {
        "again_m_on": "repeat", "again_m_over": None, "again_m_wrong": None, "again_m_of_nothing": "repeat",
    }  # fmt: skip
    assert gated["similar_to_id"].is_null().equals(gated["gate"].is_null())


# The ring of refusals that teach (S4-18)


@pytest.fixture
def ring(tmp_path: Path) -> Store:
    """A store that refused thirty messages, one a day, that all teach, and one by its score, which does not."""
    seat = open_embedder()
    store = Store.create(str(tmp_path / "store"), "default", (seat.name, seat.dims))
    vectors = np.random.default_rng(1).normal(size=(31, seat.dims)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    refused = pl.DataFrame(
        {
            "id": [f"x{(7 * n) % 31:02}" for n in range(31)],
            "subject_id": [f"m{n}" for n in range(31)],
            "excerpt": [f"text {n}" for n in range(31)],
            "gate": ["pre_filter" if n % 2 else "durability" for n in range(30)] + ["content"],
            "teaches": [n < 30 for n in range(31)],
            "created_at": [EPOCH + timedelta(days=n) for n in range(31)],
            "vector": pl.Series(unit, dtype=pl.Array(pl.Float32, seat.dims)),
        }
    )
    with store.commit("r", "test", NOW) as tx:
        tx.upsert("refusals", refused)
    return store


def learned_by(store: Store, **how: int) -> list[str]:
    """What the store holds for noise after it had occasion to learn."""
    with store.commit("r", "test", NOW) as tx:
        learn_noise(tx, store.head.embed_model, NoiseSettings(**how))
    return store.snapshot().frame("scorer_state").sort("text")["text"].to_list()


def test_the_newest_refusals_teach_until_enough_more_have_come_beside_the_built_in_noise(ring: Store) -> None:
    assert learned_by(ring, rebuild_every=31) == []
    assert learned_by(ring, rejection_capacity=3) == ["text 27", "text 28", "text 29"]
    assert learned_by(ring, max_learned=2) == ["text 27", "text 28", "text 29"]  # not again until 25 more have come
    assert ring.snapshot().count("refusals") == 31
    scorer = _scorer(ring.head.embed_model, NoiseSettings(), ring.snapshot())
    assert len(scorer.noise) == len(prototype_texts().noise) + 3  # T19


def test_a_refusal_that_is_gone_teaches_no_longer(ring: Store) -> None:
    assert len(learned_by(ring)) == 30
    with ring.commit("r", "test", NOW) as tx:
        tx.delete("refusals", tx.frame("refusals", "excerpt IN ('text 3', 'text 4')", ["id"])["id"])
    left = learned_by(ring)
    assert len(left) == 28
    assert not {"text 3", "text 4"} & {*left}
