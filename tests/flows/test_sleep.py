"""The flows of maintenance: steward, decay, upkeep, and the night that puts them together."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from talk import NOW, assert_same, contents, dying, rows

from flows.maintenance import steward
from flows.nights import NIGHT, Phase, fleet, sleep
from inference.embedding import open_embedder
from slowwave.common.errors import NoStoreYet, RecallFell, UnknownName
from slowwave.common.settings import FleetSettings, SleepSettings, StewardSettings
from slowwave.integrations.python_api import OpenMemory
from storage.doctor import examine
from storage.lease import new_owner
from storage.store import Store
from storage.tables import Role, tables_of
from storage.undo import undo

LATER = datetime.now(UTC) + timedelta(days=220)
RULES: dict[str, Any] = {"llm": {"model": "quotes"}}
ASKED = ("Where does Tomás live now?", "What is the rate limit of Kestrel?", "Why did we choose Redis Streams?")
HARSH: dict[str, Any] = {**RULES, "prune_threshold": 0.9, "learning_events": 1}
"""Everything that nobody recalled fades at once."""


def unread(store: Path) -> Path:
    """The store as if nobody had asked it anything: tests that look at the store of the examples leave their reads."""
    for name in tables_of(Role.LOG):
        Store.open(str(store)).db.open_table(name).delete("true")
    return store


@pytest.fixture(scope="module")
def used(learned: tuple[Path, dict[str, object]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the examples, of which some facts were recalled often enough to end the learning period."""
    place = unread(Path(shutil.copytree(learned[0], tmp_path_factory.mktemp("used") / "memory")))
    with OpenMemory.open(str(place)) as memory:
        for question in ASKED * 2:
            memory.recall(question, 10)
    return place


@pytest.fixture
def store(used: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(used, tmp_path / "memory"))


def swept(store: Path, now: datetime = LATER, **settings: Any) -> dict[str, Any]:
    chosen = StewardSettings.model_validate({**RULES, **settings})
    return asyncio.run(steward(store=str(store), settings=chosen, now=now))


def slept(
    store: Path,
    phases: tuple[Phase, ...] = NIGHT,
    steward: dict[str, Any] = RULES,
    now: datetime = LATER,
    probes: int = 10,
) -> dict[str, Any]:
    """A night of these phases, watched unless there are no `probes`."""
    gate = {"enabled": probes > 0, "probes": max(10, probes)}
    settings = SleepSettings.model_validate({"consolidate": RULES, "steward": steward, "gate": gate})
    return asyncio.run(sleep(store=str(store), phases=phases, settings=settings, now=now))


def recalled(store: Path) -> set[str]:
    return set(Store.open(str(store)).log("retrieval_events")["fact_id"])


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[None]:
    """Inside, every commit of a kind fails as on a disk that does not answer."""
    commit: Callable[..., Any] = Store.commit

    @contextmanager
    def full(self: Store, run_id: str, what: str, *args: Any, **more: Any) -> Iterator[Any]:
        with commit(self, run_id, what, *args, **more) as tx:
            yield tx
            if what == kind:
                raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "commit", full)
        yield


def bury(store: Path) -> None:
    """Let the runs that go on be those of a process that is gone."""
    with Store.open(str(store)).commit("grave", "test") as tx:
        name, machine, _, started, key = new_owner("x").split("|")
        dead = "|".join((name, machine, str(2**30), started, key))
        tx.upsert("runs", tx.frame("runs", "state = 'running'").with_columns(owner=pl.lit(dead)))


# The sweep


