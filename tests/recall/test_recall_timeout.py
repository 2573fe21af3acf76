"""A recall ends in its time, whatever in it is slow, and says that it did (S2-44)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stores import fact, remembered

from recall import graphs, walks
from recall import recaller as reading
from recall.loop import Deadline
from slowwave.common.errors import TookTooLong
from slowwave.common.settings import RecallSettings
from slowwave.graph.walks import Walk
from slowwave.integrations.python_api import OpenMemory
from storage.handles import WarmTables
from storage.store import Store

QUERY = "What does Marta play?"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plays = fact("f", "Marta plays the violin.", object_id="e_violin")
    return remembered(tmp_path_factory.mktemp("slow") / "m", [plays, fact("g", "Marta sings.")])


def opened(place: Path, milliseconds: int) -> OpenMemory:
    return OpenMemory.open(
        str(place), settings=RecallSettings.model_validate({"walk": {"recall_timeout_ms": milliseconds}})
    )


@pytest.fixture
def memory(place: Path) -> Iterator[OpenMemory]:
    """One that has answered from this state before, and has 50 ms for what it is asked now."""
    with opened(place, 50) as memory:
        for _ in range(2):
            memory.recall(QUERY, now=NOW)
        yield memory


async def hangs(*_: Any, **__: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.proof
@pytest.mark.parametrize("read", ["search", "final_order", "with_sources", "passages"])
def test_s2_44_whatever_is_slow_the_recall_ends_empty_and_says_why(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, read: str
) -> None:
    monkeypatch.setattr(reading, read, hangs)
    with caplog.at_level(logging.WARNING, "slowwave"):
        found = memory.recall(QUERY, now=NOW)
    assert (found.facts, found.passages, found.is_timed_out) == ((), (), True)
    assert found.as_json()["timed_out"] is True
    assert "longer than recall_timeout_ms" in caplog.text


def test_s2_44_a_read_that_holds_up_the_loop_itself_does_not_hang_who_asks(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = threading.Event()

    async def blocks(*_: Any, **__: Any) -> Any:
        stuck.wait()

    monkeypatch.setattr(reading, "search", blocks)
    try:
        assert memory.recall(QUERY, now=NOW).is_timed_out
    finally:
        stuck.set()
    monkeypatch.undo()
    again = (memory.recall(QUERY, now=NOW + timedelta(days=1), as_of=NOW) for _ in range(100))
    assert any(answer.facts for answer in again)  # a busy machine may need more than 50 ms for some


def test_s2_44_the_conversation_that_is_going_on_is_read_within_the_time(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = threading.Event()
    monkeypatch.setattr(reading, "messages_of", lambda *_: stuck.wait())
    try:
        assert memory.recall(QUERY, now=NOW, conversation="c").is_timed_out
    finally:
        stuck.set()


def test_s2_44_many_questions_end_together_and_are_not_counted_as_use(
    memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    monkeypatch.setattr(memory._reader.accesses, "note", lambda query, *_: noted.append(query))
    monkeypatch.setattr(reading, "with_sources", hangs)
    found = memory.recall_many([QUERY, "Who sings?"], now=NOW)
    assert [(each.query, each.is_timed_out) for each in found] == [(QUERY, True), ("Who sings?", True)]
    assert noted == []


@pytest.mark.parametrize("is_held", [True, False], ids=["in memory", "queries"])
def test_s2_44_what_a_walk_needs_may_take_half_of_the_time_and_the_rest_answers(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_held: bool
) -> None:
    monkeypatch.setattr(walks, "_found", hangs)
    how = {"held_mb": 320 if is_held else 0, "walk": {"recall_timeout_ms": 300}}
    with OpenMemory.open(str(place), settings=RecallSettings.model_validate(how)) as memory:
        found = memory.recall(QUERY, now=NOW)  # the first, which has ten times as long
    assert [each.id for each in found.facts][:1] == ["f"]
    assert not found.is_timed_out
    assert "follows no relations" in caplog.text


def test_in_a_memory_of_very_many_facts_relations_are_not_even_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(graphs, "_live_reads", lambda: read.append(1) or {})
    monkeypatch.setattr(walks, "WALKED_FACTS", 0)
    with OpenMemory.open(str(place), settings=RecallSettings(held_mb=0)) as memory:
        assert [each.id for each in memory.recall(QUERY, now=NOW).facts][:1] == ["f"]
    assert read == []


def test_the_first_recall_of_a_state_may_take_longer_and_so_may_one_after_a_commit(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = WarmTables._open

    async def slow(self: WarmTables, *how: Any) -> Any:
        await asyncio.sleep(0.5)
        return await real(self, *how)

    monkeypatch.setattr(WarmTables, "_open", slow)
    monkeypatch.setattr("recall.loop.FIRST", 100)  # on a busy machine, too
    with opened(place, 400) as memory:
        assert memory.recall(QUERY, now=NOW).facts
        with Store.open(str(place)).commit("later", "later", NOW) as tx:
            tx.upsert("entity_aliases", pl.DataFrame([{"id": "a", "alias_name": "mana", "entity_id": "e_marta"}]))
        assert memory.recall(QUERY, now=NOW).facts


def test_without_a_time_out_a_recall_takes_its_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline(0)
    assert (deadline.left, deadline.walk_ends) == (None, None)
    monkeypatch.setattr("recall.loop.FIRST", 0)  # of 1 ms nothing would be left
    with opened(place, 0) as memory:
        assert memory.recall(QUERY, now=NOW).facts


def test_a_block_is_empty_then_and_a_model_is_not_asked(memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "search", hangs)
    block = memory._block(QUERY, 1000, now=NOW)
    assert (block.text, block.is_timed_out) == ("", True)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with pytest.raises(TookTooLong, match="did not answer in time"):
        memory.ask(QUERY, model="anthropic/claude-haiku-4-5", now=NOW)


def test_s2_44_the_walk_itself_has_a_tenth_of_the_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[bool] = []

    def walk(*how: Any) -> Walk:
        is_over = how[-1]
        over.append(is_over())
        time.sleep(0.06)
        over.append(is_over())
        return Walk()

    monkeypatch.setattr(walks, "_WALKS", {"bfs": walk})
    with opened(place, 500) as memory:  # the first, which has 5 s
        assert memory.recall("Marta", now=NOW).facts
    assert over == [False, True]
