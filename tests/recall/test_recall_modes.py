"""The ways of recalling: along relations, within a conversation, beside a turn, and what may be (S2-69, S2-74)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from stores import Row, remembered
from stores import fact as plain_fact
from talk import NOW

from recall.facts import entities_of_last, episodes_of
from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.settings import RecallSettings
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store
from tasks.ingest.candidate_rows import episode_links

DAY = timedelta(days=1)
QUESTION = "Who keeps bees on the roof?"
PLAIN = RecallSettings(graph="none", neighbours=0.0, limbic=True, others_weight=1.0)
"""One stage at a time: search, weighed by use."""


def relation(name: str, statement: str, subject: str, obj: str, **more: Any) -> Row:
    return plain_fact(name, statement, kind="relation", subject_id=f"e_{subject}", object_id=f"e_{obj}", **more)


def entity(name: str) -> Row:
    return {"id": f"e_{name}", "canonical_name": name, "name": name.title(), "entity_type": THINGS.get(name, "person")}


def belief(name: str, subject: str, obj: str, probability: float, scope: str = "global") -> Row:
    return {
        "id": name, "subject_id": f"e_{subject}", "object_id": f"e_{obj}", "predicate": "likes", "scope": scope,
        "statement": f"{subject.title()} may like {obj.title()}.", "probability": probability, "first_at": EPOCH,
        "last_at": NOW, "evidence_count": 1,
    }  # fmt: skip


THINGS = {"ferrywise": "organization", "harbour": "place"}
PEOPLE = ("marta", "ben", "cleo", "ferrywise", "harbour", "mary ann")
FACTS = (
    relation("works", "Marta works at Ferrywise.", "marta", "ferrywise", message_id="m_1"),
    relation("lies", "The company has its office by the harbour.", "ferrywise", "harbour", message_id="m_2"),
    plain_fact("bees", "Somebody keeps bees on the roof.", subject_id="e_ben", message_id="m_3"),
    plain_fact("honey", "Somebody sells honey from the roof.", subject_id="e_cleo", message_id="m_4"),
    plain_fact("bread", "Somebody bakes bread in the yard.", subject_id="e_cleo", message_id="m_5"),
)
EPISODES = [
    {"id": f"ep_{name}", "conversation_id": name, "started_at": at, "ended_at": at, "messages": 1}
    for name, at in (("c", EPOCH), ("d", EPOCH + DAY))
]
ABOUT = [
    {"id": f"{episode} {who}", "episode_id": f"ep_{episode}", "entity_id": f"e_{who}"}
    for episode, who in (("c", "marta"), ("c", "ben"), ("d", "cleo"))
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five facts, each of a message; the last two were said in conversation `d`, all others in `c`."""
    more = {
        "entities": [entity(name) for name in PEOPLE], "episodes": EPISODES, "episode_entities": ABOUT,
        "pending_beliefs": [
            belief("b1", "marta", "cleo", 0.6), belief("b2", "cleo", "marta", 0.7), belief("b3", "marta", "cleo", 0.4),
            belief("b4", "cleo", "marta", 0.5), belief("known", "marta", "ferrywise", 0.8),
            belief("far", "ben", "mary ann", 0.3, "kestrel"),
        ],
        "entity_aliases": [{"id": "a", "alias_name": "the baker", "entity_id": "e_cleo"}],
    }  # fmt: skip
    uri = remembered(tmp_path_factory.mktemp("modes") / "m", FACTS, more=more)
    with Store.open(str(uri)).commit("moved", "moved", EPOCH) as tx:
        said = tx.by_ids("messages", ["m_4", "m_5"], with_vector=True)
        tx.upsert("messages", said.with_columns(conversation_id=pl.lit("d")))
    return uri


@pytest.fixture(scope="module")
def memory(store: Path) -> Iterator[OpenMemory]:
    """That store, asked without traces."""
    with OpenMemory.open(str(store), settings=PLAIN, is_logged=False) as opened:
        yield opened


