"""Restoring: what was pruned, evicted or retired comes back as it was, unless something was learned meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import fact as any_fact
from stores import observation, remembered
from talk import assert_same, contents, rows

from inference.embedding import open_embedder
from recall.history import archived
from slowwave.common import frames
from slowwave.common.errors import Refused, UnknownName, UnusableInput
from slowwave.common.settings import StewardSettings
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.restore import plan_restoration
from storage.doctor import examine
from storage.store import Store
from storage.undo import UndoReport, undo
from tasks.entities.retirement import restore
from tasks.nightly.scoring_and_pruning import prune, score
from tasks.people.observations import retire
from tasks.people.reporting import take_back
from tasks.runtime.runs import Run, existing_run

Row = dict[str, Any]
Keep = Callable[..., Path]
NOW = EPOCH + timedelta(days=400)
LATER = NOW + timedelta(days=1)
HOW = StewardSettings()
CHANGED = ("facts", "pair_decisions", "fact_aspects")
AGAIN = ("status_reason", "consolidated_at", "updated_at", "run_id")
"""What a return changes: the reason of the status, that it is to be compared anew, and who wrote it last."""


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def fact(key: str, age: float = 300, **more: Any) -> Row:
    """A live fact about Ana that was learned so many days ago."""
    about = {
        "kind": "relation",
        "predicate": "uses",
        "object_text": key,
        "statement_hash": f"h_{key}",
        "message_id": None,
    }
    return observation(key, f"Ana uses {key}", ago(age), **{**about, **more})


def gone(key: str, days: float = 10, why: str = "pruned", **more: Any) -> Row:
    """The same, archived so many days ago."""
    return fact(key, status="archived", status_reason=why, expired_at=ago(days), **more)


ANA = {"id": "e_ana", "canonical_name": "ana", "name": "Ana", "entity_type": "person", "status": "active"}


def a_run(uri: Path, now: datetime = LATER, name: str = "restore-1") -> Run:
    run = existing_run("restore", str(uri), "default", now)
    return Run(name, run.flow, run.store, run.namespace, run.now, run.embedder, run.retention)


def live(uri: Path) -> list[str]:
    return rows(uri, "facts", "status = 'active'", ["id"])["id"].to_list()


QUIET = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def faded_by(uri: Path, at: datetime, run: str) -> tuple[str, ...]:
    """The facts that a steward archives at that time."""
    before = {*rows(uri, "facts", "status = 'archived'")["id"]}
    prune(a_run(uri, at, run), HOW)
    return tuple(sorted({*rows(uri, "facts", "status = 'archived'")["id"]} - before))


@pytest.mark.proof
@QUIET
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3)), min_size=1, max_size=8))
def test_restoring_what_a_sweep_pruned_gives_back_what_there_was(keep: Keep, made: list[Any]) -> None:
    keys = [f"f{n}" for n in range(len(made))]
    told = [
        fact(key, age, aspect_slugs=["work", "health"][:slugs],
             similarity_flag=False)
        for key, (age, slugs) in zip(keys, made, strict=True)
    ]  # fmt: skip
    tags = [
        {"id": f"as_{row['id']}_{slug}", "fact_id": row["id"], "slug": slug, "via": "model"}
        for row in told for slug in row["aspect_slugs"]
    ]  # fmt: skip
    uri = keep(facts=told, fact_aspects=tags, entities=[ANA])
    before = {name: rows(uri, name).drop(AGAIN, strict=False) for name in CHANGED}
    faded = faded_by(uri, NOW, "steward-1")
    back = restore(a_run(uri), faded) if faded else ()
    assert {key for key, _ in back} == set(faded)
    after = {name: rows(uri, name).drop(AGAIN, strict=False) for name in CHANGED}
    assert_same({"facts": before["facts"]}, {"facts": after["facts"]})
    slugs_then, slugs_now = (part["fact_aspects"].select("fact_id", "slug").sort(pl.all()) for part in (before, after))
    assert slugs_now.equals(slugs_then)


@pytest.mark.proof
def test_what_is_restored_is_recalled_again_and_does_not_fade_at_once(keep: Keep) -> None:
    seat = open_embedder()
    uri = keep(facts=[fact("bees", message_id="m"), fact("tea", 2)], entities=[ANA])
    vector = pl.Series("vector", seat.embed(["Ana uses bees"]), dtype=pl.Array(pl.Float32, seat.dims))
    with Store.open(str(uri)).commit("made", "made", EPOCH) as tx:
        tx.upsert("facts", tx.by_ids("facts", ["bees"]).with_columns(vector))
    score(a_run(uri, NOW, "s0"), HOW)
    assert faded_by(uri, NOW, "steward-1") == ("bees",)
    with OpenMemory.open(str(uri)) as memory:
        assert memory.recall("bees", now=NOW).facts == ()
    assert restore(a_run(uri), ["bees"]) == (("bees", "Ana uses bees"),)
    assert rows(uri, "fact_scores")["id"].to_list() == ["tea"]
    with OpenMemory.open(str(uri), is_logged=False) as memory:  # to be recalled would save it for ever
        assert [found.id for found in memory.recall("bees", now=LATER).facts] == ["bees"]
    score(a_run(uri, LATER, "s1"), HOW)
    assert rows(uri, "fact_scores", "id = 'bees'")["quality_score"].to_list() == [0.5]
    assert faded_by(uri, LATER + timedelta(days=207), "steward-2") == ("tea",)
    assert faded_by(uri, LATER + timedelta(days=220), "steward-3") == ("bees",)
    assert [row["action"] for row in rows(uri, "decisions", "subject_id = 'bees'").to_dicts()] == [
        "prune", "restore", "prune",
    ]  # fmt: skip


@pytest.mark.proof
def test_it_comes_back_from_the_archive_with_its_birth_its_vector_and_its_entity(keep: Keep) -> None:
    uri = keep(
        facts_archive=[gone("old", why="evicted", aspect_slugs=["work"])], entities=[{**ANA, "status": "archived"}]
    )
    before = contents(uri)
    run = a_run(uri)
    assert restore(run, ["old"]) == (("old", "Ana uses old"),)
    [row] = rows(uri, "facts").to_dicts()
    assert (row["status"], row["status_reason"], row["expired_at"]) == ("active", "restored", None)
    assert (row["created_at"], row["consolidated_at"]) == (ago(300), None)
    assert rows(uri, "facts_archive").is_empty()
    assert rows(uri, "entities")["status"].to_list() == ["active"]
    assert rows(uri, "fact_aspects")["slug"].to_list() == ["work"]
    assert rows(uri, "runs", "id = 'restore-1'")["summary"].str.contains('"facts restored":1').to_list() == [True]
    [told] = rows(uri, "decisions").to_dicts()
    assert (told["action"], told["decided_by"]) == ("restore", "person")
    assert json.loads(told["measures"])["was"] == "evicted"
    assert examine(Store.open(str(uri))) == ()
    undo(Store.open(str(uri)), run.id, "undo-1", LATER)
    assert_same(before, contents(uri))


def framed(*given_rows: Row) -> pl.DataFrame:
    schema = {**frames.FACTS, "created_at": frames.TIME, "entity_type": frames.TEXT}
    return frames.conform(pl.DataFrame(given_rows, infer_schema_length=None), schema)


LISBON = {"predicate": "lives_in", "object_text": "Lisbon"}
PORTO = {"predicate": "lives_in", "object_text": "Porto"}


@pytest.mark.parametrize(
    ("away", "there", "why"),
    [
        (gone("a"), fact("b", 1, statement="Ana uses a", statement_hash="h_a", object_text="A"), "known again as b"),
        (gone("a", **LISBON), fact("b", 1, **PORTO), "taken its place: “Ana uses b” (b)"),
        (gone("a", valid_to=ago(20)), fact("b"), "It ended on"),
        (gone("a", object_id="e_ana"), fact("b"), "one entity now"),
        (gone("a", **LISBON), fact("b", 100, **PORTO), ""),  # both held before it left
        (gone("a", **LISBON), fact("b", 1, **PORTO, polarity="negated"), ""),
        (gone("a", **LISBON), fact("b", 1, **PORTO, scope="work"), ""),
        (gone("a"), fact("b", 1), ""),
    ],
)
def test_a_fact_that_is_known_again_or_has_a_successor_stays_away(away: Row, there: Row, why: str) -> None:
    stored, known = framed(away), framed(there)
    plan = plan_restoration(stored, known, known.clear(), {"lives_in"}, LATER)
    if why:
        [told] = plan.refused.to_dicts()
        assert (told["id"], told["statement"]) == ("a", "Ana uses a")
        assert why in told["reason"]
        assert plan.facts.is_empty()
    else:
        assert (plan.facts["id"].to_list(), plan.refused.is_empty()) == (["a"], True)


@pytest.mark.proof
def test_all_that_are_named_come_back_or_none(keep: Keep) -> None:
    uri = keep(facts=[fact("a"), fact("b"), fact("c", 2)], entities=[ANA])
    prune(a_run(uri, NOW, "steward-1"), HOW)
    with Store.open(str(uri)).commit("steward-1", "run", NOW) as tx:
        tx.upsert("facts", pl.DataFrame([fact("d", 0, statement_hash="h_a", object_text="a")]))
    with pytest.raises(Refused, match="It is known again as d"):
        restore(a_run(uri), ["a", "b"])
    assert restore(a_run(uri), ["b"], dry_run=True) == (("b", "Ana uses b"),)
    assert live(uri) == ["c", "d"]
    restore(a_run(uri), ["b"])
    assert live(uri) == ["b", "c", "d"]


def test_what_cannot_be_restored_is_said(keep: Keep) -> None:
    uri = keep(facts=[fact("here"), gone("away")])
    for name, error, why in (("nothing", UnknownName, "nothing"), ("here", UnusableInput, "here is active")):
        with pytest.raises(error, match=why):
            restore(a_run(uri), [name])


def test_the_archive_is_listed_with_reason_and_time(keep: Keep) -> None:
    uri = keep(
        facts=[fact("old"), gone("let_go", 5, "deleted"), fact("here", 1)], facts_archive=[gone("out", 99, "evicted")]
    )
    prune(a_run(uri, NOW, "steward-1"), HOW)
    snapshot = Store.open(str(uri)).snapshot()
    total, shown = archived(snapshot)
    assert (total, [(each["id"], each["reason"]) for each in shown]) == (
        3, [("old", "pruned"), ("let_go", "deleted"), ("out", "evicted")],
    )  # fmt: skip
    assert shown[0]["at"] == NOW
    assert archived(snapshot, limit=1)[1] == shown[:1]
    assert archived(Store.open(str(keep())).snapshot()) == (0, [])


# Undo

IDS = ("f_1_aaaaaaaa", "f_1_bbbbbbbb")
SAID = ("Marta likes tea.", "Marta paints boats.")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two observations of Marta; to be copied."""
    facts = [
        any_fact(each, text, kind="observation", owner_entity_id="e_marta", object_text=text, statement_hash=text)
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


def take(memory: Path, run: str, *, dry_run: bool = False) -> UndoReport:
    return take_back(existing_run("undo", str(memory), "default"), run, cascade=False, dry_run=dry_run)


def test_an_undo_tried_dry_changes_nothing_and_then_the_beginning_of_an_id_is_enough(memory: Path) -> None:
    before, run = contents(memory), retired(memory)
    after = contents(memory)
    looked = take(memory, run, dry_run=True)
    assert (looked.runs, looked.put_back["facts"]) == ((run,), 2)
    assert_same(contents(memory), after)
    assert take(memory, run[:-2]).runs == (run,)
    assert_same(contents(memory), before)
