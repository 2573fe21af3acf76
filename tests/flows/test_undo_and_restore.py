"""The flows `undo` and `restore`: what the commands do, as runs of a deployment."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from stores import fact, remembered
from talk import assert_same, contents, rows

from flows.restore import restore
from flows.undo import undo
from recall.overview import list_runs
from slowwave.errors import UndoRefused
from storage.store import Store
from tasks.people.observations import retire
from tasks.runtime.runs import existing_run

IDS = ("f_1_aaaaaaaa", "f_1_bbbbbbbb")
SAID = ("Marta likes tea.", "Marta paints boats.")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two observations of Marta; to be copied."""
    facts = [
        fact(each, text, kind="observation", owner_entity_id="e_marta", object_text=text, statement_hash=text)
        for each, text in zip(IDS, SAID, strict=True)
    ]
    place = tmp_path_factory.mktemp("made") / "memory"
    remembered(place, facts)
    return place


@pytest.fixture
def memory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "memory"))


def retired(memory: Path) -> str:
    """Archive both; returns the id of the run."""
    run = existing_run("retire", str(memory), "default")
    retire(run, "e_marta", IDS)
    return run.id


def statuses(memory: Path) -> list[str]:
    return rows(memory, "facts")["status"].to_list()


def done(coroutine: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    return asyncio.run(coroutine)


# Undo


def test_an_undo_tried_dry_changes_nothing_and_then_the_beginning_of_an_id_is_enough(memory: Path) -> None:
    before, run = contents(memory), retired(memory)
    after = contents(memory)
    looked = done(undo(run, store=str(memory), dry_run=True))
    assert (looked["runs"], looked["put_back"]["facts"], looked["dry_run"]) == ((run,), 2, True)
    assert_same(contents(memory), after)
    assert done(undo(run[:-2], store=str(memory)))["runs"] == (run,)
    assert_same(contents(memory), before)


@pytest.mark.proof
def test_an_undo_is_listed_with_what_it_took_back_and_can_be_taken_back(memory: Path) -> None:
    run = retired(memory)
    after = contents(memory)
    undone = done(undo(run, store=str(memory)))["run"]
    newest, first = list_runs(Store.open(str(memory)).snapshot())[:2]
    assert (newest["id"], newest["flow"], newest["state"]) == (undone, "undo", "completed")
    assert (newest["effects"], newest["commits"]) == ([f"took back {run}"], 1)
    assert (first["id"], first["state"]) == (run, "undone")
    assert done(undo(undone, store=str(memory)))["runs"] == (undone,)
    assert_same(contents(memory), after)
    states = {each["id"]: each["state"] for each in list_runs(Store.open(str(memory)).snapshot())}
    assert (states[run], states[undone]) == ("completed", "undone")
    with pytest.raises(UndoRefused, match=f"Run {undone} is undone already"):
        done(undo(undone, store=str(memory)))


# Restore


@pytest.mark.proof
def test_a_restore_brings_back_facts_or_all_that_a_run_archived_and_can_be_taken_back(memory: Path) -> None:
    run = retired(memory)
    looked = done(restore(run=run, store=str(memory), dry_run=True))
    assert (looked["run"], len(looked["restored"]), statuses(memory)) == (None, 2, ["archived", "archived"])
    first = done(restore(IDS[:1], store=str(memory)))
    assert first["restored"] == [{"id": IDS[0], "statement": SAID[0]}]
    assert statuses(memory) == ["active", "archived"]
    second = done(restore(run=run, store=str(memory)))
    assert [each["id"] for each in second["restored"]] == [IDS[1]]
    assert done(undo(second["run"], store=str(memory)))["runs"] == (second["run"],)
    assert statuses(memory) == ["active", "archived"]
