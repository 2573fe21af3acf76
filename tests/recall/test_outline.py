"""The outline in a store: it comes and goes with a reading, is erased with what it tells, and shown to no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from messages_api import Body, MessagesApi, Reply, fault, filled
from talk import CLAUDE, NOW, START, entities_of, kept_apart, learn, rows, said, texts_of, written

from inference.embedding import count_tokens
from recall.export import export
from recall.order import OUTLINE
from slowwave.common.settings import DEFAULT_EMBEDDER, ExtractSettings
from slowwave.integrations.python_api import OpenMemory
from storage.connection import HEAD
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.people.forgetting import find_subject, forget
from tasks.runtime.runs import existing_run, new_run
from tasks.transfer.own_exports import import_own

BOAT = (
    ("Marta", "I want to repair my old wooden boat this spring, the hull leaks."),
    ("assistant", "Caulk the seams with cotton first, then paint."),
    ("Marta", "The hull is dry now, so I painted it green on Sunday."),
    ("Marta", "My neighbour Zorblax Quint lent me his trailer for the boat."),
)
TEA = (("Devon", "I opened a tea house in Porto with nine tables."), ("Devon", "The tea house sells rooibos only."))
WORD = "boat"
HOW = "How did the repair of the boat go?"


def reader(request: Body, word: str = WORD) -> Reply:
    """One fact of each fresh message, and a line of the outline at each that is about a matter."""
    tool = request["tools"][0]["name"]
    if tool != "WindowExtraction":
        return kept_apart(request)
    fresh = [(n, who, text) for n, who, text, is_context in texts_of(request) if not is_context]
    number = entities_of(request)
    facts = [{"m": n, "s": f"{who}: {text}", "about": number.get(who, who), "c": 0.9} for n, who, text in fresh]
    new = [{"name": who, "type": "person"} for who in sorted({who for _, who, _ in fresh} - number.keys())]
    lines = [{"m": n, "s": f"{who} on the {word}: {text[:13]}"} for n, who, text in fresh if "tea" not in text]
    return filled(tool, {"new": new, "facts": facts, "outline": lines})


def read(paths: Path | list[Path], store: Path, **settings: Any) -> dict[str, Any]:
    return learn(paths, store, llm={"model": CLAUDE}, **settings)


def lines_of(store: Path, namespace: str = "default") -> dict[str, str]:
    """The outline by the identifiers of the messages."""
    found = Store.open(str(store), namespace).snapshot().frame("messages", "outline IS NOT NULL")
    return dict(found.sort("message_id").select("message_id", "outline").iter_rows())


@pytest.fixture
def talks(tmp_path: Path) -> list[Path]:
    boat = written(tmp_path / "boat.jsonl", said(BOAT))
    return [boat, written(tmp_path / "tea.jsonl", said(TEA, "c2", START + timedelta(days=1)))]


READ = {
    "c1-000": "Marta on the boat: I want to rep",
    "c1-002": "Marta on the boat: The hull is d",
    "c1-003": "Marta on the boat: My neighbour",
}


def test_a_reading_brings_its_lines_another_replaces_them_and_undo_takes_them_back(
    talks: list[Path], tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    store = tmp_path / "m"
    learn(talks, store)
    assert lines_of(store) == {}  # nobody has read it
    serve(reader)
    run = read([], store, extract={"reread": True})
    assert lines_of(store) == READ
    assert examine(Store.open(str(store))) == ()
    serve(lambda request: reader(request, "hull"))
    again = read([], store, extract={"force": True})
    assert lines_of(store) == {name: line.replace("boat", "hull") for name, line in READ.items()}
    serve(lambda request: fault(400))
    read([], store, extract={"force": True, "max_attempts": 9})
    assert set(lines_of(store)) == set(READ)  # a reading that fails leaves what there was
    for each in (*rows(store, "runs", "flow = 'ingest'").sort("started_at", descending=True)["id"][:1], again["run"]):
        undo(Store.open(str(store)), each, f"undo-{each}", NOW)
    assert lines_of(store) == READ
    undo(Store.open(str(store)), run["run"], "undo-first", NOW)
    assert lines_of(store) == {}


def test_a_model_is_asked_for_as_many_lines_as_are_kept(
    talks: list[Path], tmp_path: Path, serve: Callable[..., MessagesApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExtractSettings, "max_outline_lines", 1)
    api = serve(reader)
    read(talks[:1], tmp_path / "m")
    assert len(lines_of(tmp_path / "m")) == 1
    (asked,) = [each for each in api.requests if each["tools"][0]["name"] == "WindowExtraction"]
    assert "At most 1 lines" in str(asked["system"])


@pytest.fixture
def store(talks: list[Path], tmp_path: Path, serve: Callable[..., MessagesApi]) -> Path:
    serve(reader)
    read(talks, tmp_path / "m")
    more = said((("Marta", "I also want to build a small boat of paper."),), "c3", START + timedelta(days=2))
    read(written(tmp_path / "paper.jsonl", more), tmp_path / "m")
    return tmp_path / "m"


def test_what_is_forgotten_takes_the_outline_of_its_conversation_along(store: Path) -> None:
    assert set(lines_of(store)) == {*READ, "c3-000"}
    run = existing_run("forget", str(store), "default")
    forget(run, find_subject(run, "Zorblax Quint"))
    assert set(lines_of(store)) == {"c3-000"}
    assert not [path for path in store.rglob("*") if path.is_file() and b"on the boat: The hull" in path.read_bytes()]
    assert examine(Store.open(str(store))) == ()


def test_an_export_holds_the_outline_and_brings_it_back(store: Path, tmp_path: Path) -> None:
    _, folder = export(Store.open(str(store)), tmp_path / "export", "jsonl", NOW)
    import_own(new_run("import", str(store), "back", DEFAULT_EMBEDDER, NOW), folder, trust=True)
    assert lines_of(store, "back") == lines_of(store) != {}


def test_a_question_over_the_whole_time_is_answered_with_the_outline_within_the_budget(store: Path) -> None:
    with OpenMemory.open(str(store)) as memory:
        found = memory.recall(HOW, over_time=True, now=NOW)
        assert memory.recall(HOW, now=NOW).outline == ()
        assert memory.recall(HOW, over_time=True, only="facts", now=NOW).outline == ()
        assert "on the boat:" not in memory.context_for(HOW, 500, now=NOW)
        blocks = [memory.context_for(HOW, budget, over_time=True, now=NOW) for budget in range(0, 400, 20)]
    assert {line.role for line in found.outline} == {OUTLINE}
    assert {line.message_id for line in found.outline} == {*READ, "c3-000"}
    assert [line.score for line in found.outline] == sorted((line.score for line in found.outline), reverse=True)
    assert all(count_tokens(block) <= budget for block, budget in zip(blocks, range(0, 400, 20), strict=True))
    assert "2 Mar 2026:\n- Marta on the boat: I want to rep\n" in blocks[-1]
    shown = [{*block.splitlines()} for block in blocks]
    assert all(less <= more for less, more in pairwise(shown))


def test_no_other_namespace_gets_a_line(store: Path, talks: list[Path]) -> None:
    learn(talks, store, namespace="home")
    with OpenMemory.open(str(store), "home") as memory:
        assert memory.recall(HOW, over_time=True, now=NOW).passages
        assert memory.recall(HOW, over_time=True, now=NOW).outline == ()


def test_a_line_is_shown_only_where_its_message_may_be(store: Path) -> None:
    """Not to another scope, not of a message that gives orders, not before it was said, and not beside chosen facts."""
    opened = Store.open(str(store))
    messages = opened.snapshot().frame("messages").sort("message_id")
    place = dict(messages.select("message_id", "id").iter_rows())
    with opened.commit("moved", "moved", EPOCH) as tx:
        whole = tx.whole_rows("messages", [place["c1-000"], place["c1-002"]])
        is_first = pl.col("message_id") == "c1-000"
        tx.put_back("messages", whole.with_columns(
            scope=pl.when(is_first).then(pl.lit("other")).otherwise("scope"),
            has_injection=pl.when(is_first).then("has_injection").otherwise(True),
        ))  # fmt: skip

    def outline(**how: Any) -> set[str]:
        with OpenMemory.open(str(store)) as memory:
            return {line.message_id for line in memory.recall(HOW, over_time=True, now=NOW, **how).outline}

    assert outline() == {"c1-000", "c1-003", "c3-000"}
    assert outline(scope="other") == {"c1-000"}
    assert outline(scope="global") == {"c1-003", "c3-000"}
    assert outline(as_of=START + timedelta(hours=1)) == {"c1-000", "c1-003"}
    assert outline(as_of=START - timedelta(days=1)) == set()
    assert outline(last=1) == set()


def test_a_store_from_before_there_were_outlines_opens_and_gets_one_by_a_reading(store: Path) -> None:
    old = Store.open(str(store))
    messages = old.db.open_table("messages")
    messages.drop_columns(["outline"])
    state = {"versions": json.dumps({**old.head.versions, "messages": messages.version}), "schema_version": 12}
    old.db.open_table(HEAD).update(values=state)
    with OpenMemory.open(str(store)) as memory:
        assert memory.recall(HOW, over_time=True, now=NOW).outline == ()
        assert "green" in memory.context_for(HOW, 500, over_time=True, now=NOW)
    read([], store, extract={"force": True})
    assert {*READ, "c3-000"} == set(lines_of(store))
