"""Which time a question names, and that what is of it comes first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stores import fact, remembered

from recall.question import Period
from slowwave.common.settings import RecallSettings
from slowwave.common.validity import of_rows
from slowwave.integrations.python_api import OpenMemory

NOW = datetime(2024, 11, 22, tzinfo=UTC)


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "period",
    [
        Period(day("2023-10-01"), day("2023-11-01")),
        Period(start=day("2023-10-01")),
        Period(end=day("2023-10-01")),
        Period(months=(10, 11)),
        Period(months=(10,), day=4, last_day=9),
        Period(months=(12, 1, 2), day=26, last_day=1),
    ],
)
def test_rows_are_of_a_period_by_any_of_their_times(period: Period) -> None:
    times = [None, *(day("2022-09-25") + timedelta(days=n) for n in range(0, 900, 3))]
    frame = pl.DataFrame({"at": times, "never": pl.Series([None] * len(times), dtype=pl.Datetime("us", "UTC"))})
    met = frame.select(of_rows(period.where(["never", "at"]))).to_series().to_list()
    assert met == [period.covers(at) for at in times]
    assert any(met)
    assert not all(met)


def test_days_of_several_months_are_those_from_the_first_to_the_last() -> None:
    period = Period(months=(12, 1, 2), day=26, last_day=1)
    days = ("2022-12-25", "2022-12-26", "2023-01-02", "2023-02-01", "2023-02-02", "2023-03-01")
    assert [period.covers(day(text)) for text in days] == [False, True, True, True, False, False]


HOW: tuple[dict[str, Any], ...] = ({}, {"held_mb": 0})


@pytest.mark.proof
@pytest.mark.parametrize("settings", HOW, ids=["in memory", "by queries"])
@pytest.mark.parametrize(
    "question",
    [
        "What did Ben paint in March?",
        "What did Ben paint from February 28 to March 6?",
    ],
)
def test_what_is_of_the_period_comes_first(tmp_path: Path, settings: dict[str, Any], question: str) -> None:
    facts = [
        fact(f"p{month}", f"Ben painted a picture with {thing}.", valid_from=datetime(2023, month, 5, tzinfo=UTC))
        for month, thing in enumerate(("boats", "horses", "apples", "a bridge", "the sea", "two dogs"), 1)
    ]
    store = remembered(tmp_path / "m", facts)
    with OpenMemory.open(str(store), is_logged=False, settings=RecallSettings(**settings)) as memory:
        found = memory.recall(question, k=3, now=NOW)
        assert found.facts[0].id == "p3"
        assert found.facts[0].parts["period"] > found.facts[1].parts["period"] == 0.0
        assert memory.recall_many([question, "Who?"], k=3, now=NOW)[0].facts[0].id == "p3"


@pytest.mark.parametrize("settings", HOW, ids=["in memory", "by queries"])
def test_a_fact_is_found_by_a_general_word_that_is_never_shown(tmp_path: Path, settings: dict[str, Any]) -> None:
    facts = [
        fact(f"t{n}", f"Ben {deed}.") for n, deed in enumerate(("paints boats", "reads maps", "has a limp", "naps"))
    ]
    facts[2]["search_terms"] = "ailment injury"
    store = remembered(tmp_path / "m", facts)
    with OpenMemory.open(str(store), is_logged=False, settings=RecallSettings(**settings)) as memory:
        found = memory.recall("Which ailment does Ben have?", now=NOW)
        assert found.facts[0].id == "t2"
        assert "ailment" not in str(found.facts[0].as_json())
        assert "ailment" not in memory.context_for("Which ailment does Ben have?", 500, now=NOW)


@pytest.mark.parametrize(
    ("start", "end", "is_met"),
    [
        ("2023-01-01", None, True),
        ("2023-01-01", "2023-10-01", False),
        ("2023-10-31", None, True),
        ("2023-11-01", None, False),
        (None, None, True),
    ],
)
def test_a_relation_is_of_a_period_in_which_it_held(start: str | None, end: str | None, is_met: bool) -> None:
    period = Period(day("2023-10-01"), day("2023-11-01"))
    assert period.meets(day(start) if start else None, day(end) if end else None) is is_met


def test_a_relation_is_of_a_month_of_any_year_in_which_it_held() -> None:
    october = Period(months=(10,))
    assert october.meets(day("2023-09-01"), day("2023-10-02"))
    assert not october.meets(day("2023-09-01"), day("2023-10-01"))
    assert not october.meets(day("2023-11-01"), day("2024-09-30"))
    assert october.meets(day("2023-11-01"), day("2024-11-01"))
    assert october.meets(day("2023-11-01"), None)
