"""Two runs at once, and an undo in between: what was decided on an older state is decided again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from messages_api import Body, MessagesApi, Reply, filled
from talk import CLAUDE, START, Line, learn, overtaken, rows, said, states, texts_of, written

from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.ingest.extraction import Cursor, extract_facts
from tasks.runtime.runs import new_run

ANA = ("Ana", "I live in Lisbon with my two children.")
LATER = START + timedelta(days=40)


def entity(store: Path, name: str) -> dict[str, object]:
    """The one entity of this name, with its vector."""
    columns = ["id", "last_seen_at", "entity_type", "vector"]
    found = Store.open(str(store)).snapshot().frame("entities", f"canonical_name = '{name}'", columns)
    return found.row(0, named=True) if len(found) == 1 else {"found": len(found)}


def is_sound(store: Path) -> bool:
    """Whether the doctor finds nothing."""
    return examine(Store.open(str(store))) == ()


def wait(store: Path, lines: list[Line]) -> None:
    """Store messages that wait for extraction."""
    learn(written(store.with_suffix(".jsonl"), lines), store, extract={"enabled": False})


def extract(store: Path, after: Cursor, settings: IngestSettings) -> None:
    """A run of its own that extracts one message, the first behind the cursor."""
    run = new_run("ingest", str(store), "default", DEFAULT_EMBEDDER, LATER)
    asyncio.run(extract_facts(run, settings, after))


def one_at_a_time(**llm: Any) -> IngestSettings:
    """Settings whose batches hold one message."""
    return IngestSettings.model_validate({"llm": llm, "extract": {"batch_messages": 1, "context_messages": 0}})


def behind_first(store: Path) -> Cursor:
    """The cursor of a run that has taken the first message."""
    first = rows(store, "messages").sort("occurred_at").row(0, named=True)
    return Cursor(tried=frozenset({first["id"]}))


@pytest.mark.proof
def test_what_another_run_heard_of_an_entity_later_is_not_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, settings = tmp_path / "m", one_at_a_time(model="quotes")
    learn(written(tmp_path / "a.jsonl", said([ANA])), store)
    early = said([("Ana", "My car is a blue Fiat.")], "c2", START + timedelta(days=1))
    wait(store, [*early, *said([("Ana", "My bicycle was stolen in Porto.")], "c3", LATER)])
    after_early = rows(store, "messages", "conversation_id = 'c2'").row(0, named=True)
    late = Cursor(tried=frozenset({after_early["id"]}))
    with overtaken(monkeypatch, "ingest.apply", lambda: extract(store, late, settings)):
        extract(store, Cursor(), settings)
    assert set(states(store).values()) == {"done"}
    assert entity(store, "ana")["last_seen_at"] == LATER
    assert is_sound(store)


@pytest.mark.proof
def test_an_entity_whose_run_is_undone_meanwhile_is_made_anew_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = learn(written(tmp_path / "a.jsonl", said([ANA])), tmp_path / "m")["run"]
    second = written(tmp_path / "b.jsonl", said([("Ana", "My car is a blue Fiat.")], "c2", START + timedelta(days=1)))

    def take_back() -> None:
        undo(Store.open(str(tmp_path / "m")), made, "undo-1", LATER)

    with overtaken(monkeypatch, "ingest.apply", take_back):
        learn(second, tmp_path / "m")
    ana = entity(tmp_path / "m", "ana")
    assert ana["vector"] is not None
    aliases = rows(tmp_path / "m", "entity_aliases", "alias_name = 'ana'")
    assert aliases["entity_id"].to_list() == [ana["id"]]
    assert is_sound(tmp_path / "m")


def typist(request: Body) -> Reply:
    """Takes Ferrywise for a project where it ships, for an organization elsewhere."""
    fresh = [(n, text) for n, _, text, is_context in texts_of(request) if not is_context]
    kind = "project" if any("ships" in text for _, text in fresh) else "organization"
    return filled(
        request["tools"][0]["name"],
        {
            "new": [{"name": "Ferrywise", "type": kind}],
            "facts": [{"m": n, "s": text, "about": "Ferrywise", "c": 0.9} for n, text in fresh],
        },
    )


@pytest.mark.proof
def test_a_name_that_two_runs_meet_first_under_two_types_is_one_entity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[..., MessagesApi]
) -> None:
    store = tmp_path / "m"
    first = said([("Ana", "Ferrywise hired eleven nurses in Coimbra.")])
    wait(store, [*first, *said([("Ben", "Ferrywise ships its new planner every Tuesday.")], "c2", LATER)])
    settings = one_at_a_time(model=CLAUDE, concurrency=1, transient_retries=0, validation_retries=0)
    api = serve(typist)
    with overtaken(monkeypatch, "ingest.apply", lambda: extract(store, Cursor(), settings)):
        extract(store, behind_first(store), settings)
    ferrywise = entity(store, "ferrywise")
    assert ferrywise["entity_type"] == "organization"
    assert rows(store, "facts")["subject_id"].to_list() == [ferrywise["id"]] * 2
    assert len(api.requests) == 2  # nothing is asked again under the lease
    assert is_sound(store)


@pytest.mark.proof
def test_messages_that_are_undone_while_they_are_extracted_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = written(tmp_path / "a.jsonl", said([ANA]))
    waiting = learn(talk, tmp_path / "m", extract={"enabled": False})["run"]
    nothing = written(tmp_path / "b.jsonl", [])

    def take_back() -> None:
        undo(Store.open(str(tmp_path / "m")), waiting, "undo-1", LATER)

    with overtaken(monkeypatch, "ingest.apply", take_back):
        learn(nothing, tmp_path / "m")
    for table in ("messages", "facts", "entities", "entity_aliases", "episode_entities", "decisions"):
        assert rows(tmp_path / "m", table, "action != 'undo'" if table == "decisions" else None).is_empty(), table
    assert is_sound(tmp_path / "m")
