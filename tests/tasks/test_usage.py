"""What was read is counted, each event once; links decay; and what maintenance reads leaves no trace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import dying, started

from inference.embedding import open_embedder
from slowwave.common import frames
from slowwave.common.settings import DEFAULT_EMBEDDER, DecaySettings
from slowwave.common.text import digest
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.usage_scores import (
    added_up,
    company,
    entity_usage_of,
    evolved_weight,
    fold_reads,
    fold_recalls,
    usage_of,
    weaken_links,
)
from storage.doctor import examine
from storage.store import Store
from storage.tables import TABLES
from storage.undo import undo
from tasks.nightly.scoring_and_pruning import count_usage, fade_links, weigh_entities
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, new_run

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
SETTINGS = DecaySettings()
NOBODY = frames.empty(frames.FACT_USAGE)
COUNTERS = tuple(name for name, table in TABLES.items() if table.whole == "use")

Event = tuple[str, float | None, datetime]
Read = tuple[str, str, datetime]


def recalls(*events: Event) -> pl.DataFrame:
    """Recalls of facts: which one, with which cosine, when."""
    return pl.DataFrame(events, {"fact_id": frames.TEXT, "cosine": frames.NUMBER, "at": frames.TIME}, orient="row")


def reads(*events: Read) -> pl.DataFrame:
    """Reads of entities: which one, by which query, when."""
    return pl.DataFrame(events, {"entity_id": frames.TEXT, "query_hash": frames.TEXT, "at": frames.TIME}, orient="row")


def counted(*batches: Iterable[Event], usage: pl.DataFrame = NOBODY) -> pl.DataFrame:
    """FACT_USAGE after these batches of recalls, one after the other."""
    for batch in batches:
        usage = put(usage, fold_recalls(usage, recalls(*batch)))
    return usage


def faded(usage: pl.DataFrame, now: datetime, **more: float) -> pl.DataFrame:
    """FACT_USAGE after links have faded until then."""
    return put(usage, weaken_links(usage, now, SETTINGS.model_copy(update=more)))


def put(rows: pl.DataFrame, newer: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([rows.join(newer, on="id", how="anti"), newer.select(rows.columns)]).sort("id")


def links(usage: pl.DataFrame) -> dict[str, float]:
    return dict(usage.select("id", "link_count").iter_rows())


def assert_alike(left: pl.DataFrame, right: pl.DataFrame) -> None:
    """The same counters, apart from the last digits of sums, and from when a link was gone."""
    numbers = ["cosine_sum", "link_count"]
    left, right = (
        rows.with_columns(pl.when(pl.col("link_count") > 0).then("link_decayed_at").alias("link_decayed_at"))
        for rows in (left, right)
    )
    assert left.drop(numbers).equals(right.select(left.columns).drop(numbers))
    for name in numbers:
        assert left[name].to_list() == pytest.approx(right[name].to_list(), abs=1e-9)


# Counting recalls


def test_recalls_raise_confidence_as_in_the_golden_values() -> None:
    rows = pl.DataFrame({"count": [0, 1, 1, 10, 10, -5, None], "confidence": [0.8, 0.5, 0.8, 0.5, 0.8, 0.7, 0.4]})
    found = rows.select(evolved_weight(pl.col("count"), pl.col("confidence"))).to_series().to_list()
    assert found == pytest.approx([0.8, 0.569315, 0.910904, 0.739790, 1.0, 0.7, 0.4], abs=1e-6)


def test_every_recall_counts_and_only_cosines_are_averaged() -> None:
    usage = counted([("a", 0.5, NOW), ("b", None, NOW), ("a", None, NOW + DAY), ("a", 0.7, NOW - DAY)])
    whole = usage_of(usage, frames.empty(frames.LINEAGE))
    assert whole.select("id", "hit_count", "cosine_count", "last_retrieved_at").rows() == [
        ("a", 3, 2, NOW + DAY), ("b", 1, 0, NOW),
    ]  # fmt: skip
    assert whole["avg_retrieval_score"].to_list() == [pytest.approx(0.6), None]
    late = counted([("a", None, NOW - DAY)], usage=usage)
    assert late.select("hit_count", "last_retrieved_at").rows() == [(4, NOW + DAY), (1, NOW)]


def test_ten_recalls_fade_to_a_half_in_a_fortnight_and_one_does_not_vanish_at_once() -> None:
    usage = faded(counted([("ten", 0.5, NOW)] * 10, [("one", 0.5, NOW)]), NOW + 14 * DAY)
    assert links(usage) == pytest.approx({"ten": 4.8767, "one": 0.487675}, abs=1e-4)
    assert dict(usage.select("id", "hit_count").iter_rows()) == {"ten": 10, "one": 1}
    assert links(faded(usage, NOW + 90 * DAY))["one"] == 0.0  # too weak to tell
    assert links(faded(usage, NOW + 89 * DAY))["one"] > 0.01


def test_a_clock_that_runs_backwards_fades_nothing_twice() -> None:
    usage = counted([("a", 0.5, NOW)])
    assert weaken_links(usage, NOW - 30 * DAY, SETTINGS).is_empty()
    weak = faded(usage, NOW + 5 * DAY)
    assert weaken_links(weak, NOW + 2 * DAY, SETTINGS).is_empty()
    late = counted([("a", 0.5, NOW + 2 * DAY), ("a", 0.5, NOW - 9 * DAY)], usage=weak)
    assert links(late) == pytest.approx({"a": 0.95**5 + 2})
    assert links(faded(late, NOW + 5 * DAY)) == links(late)
    assert late["last_retrieved_at"].to_list() == [NOW + 2 * DAY]


LOGS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 24 * 120)), min_size=1, max_size=15)


@settings(max_examples=10, deadline=None)
@given(LOGS, st.integers(0, 15))
def test_a_log_cut_anywhere_gives_the_same_counters(log: list[tuple[str, int]], cut: int) -> None:
    events = [(name, None, NOW + timedelta(hours=hour)) for name, hour in sorted(log, key=lambda event: event[1])]
    end = NOW + 121 * DAY
    assert_alike(faded(counted(events[cut:], usage=counted(events[:cut])), end), faded(counted(events), end))


# What was merged away


def lineage(*steps: tuple[str, str, str]) -> pl.DataFrame:
    rows = [{"id": f"{old}{new}", "old_id": old, "new_id": new, "reason": reason} for old, new, reason in steps]
    return pl.DataFrame(rows, schema=dict(frames.LINEAGE))


def test_what_a_fact_absorbed_counts_for_it_over_every_step() -> None:
    usage = counted([("a", 0.4, NOW), ("b", 0.8, NOW), ("b", None, NOW + DAY), ("other", 0.1, NOW)])
    steps = lineage(("a", "b", "dedup"), ("b", "c", "consolidated"), ("other", "c", "conflict"))
    whole = usage_of(usage, steps)
    assert whole.select("id", "hit_count", "avg_retrieval_score").rows() == [
        ("c", 3, pytest.approx(0.6)), ("other", 1, pytest.approx(0.1)),
    ]  # fmt: skip
    assert whole["last_retrieved_at"].to_list() == [NOW + DAY, NOW]


STEPS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"), st.just("dedup")), max_size=8)


@settings(max_examples=10, deadline=None)
@given(STEPS, st.lists(st.sampled_from("abcdef"), min_size=1, max_size=10))
def test_however_facts_were_merged_no_recall_is_lost(steps: list[tuple[str, str, str]], recalled: list[str]) -> None:
    usage = counted([(name, 0.5, NOW) for name in recalled])
    whole = usage_of(usage, lineage(*{(old, new): (old, new, why) for old, new, why in steps}.values()))
    for name in ("hit_count", "cosine_sum", "cosine_count", "link_count"):
        assert whole[name].sum() == pytest.approx(usage[name].sum())
    assert whole["id"].is_unique().all()


# Entities


def test_days_are_different_utc_dates() -> None:
    lisbon = timezone(timedelta(hours=1))
    late = datetime(2026, 7, 2, 0, 30, tzinfo=lisbon)
    nothing = frames.empty(frames.ENTITY_USAGE), frames.empty(frames.ENTITY_DAYS)
    usage, days = fold_reads(*nothing, reads(("a", "q", NOW), ("a", "r", late), ("b", "q", NOW + DAY)))
    assert usage.select("id", "access_count", "access_days", "last_access_at").rows() == [
        ("a", 2, 1, late), ("b", 1, 1, NOW + DAY),
    ]  # fmt: skip
    again, more = fold_reads(usage, days, reads(("a", "q", NOW), ("a", "q", NOW + DAY)))
    assert again.select("id", "access_count", "access_days").rows() == [("a", 4, 2)]
    assert more.select("day", "access_count").rows() == [("2026-07-01", 3), ("2026-07-02", 1)]


def test_two_entities_of_one_read_keep_company_once_whoever_else_reads_them() -> None:
    met = company(
        reads(("b", "q", NOW), ("a", "q", NOW), ("a", "q", NOW), ("c", "alone", NOW), ("a", "r", NOW), ("b", "r", NOW))
    )
    assert met.select("a_id", "b_id", "count").rows() == [("a", "b", 2)]
    later = added_up(
        met, company(reads(("a", "q", NOW + DAY), ("b", "q", NOW + DAY), ("c", "q", NOW + DAY))), frames.CO_OCCURRENCES
    )
    assert later.select("id", "count", "last_at").rows() == [
        ("a b", 3, NOW + DAY), ("a c", 1, NOW + DAY), ("b c", 1, NOW + DAY),
    ]  # fmt: skip


def test_an_entity_takes_over_the_reads_of_those_merged_into_it_and_shares_their_days() -> None:
    nothing = frames.empty(frames.ENTITY_USAGE), frames.empty(frames.ENTITY_DAYS)
    usage, days = fold_reads(*nothing, reads(("a", "q", NOW), ("b", "q", NOW), ("b", "q", NOW + DAY), ("x", "q", NOW)))
    whole = entity_usage_of(usage, days, {"a": "b"})
    assert whole.select("id", "access_count", "access_days").rows() == [("b", 3, 2), ("x", 1, 1)]


# The store


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three related people, to be copied."""
    place, seat = tmp_path_factory.mktemp("usage") / "memory", open_embedder()
    store = Store.create(str(place), "default", (seat.name, seat.dims))
    said = ["Ana works with Bruno at the port.", "Bruno lives with Carla in Lisbon.", "Ana likes rooibos tea."]
    vectors = pl.Series(seat.embed(said), dtype=pl.Array(pl.Float32, seat.dims))
    people = pl.DataFrame({"id": ["e1", "e2", "e3"], "canonical_name": ["ana", "bruno", "carla"]})
    facts = pl.DataFrame(
        {
            "id": ["f1", "f2", "f3"],
            "kind": ["relation", "relation", "observation"],
            "subject_id": ["e1", "e2", "e1"],
            "object_id": ["e2", "e3", None],
            "statement": said,
            "message_id": ["m1", "m2", "m3"],
            "vector": vectors,
        }
    )
    names = facts["message_id"]
    messages = pl.DataFrame({"id": names, "message_id": names, "conversation_id": "c", "search_text": said})
    with store.commit("made", "test", NOW) as tx:
        tx.upsert("entities", people.with_columns(name=pl.col("canonical_name").str.to_titlecase()))
        tx.upsert("facts", facts.with_columns(status=pl.lit("active"), valid_from=pl.lit(NOW)))
        tx.upsert("messages", messages.with_columns(vector=vectors))
    return place


