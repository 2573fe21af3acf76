"""Relations as a store holds them: graphs of any moment, walks from a question, neighbours and paths."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from stores import Row, fact, remembered
from talk import NOW

from inference.embedding import open_embedder
from recall.facts import ALL, stored, valid_rows
from recall.graphs import GRAPH_TABLES, Graphs, graph_of
from recall.order import Step
from recall.question import Question
from recall.walks import walked
from slowwave.common.errors import UnknownName
from slowwave.common.settings import RecallSettings
from slowwave.common.validity import Moment
from slowwave.integrations.python_api import OpenMemory
from storage.handles import WarmTables
from storage.store import Store

PEOPLE = {"a": "Ana", "b": "Bruno", "c": "Carla", "d": "Dario", "e": "Elena", "f": "Farid", "g": "Greta"}


def day(number: float) -> datetime:
    return EPOCH + timedelta(days=number)


def link(name: str, source: str, target: str, **more: Any) -> Row:
    row = {"kind": "relation", "subject_id": f"e_{source}", "object_id": f"e_{target}", "predicate": "knows",
           "edge_type": "semantic", "created_at": EPOCH} | more  # fmt: skip
    return fact(name, f"{PEOPLE[source]} knows {PEOPLE[target]}.", **row)


FACTS = [
    link("f_ab", "a", "b", edge_type="causal"),
    link("f_bc", "b", "c", confidence=0.5, valid_from=day(30)),
    link("f_cd", "c", "d", scope="work"),
    link("f_da", "d", "a", valid_to=NOW + timedelta(days=3)),
    link("f_old", "a", "c", valid_to=day(40), status="superseded", expired_at=day(60), replaced_by="f_bc",
         status_reason="replaced by f_bc"),
    link("f_gone", "b", "d", valid_to=day(20)),
    link("f_never", "b", "d", status="rejected"),
    link("f_wrong", "c", "e", status="retracted", expired_at=day(50)),
    link("f_later", "d", "e", created_at=day(90), valid_from=day(80)),
    link("f_same", "d", "e", status="superseded", expired_at=day(100), replaced_by="f_later",
         status_reason="dedup: absorbed by f_later"),
    link("f_like", "a", "e", kind="similarity"),
    link("f_self", "a", "a"),
    link("f_note", "a", "e", kind="observation"),
    link("f_merged", "a", "g"),
]  # fmt: skip
ARCHIVED = [link("f_cold", "b", "e", status="archived", expired_at=day(120))]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of people who know each other, only to be looked at."""
    return written(tmp_path_factory.mktemp("traversal") / "m")


def written(uri: Path) -> Path:
    people = [{"id": f"e_{key}", "canonical_name": name.lower(), "name": name, "entity_type": "person"}
              for key, name in PEOPLE.items()]  # fmt: skip
    people[5] |= {"status": "archived"}
    people[6] |= {"merged_into": "e_a"}
    more: Mapping[str, list[Row]] = {
        "entities": people,
        "fact_usage": [{"id": "f_bc", "link_count": 1.0, "hit_count": 1}, {"id": "f_cd", "link_count": 0.0}],
        "entity_links": [{"id": "l_1", "a_id": "e_b", "b_id": "e_e", "cosine": 0.9}],
        "communities": [{"id": "k_1", "entity_ids": ["e_a", "e_gone"], "joined_ids": ["e_c"]}],
        "entity_aliases": [
            {"id": f"s_{name}", "alias_name": name, "entity_id": "e_d", "entity_type": "person"}
            for name in ("the boss", "the analyst")
        ],
    }
    return remembered(uri, FACTS, archived=ARCHIVED, more=more)


def edges(graphs: Graphs, store: Store, moment: Moment) -> set[str]:
    return {*graphs.of(store.snapshot(), moment).graph.edges["id"]}


# Graphs


