"""Undo is the inverse."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowwave.common.errors import UndoRefused
from storage.lease import new_owner
from storage.rows import column_names
from storage.snapshots import batches
from storage.store import Store
from storage.tables import WITH_VECTORS, Role, tables_of
from storage.undo import Eras, undo
from storage.upkeep import tend, write_anew

Content = dict[str, list[dict[str, object]]]
WRITTEN = ("facts", "predicates", "entity_aliases")


def content(store: Store) -> Content:
    """All rows of all state tables, in order of their ids, vectors and stamps included."""
    snapshot = store.snapshot()
    return {
        name: snapshot.frame(name, columns=snapshot.handle(name).schema.names).sort("id").to_dicts()
        for name in tables_of(Role.STATE)
    }


def rows(name: str, ids: list[str], value: int) -> pl.DataFrame:
    """Rows of one of the tables, with a value that tells writes apart."""
    if name == "facts":
        vector = [[float(value), 1.0, 0.0, 0.5]] * len(ids)
        return pl.DataFrame(
            {"id": ids, "statement": f"says {value}", "aspect_slugs": [["music"]] * len(ids), "vector": vector}
        )
    if name == "predicates":
        return pl.DataFrame({"id": ids, "alias": "a", "canonical": f"form {value}"})
    return pl.DataFrame({"id": ids, "alias_name": f"alias {value}", "entity_id": "e"})


def write(store: Store, run: str, name: str, ids: list[str], value: int) -> None:
    with store.commit(run, "test", EPOCH + timedelta(seconds=value)) as tx:
        tx.upsert(name, rows(name, ids, value))


def remove(store: Store, run: str, name: str, ids: list[str]) -> None:
    with store.commit(run, "test", EPOCH) as tx:
        tx.delete(name, ids)


def take_back(store: Store, run: str, **options: bool) -> tuple[str, ...]:
    return undo(store, run, f"undo-{run}", EPOCH, **options).runs


NAMES = st.sampled_from(WRITTEN)
IDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True)
WRITES = st.tuples(st.just("write"), NAMES, IDS)
REMOVALS = st.tuples(st.just("remove"), NAMES, IDS)
TENDING = st.tuples(st.just("upkeep"), st.none(), st.none())
RUNS = st.lists(st.lists(st.one_of(WRITES, WRITES, REMOVALS, TENDING), min_size=1, max_size=3), min_size=2, max_size=3)


def perform(store: Store, run: str, operations: list[tuple[str, str, list[str]]], offset: int) -> None:
    for step, (what, name, ids) in enumerate(operations):
        if what == "write":
            write(store, run, name, ids, offset * 10 + step)
        elif what == "remove":
            remove(store, run, name, ids)
        else:
            tend(store, run, EPOCH, thorough=True)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RUNS)
@pytest.mark.proof
def test_undoing_runs_from_the_newest_brings_back_every_earlier_state(
    new_store: Callable[[], Store], runs: list[list[tuple[str, str, list[str]]]]
) -> None:
    store = new_store()
    states = [content(store)]
    for number, operations in enumerate(runs):
        perform(store, f"r{number}", operations, number)
        states.append(content(store))
    for number in reversed(range(len(runs))):
        if any(what != "upkeep" for what, _, _ in runs[number]):
            take_back(store, f"r{number}")
        assert content(store) == states[number]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RUNS)
@pytest.mark.proof
def test_an_older_run_is_undone_as_if_it_had_never_been_or_refused_without_a_trace(
    new_store: Callable[[], Store], runs: list[list[tuple[str, str, list[str]]]]
) -> None:
    store, without = new_store(), new_store()
    for number, operations in enumerate(runs):
        perform(store, f"r{number}", operations, number)
        if number:
            perform(without, f"r{number}", operations, number)
    if all(what == "upkeep" for what, _, _ in runs[0]):
        return
    before = content(store)
    try:
        take_back(store, "r0")
    except UndoRefused:
        assert content(store) == before
        take_back(store, "r0", cascade=True)
        untouched = [n for n in range(1, len(runs)) if not _undone(store, f"r{n}")]
        again = new_store()
        for number in untouched:
            perform(again, f"r{number}", runs[number], number)
        assert content(store) == content(again)
    else:
        assert content(store) == content(without)


def _undone(store: Store, run: str) -> bool:
    listed = store.commits().filter(pl.col("undoes").list.contains(run))
    return len(listed) > 0


def test_a_later_row_that_points_at_an_undone_row_blocks_the_undo(new_store: Callable[[], Store]) -> None:
    store = new_store()
    with store.commit("first", "test", EPOCH) as tx:
        tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["ana"]}))
    write(store, "second", "entity_aliases", ["x"], 1)
    with pytest.raises(UndoRefused, match="second"):
        take_back(store, "first")
    assert set(take_back(store, "first", cascade=True)) == {"first", "second"}
    assert store.snapshot().count("entities") == 0


def test_undoing_an_undo_brings_the_run_back(new_store: Callable[[], Store]) -> None:
    store = new_store()
    write(store, "r", "facts", ["a", "b"], 1)
    there = content(store)
    take_back(store, "r")
    undo(store, "undo-r", "again", EPOCH)
    assert content(store) == there
    take_back(store, "r")
    assert store.snapshot().count("facts") == 0


def test_a_dry_run_counts_and_changes_nothing(new_store: Callable[[], Store]) -> None:
    store = new_store()
    write(store, "r", "predicates", ["a", "b"], 1)
    before = store.head
    report = undo(store, "r", "u", EPOCH, dry_run=True)
    assert report.removed == {"predicates": 2}
    assert store.head.versions == before.versions


def test_the_history_of_decisions_survives_an_undo(new_store: Callable[[], Store]) -> None:
    store = new_store()
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("decisions", pl.DataFrame({"id": ["d"], "action": ["create"], "subject_id": ["f"]}))
        tx.upsert("predicates", rows("predicates", ["a"], 1))
    take_back(store, "r")
    actions = set(store.snapshot().frame("decisions")["action"])
    assert actions == {"create", "undo"}


def test_an_undo_is_noted_with_who_decided_it_and_the_states_of_runs_follow(new_store: Callable[[], Store]) -> None:
    store = new_store()
    for run in ("r", "s"):
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert("runs", pl.DataFrame({"id": [run], "state": ["completed"], "ended_at": [EPOCH]}))
            tx.upsert("predicates", rows("predicates", [run], 1))
    assert undo(store, "r", "u", EPOCH, also=["s"], decided_by="gate").runs == ("s", "r")
    columns = ["id", "action", "subject_id", "ids_in", "decided_by", "reason", "at"]
    noted = store.snapshot().frame("decisions", columns=columns).sort("id").rows()
    assert noted == [
        (f"d_u_{run}", "undo", run, ["s", "r"], "gate", f"Run {run} was taken back.", EPOCH) for run in ("r", "s")
    ]
    assert store.snapshot().frame("runs")["state"].to_list() == ["undone"] * 2
    with pytest.raises(UndoRefused, match=r"Run s is undone already\. See `slowwave runs`"):
        take_back(store, "s")
    take_back(store, "u")
    assert store.snapshot().frame("runs")["state"].to_list() == ["completed"] * 2
    assert store.snapshot().count("predicates") == 2


def test_a_night_is_undone_with_those_of_its_phases_that_are_not_undone_yet(new_store: Callable[[], Store]) -> None:
    store = new_store()
    with store.commit("other", "test", EPOCH) as tx:
        tx.upsert("predicates", rows("predicates", ["other"], 1))
    for run, parent in (("night", None), ("decay", "night"), ("steward", "night"), ("part", "steward")):
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert(
                "runs", pl.DataFrame({"id": [run], "parent_id": [parent]}, schema_overrides={"parent_id": pl.String})
            )
            tx.upsert("predicates", rows("predicates", [run], 1))
    take_back(store, "decay")
    assert take_back(store, "night") == ("part", "steward", "night")
    assert store.snapshot().frame("predicates")["id"].to_list() == ["other"]


def test_entities_that_are_no_more_leave_the_communities_that_a_later_run_found(
    new_store: Callable[[], Store],
) -> None:
    store = new_store()
    for run, made in (("first", "ab"), ("second", "c")):
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert("entities", pl.DataFrame({"id": list(made), "canonical_name": list(made)}))
            tx.upsert("predicates", rows("predicates", ["a" if run == "second" else "z"], 1))
    with store.commit("communities-1", "test", EPOCH) as tx:
        tx.upsert("communities", pl.DataFrame({"id": ["k", "l"], "entity_ids": [["a", "b", "c"], ["b", "c"]]}))
    take_back(store, "second")
    assert store.snapshot().frame("communities").select("id", "entity_ids").rows() == [("k", ["a", "b"])]


def entity(seen: int, summary: str = "a friend") -> pl.DataFrame:
    """One entity, last seen on a day."""
    columns = {"id": ["ana"], "canonical_name": ["ana"], "summary": [summary]}
    return pl.DataFrame({**columns, "last_seen_at": [EPOCH + timedelta(days=seen)]})


def test_a_later_refresh_of_a_derived_column_does_not_stand_in_the_way(new_store: Callable[[], Store]) -> None:
    store = new_store()
    for day, run in enumerate(("first", "second", "third")):
        with store.commit(run, "test", EPOCH + timedelta(days=day)) as tx:
            tx.upsert("entities", entity(day))
            tx.upsert("facts", rows("facts", [f"f{day}"], day))
    assert take_back(store, "second") == ("second",)
    snapshot = store.snapshot()
    assert snapshot.frame("entities")["last_seen_at"].to_list() == [EPOCH + timedelta(days=2)]
    assert sorted(snapshot.frame("facts")["id"]) == ["f0", "f2"]


def test_a_row_that_was_only_refreshed_since_goes_with_the_run_that_made_it(new_store: Callable[[], Store]) -> None:
    store = new_store()
    for run, refreshed in (("first", None), ("second", EPOCH)):
        with store.commit(run, "test", EPOCH) as tx:
            marks = pl.DataFrame({"consolidated_at": [refreshed]}, schema={"consolidated_at": pl.Datetime("us", "UTC")})
            tx.upsert("facts", pl.concat([rows("facts", ["f"], 1), marks], how="horizontal"))
            tx.upsert("metadata", pl.DataFrame({"id": [f"of {run}"]}))
    assert take_back(store, "first") == ("first",)
    assert store.snapshot().count("facts") == 0
    assert store.snapshot().frame("metadata")["id"].to_list() == ["of second"]


def test_what_can_be_rebuilt_never_stands_in_the_way(new_store: Callable[[], Store]) -> None:
    store = new_store()
    for value, run in enumerate(("first", "second")):
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["counter"], "number": [float(value)]}))
            tx.upsert("facts", rows("facts", [f"f{value}"], value))
    take_back(store, "first")
    assert store.snapshot().frame("metadata")["number"].to_list() == [1.0]
    assert store.snapshot().frame("facts")["id"].to_list() == ["f1"]


def test_a_run_that_is_still_going_on_is_not_undone(new_store: Callable[[], Store]) -> None:
    store = new_store()
    row = {"id": ["r"], "state": ["running"], "owner": [new_owner("r")]}
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("runs", pl.DataFrame(row))
        tx.upsert("facts", rows("facts", ["f"], 1))
    with pytest.raises(UndoRefused, match="still going on"):
        take_back(store, "r")


@pytest.mark.parametrize("parent", [None, "night"])
def test_a_run_that_is_still_going_on_is_not_undone_with_another_one(
    new_store: Callable[[], Store], parent: str | None
) -> None:
    store = new_store()
    write(store, "night", "predicates", ["k"], 1)
    row = {"id": ["later"], "state": ["running"], "owner": [new_owner("later")], "parent_id": [parent]}
    with store.commit("later", "test", EPOCH) as tx:
        tx.upsert("runs", pl.DataFrame(row, schema_overrides={"parent_id": pl.String}))
        tx.upsert("predicates", rows("predicates", ["k"], 2))
    before = content(store)
    for dry_run in (True, False):
        with pytest.raises(UndoRefused, match="Run later is still going on"):
            take_back(store, "night", cascade=True, dry_run=dry_run)
    assert content(store) == before


# Another embedding model


def eras(*commits: tuple[str, str, str | None, int | None, dict[str, int], list[str]]) -> Eras:
    """The eras of commits: run, kind, model, dimensions, versions of the tables that it wrote, runs that it undid."""
    rows, versions = [], {"facts": 1, "runs": 1}
    for sequence, (run, kind, model, dims, wrote, undoes) in enumerate(commits, 1):
        before = {name: versions[name] for name in wrote}
        versions = versions | wrote
        rows.append((sequence, run, kind, model, dims, json.dumps(versions), json.dumps(before), undoes))
    columns = ["sequence", "run_id", "kind", "embed_model", "dims", "versions", "before", "undoes"]
    frame = pl.DataFrame(rows, schema=columns, orient="row", schema_overrides={"undoes": pl.List(pl.String)})
    return Eras(frame, (commits[-1][2] or "new", commits[-1][3] or 8))


FIRST = ("first", "ingest", None, None, {"facts": 2}, [])  # of a store that did not note models yet
OLD = ("old", "ingest", "old", 4, {"facts": 3}, [])
TURN = ("turn", "reembed", "new", 8, {"facts": 4}, [])


def test_a_turn_is_a_commit_with_another_model_than_the_one_before() -> None:
    known = eras(FIRST, OLD, TURN, ("later", "ingest", "new", 8, {"facts": 5, "runs": 2}, []))
    assert known.turns(["first", "old", "turn", "later"])["run_id"].to_list() == ["turn"]
    assert known.turns(["old", "later"]).is_empty()
    assert known.before(["old", "turn"]) == ("old", 4)


def test_what_wrote_vectors_of_another_model_is_not_undone_before_the_turn_is() -> None:
    known = eras(
        FIRST, OLD, ("plain", "test", "old", 4, {"runs": 2}, []), TURN, ("b", "ingest", "new", 8, {"facts": 5}, [])
    )
    known.check(["turn", "b", "plain"])
    with pytest.raises(UndoRefused, match=r"re-embedded after old: turn"):
        known.check(["first", "old"])
    eras(FIRST, OLD, TURN, ("undo-turn", "undo", "old", 4, {"facts": 5}, ["turn"])).check(["old", "undo-turn"])


@pytest.mark.parametrize("new", [("old", 8), ("new", 4)])
def test_another_model_or_another_size_is_another_era(new: tuple[str, int]) -> None:
    assert eras(OLD, ("turn", "reembed", *new, {"facts": 4}, [])).turns(["turn"])["sequence"].to_list() == [2]


@pytest.mark.parametrize(
    ("later", "undone", "expected"),
    [
        ([("b", "ingest", "new", 8, {"facts": 5}, [])], set(), {"b"}),
        ([("b", "ingest", "new", 8, {"facts": 5}, [])], {"b"}, set()),
        ([("b", "ingest", "new", 8, {"runs": 5}, [])], set(), set()),
        ([("b", "upkeep", "new", 8, {"facts": 5}, [])], set(), set()),
        ([("turn", "ingest", "new", 8, {"facts": 5}, [])], set(), set()),
        ([("u", "undo", "new", 8, {"facts": 5}, ["old"])], set(), {"u"}),
        ([("b", "ingest", "new", 8, {"facts": 5}, []), ("u", "undo", "new", 8, {"facts": 6}, ["b"])], {"b"}, set()),
        ([("b", "ingest", "new", 8, {"runs": 5}, []), ("c", "ingest", "new", 8, {"facts": 5}, [])], set(), {"c"}),
    ],
)
def test_runs_that_wrote_vectors_of_the_new_model_stand_in_the_way_of_the_old_one(
    later: list[Any], undone: set[str], expected: set[str]
) -> None:
    assert eras(OLD, TURN, *later).built_on(["turn"], undone) == expected
    assert eras(OLD, TURN, *later).built_on(["old"], undone) == set()


def test_new_columns_stand_in_the_way_of_the_old_model() -> None:
    known = eras(OLD, TURN, ("m", "migrate", "new", 8, {"facts": 5}, []))
    with pytest.raises(UndoRefused, match=r"new columns since.*slowwave reembed"):
        known.built_on(["turn"], set())


def turn(store: Store, run: str, model: str, value: float) -> None:
    """Another model, whose vectors of all texts are equal."""
    old = store.snapshot()

    def renewed(old_rows: pl.DataFrame) -> pl.DataFrame:
        return old_rows.with_columns(vector=pl.Series([[value] * 4] * len(old_rows), dtype=pl.Array(pl.Float32, 4)))

    with store.commit(run, "reembed", EPOCH) as tx:
        tx.turn_to(model, 4)
        for name in WITH_VECTORS:
            write_anew(tx, name, batches(old, name, column_names(name)), renewed)


def vectors(store: Store) -> dict[str, list[float] | None]:
    return dict(store.snapshot().frame("facts", columns=["id", "vector"]).iter_rows())


def test_a_turn_to_another_model_is_undone_with_all_vectors_before_earlier_runs_are(
    new_store: Callable[[], Store],
) -> None:
    store = Store.open(new_store().uri)
    write(store, "first", "facts", ["a", "b"], 1)
    with store.commit("second", "test", EPOCH) as tx:
        tx.upsert("facts", rows("facts", ["b", "c"], 2))
        tx.upsert("facts", rows("facts", ["a"], 1).with_columns(aspect_slugs=pl.Series([["work"]])))
    before, old = content(store), vectors(store)
    turn(store, "turn", "test/other", 0.5)
    assert vectors(store) == dict.fromkeys("abc", [0.5] * 4)
    with pytest.raises(UndoRefused, match=r"re-embedded after second: turn"):
        undo(store, "second", "undo", EPOCH, cascade=True)
    report = undo(store, "turn", "undo-turn", EPOCH, dry_run=True)
    assert (report.put_back["facts"], report.removed["facts"]) == (3, 0)
    assert store.head.embed_model == "test/other"
    assert take_back(store, "turn") == ("turn",)
    assert (content(store), vectors(store), store.head.embed_model) == (before, old, "test/tiny")
    take_back(store, "second")
    assert dict(store.snapshot().frame("facts").select("id", "aspect_slugs").iter_rows()) == {
        "a": ["music"], "b": ["music"],
    }  # fmt: skip
    turn(store, "again", "test/other", 0.25)
    write(store, "third", "facts", ["d"], 3)
    with pytest.raises(UndoRefused, match=r"third.*slowwave reembed"):
        take_back(store, "again")
