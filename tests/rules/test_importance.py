"""What entities weigh (S0-22, S0-24, S0-25)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import exp, log

import polars as pl
import pytest

from slowwave.common import frames
from slowwave.common.settings import UseSettings
from slowwave.lifecycle.usage_scores import STALE_RECENCY, degrees, importance, is_stale, temporal, weigh

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
MEASURES = ("access", "max_access", "degree", "days", "max_days")


def importances(*rows: tuple[int | None, ...]) -> list[float]:
    frame = pl.DataFrame(rows, schema=dict.fromkeys(MEASURES, pl.Int64), orient="row")
    return frame.select(importance(*map(pl.col, MEASURES))).to_series().to_list()


def recency(*since: datetime | None) -> list[float]:
    times = pl.DataFrame({"at": since}, schema={"at": frames.TIME})
    return times.select(temporal(pl.col("at"), NOW)).to_series().to_list()


def entities(**made: datetime) -> pl.DataFrame:
    """Entities by the time at which each was made."""
    rows = {"id": [*made], "created_at": [*made.values()], "pinned": False}
    return pl.DataFrame(rows, schema_overrides={"created_at": frames.TIME})


def used(**usage: tuple[int, int, datetime]) -> pl.DataFrame:
    """ENTITY_USAGE: reads, days and the latest one, by entity."""
    rows = [
        {"id": name, "access_count": count, "access_days": days, "last_access_at": at}
        for name, (count, days, at) in usage.items()
    ]
    return pl.DataFrame(rows, schema=dict(frames.ENTITY_USAGE))


def relations(*pairs: tuple[str, str | None]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema={"subject_id": pl.String, "object_id": pl.String}, orient="row")


def test_the_importance_of_an_entity_has_its_golden_values() -> None:
    rows = ((10, 100, 5, 3, 10), (100, 100, 15, 10, 10), (0, 100, 15, 10, 10), (10, 100, 5, 1, 1), (1, 1, 30, 1, 1))
    assert importances(*rows) == pytest.approx([0.608632, 1.38, 0.0, 0.545552, 1.15], abs=1e-6)


def test_what_was_read_lately_is_recent_and_nothing_falls_below_the_floor() -> None:
    half, floor = timedelta(hours=6931.4718), timedelta(days=960)
    assert recency(NOW, NOW - half, NOW - floor, NOW - 9 * floor) == pytest.approx([1.0, 0.5, 0.1, 0.1])
    assert recency(NOW - floor) == [STALE_RECENCY]


def test_a_time_to_come_is_now_and_an_unknown_one_is_recent() -> None:
    assert recency(NOW + timedelta(days=400), None) == [1.0, 1.0]


def test_relations_count_at_both_ends_and_one_to_itself_once() -> None:
    found = degrees(relations(("a", "b"), ("a", "c"), ("b", "b"), ("a", None)))
    assert dict(found.iter_rows()) == {"a": 3, "b": 2, "c": 1}


def test_entities_are_weighed_against_the_most_used_one() -> None:
    week = NOW - timedelta(hours=168)
    usage = used(a=(100, 10, NOW), b=(10, 3, week), gone=(900, 90, NOW))
    linked = relations(*[("b", f"x{n}") for n in range(5)])
    old = NOW - timedelta(days=1000)
    scores = weigh(entities(a=week, b=week, c=week), usage, linked, NOW)
    assert scores["is_stale"].to_list() == [False] * 3
    assert weigh(entities(a=week, c=old), usage, linked.clear(), NOW)["is_stale"].to_list() == [False, True]
    assert scores["id"].to_list() == ["a", "b", "c"]
    assert scores["degree"].to_list() == [0, 5, 0]
    assert scores["importance"].to_list() == pytest.approx([1.2, 0.608632, 0.0], abs=1e-6)
    assert scores["temporal"].to_list() == pytest.approx([1.0, 0.983340, 0.983340], abs=1e-6)


def test_the_steward_weighs_by_the_same_settings_as_recall() -> None:
    week, long = NOW - timedelta(hours=168), NOW - timedelta(days=3000)
    usage, linked = used(a=(100, 10, NOW), b=(10, 3, week)), relations(*[("b", f"x{n}") for n in range(5)])
    how = UseSettings(degree_weight=1.0, days_weight=0.0, max_degree=5, decay_per_hour=0.001, temporal_floor=0.3)
    scores = weigh(entities(a=week, b=week, c=long), usage, linked, NOW, how)
    assert scores["importance"].to_list() == pytest.approx([1.0, 2 * log(11) / log(101), 0.0])
    assert scores["temporal"].to_list() == pytest.approx([1.0, exp(-0.168), 0.3])
    assert scores["is_stale"].to_list() == [False, False, True]  # at its floor, though that lies above 0.1
    never = weigh(entities(c=long), usage, linked, NOW, UseSettings(decay_per_hour=0.0))
    assert (never["temporal"].item(), never["is_stale"].item()) == (1.0, False)


def test_only_what_nobody_reads_any_more_is_stale_and_nothing_pinned() -> None:
    rows = pl.DataFrame(
        {
            "importance": [0.04, 0.05, 0.04, 0.04, 0.04],
            "temporal": [0.1, 0.1, 0.11, 0.1, 0.1],
            "pinned": [False, False, False, True, None],
        }
    )
    assert rows.select(is_stale(pl.col("pinned"))).to_series().to_list() == [True, False, False, False, True]