def test_while_it_learns_facts_are_scored_and_nothing_fades_or_is_merged(
    memory_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(unread(memory_copy), "facts").sort("id")
    monkeypatch.setattr("flows.maintenance.merge_duplicates", None)
    summary = swept(memory_copy, **HARSH | {"learning_events": 50})
    assert summary["state"] == "completed"
    assert summary["counts"]["facts scored"] == summary["counts"]["scores changed"] > 200
    assert "Still learning" in summary["notes"][0]
    assert rows(memory_copy, "facts").sort("id").equals(before)


@pytest.mark.proof
def test_what_nobody_recalled_fades_and_what_was_recalled_once_stays(store: Path) -> None:
    before, kept = contents(store), recalled(store)
    summary = swept(store)
    gone = rows(store, "facts", "status = 'archived'")
    assert summary["counts"]["facts pruned"] == len(gone) > 50
    assert set(gone["status_reason"]) == {"pruned"}
    assert not kept & set(gone["id"])
    assert len(rows(store, "facts")) == len(before["facts"])
    assert [row["decision"] for row in summary["decisions"]] == ["prune"] * 10
    assert not examine(Store.open(str(store)))
    again = swept(store)
    assert "facts pruned" not in again["counts"]
    undo(Store.open(str(store)), again["run"], "u0", LATER)
    undo(Store.open(str(store)), summary["run"], "u1", LATER)
    assert_same(contents(store), before)


@pytest.mark.proof
def test_a_phase_that_fails_leaves_the_others_alone_and_the_next_sweep_does_it(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(monkeypatch, "steward.prune"):
        summary = swept(store)
    assert summary["state"] == "incomplete"
    assert summary["errors"] == ["prune: OSError: [Errno 5] Input/output error"]
    assert summary["counts"]["facts scored"] > 200
    assert rows(store, "facts", "status = 'archived'").is_empty()
    assert swept(store)["counts"]["facts pruned"] > 50


@pytest.mark.proof
@pytest.mark.parametrize(("phase", "work"), [("merge", "merge_duplicates"), ("entities", "weigh_entities")])
def test_merging_and_weighing_that_fail_leave_the_others_alone(
    phase: str, work: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(f"flows.maintenance.{work}", broken)
    summary = swept(store)
    assert (summary["state"], summary["errors"]) == ("incomplete", [f"{phase}: OSError: [Errno 5] Input/output error"])
    assert summary["counts"]["facts pruned"] > 50


@pytest.mark.proof
def test_a_sweep_that_cannot_score_does_nothing_else(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(store, "facts").sort("id")
    with failing(monkeypatch, "steward.score"), pytest.raises(OSError, match="Input/output"):
        swept(store)
    assert rows(store, "facts").sort("id").equals(before)
    assert rows(store, "runs").sort("started_at")["state"].to_list()[-1] == "failed"


# The gate


@pytest.mark.proof
def test_a_night_goes_on_without_the_phase_that_made_recall_worse(store: Path) -> None:
    with pytest.raises(RecallFell):
        slept(store, ("steward", "upkeep"), HARSH, NOW + timedelta(days=10))
    states = dict(rows(store, "runs").select("flow", "state").iter_rows())
    assert (states["steward"], states["upkeep"]) == ("undone", "completed")
    assert states["sleep"] == "incomplete"
    assert rows(store, "facts", "status = 'archived'").is_empty()


@pytest.mark.proof
def test_a_run_that_fails_after_it_did_harm_is_taken_back_as_well(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(store, "facts").sort("id")
    gate = {"gate": {"enabled": True, "probes": 20}}
    monkeypatch.setattr("storage.upkeep.MANY_SEGMENTS", dict.fromkeys(Role, 0))  # so that upkeep is due
    with failing(monkeypatch, "upkeep"), pytest.raises(OSError, match="Input/output") as failed:
        swept(store, **HARSH | gate, now=NOW + timedelta(days=10))
    assert "Taken back: steward-" in failed.value.__notes__[0]
    assert rows(store, "facts").sort("id").equals(before)


@pytest.mark.proof
def test_a_night_that_died_before_anybody_looked_is_checked_by_the_next(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = rows(store, "facts").sort("id"), NOW + timedelta(days=10)
    with dying(monkeypatch, "steward.prune", "after"):
        slept(store, ("steward",), HARSH, now)
    assert len(rows(store, "facts", "status = 'archived'")) > 50
    bury(store)
    summary = slept(store, ("steward",), now=now)
    assert rows(store, "facts").sort("id").select("id", "status").equals(before.select("id", "status"))
    assert list(summary["phases"]) == ["steward"]
    assert "undone" in rows(store, "runs", "flow = 'sleep'")["state"].to_list()


# The night


@pytest.mark.proof
def test_a_night_runs_every_phase_once_and_the_next_finds_nothing_to_do(store: Path) -> None:
    summary = slept(store, probes=20)
    assert list(summary["phases"]) == ["consolidate", "steward", "decay", "communities", "upkeep"]
    assert summary["counts"]["steward: facts pruned"] > 50
    assert {phase: gate["fell"] for phase, gate in summary["gates"].items()} == {
        "consolidate": False, "steward": False, "decay": False, "communities": False,
    }  # fmt: skip
    assert summary["state"] == "completed"
    facts = rows(store, "facts").sort("id")
    again = slept(store, now=LATER + timedelta(hours=1), probes=0)
    assert rows(store, "facts").sort("id").equals(facts)
    assert "steward: facts pruned" not in again["counts"]


@pytest.mark.proof
def test_a_night_that_only_shows_what_it_would_do_changes_nothing(store: Path) -> None:
    before = contents(store)
    settings = SleepSettings.model_validate({"consolidate": RULES, "steward": RULES})
    told = asyncio.run(sleep(store=str(store), settings=settings, now=LATER, dry_run=True))
    assert told["counts"]["steward: facts pruned"] > 50
    assert_same(contents(store), before)


# A fleet of nights

NAMES = ("other", "tenant-a", "tenant-b")


@pytest.fixture(scope="module")
def asleep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three namespaces, each with one entity of its own name of which nothing is known."""
    place = tmp_path_factory.mktemp("fleet") / "memory"
    seat = open_embedder()
    Store.create(str(place), NAMES[0], (seat.name, seat.dims))
    for name in NAMES:
        if name != NAMES[0]:
            shutil.copytree(place / NAMES[0], place / name)
    for name in NAMES:
        with Store.open(str(place), name).commit("made", "test", EPOCH) as tx:
            tx.upsert("entities", pl.DataFrame({"id": [name], "canonical_name": [name], "name": [name]}))
    return place


@pytest.fixture
def tenants(asleep: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(asleep, tmp_path / "memory"))


def went(tenants: Path, pattern: str = "*", **width: Any) -> dict[str, Any]:
    """A fleet of nights that only decay."""
    settings = FleetSettings(sleep=SleepSettings.model_validate({"gate": {"enabled": False}}), **width)
    return asyncio.run(fleet(namespace=pattern, store=str(tenants), phases=("decay",), settings=settings))


def nights(tenants: Path) -> dict[str, int]:
    return {name: Store.open(str(tenants), name).snapshot().count("runs", "flow = 'sleep'") for name in NAMES}


def test_every_namespace_that_the_pattern_means_has_one_night_and_no_other(tenants: Path) -> None:
    told = went(tenants, "tenant-*", width=2)
    assert told["state"] == "completed"
    assert [(row["namespace"], row["state"]) for row in told["namespaces"]] == [
        ("tenant-a", "completed"), ("tenant-b", "completed"),
    ]  # fmt: skip
    assert nights(tenants) == {"other": 0, "tenant-a": 1, "tenant-b": 1}
    for name in NAMES:
        assert set(Store.open(str(tenants), name).snapshot().frame("entities")["id"]) <= {name}


@pytest.mark.proof
def test_one_that_fails_is_named_and_the_others_have_their_night(tenants: Path) -> None:
    shutil.rmtree(tenants / "tenant-a" / "facts.lance")
    told = went(tenants, "*", width=1)
    assert told["state"] == "incomplete"
    assert {row["namespace"]: row["state"] for row in told["namespaces"]} == {
        "other": "completed", "tenant-a": "failed", "tenant-b": "completed",
    }  # fmt: skip
    assert "facts" in next(row["error"] for row in told["namespaces"] if row["state"] == "failed")
    assert (nights(tenants)["other"], nights(tenants)["tenant-b"]) == (1, 1)


def test_what_cannot_be_meant_is_said_before_anything_is_done(tenants: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="tenant-a"):
        went(tenants, "tenent-*")
    with pytest.raises(NoStoreYet):
        went(tmp_path / "nowhere")
    assert nights(tenants) == dict.fromkeys(NAMES, 0)