def names(memory: OpenMemory, query: str, **how: Any) -> list[str]:
    return [found.id for found in memory.recall(query, now=NOW, **how).facts]


# Along relations


@pytest.mark.parametrize("graph", ["bfs", "spread"])
def test_a_walk_brings_what_no_word_of_the_question_says(store: Path, graph: str) -> None:
    chosen = RecallSettings(graph="none", graph_weight=1.0, neighbours=0.0, others_weight=1.0)
    with OpenMemory.open(str(store), settings=chosen, is_logged=False) as memory:
        plain = memory.recall("What about Marta?", now=NOW).facts
        found = memory.recall("What about Marta?", now=NOW, graph=graph).facts
    places = [fact.id for fact in plain].index("lies"), [fact.id for fact in found].index("lies")
    assert places[1] < places[0]
    reached = {fact.id: fact.parts for fact in found}
    assert reached["works"]["hops"] == 0.0 < reached["lies"]["hops"]
    assert 1.0 >= reached["works"]["graph"] >= reached["lies"]["graph"] > 0.0
    assert "graph" not in reached["bees"]
    for fact in found:
        parts = fact.parts
        assert fact.score == pytest.approx(parts["search"] + parts.get("graph", 0.0), abs=1e-6)


def test_a_walk_brings_nothing_that_the_question_may_not_see(store: Path, memory: OpenMemory) -> None:
    assert "lies" in names(memory, "Marta", graph="bfs")
    assert "lies" not in names(memory, "Marta", graph="bfs", scope="kestrel")
    assert names(memory, "Marta", graph="bfs", as_of=EPOCH - DAY) == []
    assert set(names(memory, "Marta", graph="bfs", last=1)) <= {"honey", "bread"}


def test_the_settings_say_whether_relations_are_followed_and_a_question_may_say_otherwise(store: Path) -> None:
    with OpenMemory.open(str(store), settings=RecallSettings(graph="bfs"), is_logged=False) as memory:
        walked, plain = (memory.recall("Marta", now=NOW, graph=graph).facts for graph in (None, "none"))
    assert any("graph" in fact.parts for fact in walked)
    assert not any("graph" in fact.parts for fact in plain)


# Conversations


def test_facts_of_the_conversation_that_goes_on_come_sooner(memory: OpenMemory) -> None:
    before, after = (memory.recall(QUESTION, now=NOW, conversation=which).facts for which in ("c", "d"))
    for told, said_here in ((before, {"works", "lies", "bees"}), (after, {"honey", "bread"})):
        assert [fact.score for fact in told] == sorted((fact.score for fact in told), reverse=True)
        for fact in told:
            parts = fact.parts
            assert parts["episode"] == (1.1 if fact.id in said_here else 1.0)
            assert fact.score == pytest.approx(parts["search"] * parts["limbic"] * parts["episode"], abs=1e-6)


def test_the_last_conversations_restrict_what_may_answer(memory: OpenMemory) -> None:
    assert set(names(memory, QUESTION, last=1)) == {"honey", "bread"}
    assert set(names(memory, QUESTION, last=2)) == {"works", "bees", "honey", "bread"}
    assert set(names(memory, QUESTION, last=99)) == {"works", "bees", "honey", "bread"}
    with pytest.raises(UnusableInput, match="at least one"):
        memory.recall(QUESTION, last=0)


def test_an_unknown_conversation_is_named_with_those_there_are(memory: OpenMemory) -> None:
    with pytest.raises(UnknownName, match=r"Unknown conversation 'nowhere'.*Known: c, d"):
        memory.recall(QUESTION, conversation="nowhere")


# Parts


