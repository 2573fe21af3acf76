"""The doctor finds every defect that is planted, repairs what it says it can, and leaves a sound store alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH, TINY

from slowwave.common.errors import StoreMismatch, UndoRefused, UnusableInput
from storage.connection import HEAD
from storage.doctor import Defect, examine, look, mend_head, repair
from storage.rows import to_rows
from storage.store import Store
from storage.tables import TABLES
from storage.undo import undo

NewStore = Callable[[], Store]
Row = dict[str, Any]
NOW = EPOCH + timedelta(days=9)
UNIT = [0.5, 0.5, 0.5, 0.5]


def plant(store: Store, name: str, *rows: Row, day: int = 0) -> None:
    """Add rows behind the store's back, as part of its state."""
    table = store.db.open_table(name)
    for row in rows:
        table.add(to_rows(name, pl.DataFrame([row]), TINY[1], EPOCH + timedelta(days=day), "planted"))
    versions = {**store.head.versions, name: table.version}
    store.db.open_table(HEAD).update(values={"versions": json.dumps(versions)})


def fact(key: str, **columns: Any) -> Row:
    return {
        "id": key,
        "statement": f"says {key}",
        "status": "active",
        "vector": UNIT,
        "embed_model": TINY[0],
        **columns,
    }


def superseded(key: str, by: str | None) -> Row:
    return fact(key, status="superseded", replaced_by=by, expired_at=EPOCH)


def entity(key: str) -> Row:
    return {"id": key, "canonical_name": key, "entity_type": "person"}


def sound(store: Store) -> None:
    """A small state without a defect, beside which the others are planted."""
    plant(store, "entities", entity("ana"), entity("bo"))
    plant(store, "messages", {"id": "m", "message_id": "m", "conversation_id": "c", "vector": UNIT})
    plant(store, "facts", fact("f", subject_id="ana", message_id="m"), superseded("g", "f"))
    plant(store, "lineage", {"id": "l", "old_id": "g", "new_id": "f"})
    plant(store, "patch_batches", {"id": "p", "state": "open"}, {"id": "q", "state": "applied"})
    plant(store, "facts", fact("c", status="candidate", patch_batch_id="p"), fact("n", vector=None, embed_model=None))
    plant(store, "entity_aliases", {"id": "x", "alias_name": "ana", "entity_type": "person", "entity_id": "ana"})


def summary(findings: tuple[Defect, ...]) -> list[tuple[str, str, str]]:
    return sorted((finding.check, finding.table, finding.row_id) for finding in findings)


def after_repair(store: Store) -> list[tuple[str, str, str]]:
    """Repair, check that what was found is what was repaired, and examine again."""
    found = examine(store)
    commits = store.head.sequence
    repaired = repair(store, "repair-1", NOW)
    assert summary(repaired) == summary(found)
    assert store.head.sequence == commits + bool(repaired)
    assert store.snapshot().frame("decisions", "action = 'repair'").height == len(repaired)
    return summary(examine(store))


def by_id(store: Store, name: str, *columns: str) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in store.snapshot().frame(name, columns=["id", *columns]).rows()}


@pytest.fixture
def store(new_store: NewStore) -> Store:
    made = new_store()
    sound(made)
    return made


@pytest.mark.proof
def test_a_sound_store_has_no_finding_and_a_repair_leaves_no_commit(store: Store) -> None:
    before = store.head
    assert examine(store) == repair(store, "r", NOW) == ()
    assert (store.head.versions, store.head.sequence) == (before.versions, before.sequence)


@pytest.mark.proof
def test_of_rows_with_one_key_the_newest_stays_as_it_was(store: Store) -> None:
    plant(store, "facts", fact("f", statement="newer", subject_id="ana"), day=3)
    plant(store, "facts", fact("f", statement="older"), day=1)
    plant(store, "metadata", {"id": "k", "number": 1.0}, {"id": "k", "number": 1.0})
    assert summary(examine(store)) == [("duplicate key", "facts", "f"), ("duplicate key", "metadata", "k")]
    assert after_repair(store) == []
    assert by_id(store, "facts", "statement", "updated_at", "run_id", "vector")["f"] == (
        "newer", EPOCH + timedelta(days=3), "planted", UNIT
    )  # fmt: skip
    assert by_id(store, "metadata", "number") == {"k": (1.0,)}


@pytest.mark.proof
def test_a_dangling_reference_is_emptied_and_a_row_that_is_nothing_without_it_goes(store: Store) -> None:
    plant(store, "facts", fact("h", subject_id="nobody", message_id="m", object_id="none"), fact("i", subject_id="bo"))
    plant(store, "fact_evidence", {"id": "e", "fact_id": "f", "message_id": "gone"})
    plant(store, "entity_aliases", {"id": "y", "alias_name": "z", "entity_id": "nobody"})
    assert summary(examine(store)) == [
        ("dangling reference", "entity_aliases", "y"), ("dangling reference", "fact_evidence", "e"),
        ("dangling reference", "facts", "h"), ("dangling reference", "facts", "h"),
    ]  # fmt: skip
    assert after_repair(store) == []
    rows = by_id(store, "facts", "subject_id", "object_id", "message_id", "statement", "vector", "created_at")
    assert rows["h"] == (None, None, "m", "says h", UNIT, EPOCH)
    assert rows["i"][0] == "bo"
    assert by_id(store, "fact_evidence") == {}
    assert set(by_id(store, "entity_aliases")) == {"x"}


def test_logs_may_name_facts_that_an_undo_took_back(store: Store) -> None:
    store.append("retrieval_events", pl.DataFrame({"id": ["r"], "fact_id": ["undone"]}), EPOCH)
    assert examine(store) == ()


