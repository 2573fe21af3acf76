"""Episodes: conversations as things that happened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import polars as pl
import pytest
from conftest import EPOCH

from recall.facts import entities_in, episodes_of, last_episodes
from storage.store import Store
from tasks.ingest.candidate_rows import episode_links


@pytest.fixture
def told(new_store: Callable[[], Store]) -> Store:
    """Three conversations on three days: the first about Ana, the second about both, the third about Ben."""
    store = new_store()
    days = [EPOCH + timedelta(days=day) for day in range(3)]
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("entities", pl.DataFrame({"id": ["ana", "ben"], "canonical_name": ["ana", "ben"]}))
        names = ["one", "two", "three"]
        columns = {"id": names, "conversation_id": names, "started_at": days, "ended_at": days, "messages": [1, 2, 3]}
        tx.upsert("episodes", pl.DataFrame(columns))
        pairs = {"episode_id": ["one", "two", "two", "three"], "entity_id": ["ana", "ana", "ben", "ben"]}
        tx.upsert("episode_entities", pl.DataFrame({"id": list("abcd"), **pairs}))
    return store


def test_the_episodes_of_an_entity_come_newest_first(told: Store) -> None:
    assert [episode.conversation_id for episode in episodes_of(told.snapshot(), "ana")] == ["two", "one"]


def test_the_last_episodes_are_those_that_ended_last(told: Store) -> None:
    assert [episode.messages for episode in last_episodes(told.snapshot(), 2)] == [3, 2]


def test_the_entities_of_the_last_episodes_are_counted_without_traversal(told: Store) -> None:
    snapshot = told.snapshot()
    assert entities_in(snapshot, last_episodes(snapshot, 1)) == ["ben"]
    assert entities_in(snapshot, last_episodes(snapshot, 2)) == ["ben", "ana"]
    assert entities_in(snapshot, ()) == []


def test_s2_74_an_entity_is_linked_with_a_conversation_once_however_often_it_is_met() -> None:
    met = [("one", "ana", "ben", []), ("one", "ben", None, ["ana"]), ("two", "ana", None, None)]
    facts = pl.DataFrame(met, schema=["episode_id", "subject_id", "object_id", "mentions"], orient="row")
    links = episode_links(facts).sort("episode_id", "entity_id")
    assert links.select("episode_id", "entity_id").rows() == [("one", "ana"), ("one", "ben"), ("two", "ana")]
    later = episode_links(facts.head(1))
    assert {*later["id"]} == {*links["id"].head(2)}  # the same rows again
