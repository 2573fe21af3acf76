"""How a task decides and writes: on a snapshot, and again only where another run wrote meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
from conftest import EPOCH, TINY

from storage.snapshots import Reading
from storage.store import Store
from storage.transactions import Transaction
from tasks.runtime.runs import Run
from tasks.runtime.writing import decide_and_write


class Tagging:
    """Sets marks that are 0 to 1; `meanwhile` is another run at work after the first decision."""

    def __init__(self, store: Store, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.run = Run("r", "test", store.uri, store.namespace, EPOCH, TINY[0])
        self.decisions: list[list[str]] = []
        self.written: list[list[str]] = []
        self._meanwhile = meanwhile

    def decide(self, reading: Reading) -> list[str]:
        found = sorted(reading.frame("metadata", "number = 0", ["id"])["id"])
        self.decisions.append(found)
        if len(self.decisions) == 1:
            self._meanwhile()
        return found

    def write(self, tx: Transaction, found: list[str]) -> None:
        self.written.append(found)
        tx.upsert("metadata", pl.DataFrame({"id": found, "number": [1.0] * len(found)}))

    def __call__(self, *, dry_run: bool = False) -> list[str]:
        return decide_and_write(self.run, "test", self.decide, self.write, dry_run=dry_run)


def put(store: Store, id_: str, number: float = 0.0) -> None:
    with store.commit("other", "test", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": [id_], "number": [number]}))


def test_a_decision_is_made_once_where_nobody_wrote_meanwhile(new_store: Callable[[], Store]) -> None:
    store = new_store()
    put(store, "a")
    tagging = Tagging(store)
    assert tagging() == ["a"]
    assert (tagging.decisions, tagging.written) == ([["a"]], [["a"]])


def test_a_decision_is_made_again_where_another_run_wrote_meanwhile(new_store: Callable[[], Store]) -> None:
    store = new_store()
    put(store, "a")
    tagging = Tagging(store, lambda: put(store, "b"))
    assert tagging() == ["a", "b"]
    assert (tagging.decisions, tagging.written) == ([["a"], ["a", "b"]], [["a", "b"]])


def test_an_empty_decision_and_a_dry_run_take_no_lease(new_store: Callable[[], Store]) -> None:
    store = new_store()
    before = store.head.sequence
    assert Tagging(store)() == []
    put(store, "a")
    assert Tagging(store)(dry_run=True) == ["a"]
    assert store.head.sequence == before + 1


def test_a_transaction_is_overtaken_by_commits_and_only_by_those_to_the_tables_asked_about(
    new_store: Callable[[], Store],
) -> None:
    store = new_store()
    snapshot = store.snapshot()
    with store.commit("r", "test", EPOCH) as tx:
        assert not tx.is_overtaken(snapshot)
    put(store, "a")
    with store.commit("r", "test", EPOCH) as tx:
        assert tx.is_overtaken(snapshot)
        assert tx.is_overtaken(snapshot, "facts", "metadata")
        assert not tx.is_overtaken(snapshot, "facts")
