"""An earlier time shows nothing that was said after it, whoever asks and however."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_client import asked
from messages_api import MessagesApi, filled
from talk import CLAUDE, learn, said, written

from apps.configuration import Place
from apps.mcp.server import make_server
from slowwave.common.settings import Settings
from slowwave.integrations.python_api import OpenMemory

TOWNS = ("Porto", "Oslo", "Lima", "Turin", "Gdansk", "Bergen", "Nantes")
BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
ASKED = "Which town does Marta live in, and what is worth a visit?"


@pytest.fixture(scope="module")
def moves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody moves every ten days, and an assistant says something of each town."""
    folder = tmp_path_factory.mktemp("moves")
    lines = []
    for n, town in enumerate(TOWNS):
        talk = [("Marta", f"I live in {town} now."), ("assistant", f"In {town} the museum of boats is worth a visit.")]
        lines += said(talk, f"c{n}", BEGIN + timedelta(days=10 * n))
    learn([written(folder / "moves.jsonl", lines)], folder / "m")
    return folder / "m"


def times() -> list[tuple[int, datetime]]:
    """Before each move and a day after it, with the number of towns that were named by then."""
    moved = [(n + 1, BEGIN + timedelta(days=10 * n + 1)) for n in range(len(TOWNS))]
    return [(0, BEGIN - timedelta(days=1)), *moved]


def assert_only(named: int, told: str) -> None:
    """That of the towns none is named in a text which nobody had named by then."""
    assert [town for town in TOWNS[named:] if town in told] == []


@pytest.mark.proof
@pytest.mark.parametrize(("named", "at"), times())
def test_an_earlier_time_shows_nothing_that_was_said_later(moves: Path, named: int, at: datetime) -> None:
    with OpenMemory.open(str(moves), is_logged=False) as memory:
        for graph in ("none", "bfs", "spread"):
            found = memory.recall(ASKED, 20, as_of=at, graph=graph, also=["boats", "Which town is it today?"])
            assert_only(named, str([found.facts, found.passages, found.uncertain]))
        many = memory.recall_many([ASKED, "boats"], 20, as_of=at)
        assert_only(named, str([(one.facts, one.passages) for one in many]))
        block = memory.context_for(ASKED, 4000, as_of=at)
        assert_only(named, block)
        assert (TOWNS[named - 1] in block) == (named > 0)
        assert_only(named, str(memory.facts_of("Marta", as_of=at)[1]))
        assert_only(named, str(memory.neighbours("Marta", as_of=at)))
    with OpenMemory.open(str(moves), is_logged=False) as memory:
        assert not memory.recall(ASKED, known_as_of=at).facts  # all of it was learned long after


@pytest.mark.proof
def test_agents_and_the_model_that_answers_see_no_later_words_either(
    moves: Path, serve: Callable[..., MessagesApi]
) -> None:
    api = serve(filled("QuestionAnswer", {"known": False, "answer": "", "lines": []}))

    async def over_mcp(at: datetime) -> str:
        settings = Settings.model_validate({"ingest": {"llm": {"model": CLAUDE}}})
        async with Client(make_server(OpenMemory(Place(str(moves), "default", settings)))) as client:
            told: list[Any] = [
                await asked(client, "recall", query=ASKED, as_of=at.isoformat(), token_budget=4000),
                await asked(client, "as_of", entity_name="Marta", time=at.isoformat()),
                await asked(client, "ask", question="Where?", as_of=at.isoformat()),
            ]
            return json.dumps(told, default=str)

    for named, at in times()[1::3]:
        assert_only(named, asyncio.run(over_mcp(at)))
        with OpenMemory.open(str(moves), is_logged=False) as memory:
            memory.ask(ASKED, model=CLAUDE, as_of=at)
        assert_only(named, json.dumps(api.requests))
        assert TOWNS[named - 1] in json.dumps(api.requests)
        api.requests.clear()
