"""Upkeep changes no row: it compacts, indexes what has grown, and drops what is older than the retention."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from conftest import EPOCH, TINY
from test_undo import content

from slowwave.common.errors import StoreMismatch, UndoRefused
from slowwave.common.settings import RetentionSettings
from slowwave.common.validity import as_of_sql, live_sql, time_sql
from storage import migrations, upkeep
from storage.connection import HEAD
from storage.disk import unreadable_indexes
from storage.doctor import examine
from storage.store import Store
from storage.tables import TABLES, Role
from storage.undo import undo
from storage.upkeep import tend

NewStore = Callable[[], Store]
NOW = EPOCH + timedelta(days=1)
FORGETFUL = RetentionSettings.model_construct(undo_days=1e-9, lease_s=30.0, lease_wait_s=60.0)


def put(store: Store, run: str, ids: list[str], number: float) -> None:
    vectors = np.eye(4)[[hash(i) % 4 for i in ids]]
    with store.commit(run, "test", EPOCH) as tx:
        tx.upsert("facts", pl.DataFrame({"id": ids, "confidence": number, "vector": vectors.tolist()}))
        tx.upsert("metadata", pl.DataFrame({"id": ids, "number": number}))


def fragments(store: Store, name: str) -> int:
    return int(store.db.open_table(name).stats()["fragment_stats"]["num_fragments"])


def indexed(store: Store, name: str) -> set[str]:
    return {column for index in store.snapshot().handle(name).list_indices() for column in index.columns}


def forgetful(store: Store) -> Store:
    """The store with a retention that is over at once."""
    return Store.open(store.uri, retention=FORGETFUL)


@pytest.mark.proof
def test_compaction_keeps_every_row_and_every_run_can_still_be_undone(new_store: NewStore) -> None:
    store = new_store()
    states = [content(store)]
    for number in range(3):
        put(store, f"r{number}", ["a", f"b{number}"], number)
        states.append(content(store))
    assert fragments(store, "facts") == 3
    report = tend(store, "u", NOW, thorough=True)
    assert "facts" in report.compacted
    assert fragments(store, "facts") == 1
    assert content(store) == states[3]
    assert examine(store) == ()
    for number in (2, 1, 0):
        undo(store, f"r{number}", f"undo-{number}", NOW)
        assert content(store) == states[number]


def test_only_what_is_fragmented_is_compacted(new_store: NewStore) -> None:
    store = new_store()
    put(store, "r", ["a"], 1)
    before = store.head
    assert tend(store, "u", NOW).compacted == ()
    assert store.head == before  # no lease was taken either
    most = upkeep.MANY_SEGMENTS[Role.STATE]
    for number in range(most):
        with store.commit("s", "test", EPOCH) as tx:
            tx.upsert("metadata", pl.DataFrame({"id": [f"m{number}"]}))
    assert tend(store, "u", NOW).compacted == ("metadata",)
    assert fragments(store, "metadata") == 1


def test_what_is_older_than_the_retention_is_dropped_and_undo_says_so(new_store: NewStore) -> None:
    store = forgetful(new_store())
    put(store, "r0", ["a"], 0)
    put(store, "r1", ["a"], 1)
    sequence = store.head.sequence
    before = content(store)
    tend(store, "u", NOW, thorough=True)
    assert content(store) == before
    with pytest.raises(UndoRefused, match=r"no longer kept.*retention\.undo_days"):
        undo(store, "r1", "x", NOW)
    with pytest.raises(StoreMismatch, match=r"older than retention\.undo_days"):
        store.snapshot(commit=sequence - 1).frame("facts")
    put(store, "r2", ["a"], 2)
    undo(store, "r2", "y", NOW)
    assert [row["number"] for row in content(store)["metadata"]] == [1]


def test_a_death_in_the_middle_of_upkeep_loses_nothing_however_old_the_state_is(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = forgetful(new_store())
    put(store, "r0", ["a"], 0)
    put(store, "r1", ["b"], 1)
    before = content(store)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for where in ("Transaction.publish", "HeadRow.publish"):
        module = "storage.transactions" if where.startswith("T") else "storage.lease"
        with monkeypatch.context() as patch:
            patch.setattr(f"{module}.{where}", die)
            patch.setattr("storage.transactions.Transaction.abandon", lambda tx: tx._row.release(tx.lease))
            with pytest.raises(KeyboardInterrupt):
                tend(store, "u", NOW, thorough=True)
        assert content(store) == before
    tend(store, "u", NOW, thorough=True)
    assert content(store) == before


def test_upkeep_after_a_death_does_not_drop_the_state_that_the_head_names(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = forgetful(new_store())
    put(store, "r0", ["a"], 0)
    before = content(store)
    tend(store, "u", NOW, thorough=True)
    store.db.open_table("facts").delete("true")
    tend(store, "v", NOW, thorough=True)
    assert content(store) == before
    assert examine(store) == ()


def test_the_head_forgets_its_own_history(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    for number in range(3):
        put(store, "r", ["a"], number)
    versions = Path(store.uri) / "default" / f"{HEAD}.lance" / "_versions"
    assert len(list(versions.glob("*.manifest"))) > 6
    monkeypatch.setattr(upkeep, "HEAD_HISTORY", timedelta(milliseconds=1))
    tend(store, "u", NOW, thorough=True)
    assert len(list(versions.glob("*.manifest"))) <= 3
    put(store, "s", ["b"], 1)
    assert len(content(store)["facts"]) == 2


def test_indexes_appear_when_a_table_has_grown_and_queries_answer_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOOKUP_INDEX_FROM", 300)
    monkeypatch.setattr(migrations, "VECTOR_INDEX_FROM", 300)
    store = Store.create(str(tmp_path / "store"), "default", ("test/small", 16))
    vectors = np.random.default_rng(0).normal(size=(299, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = pl.DataFrame({"id": [f"f{n}" for n in range(299)], "subject_id": "e", "vector": vectors.tolist()})
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", rows)
        tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["e"]}))
    store.append("llm_calls", pl.DataFrame({"id": [f"c{n}" for n in range(300)]}), EPOCH)
    assert tend(store, "u", NOW).indexed == ("llm_calls.id",)
    with store.commit("s", "test", EPOCH) as tx:
        tx.upsert("facts", rows.head(1).with_columns(id=pl.lit("f299")))
    keys = (*TABLES["facts"].keys, *TABLES["facts"].few_values)
    assert set(tend(store, "v", NOW).indexed) == {f"facts.{c}" for c in (*keys, "vector")}
    assert indexed(store, "facts") == {*keys, "vector", "statement"}
    assert indexed(store, "entities") == {"name"}
    assert tend(store, "w", NOW).indexed == ()
    assert len(store.snapshot().by_ids("facts", ["f1", "f299", "none"])) == 2
    nearest = store.snapshot().handle("facts").search(vectors[7].tolist()).limit(1).refine_factor(10).to_list()
    assert nearest[0]["id"] == "f7"
    undo(store, "s", "x", NOW)
    assert store.snapshot().count("facts") == 299


WORDS: dict[pa.DataType, Callable[[int], Any]] = {
    pa.string(): lambda n: f"v{n}",
    pa.timestamp("us", tz="UTC"): lambda n: EPOCH + timedelta(days=n),
}
ROWS = 60


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store whose tables all have grown until their indexes pay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "LOOKUP_INDEX_FROM", ROWS)
        store = Store.create(str(tmp_path_factory.mktemp("grown")), "default", TINY)
        for name in TABLES:
            schema = TABLES[name].schema(TINY[1])
            rows = pl.DataFrame(
                {field.name: [WORDS[field.type](n) for n in range(ROWS)] for field in schema if field.type in WORDS}
            )
            if TABLES[name].role is Role.LOG:
                store.append(name, rows)
            elif name != "commits":
                with store.commit("r", "test", EPOCH) as tx:
                    tx.upsert(name, rows)
        tend(store, "u", NOW)
    return store


def plan_of(store: Store, name: str, where: str) -> str:
    table = store.db.open_table(name)
    return str(table.search().where(where).select(["id"]).limit(None).explain_plan(verbose=True))


KEYS = [(name, key) for name, table in TABLES.items() if name != "commits" for key in table.keys]


@pytest.mark.parametrize(("name", "key"), KEYS)
def test_no_look_up_by_a_declared_key_reads_every_row(grown: Store, name: str, key: str) -> None:
    kind = TABLES[name].schema(TINY[1]).field(key).type
    by_text = f"{key} IN ('v3', 'v5')"
    plan = plan_of(grown, name, by_text if kind == pa.string() else f"{key} > timestamp '2026-02-20 00:00:00'")
    assert f"@{key}_idx(BTree)" in plan
    assert "FilterExec" not in plan  # what is left of the filter would be asked of each row


ASKED_FOR = (
    "id", "subject_id", "object_id", "owner_entity_id", "message_id", "episode_id", "patch_batch_id", "statement_hash",
    "replaced_by", "supersedes_id",
)  # fmt: skip


def test_what_is_asked_of_facts_is_answered_by_the_index_that_finds_least(grown: Store) -> None:
    live = live_sql(NOW)
    for key in ASKED_FOR:
        plan = plan_of(grown, "facts", f"{key} IN ('v3', 'v5') AND {live}")
        assert f"@{key}_idx(BTree)" in plan
        assert "@valid_to_idx" not in plan  # nearly every row has no end: see decision 29
    assert "@status_idx(Bitmap)" in plan_of(grown, "facts", "status = 'candidate'")
    assert "@status_idx(Bitmap)" in plan_of(grown, "facts", live)
    assert "@valid_from_idx(BTree)" in plan_of(grown, "facts", as_of_sql(NOW))
    since, until = time_sql(EPOCH), time_sql(NOW)
    ended = plan_of(grown, "facts", f"valid_to > {since} AND valid_to <= {until}")  # what `tasks/nightly/groups` asks
    assert "@valid_to_idx(BTree)" in ended


def test_the_doctor_can_read_every_index_that_upkeep_makes(grown: Store) -> None:
    assert all(grown.db.open_table(name).list_indices() for name in ("facts", "messages", "entities"))
    assert [name for name in TABLES if unreadable_indexes(grown.db.open_table(name))] == []


def test_a_look_up_by_a_column_that_no_index_is_declared_for_is_refused(grown: Store) -> None:
    with pytest.raises(ValueError, match="facts is not looked up by quote"):
        grown.snapshot().by_ids("facts", ["a"], key="quote")
    assert grown.snapshot().by_ids("facts", ["v3"], ["id"], key="owner_entity_id")["id"].to_list() == ["v3"]


def test_what_was_written_since_an_index_was_made_is_taken_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOOKUP_INDEX_FROM", 100)
    store = Store.create(str(tmp_path / "store"), "default", TINY)

    def learn(run: str, count: int) -> None:
        rows = pl.DataFrame({"id": [f"{run}{n}" for n in range(count)], "subject_id": "e", "status": "active"})
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert("facts", rows)

    def unindexed() -> set[int]:
        return {index.num_unindexed_rows or 0 for index in store.db.open_table("facts").list_indices()}

    learn("a", 200)
    tend(store, "u1", NOW)
    assert unindexed() == {0}
    learn("b", 40)
    assert tend(store, "u2", NOW).compacted == ()  # a few rows are read faster than indexes are renewed
    learn("c", 40)
    assert tend(store, "u3", NOW).compacted == ("facts",)
    assert unindexed() == {0}


def test_a_vector_index_is_renewed_when_much_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "VECTOR_INDEX_FROM", 300)
    store = Store.create(str(tmp_path / "store"), "default", ("test/small", 16))
    vectors = np.random.default_rng(0).normal(size=(400, 16)).tolist()
    for run, rows in (("r", range(300)), ("s", range(300, 400))):
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert("facts", pl.DataFrame({"id": [f"f{n}" for n in rows], "vector": [vectors[n] for n in rows]}))
        assert tend(store, f"after-{run}", NOW).indexed == ("facts.vector",)
    handle = store.snapshot().handle("facts")
    (index,) = (index for index in handle.list_indices() if index.columns == ["vector"])
    assert handle.index_stats(index.name).num_unindexed_rows == 0