@pytest.mark.parametrize("weights", [{}, {"graph_weight": 0.7, "diversity": 0.5}], ids=str)
def test_the_parts_of_a_score_make_the_score_by_the_formula_that_is_shown(
    tmp_path: Path, weights: dict[str, Any]
) -> None:
    said = [
        relation("f_bees", "Marta keeps bees on the roof in June.", "marta", "bees"),
        relation("f_roof", "Marta mended the roof.", "marta", "roof", message_id="m_f_bees"),
        relation("f_lean", "Ben keeps bees, too.", "ben", "bees"),
    ]
    place = remembered(tmp_path / "m", said, more={"entities": [*map(entity, ("marta", "ben", "bees", "roof"))]})
    settings = RecallSettings(graph="bfs", limbic=True, **weights)
    with OpenMemory.open(str(place), settings=settings, is_logged=False) as memory:
        found = memory.recall("Does Marta keep bees on the roof in June?", now=NOW, conversation="c").facts
    assert len(found) >= 3
    assert {"period", "limbic", "graph"} <= {name for fact in found for name in fact.parts}
    for fact in found:
        part = fact.parts
        search = part["words"] + max(part["meaning"], 0.0) + part["overlap"]
        fused = search / part["place"] ** 0.25 + settings.graph_weight * part.get("graph", 0.0)
        score = fused * part.get("about", 1.0) * part.get("scope", 1.0) + part.get("period", 0.0)
        for factor in ("limbic", "episode", "diversity"):
            score *= part.get(factor, 1.0)
        assert fact.score == pytest.approx(score, abs=1e-5)


# What may be


def test_what_may_hold_between_two_named_things_is_told_apart(memory: OpenMemory) -> None:
    found = memory.recall("Does the baker get on with Marta's people?", now=NOW)
    assert [belief.id for belief in found.uncertain] == ["b2", "b1", "b4"]
    assert not {belief.id for belief in found.uncertain} & {fact.id for fact in found.facts}
    told = found.as_json()["uncertain"]
    assert (told[0]["id"], told[0]["is_uncertain"], told[0]["probability"]) == ("b2", True, 0.7)


@pytest.mark.proof
@pytest.mark.parametrize(("limit", "expected"), [(0, []), (1, ["b2"]), (9, ["b2", "b1", "b4", "b3"])])
def test_how_many_pending_beliefs_are_told_is_a_setting(store: Path, limit: int, expected: list[str]) -> None:
    with OpenMemory.open(str(store), settings=RecallSettings(uncertain_limit=limit), is_logged=False) as memory:
        assert [belief.id for belief in memory.recall("Cleo and Marta?", now=NOW).uncertain] == expected


@pytest.mark.parametrize(
    ("query", "how"),
    [
        ("What does Marta like?", {}),
        ("Marta and Ferrywise", {}),  # a live fact relates the two
        ("Martas cleopatra", {}),
        ("Ben and Mary", {}),
        ("Cleo and Marta", {"as_of": NOW - DAY}),
        ("Cleo and Marta", {"scope": "kestrel"}),
    ],
)
def test_nothing_uncertain_is_told_where_nobody_asked_for_it(memory: OpenMemory, query: str, how: Any) -> None:
    found = memory.recall(query, now=NOW, **how)
    assert found.uncertain == ()
    assert "uncertain" not in found.as_json()


def test_a_name_of_several_words_is_one_name(memory: OpenMemory) -> None:
    assert [belief.id for belief in memory.recall("ben, mary   ANN?", now=NOW, scope="kestrel").uncertain] == ["far"]


# Who is asked about


def test_facts_about_somebody_else_stand_behind_where_the_question_names_people(store: Path) -> None:
    def scores(weight: float, query: str) -> dict[str, float]:
        chosen = PLAIN.model_copy(update={"others_weight": weight, "limbic": False})
        with OpenMemory.open(str(store), settings=chosen, is_logged=False) as memory:
            return {found.id: found.score for found in memory.recall(query, now=NOW).facts}

    plain, chosen = (scores(weight, "Does Cleo keep bees on the roof?") for weight in (1.0, 0.5))
    assert chosen["bees"] == pytest.approx(plain["bees"] / 2)  # Ben's
    assert (chosen["honey"], chosen["bread"]) == (plain["honey"], plain["bread"])
    assert scores(0.5, QUESTION) == scores(1.0, QUESTION)  # nobody is named