@pytest.fixture
def place(talked: Path, tmp_path: Path) -> Path:
    """A copy of that store, to be changed."""
    return Path(shutil.copytree(talked, tmp_path / "memory"))


def a_run(place: Path, number: int = 0, now: datetime = NOW) -> Run:
    return replace(new_run("steward", str(place), "default", DEFAULT_EMBEDDER, now), id=f"steward-{number}")


def log_recalls(place: Path, *facts: str, at: datetime = NOW, who: str = "") -> None:
    """Log that these facts were recalled, and an entity of each."""
    store = Store.open(str(place))
    asked = {"query_hash": "q", "at": at}
    events = [{"id": f"{who}{at}{fact}", "fact_id": fact, "cosine": 0.5, "rank": 1, **asked} for fact in facts]
    store.append("retrieval_events", pl.DataFrame(events))
    store.append(
        "entity_access_log", pl.DataFrame(events).select("id", pl.col("fact_id").alias("entity_id"), "query_hash", "at")
    )


def hits(place: Path) -> dict[str, int]:
    return dict(Store.open(str(place)).snapshot().frame("fact_usage", columns=["id", "hit_count"]).iter_rows())


def counters(place: Path) -> dict[str, list[dict[str, object]]]:
    """All rows of the counting tables, stamps included."""
    snapshot = Store.open(str(place)).snapshot()
    return {name: snapshot.frame(name).sort("id").to_dicts() for name in COUNTERS}


