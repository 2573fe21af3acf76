"""A store that an older slowwave wrote is brought up to date as one commit; one from a newer slowwave is left alone."""

from __future__ import annotations

import json
from collections.abc import Callable

import polars as pl
import pytest
from conftest import EPOCH, TINY

from slowwave.common.errors import StoreMismatch
from storage import migrations
from storage.connection import HEAD
from storage.doctor import examine
from storage.store import Store
from storage.tables import SCHEMA_VERSION, TABLES, Role, Table, column_of
from storage.undo import undo

NewStore = Callable[[], Store]


@pytest.fixture
def old(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a fact, from before there were episodes, access logs, and pins on facts and model names of calls.

    It has a table that is no more.
    """
    store = new_store()
    with monkeypatch.context() as patch:
        parts = Table("aspect_parts", Role.STATE, "", {"key": column_of("text: A key.")})
        patch.setitem(TABLES, "aspect_parts", parts)
        store.db.create_table("aspect_parts", schema=parts.schema(4))
        store.db.open_table(HEAD).update(values={"versions": json.dumps({**store.head.versions, "aspect_parts": 1})})
        with store.commit("ingest-1", "test", EPOCH) as tx:
            tx.upsert("aspect_parts", pl.DataFrame({"id": ["p"], "key": ["e"]}))
    with store.commit("ingest-1", "test", EPOCH) as tx:
        tx.upsert("facts", pl.DataFrame({"id": ["f"], "statement": ["old"], "vector": [[1.0, 0.0, 0.0, 0.0]]}))
        tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [1.0]}))
    store.append("llm_calls", pl.DataFrame({"id": ["paid"], "response": ["{}"]}), EPOCH)
    store.db.drop_table("episodes")
    store.db.drop_table("entity_access_log")
    store.db.open_table("llm_calls").drop_columns(["model"])
    facts = store.db.open_table("facts")
    facts.drop_columns(["pinned", "quote", "event_at", "event_until", "event_precision", "date_is_disputed"])
    facts.add_columns({"suspect_of": "'g'"})
    versions = {name: version for name, version in store.head.versions.items() if name != "episodes"}
    state = {"versions": json.dumps({**versions, "facts": facts.version}), "schema_version": SCHEMA_VERSION - 1}
    store.db.open_table(HEAD).update(values=state)
    return store


def test_what_is_missing_is_added_empty_and_everything_else_stays(old: Store) -> None:
    commits = old.head.sequence
    store = Store.open(old.uri, embedding=TINY)
    assert store.head.schema_version == SCHEMA_VERSION
    assert store.head.sequence == commits + 1
    row = store.snapshot().by_ids("facts", ["f"], with_vector=True).to_dicts()[0]
    assert (row["statement"], row["vector"], row["created_at"]) == ("old", [1.0, 0.0, 0.0, 0.0], EPOCH)
    assert [row[name] for name in ("pinned", "quote", "event_at", "event_precision")] == [None] * 4
    assert "suspect_of" not in store.snapshot().handle("facts").schema.names
    assert store.snapshot().count("episodes") == store.snapshot().count("entity_access_log") == 0
    assert store.log("llm_calls").select("id", "model", "response").rows() == [("paid", None, "{}")]
    assert examine(store) == ()


def test_a_table_that_is_no_more_is_left_out(old: Store) -> None:
    store = Store.open(old.uri)
    assert "aspect_parts" not in store.head.versions
    with store.commit("later", "test", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["m"], "number": [2.0]}))
    assert examine(Store.open(old.uri)) == ()


def test_a_run_from_before_is_undone_and_brought_back(old: Store) -> None:
    store = Store.open(old.uri)
    undo(store, "ingest-1", "u", EPOCH)
    assert store.snapshot().count("facts") == store.snapshot().count("metadata") == 0
    undo(store, "u", "again", EPOCH)
    row = store.snapshot().by_ids("facts", ["f"], with_vector=True).to_dicts()[0]
    assert (row["statement"], row["pinned"], row["vector"]) == ("old", None, [1.0, 0.0, 0.0, 0.0])
    assert store.snapshot().frame("metadata").select("id", "number").rows() == [("k", 1.0)]


def test_a_migration_that_fails_leaves_the_old_store_and_can_be_tried_again(
    old: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    before = old.head
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "make_text_indexes", fail)  # the last step
        with pytest.raises(ZeroDivisionError):
            Store.open(old.uri)
    assert (old.head.versions, old.head.schema_version) == (before.versions, before.schema_version)
    store = Store.open(old.uri)
    assert store.snapshot().frame("metadata").select("id", "number").rows() == [("k", 1.0)]
    assert store.snapshot().count("episodes") == 0
    assert examine(store) == ()


def test_a_store_of_a_newer_slowwave_is_refused_and_left_alone(new_store: NewStore) -> None:
    store = new_store()
    store.db.open_table(HEAD).update(values={"schema_version": SCHEMA_VERSION + 1})
    before = store.head
    with pytest.raises(StoreMismatch, match=rf"version {SCHEMA_VERSION + 1}, this slowwave knows {SCHEMA_VERSION}"):
        Store.open(store.uri)
    assert store.head == before
