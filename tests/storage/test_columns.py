"""Columns hold what a frame holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from storage.columns import Coded, Columns, column_of

START = datetime(2025, 1, 6, tzinfo=UTC)
COUNT = 600
FRAME = pl.DataFrame(
    {
        "id": [f"é{n}ß" * (n % 3) for n in range(COUNT)],
        "maybe": [None if n % 7 == 0 else f"text {n}" for n in range(COUNT)],
        "kind": [("a", None, "ü")[n % 3] for n in range(COUNT)],
        "tags": [(["x"], ["x", "y"], [], None)[n % 4] for n in range(COUNT)],
        "lists": [[str(n)] for n in range(COUNT)],
        "at": [START + timedelta(minutes=n) for n in range(COUNT)],
        "then": [None if n % 5 == 0 else START - timedelta(days=400 * n, microseconds=n) for n in range(COUNT)],
        "count": pl.Series([None if n % 9 == 0 else n for n in range(COUNT)], dtype=pl.Int32),
        "never": pl.Series([None] * COUNT, dtype=pl.Datetime("us", "UTC")),
        "number": [n * 0.5 for n in range(COUNT)],
        "is_so": [n % 2 == 0 for n in range(COUNT)],
    }
)


@pytest.mark.parametrize("frame", [FRAME, FRAME[100:500], FRAME[:3], FRAME[:0]], ids=len)
def test_rows_are_those_of_the_frame(frame: pl.DataFrame) -> None:
    columns = Columns({name: column_of(frame[name]) for name in frame.columns}, len(frame))
    places = np.random.default_rng(5).integers(0, max(len(frame), 1), min(len(frame), 40))
    assert columns.rows(places) == frame[places].rows(named=True)
    assert columns.rows(places, ["kind", "elsewhere", "id"]) == frame[places].select("kind", "id").rows(named=True)
    assert columns.frame(frame.columns).equals(frame)
    assert len(columns) == len(frame)


def test_many_values_need_wider_numbers() -> None:
    column = column_of(pl.Series([f"v{n % 300}" for n in range(300 * 8)]))
    assert isinstance(column, Coded)
    assert column.codes.dtype == np.uint16
    assert column.at(np.array([299, 300, 2399])) == ["v299", "v0", "v299"]
