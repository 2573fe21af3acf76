"""What is held in memory answers as queries do; many questions are answered as each of them would be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH, TINY
from stores import CLOSED, Row, fact, remembered
from talk import NOW

from recall.search import RESIDENT
from slowwave.common.errors import StoreMismatch, UnusableInput
from slowwave.common.settings import RecallSettings
from slowwave.common.types import Recollection
from slowwave.integrations.python_api import OpenMemory
from storage import following, residents, vectors
from storage.columns import WordIndex
from storage.following import Residents
from storage.store import Store
from storage.upkeep import tend

PEOPLE = ("Marta", "Ben", "Cleo", "Devon")
DEEDS = ("plays the violin in an orchestra", "restores wooden boats", "sells honey from the roof", "learns Danish")
QUESTIONS = (
    *(f"Who {deed}?" for deed in DEEDS), "Does Marta sell honey, honey, honey?", "What is known of Ben?",
    "Which instrument does Cleo play?", "zzz", "", "the of", "Where do they sail the boats?", "Was macht Devon?",
    "What did Marta do in June 2026?", "Who played the violin in March?",
)  # fmt: skip


def facts_of_people() -> Iterator[Row]:
    """What four people do, some of it in another scope, told of two entities or over by now."""
    for n, (person, deed) in enumerate((person, deed) for person in PEOPLE for deed in DEEDS):
        more: dict[str, Any] = {"scope": "kestrel" if n % 5 == 4 else "global", "subject_id": f"e_{person}"}
        if n % 3 == 2:
            more |= {"kind": "relation", "object_id": f"e_{PEOPLE[n % 4 - 1]}"}
        yield fact(f"f{n:02d}", f"{person} {deed}.", **more)
    for name, more in CLOSED.items():
        yield fact(name, f"Marta once bought a violin from Ben ({name}).", **more)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    named = [{"id": f"e_{name}", "canonical_name": name.lower(), "name": name} for name in PEOPLE]
    extra = [("f03", "Marta told us about Danish again."), ("f07", "Ben will learn Danish.")]
    place = tmp_path_factory.mktemp("residents") / "m"
    uri = str(remembered(place, list(facts_of_people()), extra, more={"entities": named}))
    tend(Store.open(uri), "r", NOW, thorough=True)  # of rows out of the index LanceDB's scores depend on the filter
    return uri


def opened(uri: str, **settings: Any) -> OpenMemory:
    return OpenMemory.open(uri, is_logged=False, settings=RecallSettings(**settings))


def told(found: Recollection) -> tuple[Any, ...]:
    """All that is recalled, scores aside."""
    facts = [(one.id, one.subject, one.object, one.provenance, one.replaces, one.parts.keys()) for one in found.facts]
    return facts, [(one.message_id, one.text) for one in found.passages]


def scores(found: Recollection) -> list[int]:
    """In millionths, to which they are rounded."""
    return [round(one.score * 1e6) for one in (*found.facts, *found.passages)]


HOW: tuple[dict[str, Any], ...] = (
    {},
    {"as_of": NOW, "scope": "kestrel"},
    {"scope": "kestrel"},
    {"k": 3},
    {"only": "facts"},
    {"as_of": NOW},
    {"known_as_of": NOW},
    {"as_of": NOW - timedelta(days=400)},
    {"graph": "none"},
)


@pytest.mark.proof
@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("how", HOW, ids=str)
def test_however_it_is_asked_the_answers_are_the_same(
    uri: str, how: dict[str, Any], is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many questions at once and each alone, of what is held in memory and by queries: all four are one answer."""
    if is_large:  # tables are held as those of many rows are
        monkeypatch.setattr(residents, "ROWS_AT_ONCE", 0)
        monkeypatch.setattr(vectors, "IN_MEMORY", 0)
    answers = []
    for memory in (opened(uri), opened(uri, held_mb=0)):
        with memory:
            answers.append(memory.recall_many(QUESTIONS, now=NOW, **how))
            answers.append([memory.recall(question, now=NOW, **how) for question in QUESTIONS])
    assert [found.query for found in answers[0]] == [found.query for found in answers[2]] == list(QUESTIONS)
    for first, *others in zip(*answers, strict=True):
        for other in others:
            assert told(other) == told(first)
            assert scores(other) == pytest.approx(scores(first), abs=1)


