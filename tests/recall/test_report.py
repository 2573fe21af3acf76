"""The consolidation report: what it finds and what it leaves alone, in frames, in a store, and on every page."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_cli import run  # noqa: F401 (a fixture)

from flows.oversight import report as report_flow
from inference.embedding import open_embedder
from recall.report import consolidation_report, reads_so_far
from slowwave.common import frames
from slowwave.common.errors import UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER, ReportSettings, SplitSettings
from slowwave.review import report as rules
from slowwave.review.split_suggestions import thresholds_of, weighed
from storage.store import Store
from storage.tables import Role, tables_of
from tasks.nightly.scoring_and_pruning import count_usage
from tasks.people.reporting import report_markdown
from tasks.runtime.runs import new_run

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
LOGS = tables_of(Role.LOG)
SETTINGS = ReportSettings()
SEEDS = (
    "total_entities", "total_observations", "split_candidates_count", "flagged_observations_count",
    "stale_entities_count", "large_entities_count",
)  # fmt: skip


# Stale, in frames


def entity(name: str, made: timedelta = DAY, **more: Any) -> dict[str, Any]:
    """An entity that was made so long ago and holds one observation."""
    named = {"id": f"e_{name}", "name": name, "called": name, "entity_type": "person", "status": "active"}
    return {**named, "created_at": NOW - made, "pinned": False, "count": 1, **more}


def unread(
    rows: Iterable[dict[str, Any]], *read: tuple[str, int, timedelta], days: float = 90.0
) -> list[dict[str, Any]]:
    """What is stale of these entities, some of which were read so often, and so long ago for the last time."""
    entities = pl.DataFrame(list(rows), schema=dict(rules.ENTITIES))
    usage = [
        {"id": f"e_{name}", "access_count": count, "access_days": 1, "last_access_at": NOW - ago}
        for name, count, ago in read
    ]
    return rules.stale_entities(
        entities, pl.DataFrame(usage, schema=dict(frames.ENTITY_USAGE)), (), SETTINGS, NOW, days
    )


def names(found: Iterable[Any]) -> list[str]:
    return [each.get("entity_name") or each["name"] for each in found]


def test_what_was_made_a_minute_ago_and_never_read_is_not_stale() -> None:
    assert unread([entity("young", timedelta(minutes=1)), entity("edge", 90 * DAY)]) == []
    assert names(unread([entity("old", 90 * DAY + timedelta(seconds=1))])) == ["old"]


def test_half_a_day_is_half_a_day() -> None:
    rows = [entity("ten", timedelta(hours=10)), entity("fourteen", timedelta(hours=14))]
    assert names(unread(rows, days=0.5)) == ["fourteen"]
    assert names(unread(rows, ("fourteen", 1, timedelta(hours=11)), days=0.5)) == []


def test_what_was_never_read_comes_first_and_then_the_longest_unread() -> None:
    made = {"a": 100, "b": 400, "c": 900, "d": 900, "e": 900}
    rows = [entity(name, ago * DAY) for name, ago in made.items()]
    read = (("c", 1, 100 * DAY), ("d", 2, 300 * DAY), ("e", 1, 2 * DAY))
    found = unread(rows, *read)
    assert names(found) == ["b", "a", "d", "c"]
    assert [each["days_since_access"] for each in found] == [None, None, 300, 100]
    assert [each["access_count"] for each in found] == [0, 0, 2, 1]


def test_what_is_often_read_archived_or_of_whom_nothing_is_known_is_not_stale() -> None:
    old = 500 * DAY
    rows = [entity("often", old), entity("gone", old, status="archived"), entity("bare", old, count=0)]
    assert unread(rows, ("often", 3, 400 * DAY)) == []


# Large


def sized(kind: str, *held: int) -> dict[str, Any]:
    """An entity as a scan tells of it, whose observations are of topics of these sizes."""
    threshold = thresholds_of(SplitSettings())[kind]
    return {"entity_id": f"e_{kind}", "entity_type": kind, **weighed(sum(held), threshold, held, SplitSettings())}


def measured(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows))


def known(*kinds: str) -> pl.DataFrame:
    rows = [entity(kind, entity_type=kind) for kind in kinds]
    return pl.DataFrame(rows, schema=dict(rules.ENTITIES))


@pytest.mark.parametrize(
    ("count", "band", "told"),
    [
        (16, "approaching", "Approaching: 16 observations, threshold 20"),
        (19, "approaching", "slowwave facts tool"),
        (20, "near threshold — monitor", "Near threshold — monitor: 20"),
        (29, "near threshold — monitor", "Near threshold — monitor: 29"),
        (30, "evaluate for split", "Evaluate for split: 30"),
    ],
)
def test_what_is_large_is_told_how_near_it_is(count: int, band: str, told: str) -> None:
    (large,) = rules.large_entities(measured(sized("tool", count)), known("tool"), SplitSettings())
    assert (large["band"], large["ratio"], large["is_distinct"]) == (band, count / 20, False)
    assert told in large["recommendation"]


def test_below_four_fifths_nothing_is_large_and_what_is_distinct_is_split_early() -> None:
    sizes = measured(sized("session", 11), sized("project", 10, 10), sized("person", 12, 10), sized("tool", 15))
    entities = known("session", "project", "person", "tool")
    assert names(rules.split_candidates(sizes, entities)) == ["person"]
    (early,) = rules.large_entities(sizes, entities, SplitSettings())
    assert (early["entity_name"], early["threshold"], early["ratio"]) == ("project", 25, 0.8)
    assert (early["is_distinct"], early["topics"]) == (True, 2)
    assert early["recommendation"] == (
        "Approaching: 20 observations, threshold 25, 2 topics clearly apart. "
        "Part it before it hurts: slowwave split propose project"
    )


def test_a_split_candidate_has_its_golden_score() -> None:
    (found,) = rules.split_candidates(measured(sized("person", 12, 8, 1)), known("person"))
    assert (found["count"], found["threshold"], found["topics"]) == (21, 20, 2)
    assert found["topic_diversity"] == round(21 / 20 + 3 / 21, 2)
    assert found["recommendation"].endswith("slowwave split propose person")
    sizes = measured(sized("person", 12, 10), sized("session", 20, 20), sized("tool", 15, 15))
    by_score = rules.split_candidates(sizes, known("person", "session", "tool"))
    assert names(by_score) == ["session", "tool", "person"]
    assert rules.split_candidates(measured(sized("person", 10, 10)), known("person")) == [], "not beyond its threshold"


# Names and flags


def test_a_name_that_several_share_is_told_with_its_type_and_quoted_where_a_shell_needs_it() -> None:
    kinds, ids = pl.Series(["tool", "project", "person"]), pl.Series(["e_1", "e_2", "e_3"])
    called = rules.called_names(pl.Series(["Kestrel", "kestrel", "O'Hara"]), kinds, ids)
    assert called.to_list() == ["Kestrel (tool)", "kestrel (project)", "O'Hara"]
    assert rules.command("duplicates", called[0]) == "slowwave duplicates 'Kestrel (tool)'"


def test_flagged_observations_are_grouped_in_order_and_cut_to_eighty_characters() -> None:
    said = [("f2", "e_b", "x" * 81), ("f1", "e_b", "y" * 80), ("f3", "e_a", "short"), ("f4", "e_gone", "lost")]
    facts = pl.DataFrame(
        [(*row, "f9", 0.9) for row in said],
        ["id", "owner_entity_id", "statement", "similar_to_id", "similarity_score"],
        orient="row",
    )
    found = rules.flagged_observations(facts, pl.DataFrame([entity("a"), entity("b")], schema=dict(rules.ENTITIES)))
    assert [*found] == ["a", "b"]
    assert [each["id"] for each in found["b"]] == ["f1", "f2"]
    cut = [(each["content_preview"], each["content_length"]) for each in found["b"]]
    assert cut == [("y" * 80, 80), ("x" * 80 + "...", 81)]


# A store


def fact(number: int, owner: str, vector: list[float], **more: Any) -> dict[str, Any]:
    text = {
        "id": f"f_{owner}_{number:03d}", "kind": "observation", "subject_id": f"e_{owner}", "scope": "global",
        "owner_entity_id": f"e_{owner}", "statement": f"{owner} observed matter {number} of {owner}",
        "status": "active",
    }  # fmt: skip
    return {**text, "valid_from": NOW - 300 * DAY, "similarity_flag": False, "vector": vector, **more}


def held(name: str, count: int, *topics: list[float]) -> list[dict[str, Any]]:
    """So many observations of an entity, of these topics in turn."""
    return [fact(number, name, topics[number % len(topics)]) for number in range(count)]


X, Y, Z = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]
MADE = {"full": 200, "near": 2, "packed": 2, "young": 0, "lonely": 200, "dusty": 1000, "kept": 1000, "heir": 200}


def filled(store: Store, dims: int) -> Store:
    """A memory that has something for every section."""
    entities = [
        {"id": f"e_{name}", "canonical_name": name, "name": name.title(), "entity_type": "person", "status": "active",
         "pinned": name == "kept", "created_at": NOW - ago * DAY}
        for name, ago in MADE.items()
    ]  # fmt: skip
    entities += [
        {**entities[0], "id": "e_old", "canonical_name": "old", "name": "Old", "merged_into": "e_heir"},
        {**entities[0], "id": "e_gone", "canonical_name": "gone", "name": "Gone", "status": "archived"},
    ]
    gone = {"status": "superseded", "expired_at": NOW - DAY, "valid_to": NOW - DAY}
    facts = [
        *held("full", 21, X, Y),
        *held("near", 16, X, Y),
        *held("packed", 22, Z),
        *[row for name in ("young", "lonely", "dusty", "kept", "heir") for row in held(name, 1, X)],
        fact(90, "young", Y, similarity_flag=True, similar_to_id="f_young_000", similarity_score=0.9),
        fact(91, "young", Y, similarity_flag=True, **gone),
        fact(92, "young", Z),
        fact(93, "young", Z),
        fact(94, "full", Z, kind="structural"),
        fact(95, "gone", Z),
    ]
    wide = [{**row, "vector": [*row["vector"], *[0.0] * (dims - 4)]} for row in facts]
    vectors = pl.Array(pl.Float32, dims)
    with store.commit("made", "test", NOW) as tx:
        tx.upsert("entities", pl.DataFrame(entities, infer_schema_length=None))
        tx.upsert("facts", pl.DataFrame(wide, infer_schema_length=None, schema_overrides={"vector": vectors}))
    return store


def read(store: Store, *whom: str, ago: timedelta = DAY) -> None:
    """A read that was logged, and that nobody has counted yet."""
    at = NOW - ago
    rows = [
        {"id": f"a_{ago.days}_{n}", "entity_id": f"e_{name}", "day": f"{at:%Y-%m-%d}", "query_hash": "q", "at": at}
        for n, name in enumerate(whom)
    ]
    store.append("entity_access_log", pl.DataFrame(rows))


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """That memory, only to be looked at; reads of two, long ago, wait to be counted."""
    seat = open_embedder(DEFAULT_EMBEDDER)
    uri = tmp_path_factory.mktemp("report") / "store"
    store = filled(Store.create(str(uri), "default", (seat.name, seat.dims)), seat.dims)
    read(store, "full", "old", ago=150 * DAY)
    return store


@pytest.fixture
def changeable(memory: Store, tmp_path: Path) -> Store:
    """A copy of it."""
    return Store.open(str(shutil.copytree(memory.uri, tmp_path / "store")))


@pytest.fixture(scope="module")
def told(memory: Store) -> dict[str, Any]:
    return consolidation_report(memory.snapshot(), SETTINGS, NOW)


def test_the_report_has_the_names_of_the_seed_and_counts_everything(told: dict[str, Any]) -> None:
    assert tuple(told["summary"]) == (
        *SEEDS, "archival_candidates_count", "pending_proposals_count",
    )  # fmt: skip
    assert told["stale_days"] == 90.0
    assert told["summary"] == {
        "total_entities": 8, "total_observations": 67, "split_candidates_count": 1, "flagged_observations_count": 1,
        "stale_entities_count": 5, "large_entities_count": 2, "archival_candidates_count": 1,
        "pending_proposals_count": 0,
    }  # fmt: skip
    json.dumps(told)
    (split,) = told["split_candidates"]
    assert {*split} == {
        "entity_id", "name", "type", "count", "threshold", "topic_diversity", "topics", "recommendation",
    }  # fmt: skip
    assert (split["name"], split["type"], split["count"], split["topics"]) == ("Full", "person", 21, 2)
    ((name, (flagged,)),) = told["flagged_observations"].items()
    assert (name, flagged["id"], flagged["content_length"]) == (
        "Young",
        "f_young_090",
        len("young observed matter 90 of young"),
    )


def test_reads_count_before_the_steward_has_run_and_those_of_what_was_merged_are_its_heirs(changeable: Store) -> None:
    assert reads_so_far(changeable.snapshot()).select("id", "access_count").rows() == [("e_full", 1), ("e_heir", 1)]
    report = consolidation_report(changeable.snapshot(), SETTINGS, NOW)
    stale = {row["entity_name"]: row for row in report["stale_entities"]}
    assert [*stale] == ["Dusty", "Kept", "Lonely", "Full", "Heir"]
    assert (stale["Full"]["access_count"], stale["Full"]["days_since_access"]) == (1, 150)
    read(changeable, "old", "lonely", "old")
    before = consolidation_report(changeable.snapshot(), SETTINGS, NOW)
    assert names(before["stale_entities"]) == ["Dusty", "Kept", "Full"]
    count_usage(new_run("steward", changeable.uri, "default", DEFAULT_EMBEDDER, NOW))
    assert changeable.snapshot().frame("entity_usage")["access_count"].sum() == 5
    after = consolidation_report(changeable.snapshot(), SETTINGS, NOW)
    assert {**after, "commit": before["commit"]} == before


def test_only_what_weighs_nothing_and_is_not_pinned_is_a_candidate_for_the_archive(told: dict[str, Any]) -> None:
    (candidate,) = told["archival_candidates"]
    assert (candidate["entity_name"], candidate["importance"], candidate["temporal"]) == ("Dusty", 0.0, 0.1)
    assert {row["entity_name"]: row["archival_candidate"] for row in told["stale_entities"]}["Dusty"]


def test_the_most_read_entities_are_looked_at_for_repeats(memory: Store, told: dict[str, Any]) -> None:
    assert told["reviewed_entities"] == 4
    first, *others = told["duplicates"]
    assert (first["entity_name"], first["access_count"]) == ("Full", 1)
    assert first["duplicates_found"] == 11 * 10 // 2 + 10 * 9 // 2
    assert len(first["pairs"]) == 3
    assert first["pairs"][0]["similarity_score"] == 1.0
    assert {row["entity_name"] for row in others} == {"Near", "Packed", "Young"}
    none = consolidation_report(memory.snapshot(), ReportSettings(top_n_active=0), NOW)
    assert (none["duplicates"], none["reviewed_entities"]) == ([], 0)


@pytest.mark.parametrize("days", [-1.0, float("nan"), float("inf")])
def test_days_that_are_none_are_refused(memory: Store, days: float) -> None:
    with pytest.raises(UnusableInput, match="from 0 to 36500"):
        consolidation_report(memory.snapshot(), SETTINGS, NOW, days)


def test_a_report_writes_nothing_and_is_no_read(memory: Store) -> None:
    def state() -> tuple[int, dict[str, int], dict[str, int]]:
        return memory.head.sequence, dict(memory.head.versions), {name: len(memory.log(name)) for name in LOGS}

    before = state()
    consolidation_report(memory.snapshot(), SETTINGS, NOW, 0.5)
    told = asyncio.run(report_flow(store=memory.uri, now=NOW))
    assert state() == before
    assert told["summary"]["stale_entities_count"] == 5
    assert "run" not in told


# Pages


def test_the_markdown_shows_stored_text_as_text(told: dict[str, Any]) -> None:
    hostile = "<img src=x> [a](http://b.c) | **d**"
    row = {**told["split_candidates"][0], "name": hostile}
    text = report_markdown({**told, "split_candidates": [row]}, "--store x")
    assert "<img" not in text
    assert "[a](" not in text
    assert "slowwave split propose ENTITY" in text
    assert "--store x" in text