# Which relation is asked for


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Where does Nora live?", "home"),
        ("Where does Nora work?", "job"),
        ("Who is Nora's manager?", "boss"),
        ("When is Nora's wedding?", "date"),
    ],
)
def test_facts_of_the_relation_that_is_asked_for_come_first(tmp_path: Path, question: str, first: str) -> None:
    said = [
        ("home", "Nora moved to Zwolle last week.", "nora", "lives_in"),
        ("job", "Nora left the bank for Figma.", "nora", "works_at"),
        ("boss", "Peter has taken over for Nora.", "nora", "has_manager"),
        ("date", "The big day of Nora and Sam is 12 June.", "nora", "wedding_date"),
        ("caching", "Nora uses Redis for caching.", "nora", "uses"),
        ("tea", "Nora drinks tea.", "nora", "drinks"),
        ("other", "Elif lives and works in Istanbul.", "elif", "lives_in"),
    ]
    facts = [plain_fact(name, text, kind="relation", subject_id=f"e_{who}", predicate=predicate, object_text="x")
             for name, text, who, predicate in said]  # fmt: skip
    place = remembered(tmp_path / "m", facts, more={"entities": [entity("nora"), entity("elif")]})
    with OpenMemory.open(str(place), is_logged=False) as memory:
        assert memory.recall(question, now=NOW).facts[0].id == first


def test_what_denies_the_relation_does_not_answer_for_it(tmp_path: Path) -> None:
    facts = [
        plain_fact(name, f"Nora {words} Globex.", predicate="works_at", polarity=polarity)
        for name, words, polarity in (("left", "has left", "negated"), ("job", "has joined", "affirmed"))
    ]
    with OpenMemory.open(str(remembered(tmp_path / "m", facts)), is_logged=False) as memory:
        job, left = memory.recall("Where does Nora work?", now=NOW).facts
    assert (job.id, left.id) == ("job", "left")
    assert job.parts["overlap"] > left.parts["overlap"]


@pytest.mark.parametrize("relation", ["said", "noted", "observed"])
def test_that_something_was_said_is_no_word_of_it(tmp_path: Path, relation: str) -> None:
    facts = [plain_fact("tea", "Nora drinks tea.", predicate=relation)]
    with OpenMemory.open(str(remembered(tmp_path / "m", facts)), is_logged=False) as memory:
        (found,) = memory.recall(f"What was {relation}?", now=NOW).facts
    assert found.parts["overlap"] == 0


@pytest.mark.parametrize("question", ["Who is Marta's manager?", "Where does Pixel's owner work?", "cello", "Devon"])
def test_up_to_ten_facts_fewer_are_the_first_of_more(learned: tuple[Path, dict[str, object]], question: str) -> None:
    with OpenMemory.open(str(learned[0]), is_logged=False) as memory:
        ten, *fewer = ([fact.id for fact in memory.recall(question, k, now=NOW).facts] for k in (10, 1, 3, 4, 7))
    assert fewer == [ten[: len(each)] for each in fewer]
    assert [len(each) for each in fewer] == [1, 3, 4, 7]


# Episodes: conversations as things that happened


def test_the_episodes_of_an_entity_come_newest_first(new_store: Callable[[], Store]) -> None:
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
    snapshot = store.snapshot()
    assert [episode.conversation_id for episode in episodes_of(snapshot, "ana")] == ["two", "one"]
    assert entities_of_last(snapshot, 1) == {"ben"}
    assert entities_of_last(snapshot, 2) == {"ben", "ana"}


def test_s2_74_an_entity_is_linked_with_a_conversation_once_however_often_it_is_met() -> None:
    met = [("one", "ana", "ben", []), ("one", "ben", None, ["ana"]), ("two", "ana", None, None)]
    facts = pl.DataFrame(met, schema=["episode_id", "subject_id", "object_id", "mentions"], orient="row")
    links = episode_links(facts).sort("episode_id", "entity_id")
    assert links.select("episode_id", "entity_id").rows() == [("one", "ana"), ("one", "ben"), ("two", "ana")]
    later = episode_links(facts.head(1))
    assert {*later["id"]} == {*links["id"].head(2)}  # the same rows again