def test_each_question_of_many_leaves_its_own_events(tmp_path: Path) -> None:
    place = remembered(tmp_path / "m", [fact("boats", "Marta restores boats."), fact("honey", "Marta sells honey.")])
    with OpenMemory.open(str(place)) as memory:
        found = memory.recall_many(["boats", "honey"], 1, now=NOW)
    log = Store.open(str(place)).log("retrieval_events", columns=["fact_id", "rank"])
    assert sorted(log.rows()) == sorted((one.facts[0].id, 1) for one in found)
    assert Store.open(str(place)).log("recalled_queries", columns=["query"])["query"].sort().to_list() == [
        "boats", "honey",
    ]  # fmt: skip


def test_nothing_is_asked_by_no_question_and_one_text_is_no_list(uri: str) -> None:
    with opened(uri) as memory:
        assert memory.recall_many([]) == []
        with pytest.raises(UnusableInput, match="one text"):
            memory.recall_many("Who sells honey?")


def test_a_fact_that_is_held_ends_when_its_time_has_come(tmp_path: Path) -> None:
    end = NOW + timedelta(hours=1)
    place = remembered(tmp_path / "m", [fact("honey", "Marta sells honey.", valid_to=end), fact("boats", "Boats.")])
    with opened(str(place)) as memory:
        for now, is_live in ((NOW, True), (end - timedelta(seconds=1), True), (end, False), (NOW, True)):
            assert ("honey" in {one.id for one in memory.recall("honey", now=now).facts}) == is_live