@pytest.mark.proof
def test_each_event_is_counted_once_and_nothing_new_is_no_commit(place: Path) -> None:
    assert count_usage(a_run(place)) == TaskResult()
    log_recalls(place, "f1", "f2")
    assert count_usage(a_run(place)).counts == {"recalls counted": 2}
    sequence = Store.open(str(place)).head.sequence
    assert count_usage(a_run(place)) == TaskResult()
    assert Store.open(str(place)).head.sequence == sequence
    log_recalls(place, "f1", at=NOW + DAY)
    assert count_usage(a_run(place, now=NOW + DAY)).counts == {"recalls counted": 1}
    assert hits(place) == {"f1": 2, "f2": 1}
    found = counters(place)
    assert [(row["id"], row["access_count"], row["access_days"]) for row in found["entity_usage"]] == [
        ("f1", 2, 2), ("f2", 1, 1),
    ]  # fmt: skip
    assert [(row["id"], row["count"]) for row in found["co_occurrences"]] == [("f1 f2", 1)]
    assert [row["created_at"] for row in found["fact_usage"]] == [NOW, NOW]
    assert examine(Store.open(str(place))) == ()


APPENDS = """
import sys
from datetime import datetime, UTC
import polars as pl
from storage.store import Store
store = Store.open(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    for part in ("a", "b"):
        ids = [f"{line.strip()} {part} {fact}" for fact in ("f1", "f2")]
        event = pl.DataFrame({"id": ids, "fact_id": ["f1", "f2"], "cosine": 0.5, "at": datetime.now(UTC)})
        store.append("retrieval_events", event)
    print("appended", flush=True)
"""


