"""The read road: what is recalled, in which order, from where, and what reading leaves behind."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import EPOCH
from stores import CLOSED, fact, recalled, remembered
from talk import NOW, START, learn, rows, said, written

from bench.ingest import ingest_files
from bench.languages import FOLDER
from inference.embedding import open_embedder
from recall.contrast import contrasted
from recall.search_results import OTHER_SCOPE
from slowwave.common.errors import StoreMismatch, UnknownName
from slowwave.common.settings import RecallSettings
from slowwave.common.text import digest
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store

WHERE = pytest.mark.parametrize("held_mb", [RecallSettings().held_mb, 0], ids=["in memory", "by queries"])


@WHERE
def test_only_live_facts_surface_however_well_the_others_match(tmp_path: Path, held_mb: int) -> None:
    others = [fact(name, "Marta plays the violin in an orchestra.", **more) for name, more in CLOSED.items()]
    uri = remembered(tmp_path / "m", [*others, fact("live", "Marta also mentioned a violin once.")])
    settings = RecallSettings(held_mb=held_mb)
    assert recalled(uri, "Marta plays the violin in an orchestra", settings) == ["live"]


@WHERE
def test_closed_facts_do_not_crowd_out_a_live_one_that_ranks_behind_them(tmp_path: Path, held_mb: int) -> None:
    others = [fact(f"old{n}", f"Marta plays the violin {n}.", **CLOSED["superseded"]) for n in range(60)]
    uri = remembered(tmp_path / "m", [*others, fact("live", "The orchestra rehearses on Mondays.")])
    settings = RecallSettings(held_mb=held_mb)
    assert recalled(uri, "violin orchestra", settings, k=1) == ["live"]
    assert recalled(uri, "Marta plays the violin", settings, k=1) == ["live"]


@pytest.mark.proof
def test_a_scope_shows_only_its_own_facts(tmp_path: Path) -> None:
    names = {"global": "g", "kestrel": "k", "o'brien": "o"}
    uri = remembered(
        tmp_path / "m", [fact(name, "The deployment runs on Fridays.", scope=scope) for scope, name in names.items()]
    )
    for scope, name in names.items():
        assert recalled(uri, "When does the deployment run?", scope=scope) == [name]
    assert sorted(recalled(uri, "When does the deployment run?")) == ["g", "k", "o"]
    assert recalled(uri, "When does the deployment run?", scope="nowhere") == []


def test_a_project_that_the_question_names_comes_before_others(tmp_path: Path) -> None:
    facts = [
        fact("other", "The deployment runs on Fridays.", scope="osprey"),
        fact("own", "The deployment runs on Fridays at noon, after lunch.", scope="kestrel"),
        fact("plain", "Deployment is work."),
    ]
    uri = remembered(tmp_path / "m", facts)
    assert recalled(uri, "When does the deployment run?")[0] == "other"
    assert recalled(uri, "When does the deployment of Kestrel run?")[0] == "own"
    with OpenMemory.open(str(uri)) as memory:
        found = {each.id: each for each in memory.recall("When does the deployment of Kestrel run?", now=NOW).facts}
        plain = {each.id: each for each in memory.recall("When does the deployment run?", now=NOW).facts}
    assert found["other"].parts["scope"] == OTHER_SCOPE
    assert not {"scope"} & {*found["own"].parts, *found["plain"].parts}
    assert not any("scope" in each.parts for each in plain.values())


def test_a_short_reply_is_found_by_what_it_replies_to(tmp_path: Path) -> None:
    turns = [
        ("Ines", "the tiles of the map are cached for a day, that is too long for the cyclists"),
        ("assistant", "Six hours? The proxy of the tiles can do any time, down to a minute."),
        ("Ines", "hmm that is still half a ride"),
        ("assistant", "Then shorter. It costs requests."),
        ("Ines", "90 minutes"),
        ("assistant", "Done."),
        *[("Ines", f"number {n} of the club wears a helmet, and pays on the first of the month") for n in range(30)],
        ("Ines", "7 minutes"),
    ]
    learn(written(tmp_path / "talk.jsonl", said(turns)), tmp_path / "m")
    with OpenMemory.open(str(tmp_path / "m")) as memory:
        found = memory.recall("How long are the tiles of the map cached?", 10, now=NOW).facts
    by_words = {each.statement: each for each in found}
    assert 'Ines: "90 minutes."' in by_words
    assert by_words['Ines: "90 minutes."'].parts["reply"] == by_words['Ines: "90 minutes."'].parts["search"]
    assert 'Ines: "7 minutes."' not in by_words


def test_what_all_facts_near_a_question_share_is_no_sign_of_an_answer() -> None:
    question = np.array([1.0, 0.6, 0.0, 0.0], np.float32)
    random = np.random.default_rng(3)
    shared = np.hstack([np.ones((60, 1)), np.zeros((60, 1)), random.normal(0, 0.3, (60, 2))])
    vectors = np.vstack([shared, [[0.6, 0.6, 0.8, 0.0]]]).astype(np.float32)
    vectors, question = vectors / np.linalg.norm(vectors, axis=1, keepdims=True), question / np.linalg.norm(question)
    read, quoted = [{"statement": "Ana runs."}] * 61, [{"statement": 'Ana: "I run."'}] * 61
    assert np.argmax(vectors @ question) != 60
    assert np.argmax(contrasted(vectors, question, read)) == 60
    for some, facts in ((vectors, quoted), (vectors[40:], read[40:]), (vectors[:0], [])):
        assert contrasted(some, question, facts) == pytest.approx((some @ question).tolist(), abs=1e-5)


def test_a_name_that_most_facts_are_about_makes_no_message_of_it_an_answer(tmp_path: Path) -> None:
    said = ["runs every morning", "paints the sea", "plays chess", "sails on lakes", "reads maps", "bakes rye bread"]
    facts = [fact(f"f{n}", f"Marta {what}.") for n, what in enumerate(said)]
    place = remembered(tmp_path / "m", [*facts, fact("born", "Marta was born in 1984.")])
    store = Store.open(str(place))
    with store.commit("write", "write", EPOCH) as tx:
        spoken = pl.DataFrame([{"id": f"m_f{n}", "search_text": f"I do: {what}"} for n, what in enumerate(said)])
        messages = tx.by_ids("messages", spoken["id"], with_vector=True)
        tx.upsert("messages", messages.update(spoken, on="id"))
    with OpenMemory.open(str(place), is_logged=False) as memory:
        parts = {each.id: each.parts["words"] for each in memory.recall("Which music does Marta like?").facts}
    assert parts["born"] < 0.1


def test_two_facts_of_one_sentence_are_told_once(tmp_path: Path) -> None:
    said = "Marta works at Ferrywise as backend lead."
    twins = [fact(name, said, message_id="m_one") for name in ("works_at", "has_role")]
    uri = remembered(tmp_path / "m", [*twins, fact("other", "Marta works in Lisbon.")])
    found = recalled(uri, "Where does Marta work?")
    assert len(found) == 2
    assert "other" in found


def test_recalled_facts_come_best_first_at_most_k_each_once(learned: tuple[Path, dict[str, Any]]) -> None:
    with OpenMemory.open(str(learned[0])) as memory:
        few = memory.recall("Why Redis Streams?", k=3, now=NOW).facts
        many = memory.recall("Why Redis Streams?", k=40, now=NOW).facts
    assert len(few) == 3
    assert len(many) == len({fact.id for fact in many}) == 40
    scores = [fact.score for fact in many]
    assert scores == sorted(scores, reverse=True)
    assert [fact.rank for fact in many] == list(range(1, 41))
    assert "Redis Streams" in few[0].statement
    assert all(fact.provenance for fact in many)
    assert {fact.status for fact in many} == {"active"}


@pytest.mark.proof
@pytest.mark.parametrize(
    "query",
    ["", "   ", "\n\t", "\0", "?!…", "'; DROP TABLE facts; --", '" OR 1=1', "AND OR NOT NEAR(", "a:b^2 +c -d *", "%_\\",
     "\ud800", "שלום \u202e", "日本語", "x" * 20_000, "the of and", "🙂"],
)  # fmt: skip
def test_no_query_does_any_harm(learned: tuple[Path, dict[str, Any]], query: str) -> None:
    with OpenMemory.open(str(learned[0])) as memory:
        found = memory.recall(query, k=5, now=NOW)
    assert found.query == query
    assert len(found.facts) <= 5


def test_an_empty_memory_knows_nothing(tmp_path: Path) -> None:
    seat = open_embedder()
    Store.create(str(tmp_path / "m"), "default", (seat.name, seat.dims))
    with OpenMemory.open(str(tmp_path / "m")) as memory:
        assert memory.recall("Who is Marta?").facts == ()
        assert memory.entities() == (0, ())
        assert memory.search_entities("Marta") == ()
        with pytest.raises(UnknownName, match="slowwave entities"):
            memory.facts_of("Marta")
        with pytest.raises(UnknownName):
            memory.why("f_1")


def test_a_store_is_only_read_with_the_embedding_model_it_was_made_with(tmp_path: Path) -> None:
    Store.create(str(tmp_path / "m"), "default", ("slowwave/minilm-static-256", 128))
    with pytest.raises(StoreMismatch, match="128"):
        OpenMemory.open(str(tmp_path / "m"))


@pytest.mark.proof
def test_an_open_memory_sees_each_commit_and_a_reading_that_began_before_is_not_disturbed(tmp_path: Path) -> None:
    talk = written(tmp_path / "a.jsonl", said([("Marta", "I work at Ferrywise as the backend lead.")]))
    learn(talk, tmp_path / "m")
    with OpenMemory.open(str(tmp_path / "m")) as memory:
        old = memory.snapshot
        assert memory.recall("Where does Marta work?", now=NOW).facts
        assert not [fact for fact in memory.recall("cello", now=NOW).facts if "cello" in fact.statement]
        later = said([("Devon", "I play the cello in the town orchestra.")], "c2", START + timedelta(days=1))
        learn(written(tmp_path / "b.jsonl", later), tmp_path / "m")
        assert "cello" in memory.recall("cello", now=NOW).facts[0].statement
        assert memory.snapshot.sequence > old.sequence
        assert old.count("messages") == 1


# What reading leaves behind


def test_a_recall_is_logged_with_the_cosine_and_never_as_a_commit(memory_copy: Path) -> None:
    query = "Which queue did we choose for the importer, and why?"
    store = Store.open(str(memory_copy))
    head, mine = store.head, f"query_hash = '{digest(query)}'"
    with OpenMemory.open(str(memory_copy)) as memory:
        found = memory.recall(query, k=4, now=NOW).facts
        assert store.log("retrieval_events", mine).is_empty()  # buffered: a reader does not wait for its log
    events = store.log("retrieval_events", mine).sort("rank")
    assert events.select("fact_id", "rank").rows() == [(fact.id, fact.rank) for fact in found]
    assert set(events["at"]) == {NOW}
    asked = open_embedder().embed([query])[0]
    vectors = dict(store.snapshot().by_ids("facts", events["fact_id"], ["id", "vector"]).iter_rows())
    for name, cosine, rank in events.select("fact_id", "cosine", "rank").iter_rows():
        assert cosine == pytest.approx(float(asked @ pl.Series(vectors[name]).to_numpy()), abs=1e-4)
        assert cosine != found[rank - 1].score
    touched = store.log("entity_access_log", mine)
    ends = {end for fact in found for end in (fact.subject_id, fact.object_id) if end}
    assert set(touched["entity_id"]) == ends
    assert set(touched["day"]) == {"2026-07-01"}
    assert store.head == head


def test_both_ends_of_a_recalled_relation_are_logged(tmp_path: Path) -> None:
    uri = remembered(tmp_path / "m", [fact("knows", "Marta knows Devon.", kind="relation", object_id="e_devon")])
    assert recalled(uri, "Who knows Devon?") == ["knows"]
    assert set(Store.open(str(uri)).log("entity_access_log")["entity_id"]) == {"e_marta", "e_devon"}


def test_a_full_buffer_is_written_while_the_memory_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recall.use.BUFFERED", 4)
    uri = remembered(tmp_path / "m", [fact("boats", "Marta restores boats.")])
    with OpenMemory.open(str(uri)) as memory:
        for count in (0, 1):  # a query, a fact and an entity make three events
            memory.recall("Who restores boats?", now=NOW)
            assert len(Store.open(str(uri)).log("retrieval_events")) == count


def test_a_log_that_cannot_be_written_never_fails_the_read(
    memory_copy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: Store, *args: Any, **more: Any) -> None:
        raise OSError("No space left on device")

    with OpenMemory.open(str(memory_copy)) as memory, caplog.at_level(logging.WARNING, "slowwave"):
        monkeypatch.setattr(Store, "append", full)
        assert memory.recall("Why Redis Streams?", now=NOW).facts
        memory.close()
    assert "No space left on device" in caplog.text


# Entities and stories


def test_an_entity_is_found_by_any_of_its_names(tmp_path: Path) -> None:
    uri = remembered(tmp_path / "m", [fact("f", "Marta plays the violin.")])
    with Store.open(str(uri)).commit("alias", "alias", EPOCH) as tx:
        tx.upsert("entity_aliases", pl.DataFrame([{"id": "a", "alias_name": "mana", "entity_id": "e_marta"}]))
    with OpenMemory.open(str(uri)) as memory:
        for name in ("Marta", "marta", "  MARTA ", "Mana", "mar"):
            entity, known = memory.facts_of(name, now=NOW)
            assert (entity.id, entity.aliases) == ("e_marta", ("mana",))
            assert [found.id for found in known] == ["f"]
        with pytest.raises(UnknownName, match="Did you mean 'Marta'"):
            memory.facts_of("Martha")
        for hostile in ("%", "_", "'", "", "' OR 1=1 --", "\\"):
            with pytest.raises(UnknownName):
                memory.facts_of(hostile)


def test_of_several_entities_that_begin_alike_none_is_guessed(tmp_path: Path) -> None:
    uri = remembered(tmp_path / "m", [fact("f", "Marta plays the violin.")])
    people = [{"id": f"e_{name}", "canonical_name": f"anna {name}", "name": f"Anna {name}"} for name in ("a", "b")]
    with Store.open(str(uri)).commit("more", "more", EPOCH) as tx:
        tx.upsert(
            "entities", pl.DataFrame([*people, {"id": "e_x", "canonical_name": "100%_sure", "name": "100%_sure"}])
        )
    with OpenMemory.open(str(uri)) as memory:
        with pytest.raises(UnknownName, match=r"several begin like that.*Anna a, Anna b"):
            memory.facts_of("Anna")
        assert memory.facts_of("Anna A")[0].id == "e_a"
        assert memory.facts_of("100%_")[0].id == "e_x"


def test_entities_are_listed_by_how_much_is_known_of_them(learned: tuple[Path, dict[str, Any]]) -> None:
    with OpenMemory.open(str(learned[0])) as memory:
        total, shown = memory.entities(limit=8)
        _, people = memory.entities(limit=100, type="person")
        with pytest.raises(UnknownName, match="organization"):
            memory.entities(type="organisations")
    assert total == rows(learned[0], "entities").height > len(shown) == 8
    counts = [entity.facts for entity in shown]
    assert counts == sorted(counts, reverse=True)
    assert {entity.entity_type for entity in people} == {"person"}
    assert {"Marta Oliveira", "Devon Clarke"} <= {entity.name for entity in people}


# Other languages: by their words, and in English by the general words of facts


SAID = {
    "tea": ("林晓雯在成都开了一家茶馆，名叫听雨轩。", "open tea house business"),
    "job": ("陈志强在苏州的物流公司上班。", "work job company logistics"),
    "cat": ("我家猫豆豆十二岁了。", "cat pet age"),
    "shop": ("佐藤健太のラーメン屋は麺処しずくという。", "ramen shop restaurant name"),
    "bees": ("Marta keeps bees on the roof.", None),
    "boat": ("Marta restores a boat.", None),
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> str:
    facts = [fact(name, statement, search_terms=terms) for name, (statement, terms) in SAID.items()]
    return str(remembered(tmp_path_factory.mktemp("languages") / "m", facts))


def best(foreign: str, question: str, held_mb: int) -> tuple[str, list[tuple[str, int]]]:
    """The first fact, and all with their scores in millionths."""
    with OpenMemory.open(foreign, is_logged=False, settings=RecallSettings(held_mb=held_mb)) as memory:
        found = memory.recall(question, now=NOW).facts
    return found[0].id, [(one.id, round(one.score * 1e6)) for one in found]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("林晓雯的茶馆叫什么名字？", "tea"),
        ("谁在物流公司上班？", "job"),
        ("ラーメン屋の名前は何ですか？", "shop"),
        ("Which tea house did she open?", "tea"),
        ("What is the name of the ramen restaurant?", "shop"),
        ("Who keeps bees?", "bees"),
    ],
)
def test_a_question_in_either_language_finds_the_fact_in_memory_and_by_queries(
    foreign: str, question: str, answer: str
) -> None:
    held, queried = best(foreign, question, 512), best(foreign, question, 0)
    assert held[0] == queried[0] == answer
    assert {name for name, _ in held[1]} == {name for name, _ in queried[1]}


@pytest.mark.parametrize("held_mb", [0, 512])
def test_question_words_and_particles_match_no_message(foreign: str, held_mb: int) -> None:
    with OpenMemory.open(foreign, is_logged=False, settings=RecallSettings(held_mb=held_mb)) as memory:
        found = memory.recall("怎么什么在哪里呢？", now=NOW).facts
    assert not any(one.parts.get("words") for one in found)


def test_words_of_a_script_without_spaces_are_kept_as_quotations(tmp_path: Path) -> None:
    source = tmp_path / "talk.jsonl"
    rows = FOLDER / "zh.jsonl"
    source.write_text("".join(rows.read_text(encoding="utf-8").splitlines(keepends=True)[:4]), encoding="utf-8")
    summary = ingest_files([str(source)], str(tmp_path / "m"))
    assert summary["counts"]["facts learned"] >= 2
