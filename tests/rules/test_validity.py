"""Live, valid at a time, believed at a time: two languages, one meaning; and which status may follow which (§6.3)."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lancedb
import polars as pl
import pytest

from slowwave.common.errors import SlowwaveError, UnusableInput
from slowwave.common.timestamps import parse_moment
from slowwave.common.validity import (
    STATUSES,
    TRANSITIONS,
    as_of_sql,
    check_transition,
    is_live,
    known_as_of_sql,
    live_sql,
    of_rows,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TIME = pl.Datetime("us", "UTC")
SCHEMA = {
    "id": pl.String,
    "status": pl.String,
    "valid_from": TIME,
    "valid_to": TIME,
    "expired_at": TIME,
    "created_at": TIME,
    "replaced_by": pl.String,
}


def day(n: float) -> datetime:
    return T0 + timedelta(days=n)


def facts(*rows: dict[str, Any]) -> pl.DataFrame:
    base = {
        "status": "active",
        "valid_from": T0,
        "valid_to": None,
        "expired_at": None,
        "created_at": T0,
        "replaced_by": None,
    }
    return pl.DataFrame([{**base, "id": f"f{i}", **row} for i, row in enumerate(rows)], schema=SCHEMA)


def random_facts(count: int, seed: int) -> pl.DataFrame:
    draw = random.Random(seed)

    def moment() -> datetime | None:
        return None if draw.random() < 0.3 else day(draw.randrange(6)) + timedelta(microseconds=draw.randrange(3) - 1)

    return facts(
        *[
            {
                "status": draw.choice(STATUSES),
                "valid_from": moment(),
                "valid_to": moment(),
                "expired_at": moment(),
                "created_at": moment(),
            }
            for _ in range(count)
        ]
    )


def test_expression_and_filter_select_the_same_rows_of_a_real_table(tmp_path: Path) -> None:
    rows = random_facts(400, seed=7)
    table = lancedb.connect(str(tmp_path)).create_table("facts", rows.to_arrow())
    for n in (0, 2, 3.5, 9):
        assert rows.filter(is_live(day(n))).equals(rows.filter(of_rows(live_sql(day(n)))))
        for sql in (live_sql, as_of_sql, known_as_of_sql):
            stored = table.search().where(sql(day(n))).select(["id"]).limit(1000).to_arrow()["id"].to_pylist()
            chosen = rows.filter(of_rows(sql(day(n))))["id"].to_list()
            assert sorted(stored) == sorted(chosen), sql(day(n))
            assert 0 < len(chosen) < 400 or n in (0, 9)


@pytest.mark.parametrize(
    ("row", "live"),
    [
        ({}, True),
        ({"valid_to": day(2)}, False),
        ({"valid_to": day(3)}, True),
        ({"expired_at": day(9)}, False),
        ({"status": "candidate"}, False),
    ],
)
def test_live_is_active_believed_and_not_over(row: dict[str, Any], live: bool) -> None:
    assert facts(row).filter(is_live(day(2))).height == live


def test_as_of_includes_what_was_superseded_later_and_leaves_out_what_was_denied() -> None:
    rows = facts(
        {"status": "superseded", "valid_to": day(3)},
        {"status": "retracted"},
        {"status": "archived"},
        {"valid_from": day(5)},
    )
    assert rows.filter(of_rows(as_of_sql(day(2))))["id"].to_list() == ["f0", "f2"]
    assert rows.filter(of_rows(as_of_sql(day(3))))["id"].to_list() == ["f2"]


def test_only_the_transitions_of_the_state_machine_are_allowed() -> None:
    allowed = {
        # What arrives after that which replaced it is applied as over already.
        *(("candidate", new) for new in ("active", "rejected", "superseded")),
        *(("active", new) for new in ("superseded", "retracted", "archived")),
        ("archived", "active"),
    }
    for old in STATUSES:
        for new in STATUSES:
            if new == old or (old, new) in allowed:
                check_transition(old, new)
            else:
                with pytest.raises(SlowwaveError, match=rf"{old} cannot become {new}"):
                    check_transition(old, new)
    with pytest.raises(SlowwaveError, match="'rejected' to 'asleep'"):
        check_transition("rejected", "asleep")


@pytest.mark.parametrize("final", ["rejected", "superseded", "retracted"])
def test_rejected_superseded_and_retracted_are_final(final: str) -> None:
    assert not TRANSITIONS[final]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        (" 2026-01-31 14:30:00 ", datetime(2026, 1, 31, 14, 30, tzinfo=UTC)),
        ("2026-01-31T14:30:00+01:00", datetime(2026, 1, 31, 13, 30, tzinfo=UTC)),
        ("2026-01-31T14:30Z", datetime(2026, 1, 31, 14, 30, tzinfo=UTC)),
    ],
)
def test_times_are_read_as_people_write_them(text: str, moment: datetime) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "31.01.2026", "2026-13-01", "0001-01-01T00:00:00+10:00"])
def test_a_time_that_cannot_be_read_is_named_with_the_way_out(text: str) -> None:
    with pytest.raises(UnusableInput, match=r"is not a time\. Write it like"):
        parse_moment(text)