@pytest.mark.proof
def test_each_event_is_counted_once_while_others_append_and_the_log_is_compacted(place: Path) -> None:
    log, rounds = Store.open(str(place)).db.open_table("retrieval_events"), 6
    with started(APPENDS, place, stdin=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        for number in range(rounds):
            print(number, file=other.stdin, flush=True)
            count_usage(a_run(place, number))
            log.optimize()
            assert other.stdout.readline() == "appended\n"
            log.optimize(cleanup_older_than=timedelta(milliseconds=1))  # nobody reads an older version now
        other.stdin.close()
    count_usage(a_run(place, rounds))
    assert len(Store.open(str(place)).log("retrieval_events")) == 4 * rounds
    assert hits(place) == {"f1": 2 * rounds, "f2": 2 * rounds}


@pytest.mark.proof
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_death_while_counting_loses_nothing_and_counts_nothing_twice(
    place: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    log_recalls(place, "f1", "f2")
    with dying(monkeypatch, "usage.count", moment):
        count_usage(a_run(place))
    log_recalls(place, "f1", at=NOW + DAY)
    count_usage(a_run(place, 1))
    assert hits(place) == {"f1": 2, "f2": 1}


# Undo


@pytest.mark.proof
def test_counters_that_a_later_run_went_on_with_stay_as_they_are(place: Path) -> None:
    log_recalls(place, "f1")
    with (store := Store.open(str(place))).commit("steward-1", "test", NOW) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["made by the run"]}))
    count_usage(a_run(place, 1))
    with store.commit("upkeep", "upkeep", NOW) as tx:
        tx.rebuild("fact_usage", lambda table: table.optimize())
    log_recalls(place, "f2", at=NOW + DAY)
    count_usage(a_run(place, 2))
    both = counters(place)
    undo(store, "steward-1", "undo-1", NOW)
    assert counters(place) == both
    assert store.snapshot().count("metadata") == 0
    assert count_usage(a_run(place, 3)) == TaskResult()