def test_s2_33_the_live_graph_has_what_holds_weighted_by_use(place: Path) -> None:
    graph = graph_of(Store.open(str(place)).snapshot(), NOW)
    weights = dict(zip(graph.edges["id"], graph.weight.tolist(), strict=True))
    assert {*weights} == {"f_ab", "f_bc", "f_cd", "f_da", "f_later"}
    assert weights["f_bc"] == pytest.approx(0.569315, abs=1e-6)
    assert weights["f_cd"] == pytest.approx(0.9)
    assert graph.ids.to_list() == ["e_a", "e_b", "e_c", "e_d", "e_e", "e_marta"]


MOMENTS = [
    Moment(NOW, as_of, known)
    for as_of in (None, day(10), day(35), day(85))
    for known in (None, day(55), day(95), day(110))
]


@pytest.mark.proof
def test_s2_37_the_graph_of_any_moment_has_the_relations_that_held_then(place: Path) -> None:
    store, graphs = Store.open(str(place)), Graphs()
    snapshot = store.snapshot()
    everything = stored(snapshot, ALL, pl.Series([row["id"] for row in (*FACTS, *ARCHIVED)]))
    relations = {row["id"] for row in (*FACTS, *ARCHIVED) if row["kind"] == "relation"} - {"f_self"}
    seen = set()
    for moment in MOMENTS:
        rows = everything if moment.is_past else snapshot.frame("facts", moment.where)
        expected = {*valid_rows(snapshot, rows, moment)["id"]} & relations
        assert edges(graphs, store, moment) == expected - (set() if moment.is_past else {"f_merged"}), moment
        seen.add(frozenset(expected))
    assert len(seen) > 5


def test_a_graph_is_kept_until_a_fact_ends_and_never_answers_for_another_time(place: Path) -> None:
    store, graphs = Store.open(str(place)), Graphs()
    snapshot = store.snapshot()
    end = FACTS[3]["valid_to"]
    first = graphs.of(snapshot, Moment(NOW))
    assert graphs.of(snapshot, Moment(end - timedelta(microseconds=1))) is first
    assert "f_da" not in edges(graphs, store, Moment(end))
    assert "f_da" not in edges(graphs, store, Moment(end + timedelta(days=999)))
    assert "f_da" in edges(graphs, store, Moment(NOW))
    assert "f_gone" in edges(graphs, store, Moment(day(19)))  # ended by NOW, not by then
    assert "f_gone" not in edges(graphs, store, Moment(day(20)))


# Walks from a question


def asked(place: Path, text: str, **how: Any) -> Mapping[str, Step]:
    store, vector = Store.open(str(place)), open_embedder().embed([text])[0]
    moment = Moment(NOW, how.pop("as_of", None))
    narrow = {name: how.pop(name) for name in ("scope", "about") if name in how}
    question = Question(text, vector, how.pop("k", 10), moment, **narrow)
    settings = RecallSettings.model_validate({"graph": how.pop("graph", "bfs"), "walk": how})

    async def walk() -> Mapping[str, Step]:
        tables = await WarmTables(store, GRAPH_TABLES).newest()
        return await walked(tables, Graphs(), question, settings)

    return asyncio.run(walk())


names = list


def test_s2_27_a_walk_begins_at_the_entities_that_the_question_names(place: Path) -> None:
    found = asked(place, "What about Bruno?")
    score = 0.6 + 0.4 * (0.6 + 0.4 * 2 / 5)
    assert found["f_ab"] == (pytest.approx(score * 0.9 * 1.2), 0)
    assert [(fact, step.hops) for fact, step in found.items()] == [("f_ab", 0), ("f_bc", 0), ("f_cd", 1), ("f_da", 1)]
    assert names(asked(place, "What about Bruno?", graph="spread", spread={"max_hops": 1})) == ["f_ab", "f_bc"]
    assert asked(place, "What about Bruno?", graph="none") == {}
    assert names(asked(place, "the boss", max_hops=1)) == ["f_cd", "f_da", "f_later"]
    both = asked(place, "Dario or Ana")  # "Ana" means Dario, the analyst, less than his own name does
    assert {"f_ab", "f_cd"} <= {*both}
    assert both == asked(place, "Ana or Dario")


