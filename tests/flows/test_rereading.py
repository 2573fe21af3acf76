"""Reading later: messages that were kept as quotations are read by a model, and what it reads replaces these."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import command
from messages_api import Body, MessagesApi, Reply, filled
from talk import (
    CLAUDE,
    NOW,
    STAMPS,
    START,
    assert_same,
    contents,
    entities_of,
    extractor,
    known_of,
    learn,
    rows,
    said,
    texts_of,
    written,
)

from flows.nights import sleep
from slowwave.common.settings import SleepSettings
from slowwave.integrations.python_api import OpenMemory
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.entities.names_and_pins import pin_facts
from tasks.runtime.runs import existing_run

PEOPLE = ("Marta", "Devon", "Priya", "Bruno", "Ingrid")
TOLD = (
    "I live in {place} and I work at Ferrywise.",
    "My sister {sister} moved to {place} last month.",
    "We decided to use Redis Streams for the {thing} queue.",
    "I prefer {thing} tea in the morning.",
    "The release of {thing} is planned for the 3rd of May 2026.",
)
PLACES = ("Lisbon", "Porto", "Vigo", "Coimbra", "Braga", "Faro", "Evora", "Aveiro")


def talks(folder: Path, count: int = 8) -> Path:
    """Conversations of five people, a day apart, with 25 messages each."""
    lines = []
    for day in range(count):
        place = PLACES[day % len(PLACES)]
        turns = [
            (who, f"{text.format(place=place, sister=f'Anna {who}sen', thing=f'{place} {n}')} So says {who}.")
            for n, text in enumerate(TOLD)
            for who in PEOPLE
        ]
        lines += said(turns, f"c{day}", START + timedelta(days=day))
    return written(folder / "talks.jsonl", lines)


def reader(request: Body) -> Reply:
    """An answer that makes a fact of each message, names who is called Anna, and repeats what it knows."""
    tool = request["tools"][0]["name"]
    if tool != "WindowExtraction":
        return extractor(request)
    number, known = entities_of(request), known_of(request)
    fresh = [(n, who, text) for n, who, text, is_context in texts_of(request) if not is_context]
    new = {who: "person" for _, who, _ in fresh}
    facts, again = [], []
    for n, who, text in fresh:
        if text in known:
            again.append({"m": n, "k": known[text]})
            continue
        fact = {"m": n, "s": text, "about": number.get(who, who), "c": 0.9}
        if text.startswith("I live in "):
            place = text.split()[3]
            new[place] = "place"
            fact |= {"rel": "lives_in", "obj": number.get(place, place)}
        facts.append(fact)
    listed = [{"name": name, "type": kind} for name, kind in sorted(new.items()) if name not in number]
    return filled(tool, {"new": listed, "facts": facts, "again": again})


def reread(store: Path, **llm: Any) -> dict[str, Any]:
    """One run that reads what is kept as quotations."""
    return learn([], store, llm={"model": CLAUDE, **llm}, extract={"reread": True, "window_messages": 25})


def live(store: Path) -> list[str]:
    return sorted(rows(store, "facts", "status = 'active'")["statement"])


def asked(api: MessagesApi) -> list[str]:
    return sorted(json.dumps(request["messages"]) for request in api.requests)


@pytest.mark.proof
def test_two_hundred_messages_that_are_read_later_leave_what_reading_them_at_first_leaves(
    tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    talk, at_first, later = talks(tmp_path), tmp_path / "a", tmp_path / "b"
    first = serve(reader)
    learn(talk, at_first, llm={"model": CLAUDE}, extract={"window_messages": 25})
    learn(talk, later)
    assert rows(later, "messages", "read_by = 'quotes'").height == 200
    quotations = contents(later)
    again = serve(reader)
    summary = reread(later)
    assert asked(again) == asked(first)
    assert summary["counts"]["quotations replaced"] == quotations["facts"].height >= 200
    assert_same(contents(later, drop=STAMPS), contents(at_first, drop=STAMPS))
    assert examine(Store.open(str(later))) == ()
    assert reread(later)["notes"] == ["No message is kept as a quotation."]
    undo(Store.open(str(later)), summary["run"], "undo-1", NOW)
    assert_same(contents(later), quotations)


@pytest.fixture
def quoted(tmp_path: Path) -> Path:
    """A store that keeps the messages of two conversations as quotations."""
    learn(talks(tmp_path, 2), tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.proof
def test_what_a_person_pinned_stays_and_why_tells_what_became_of_the_others(
    quoted: Path, serve: Callable[..., MessagesApi]
) -> None:
    pinned, other = rows(quoted, "facts", "status = 'active'").select("id", "message_id").head(2).iter_rows()
    pin_facts(existing_run("pin", str(quoted), "default", NOW), [pinned[0]])
    serve(reader)
    reread(quoted)
    assert rows(quoted, "facts", "status = 'active'").filter(pl.col("id") == pinned[0])["pinned"].to_list() == [True]
    assert rows(quoted, "facts").filter(pl.col("id") == other[0]).is_empty()
    assert examine(Store.open(str(quoted))) == ()
    with OpenMemory.open(str(quoted)) as memory:
        story = memory.why(other[1])
    assert (story.kind, story.id) == ("messages", other[1])
    assert story.heard
    assert any(each.action == "reread" and each.about == other[0] for each in story.decisions)


@pytest.mark.proof
def test_a_night_reads_first_what_waits_but_only_within_a_budget(
    quoted: Path, serve: Callable[..., MessagesApi]
) -> None:
    def night(**limits: Any) -> dict[str, Any]:
        rules: dict[str, Any] = {"llm": {"model": "quotes"}}
        chosen = {"ingest": {"llm": {"model": CLAUDE}, "extract": {"window_messages": 25}}, **limits}
        settings = SleepSettings.model_validate({"consolidate": rules, "steward": rules, **chosen})
        return asyncio.run(sleep(store=str(quoted), phases=("steward",), settings=settings, now=NOW))

    api = serve(reader)
    assert "ingest" not in night()["phases"]
    assert not api.requests
    summary = night(max_calls=1)
    assert len(api.requests) == summary["llm"]["calls"] == 1
    assert summary["counts"]["ingest: quotations replaced"] > 0
    before = rows(quoted, "messages"), live(quoted)
    assert night(max_calls=9)["counts"]["ingest: quotations replaced"] > 0
    (run, *_) = rows(quoted, "runs", "flow = 'ingest'").sort("started_at", descending=True)["id"]
    assert rows(quoted, "messages", "read_by = 'quotes'").is_empty()
    undo(Store.open(str(quoted)), run, "undo-1", NOW)
    assert rows(quoted, "messages").equals(before[0])
    assert live(quoted) == before[1]


@pytest.mark.proof
def test_nothing_is_read_without_a_model_and_stats_tell_how_much_waits(
    quoted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(quoted)
    assert command(monkeypatch, "ingest", "--reread", "--store", quoted) == 2
    assert "There is no model to read what is kept as quotations." in capsys.readouterr().err
    assert learn([], quoted, extract={"reread": True})["counts"] == {}
    assert_same(contents(quoted), before)
    assert command(monkeypatch, "stats", "--store", quoted) == 0
    assert "50 messages are kept as quotations; slowwave ingest --reread reads them." in capsys.readouterr().out
    assert command(monkeypatch, "ingest", "--store", quoted) == 2