# Fading and weighing


def test_links_fade_in_one_commit_that_writes_only_what_fades(place: Path) -> None:
    log_recalls(place, "f1")
    log_recalls(place, "f2", at=NOW + 14 * DAY)
    count_usage(a_run(place))
    assert fade_links(a_run(place, 1, NOW + 14 * DAY), SETTINGS) == 1
    store = Store.open(str(place))
    usage = store.snapshot().frame("fact_usage").sort("id")
    assert usage["link_count"].to_list() == pytest.approx([0.487675, 1.0], abs=1e-6)
    assert usage["run_id"].to_list() == ["steward-1", "steward-0"]
    sequence = store.head.sequence
    assert fade_links(a_run(place, 2, NOW + 14 * DAY), SETTINGS) == 0
    assert store.head.sequence == sequence


@pytest.mark.proof
def test_entities_are_weighed_by_relations_alone_and_only_changes_are_written(place: Path) -> None:
    store = Store.open(str(place))
    with store.commit("more", "test", NOW) as tx:
        facts = tx.by_ids("facts", ["f1", "f2"], with_vector=True)
        similar = facts.with_columns(id=pl.format("s{}", "id"), kind=pl.lit("similarity"))
        over = facts.with_columns(id=pl.format("o{}", "id"), status=pl.lit("superseded"))
        tx.upsert("facts", pl.concat([similar, over]))
    with OpenMemory.open(str(place)) as memory:
        memory.facts_of("Bruno", now=NOW)
    count_usage(a_run(place))
    assert weigh_entities(a_run(place)) == 3
    scores = store.snapshot().frame("entity_scores").sort("id")
    assert scores["degree"].to_list() == [1, 2, 1]
    assert scores["importance"].to_list() == pytest.approx([0.0, 1.02, 0.0])
    sequence = store.head.sequence
    assert weigh_entities(a_run(place, 1)) == 0
    assert store.head.sequence == sequence
    with store.commit("fewer", "test", NOW) as tx:
        carla = tx.by_ids("entities", ["e3"]).with_columns(merged_into=pl.lit("e2"))
        tx.upsert("entities", carla)
    assert weigh_entities(a_run(place, 2)) == 1
    assert store.snapshot().frame("entity_scores")["id"].sort().to_list() == ["e1", "e2"]


# What reads leave behind


def test_a_question_is_logged_without_the_secrets_in_it(place: Path) -> None:
    secret = "ghp_" + "a1B2c3D4" * 5
    with OpenMemory.open(str(place)) as memory:
        memory.recall(f"Where does Bruno live? My token is {secret}", k=2, now=NOW)
    asked = Store.open(str(place)).log("recalled_queries")
    assert asked.select("k", "at").rows() == [(2, NOW)]
    assert secret not in asked["query"][0]
    assert asked["query"][0].startswith("Where does Bruno live? My token is")


@pytest.mark.proof
def test_each_relation_on_the_way_to_a_neighbour_counts_once_and_has_no_cosine(place: Path) -> None:
    with OpenMemory.open(str(place)) as memory:
        memory.neighbours("Ana", now=NOW)
    store = Store.open(str(place))
    events = store.log("retrieval_events").sort("rank")
    assert events.select("fact_id", "cosine", "query_hash").rows() == [
        ("f1", None, digest("Ana")), ("f2", None, digest("Ana")),
    ]  # fmt: skip
    count_usage(a_run(place))
    assert store.snapshot().count("co_occurrences") == 3


def test_what_maintenance_reads_is_logged_nowhere(place: Path) -> None:
    with OpenMemory.open(str(place), is_logged=False) as memory:
        assert memory.recall("Where does Bruno live?", now=NOW).facts
        assert memory.neighbours("Ana", now=NOW).facts
        assert memory.facts_of("Ana", now=NOW)[1]
    store = Store.open(str(place))
    for name in ("retrieval_events", "entity_access_log", "recalled_queries"):
        assert store.log(name).is_empty()
    assert count_usage(a_run(place)) == TaskResult()
