"""What is read often, lately and together comes first, and where nobody read yet nothing does (S0-24 … S0-26)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import exp, log2
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import given
from hypothesis import strategies as st
from stores import entity, fact, remembered

from inference.embedding import open_embedder
from recall.use import Known, base_scores, fact_factors, merged_pairs, rank_entities
from slowwave.common import frames
from slowwave.common.settings import LimbicSettings, RecallSettings
from slowwave.common.text import digest
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = ("ana", "ben", "cleo", "dora")
SCHEMA = {
    "id": pl.String, "status": pl.String, "created_at": frames.TIME, "access_count": pl.Int64,
    "access_days": pl.Int64, "last_access_at": frames.TIME, "degree": pl.Int64,
}  # fmt: skip
PAIRS = {name: frames.CO_OCCURRENCES[name] for name in ("a_id", "b_id", "count", "last_at")}
Row = dict[str, Any]


def known(*rows: Row, met: Sequence[tuple[str, str, int]] = ()) -> Known:
    """Entities that were made just now, and never read unless a row says so, and how often two met."""
    fresh = {"status": "active", "created_at": NOW}
    pairs = pl.DataFrame([(*pair, NOW) for pair in met], PAIRS, orient="row")
    return Known(pl.DataFrame([{**fresh, **row} for row in rows], schema=SCHEMA), pairs)


def factors(*rows: Row, met: Sequence[tuple[str, str, int]] = ()) -> dict[str, Row]:
    told = known(*rows, met=met).factors([row["id"] for row in rows], NOW)
    return {row["id"]: row for row in told.iter_rows(named=True)}


def test_an_entity_weighs_by_reads_relations_days_recency_company_and_status() -> None:
    told = factors(
        {"id": "a", "access_count": 10, "degree": 5, "access_days": 3, "last_access_at": NOW - 100 * DAY},
        {"id": "b", "access_count": 100, "degree": 15, "access_days": 10, "last_access_at": NOW, "status": "paused"},
        met=[("a", "b", 127)],
    )
    assert told["a"]["importance"] == pytest.approx(1 + 0.5 * 0.608632, abs=1e-6)
    assert told["b"]["importance"] == pytest.approx(1 + 0.5 * 1.38)
    assert told["a"]["recency"] == pytest.approx(exp(-0.0001 * 2400))
    assert (told["a"]["company"], told["b"]["company"]) == (1.07, 1.07)
    assert (told["a"]["status"], told["b"]["status"]) == (1.0, 0.85)
    for row in told.values():
        assert row["limbic"] == pytest.approx(row["importance"] * row["recency"] * row["company"] * row["status"])


WEIGHED = (
    {"id": "a", "access_count": 10, "degree": 30, "access_days": 3, "last_access_at": NOW - 2000 * DAY},
    {"id": "b", "access_count": 100, "degree": 5, "access_days": 10, "last_access_at": NOW - 10 * DAY},
)
A = log2(11) / log2(101)
"""What the reads of `a` are of those of `b`, and DAYS its days."""
DAYS = log2(4) / log2(11)


@pytest.mark.parametrize(
    ("how", "factor", "expected"),
    [
        ({"degree_weight": 0.0}, "importance", (1 + 0.5 * A * (1 + 0.2 * DAYS), 1 + 0.5 * 1.2)),
        ({"days_weight": 0.0}, "importance", (1 + 0.5 * A * 1.15, 1 + 0.5 * 1.05)),
        ({"max_degree": 5, "days_weight": 0.0}, "importance", (1 + 0.5 * A * 1.15, 1 + 0.5 * 1.15)),
        ({"importance_weight": 2.0, "days_weight": 0.0}, "importance", (1 + 2 * A * 1.15, 1 + 2 * 1.05)),
        ({"temporal_floor": 0.3}, "recency", (0.3, exp(-0.024))),
        ({"decay_per_hour": 0.001}, "recency", (0.1, exp(-0.24))),
        ({"decay_per_hour": 0.0}, "recency", (1.0, 1.0)),
        ({"company_weight": 0.5}, "company", (4.5, 4.5)),
    ],
)
def test_each_number_of_the_weight_of_use_is_a_setting(
    how: dict[str, float], factor: str, expected: tuple[float, float]
) -> None:
    weighed = known(*WEIGHED, met=[("a", "b", 127)])
    told = weighed.factors(["a", "b"], NOW, LimbicSettings.model_validate(how))
    assert told[factor].to_list() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("status", "factor"),
    [("active", 1.0), ("paused", 0.85), ("completed", 0.7), ("archived", 0.5), (None, 1.0), ("unheard of", 1.0)],
)
def test_a_status_has_its_factor(status: str | None, factor: float) -> None:
    assert factors({"id": "a", "status": status})["a"]["limbic"] == factor


# Facts


def test_a_fact_has_the_factors_of_the_end_that_weighs_more() -> None:
    weights = {"importance": 1.0, "recency": 1.0, "company": [1.0, 1.4], "status": [1.0, 0.5], "limbic": [1.0, 0.7]}
    told = pl.DataFrame({"id": ["a", "b"], **weights})
    ends = [("f1", "a", "b"), ("f2", "b", "a"), ("f3", "b", None), ("f4", "gone", None), ("f5", None, None)]
    found = fact_factors(ends, told)
    assert found["f1"] == found["f2"]
    assert found["f1"]["status"] == 1.0
    assert (found["f3"]["company"], found["f3"]["limbic"]) == (1.4, 0.7)
    assert set(found["f4"].values()) == set(found["f5"].values()) == {1.0}


# Company


PAIR = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(1, 30), st.integers(-50, 1500))


@given(st.lists(PAIR, max_size=8), st.sets(st.sampled_from(NAMES)))
def test_company_is_what_brute_force_adds_up(pairs: list[tuple[str, str, int, int]], among: set[str]) -> None:
    held: dict[tuple[str, str], tuple[int, datetime]] = {}
    for a, b, count, age in pairs:
        if a != b:
            before, last = held.get((min(a, b), max(a, b)), (0, NOW - 9999 * DAY))
            held[min(a, b), max(a, b)] = (before + count, max(last, NOW - age * DAY))
    met = [(a, b, count, NOW - age * DAY) for a, b, count, age in pairs]
    frame = pl.DataFrame(met, PAIRS, orient="row")
    ids = sorted({"aaron", *NAMES})
    asked = sorted(among)
    rows = pl.DataFrame([{"id": name, "created_at": NOW} for name in ids], SCHEMA)
    told = Known(rows, merged_pairs(frame, {})).factors(asked, NOW)["company"]

    def share(count: int, last: datetime) -> float:
        return log2(1 + count) * max(0.1, exp(-0.0001 * max((NOW - last) / timedelta(hours=1), 0.0)))

    plain = [sum(share(*met) for pair, met in held.items() if name in pair and {*pair} <= among) for name in asked]
    assert told.to_list() == pytest.approx([1.0 + 0.01 * each for each in plain])


# Entities


def test_a_hit_by_meaning_has_its_cosine_and_one_by_words_alone_its_fused_rank() -> None:
    base = base_scores({"a": 0.9, "b": -0.2}, ["c", "a", "d"])
    ranks = {"a": 1 / 61 + 1 / 62, "b": 1 / 62, "c": 1 / 61, "d": 1 / 63}
    low, high = min(ranks.values()), max(ranks.values())
    by_rank = {name: 0.2 + 0.6 * (rank - low) / (high - low) for name, rank in ranks.items()}
    assert base == pytest.approx({"a": 0.9, "b": 0.0, "c": by_rank["c"], "d": 0.2})
    assert base_scores({}, ["x"]) == {"x": pytest.approx(0.8)}
    assert base_scores({}, []) == {}


def test_entities_are_sorted_again_after_their_factors() -> None:
    told = known({"id": "a", "status": "archived"}, {"id": "b"}, {"id": "c"}).factors("abc", NOW)
    order = rank_entities({"a": 0.9, "b": 0.6, "c": 0.6}, told)
    assert order.select("id", "score").rows() == [("b", 0.6), ("c", 0.6), ("a", 0.45)]


# In a store


TEA = dict.fromkeys([f"f_{name}" for name in NAMES], "Someone drinks tea in the garden.")


def a_store(uri: Path, **more: Sequence[Row]) -> Path:
    """Four people of whom the very same is known, with rows of other tables."""
    rows = {"entities": [entity(name) for name in NAMES], **more}
    told = [fact(name, said, subject_id=f"e_{name[2:]}", kind="observation") for name, said in TEA.items()]
    return remembered(uri, told, more=rows)


def order_of(uri: Path, **how: Any) -> list[str]:
    chosen = RecallSettings(**{"limbic": True, **how})
    with OpenMemory.open(str(uri), settings=chosen, is_logged=False) as memory:
        return [found.id for found in memory.recall("Who drinks tea in the garden?", now=NOW).facts]


def test_unless_asked_what_was_not_read_for_long_is_told_as_what_was(tmp_path: Path) -> None:
    usage = [read("dora", 90), read("ana", 1, last=NOW - timedelta(days=1000))]
    uri = a_store(tmp_path / "m", entity_usage=usage)
    assert order_of(uri)[0] == "f_dora"
    with OpenMemory.open(str(uri), is_logged=False) as memory:
        told = memory.recall("Who drinks tea in the garden?", now=NOW).facts
    assert [found.id for found in told] == sorted(TEA)


def read(name: str, count: int, days: int = 1, last: datetime = NOW) -> Row:
    return {"id": f"e_{name}", "access_count": count, "access_days": days, "last_access_at": last}


def met(a: str, b: str, count: int) -> Row:
    return {"id": f"e_{a} e_{b}", "a_id": f"e_{a}", "b_id": f"e_{b}", "count": count, "last_at": NOW}


@pytest.mark.proof
def test_use_moves_facts_up_also_that_of_what_was_merged_and_can_be_left_out(tmp_path: Path) -> None:
    uri = a_store(
        tmp_path / "m",
        entities=[entity("old", merged_into="e_dora", status="archived"), *(entity(name) for name in NAMES)],
        entity_usage=[read("old", 50), read("ana", 5)],
        co_occurrences=[met("ben", "old", 9)],
    )
    assert order_of(uri) == ["f_dora", "f_ana", "f_ben", "f_cleo"]
    assert order_of(uri, limbic=False) == sorted(TEA)


def test_entities_are_found_by_meaning_words_and_use(tmp_path: Path) -> None:
    alike = open_embedder().embed(["gardener"])[0].tolist()
    people = [entity(name, vector=alike if name != "ana" else None) for name in NAMES]
    uri = a_store(tmp_path / "m", entities=people, entity_usage=[read("dora", 9)])
    with OpenMemory.open(str(uri)) as memory:
        found = memory.search_entities("gardener", 2, now=NOW)
        named = memory.search_entities("an", 5, now=NOW)
        assert memory.search_entities("gardener", now=NOW, limit=1)[0] == found[0]
        assert memory.search_entities("", 5, now=NOW) == ()
    unread = exp(-0.0001 * ((NOW - EPOCH) / timedelta(hours=1)))
    assert [(one.id, one.cosine) for one in found] == [("e_dora", 1.0), ("e_ben", 1.0)]
    assert [one.score for one in found] == pytest.approx([1.5, unread], abs=1e-6)
    assert named[0].id == "e_ana"
    assert (named[0].cosine, named[0].parts["base"]) == (None, 0.8)
    for one in (*found, *named):
        whole = np.prod([one.parts[name] for name in ("base", "importance", "recency", "company", "status")])
        assert one.score == pytest.approx(whole, abs=1e-6)
    log = Store.open(str(uri)).log("entity_access_log", f"query_hash = '{digest('gardener')}'")
    assert sorted(log["entity_id"]) == ["e_ben", "e_dora", "e_dora"]


def test_an_entity_without_a_description_is_found_by_what_is_known_of_it(tmp_path: Path) -> None:
    profile = {"id": "e_ben", "text": "a beekeeper", "vector": open_embedder().embed(["a beekeeper"])[0].tolist()}
    merged = entity("old", merged_into="e_ana", vector=profile["vector"])
    people = [*(entity(name) for name in NAMES), merged]
    uri = a_store(tmp_path / "m", entities=people, entity_profiles=[profile])
    with OpenMemory.open(str(uri)) as memory:
        [found] = memory.search_entities("beekeeper", now=NOW)
    assert (found.id, found.cosine) == ("e_ben", pytest.approx(1.0, abs=0.2))