def test_a_walk_keeps_to_the_scope_the_time_and_the_entities_of_the_question(place: Path) -> None:
    assert names(asked(place, "Carla and Ana", scope="work")) == ["f_cd"]
    assert asked(place, "Bruno", scope="work") == {}
    then = asked(place, "Elena", as_of=day(45), max_hops=1)
    assert {*names(then)} == {"f_cold", "f_same"}
    assert {*names(asked(place, "Bruno", about=frozenset({"e_c"})))} == {"f_bc", "f_cd"}
    assert names(asked(place, "Bruno", edge_types=["causal"])) == ["f_ab"]
    assert names(asked(place, "Bruno", k=2)) == ["f_ab", "f_bc"]


def test_s2_27_where_no_word_names_anybody_the_nearest_in_meaning_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = written(tmp_path / "m")
    store = Store.open(str(uri))
    vectors = open_embedder().embed(["a baker of bread", "a pilot of aeroplanes"])
    people = store.snapshot().frame("entities").filter(pl.col("id").is_in(["e_a", "e_e"])).sort("id")
    described = people.with_columns(vector=pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1])))
    with store.commit("r", "r", NOW) as tx:
        tx.upsert("entities", described)
    assert names(asked(uri, "bakery"))[0] == "f_ab"
    with OpenMemory.open(str(uri), is_logged=False) as memory:
        assert [(one.name, one.found_by) for one in memory.find_entities("bakery", 1)] == [("Ana", "meaning")]
    assert asked(uri, "") == {}

    async def broken(*_: object) -> dict[str, float]:
        raise OSError("The index cannot be read.")

    monkeypatch.setattr("recall.walks.near_entities", broken)
    assert asked(uri, "bakery") == {}


def test_a_walk_can_lead_over_similar_entities(place: Path) -> None:
    assert "f_later" not in names(asked(place, "Bruno"))
    assert "f_later" in names(asked(place, "Bruno", similar_links=True))


# What lies around, and how two are related


def test_s2_37_neighbours_can_be_of_some_types_and_at_most_so_many(place: Path) -> None:
    with OpenMemory.open(str(place), is_logged=False) as memory:
        around = memory.neighbours("Ana", 3, now=NOW)
        assert [(one.name, one.depth) for one in around.entities] == [
            ("Ana", 0), ("Bruno", 1), ("Dario", 1), ("Carla", 2), ("Elena", 2),
        ]  # fmt: skip
        assert [found.id for found in around.facts] == ["f_ab", "f_da", "f_later", "f_bc", "f_cd"]
        causal = memory.neighbours("Ana", 3, edge_types=["Causal "], now=NOW)
        assert [found.id for found in causal.facts] == ["f_ab"]
        few = memory.neighbours("Ana", 3, limit=1, now=NOW)
        assert ([one.name for one in few.entities], len(few.facts)) == (["Ana", "Bruno"], 1)
        then = memory.neighbours("Ana", 1, as_of=day(10), now=NOW)
        assert {found.id for found in then.facts} == {"f_ab", "f_da", "f_old", "f_merged"}
        with pytest.raises(UnknownName, match="causal"):
            memory.neighbours("Ana", edge_types=["friendly"], now=NOW)


def test_t44_entities_are_found_by_beginnings_of_words_and_by_other_names(place: Path) -> None:
    with OpenMemory.open(str(place), is_logged=False) as memory:
        assert [(one.name, one.score, one.found_by) for one in memory.find_entities("bru")] == [("Bruno", 1.0, "words")]
        assert [one.name for one in memory.find_entities("BOSS")] == ["Dario"]
        assert "Farid" not in {one.name for one in memory.find_entities("farid")}  # archived
        assert "Greta" not in {one.name for one in memory.find_entities("greta")}  # merged into another


def test_what_a_walk_returns_counts_as_read_and_what_it_passes_does_not(tmp_path: Path) -> None:
    uri = written(tmp_path / "m")
    with OpenMemory.open(str(uri)) as memory:
        memory.neighbours("Ana", 1, limit=1, now=NOW)
    events = Store.open(str(uri)).snapshot().frame("retrieval_events")
    assert sorted(events["fact_id"]) == ["f_ab"]