class Loads:
    """Reads of whole tables: their names, each allowed to end by the test; `done` of all that are read beside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.may_end, self.done = threading.Event(), threading.Event()
        load, beside = following.Residents._loaded, following.Residents._read_beside
        monkeypatch.setattr(following, "AT_ONCE", 0)

        async def noted(residents: Any, tables: Any, name: str) -> Any:
            self.names.append(name)
            await asyncio.to_thread(self.may_end.wait, 60)
            return await load(residents, tables, name)

        async def ended(residents: Any, tables: Any) -> None:
            await beside(residents, tables)
            self.done.set()

        monkeypatch.setattr(following.Residents, "_loaded", noted)
        monkeypatch.setattr(following.Residents, "_read_beside", ended)

    def end(self) -> None:
        """Let the reads go on until the last has ended."""
        self.may_end.set()
        assert self.done.wait(60)
        self.may_end.clear()
        self.done.clear()


def test_a_large_state_is_read_beside_the_questions_from_the_second_on(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = Loads(monkeypatch)
    with opened(uri) as memory:
        first = memory.recall(QUESTIONS[0], now=NOW)
        assert not loads.names
        for _ in range(3):  # answered while the tables are read
            assert told(memory.recall(QUESTIONS[0], now=NOW)) == told(first)
        loads.end()
        assert told(memory.recall(QUESTIONS[0], now=NOW)) == told(first)
        assert sorted(loads.names) == sorted(set(loads.names))
        assert "facts" in loads.names
    held = len(loads.names)
    with opened(uri, held_mb=0) as memory:
        memory.recall_many(QUESTIONS, now=NOW)
        assert len(loads.names) == held


def test_many_questions_that_wait_for_the_tables_let_others_go_on_and_a_failed_read_is_not_tried_again(
    uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loads = Loads(monkeypatch)
    with opened(uri) as memory, ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            first = memory.recall(QUESTIONS[0], now=NOW)
        many = pool.submit(memory.recall_many, QUESTIONS[:8], now=NOW)
        for _ in range(3):
            assert told(memory.recall(QUESTIONS[0], now=NOW)) == told(first)
        assert not many.done()
        loads.end()
        assert told(many.result(timeout=60)[0]) == told(first)

    async def broken(*_: object) -> None:
        loads.names.append("broken")
        raise OSError("no such bucket")

    monkeypatch.setattr(following.Residents, "_loaded", broken)
    with opened(uri) as memory:
        for _ in range(2):
            memory.recall(QUESTIONS[0], now=NOW)
        assert loads.done.wait(60)
        for _ in range(3):
            assert told(memory.recall(QUESTIONS[0], now=NOW)) == told(first)
    assert loads.names.count("broken") == 1
    assert "no such bucket" in caplog.text


def test_after_an_erasure_by_others_nothing_waits_for_the_tables_and_nothing_erased_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(remembered(tmp_path / "m", [*facts_of_people(), fact("secret", "Otto breeds wombats.")]))
    loads = Loads(monkeypatch)
    with opened(place) as memory:
        for _ in range(2):
            assert "secret" in {one.id for one in memory.recall("wombats", now=NOW).facts}
        loads.end()
        commit = Store.open(place).head.sequence
        loads.may_end.set()
        with OpenMemory.open(place, commit=commit) as pinned:
            assert "secret" in {one.id for one in pinned.recall_many(["wombats"] * 8, now=NOW)[0].facts}
            forget = ("forget", "Otto", "--also", "wombats", "--yes", "--store", place)
            subprocess.run([sys.executable, "-m", "slowwave", *forget], check=True, capture_output=True)
            with pytest.raises(StoreMismatch, match="is gone"):
                pinned.recall("wombats", now=NOW)
        loads.may_end.clear()
        read = len(loads.names)
        for _ in range(2):
            assert "secret" not in {one.id for one in memory.recall("wombats", now=NOW).facts}
        loads.end()
        assert len(loads.names) > read
        assert "secret" not in {one.id for one in memory.recall("wombats", now=NOW).facts}


def test_words_weigh_what_they_weigh_in_the_index_of_the_table(tmp_path: Path) -> None:
    store = Store.open(str(remembered(tmp_path / "m", list(facts_of_people()))))
    tend(store, "r", NOW, thorough=True)
    messages = store.snapshot().handle("messages")
    rows = pl.DataFrame(messages.search().select(["id", "search_text"]).limit(1000).to_arrow())
    index = WordIndex(rows["search_text"])
    again = WordIndex(rows["search_text"], WordIndex(rows["search_text"].head(7)))
    for query in ("Marta plays the violin", "honey honey roofs", "Danish", "sailing boats and orchestras"):
        asked = messages.search(query, query_type="fts", fts_columns="search_text").select(["id", "_score"])
        expected = dict(pl.DataFrame(asked.limit(1000).to_arrow()).rows())
        found = dict(zip(rows["id"], index.scores(query).tolist(), strict=True))
        assert {name: score for name, score in found.items() if score} == pytest.approx(expected, rel=1e-5)
        assert again.scores(query) == pytest.approx(index.scores(query))


def test_rows_without_a_vector_are_found_by_their_ids_in_what_was_written_last(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "m"), "default", TINY)
    residents = Residents(store, RESIDENT, 1 << 30)
    rows = pl.DataFrame([fact(f"f{n}", f"says {n}") for n in range(20)])
    vectors = pl.Series([[1.0, 0, 0, 0] if n % 2 else None for n in range(20)], dtype=pl.Array(pl.Float32, 4))
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", rows.with_columns(vector=vectors))
    assert residents.written("facts", store.head.versions["facts"], ["f3", "f4"], ["id"]) is not None
    assert store.snapshot().by_ids("facts", ["f3", "f4"], ["id"])["id"].sort().to_list() == ["f3", "f4"]
