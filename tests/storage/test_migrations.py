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
from storage.tables import SCHEMA_VERSION
from storage.transactions import Transaction
from storage.undo import undo

NewStore = Callable[[], Store]


@pytest.fixture
def old(new_store: NewStore) -> Store:
    """A store with a fact, from before there were episodes, access logs, and pins on facts and model names of calls."""
    store = new_store()
    with store.commit("ingest-1", "test", EPOCH) as tx:
        tx.upsert("facts", pl.DataFrame({"id": ["f"], "statement": ["old"], "vector": [[1.0, 0.0, 0.0, 0.0]]}))
        tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [1.0]}))
    store.append("llm_calls", pl.DataFrame({"id": ["paid"], "response": ["{}"]}), EPOCH)
    store.db.drop_table("episodes")
    store.db.drop_table("entity_access_log")
    store.db.open_table("llm_calls").drop_columns(["model"])
    facts = store.db.open_table("facts")
    facts.drop_columns(["pinned", "quote", "event_at", "event_until", "event_precision", "date_is_disputed"])
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
    assert store.snapshot().count("episodes") == store.snapshot().count("entity_access_log") == 0
    assert store.log("llm_calls").select("id", "model", "response").rows() == [("paid", None, "{}")]
    assert examine(store) == ()


def test_a_run_from_before_is_undone_and_brought_back(old: Store) -> None:
    store = Store.open(old.uri)
    undo(store, "ingest-1", "u", EPOCH)
    assert store.snapshot().count("facts") == store.snapshot().count("metadata") == 0
    undo(store, "u", "again", EPOCH)
    row = store.snapshot().by_ids("facts", ["f"], with_vector=True).to_dicts()[0]
    assert (row["statement"], row["pinned"], row["vector"]) == ("old", None, [1.0, 0.0, 0.0, 0.0])
    assert store.snapshot().frame("metadata").select("id", "number").rows() == [("k", 1.0)]


def test_the_steps_of_every_version_that_is_passed_are_run_in_order(
    old: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pin(tx: Transaction) -> None:
        facts = tx.by_ids("facts", ["f"], with_vector=True)
        tx.upsert("facts", facts.with_columns(pinned=pl.lit(True)))

    def count(tx: Transaction) -> None:
        tx.upsert("metadata", pl.DataFrame({"id": ["pinned"], "number": [float(tx.count("facts", "pinned"))]}))

    monkeypatch.setattr(migrations, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    monkeypatch.setattr("storage.store.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    steps = {SCHEMA_VERSION - 1: _never, SCHEMA_VERSION + 1: count, SCHEMA_VERSION: pin, SCHEMA_VERSION + 2: _never}
    monkeypatch.setattr(migrations, "STEPS", steps)
    store = Store.open(old.uri)
    assert store.head.schema_version == SCHEMA_VERSION + 1
    assert dict(store.snapshot().frame("metadata").select("id", "number").rows()) == {"k": 1.0, "pinned": 1.0}


def _never(_: Transaction) -> None:
    raise AssertionError("this version was passed already or not reached")


def test_what_rules_extracted_is_a_quotation_from_now_on_and_what_a_model_read_is_not(old: Store) -> None:
    with old.commit("ingest-2", "test", EPOCH) as tx:
        tx.upsert("runs", pl.DataFrame([
            {"id": "ingest-2", "flow": "ingest", "summary": json.dumps({"llm": {"model": "rules"}})},
            {"id": "ingest-3", "flow": "ingest", "summary": json.dumps({"llm": {"model": "anthropic/x"}})},
        ]))  # fmt: skip
        tx.upsert("messages", pl.DataFrame({"id": ["a", "b", "c"], "message_id": ["a", "b", "c"],
            "conversation_id": "c", "graph_state": ["done", "skipped_durability", "pending"]}))  # fmt: skip
        tx.upsert("patch_batches", pl.DataFrame({"id": ["p"], "origin": ["ingest"]}))
    with old.commit("ingest-3", "test", EPOCH) as tx:
        tx.upsert("messages", pl.DataFrame({"id": ["d"], "message_id": ["d"], "conversation_id": ["c"],
            "graph_state": ["done"]}))  # fmt: skip
        tx.upsert("patch_batches", pl.DataFrame({"id": ["q"], "origin": ["ingest"]}))
    messages = old.db.open_table("messages")
    messages.drop_columns(["read_by"])
    versions = {**old.head.versions, "messages": messages.version}
    state = {"versions": json.dumps(versions), "schema_version": 10}
    old.db.open_table(HEAD).update(values=state)
    snapshot = Store.open(old.uri).snapshot()
    readers = snapshot.frame("messages", columns=["id", "read_by", "run_id"]).sort("id").rows()
    assert readers == [("a", "quotes", "ingest-2"), ("b", "quotes", "ingest-2"), ("c", None, "ingest-2"),
                       ("d", None, "ingest-3")]  # fmt: skip
    assert dict(snapshot.frame("patch_batches", columns=["id", "origin"]).rows()) == {"p": "quotes", "q": "ingest"}


def test_a_step_that_fails_leaves_the_old_store_and_can_be_tried_again(
    old: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tx: Transaction) -> None:
        tx.upsert("metadata", pl.DataFrame({"id": ["half"]}))
        tx.upsert("episodes", pl.DataFrame({"id": ["half"], "conversation_id": ["c"]}))
        raise ZeroDivisionError

    before = old.head
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", {SCHEMA_VERSION: fail})
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
