"""Which facts fade, which facts and entities move out of the way, and what the decisions about them tell."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from slowwave.common import frames
from slowwave.common.settings import StewardSettings
from slowwave.lifecycle.pruning_and_eviction import (
    ENTITIES,
    FACTS,
    POINTERS,
    events_to_learn,
    is_due,
    is_learning,
    plan_cap,
    plan_prune,
    without_pointers,
)
from slowwave.lifecycle.usage_scores import usage_of

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOW = StewardSettings(prune_threshold=0.05, grace_period_hours=24, decay_half_days=90)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def fact(key: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "kind": "relation", "status": "active", "subject_id": "e_a", "valid_from": ago(9), **more}


def facts(*rows: dict[str, Any], schema: frames.Schema = frames.FACTS) -> pl.DataFrame:
    known = {**schema, "created_at": frames.TIME}
    return frames.conform(pl.DataFrame(list(rows), infer_schema_length=None), known)


def entities(*rows: dict[str, Any]) -> pl.DataFrame:
    given = [{"status": "active", "seen_at": ago(100), **row} for row in rows]
    return frames.conform(pl.DataFrame(given, infer_schema_length=None), ENTITIES)


def measures(decisions: pl.DataFrame) -> dict[str, Any]:
    return {row: json.loads(told) for row, told in decisions.select("subject_id", "measures").iter_rows()}


# Retirement


# Pruning


@pytest.mark.parametrize(("settings", "events"), [(1, 1), (50, 50), (0, 50), (-1, 50)])
def test_the_learning_period_ends_with_the_last_of_its_recalls(settings: int, events: int) -> None:
    how = StewardSettings(learning_events=settings)
    assert events_to_learn(how) == events
    assert (is_learning(events - 1, how), is_learning(events, how)) == (True, False)


def test_a_faded_fact_tells_what_it_was_measured_by_oldest_first() -> None:
    rows = facts(fact("young", created_at=ago(350)), fact("old", created_at=ago(400)), fact("new", created_at=ago(1)))
    usage = usage_of(frames.empty(frames.FACT_USAGE), frames.empty(frames.LINEAGE))
    rows = rows.with_columns(content_score=pl.lit(0.0))
    plan = plan_prune(rows, usage, HOW, NOW)
    assert plan.ids.to_list() == ["old", "young"]
    assert plan.measures["old"] == {
        "score": round(0.5 * 0.5 ** (400 / 90), 6), "age_hours": 9600.0, "hits": 0, "half_life_days": 90.0,
        "threshold": 0.05, "grace_hours": 24.0,
    }  # fmt: skip


# Eviction


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(None, 0.5, True), (0.5, 0.6, True), (0.6, 0.5, True), (0.5, 0.59, False), (0.21, 0.2, False), (0.2, 0.19, True)],
)
def test_a_score_is_due_that_is_new_a_step_away_or_beyond_a_mark(old: float | None, new: float, expected: bool) -> None:
    frame = pl.DataFrame({"quality_score": [old], "score": [new]}, schema_overrides={"quality_score": pl.Float64})
    assert frame.select(is_due([0.2, 0.9], 0.0999)).item() is expected


def test_what_pointed_at_a_deleted_fact_points_at_nothing() -> None:
    left = facts(
        fact("first", supersedes_id="gone_1", similarity_flag=False),
        fact("like", similar_to_id="gone_1", similarity_score=0.9, similarity_flag=True, related_id="kept"),
        fact("near", related_id="gone_1", similar_to_id="kept", similarity_flag=True),
        fact("stays", supersedes_id="kept", similarity_flag=False),
    )  # fmt: skip
    columns = ["id", *POINTERS, "similarity_score", "similarity_flag"]
    assert without_pointers(left, pl.Series(["gone_1", "gone_2"])).select(columns).rows() == [
        ("first", None, None, None, None, False),
        ("like", None, None, "kept", None, False),
        ("near", None, "kept", None, None, True),
        ("stays", "kept", None, None, None, False),
    ]


def crowd() -> pl.DataFrame:
    """Six entities of equal worth, but that one was seen long ago and one never."""
    people = [{"id": f"e_{name}"} for name in "abcd"]
    return entities(*people, {"id": "e_old", "seen_at": ago(300)}, {"id": "e_no", "seen_at": None})


def known(*rows: dict[str, Any]) -> pl.DataFrame:
    return facts(*rows, schema=FACTS).select(*FACTS)


def test_of_too_many_entities_go_the_least_related_then_the_longest_unseen() -> None:
    related = known(
        fact("f_1", object_id="e_b"), fact("f_2", object_id="e_a"), fact("f_3", subject_id="e_c", status="candidate"),
        fact("f_4", subject_id="e_d", kind="observation"),
    )  # fmt: skip
    plan = plan_cap(crowd(), related, 2)
    assert plan.entities.select("id", "degree").rows() == [("e_no", 0), ("e_old", 0), ("e_d", 0), ("e_b", 1)]
    assert plan.facts.rows() == [("f_4", "e_d"), ("f_1", "e_b")]
    assert plan.active == 6


def test_a_fact_goes_with_the_first_of_its_entities_and_structure_stays() -> None:
    both = known(fact("f", subject_id="e_a", object_id="e_b"), fact("like", object_id="e_b", kind="similarity"))
    plan = plan_cap(crowd().filter(pl.col("id").is_in(["e_a", "e_b", "e_c"])), both, 1)
    assert plan.entities["id"].to_list() == ["e_c", "e_a"]
    assert plan.facts.rows() == [("f", "e_a")]


@pytest.mark.parametrize(
    "why",
    [
        {"pinned": True}, {"entrenchment": "user_axiom"}, {"kind": "structural"}, {"status": "candidate"},
        {"object_id": "e_pin"},
    ],
)  # fmt: skip
def test_what_a_lasting_fact_names_is_no_part_of_the_cap(why: dict[str, Any]) -> None:
    people = pl.concat([crowd().head(1), entities({"id": "e_pin", "pinned": True})])
    plan = plan_cap(people, known(fact("f", **why)), 1)
    assert (plan.entities.is_empty(), plan.active) == (True, 2)
    free = plan_cap(people, known(fact("f")), 1)
    assert free.entities["id"].to_list() == ["e_a"]
    assert not plan_cap(people, known(fact("f", kind="similarity", object_id="e_pin")), 1).entities.is_empty()