@pytest.mark.proof
def test_a_cycle_of_supersession_is_found_and_left_to_a_person(store: Store) -> None:
    for day, (old, new) in enumerate([("o1", "o2"), ("o2", "o3"), ("o3", "o1"), ("o0", "o1")]):
        plant(store, "facts", superseded(old, new), day=day if old != "o0" else 8)
        plant(store, "lineage", {"id": f"l{old}", "old_id": old, "new_id": new})
    cycle = [("supersession cycle", "facts", f"o{number}") for number in (1, 2, 3)]
    assert summary(examine(store)) == cycle
    assert repair(store, "r", NOW) == ()
    assert summary(examine(store)) == cycle


@pytest.mark.proof
def test_a_status_that_its_columns_deny_is_settled_without_making_a_fact_live(store: Store) -> None:
    plant(store, "facts", fact("a", expired_at=EPOCH), fact("b", replaced_by="f"), superseded("d", None))
    plant(store, "facts", superseded("e", None), fact("z", status="candidate", patch_batch_id="q"))
    plant(store, "lineage", {"id": "le", "old_id": "e", "new_id": "f"})
    assert summary(examine(store)) == [("contradictory status", "facts", key) for key in "abdez"]
    assert after_repair(store) == []
    rows = by_id(store, "facts", "status", "replaced_by", "expired_at")
    assert {key: rows[key] for key in "abdez"} == {
        "a": ("archived", None, EPOCH), "b": ("superseded", "f", NOW), "d": ("archived", None, EPOCH),
        "e": ("superseded", "f", EPOCH), "z": ("rejected", None, None),
    }  # fmt: skip


def test_a_writer_at_work_is_no_defect(store: Store) -> None:
    with store.commit("r", "test") as tx:
        tx.delete("facts", ["f"])
        assert examine(Store.attach(store.uri)) == ()


@pytest.mark.proof
def test_a_missing_table_is_made_anew_and_no_older_state_mistakes_it_for_its_own(store: Store) -> None:
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", pl.DataFrame([fact("s"), fact("t")]))
    before = store.head.sequence
    store.db.drop_table("facts")
    store.db.drop_table("llm_calls")
    assert summary(examine(Store.attach(store.uri))) == [
        ("missing table", "facts", ""),
        ("missing table", "llm_calls", ""),
    ]
    repaired = repair(Store.attach(store.uri), "repair-1", NOW)
    assert {finding.table for finding in repaired if finding.check == "missing table"} == {"facts", "llm_calls"}
    again = Store.open(store.uri)
    assert examine(again) == ()
    assert again.snapshot().count("facts") == 0
    assert [index.columns for index in again.db.open_table("facts").list_indices()] == [["statement"]]
    with pytest.raises(StoreMismatch, match="table facts is gone"):
        again.snapshot(commit=before).frame("facts")
    with pytest.raises(UndoRefused, match="undo_days"):
        undo(again, "r", "u", NOW)


def test_a_table_that_cannot_be_read_is_named_and_the_others_are_still_examined(store: Store) -> None:
    plant(store, "facts", fact("dangling", subject_id="nobody"))
    for file in Path(store.uri).glob("default/entity_aliases.lance/data/*.lance"):
        file.write_bytes(b"broken")
    findings = examine(Store.attach(store.uri))
    assert summary(findings) == [
        ("dangling reference", "facts", "dangling"),
        ("unreadable table", "entity_aliases", ""),
    ]


def test_nothing_points_at_nothing_because_a_table_cannot_be_read(store: Store) -> None:
    for file in Path(store.uri).glob("default/entities.lance/data/*.lance"):
        file.unlink()
    assert summary(examine(store)) == [("unreadable table", "entities", "")]


@pytest.mark.proof
def test_a_version_that_the_head_names_and_that_is_gone_is_found(store: Store) -> None:
    table = store.db.open_table("episodes")
    versions = {**store.head.versions, "episodes": table.version + 5}
    store.db.open_table(HEAD).update(values={"versions": json.dumps(versions)})
    (finding,) = (finding for finding in examine(store) if finding.check == "unreadable table")
    assert f"Version {table.version + 5} of table episodes is gone" in finding.detail
    assert summary(repair(store, "r", NOW)) == [("unreadable table", "episodes", "")]
    assert examine(store) == ()


@pytest.mark.parametrize("rows", [0, 2])
def test_a_head_that_is_not_one_row_is_made_anew_from_its_past(store: Store, rows: int) -> None:
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["k"]}))
    head = store.db.open_table(HEAD)
    head.add([{**head.to_arrow().to_pylist()[0], "versions": "{}"}]) if rows else head.delete("true")
    with pytest.raises(UnusableInput, match="slowwave doctor --repair"):
        Store.open(store.uri)
    assert summary(look(store.uri, "default")) == summary(mend_head(store.uri, "default")) == [("head", HEAD, "")]
    assert examine(Store.open(store.uri)) == ()
    assert Store.open(store.uri).snapshot().count("metadata") == 1


def test_a_repair_is_undone_like_any_run(store: Store) -> None:
    plant(store, "facts", fact("dangling", subject_id="nobody"), fact("a", expired_at=EPOCH))
    before = by_id(store, "facts", *TABLES["facts"].columns, "vector", "updated_at")
    assert repair(store, "repair-1", NOW)
    undo(store, "repair-1", "u", NOW)
    assert by_id(store, "facts", *TABLES["facts"].columns, "vector", "updated_at") == before
