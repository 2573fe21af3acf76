"""A fleet: one night for each of many namespaces, on threads."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH

from flows.fleet import fleet
from inference.embedding import open_embedder
from slowwave.errors import NoStoreYet, UnknownName
from slowwave.settings import FleetSettings, SleepSettings
from storage.store import Store

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
def store(asleep: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(asleep, tmp_path / "memory"))


def went(store: Path, pattern: str = "*", **width: Any) -> dict[str, Any]:
    """A fleet of nights that only decay."""
    settings = FleetSettings(sleep=SleepSettings.model_validate({"gate": {"enabled": False}}), **width)
    return asyncio.run(fleet(namespace=pattern, store=str(store), phases=("decay",), settings=settings))


def nights(store: Path) -> dict[str, int]:
    return {name: Store.open(str(store), name).snapshot().count("runs", "flow = 'sleep'") for name in NAMES}


def test_every_namespace_that_the_pattern_means_has_one_night_and_no_other(store: Path) -> None:
    told = went(store, "tenant-*", width=2)
    assert told["state"] == "completed"
    assert [(row["namespace"], row["state"]) for row in told["namespaces"]] == [
        ("tenant-a", "completed"), ("tenant-b", "completed"),
    ]  # fmt: skip
    assert nights(store) == {"other": 0, "tenant-a": 1, "tenant-b": 1}
    for name in NAMES:
        assert set(Store.open(str(store), name).snapshot().frame("entities")["id"]) <= {name}


@pytest.mark.proof
def test_one_that_fails_is_named_and_the_others_have_their_night(store: Path) -> None:
    shutil.rmtree(store / "tenant-a" / "facts.lance")
    told = went(store, "*", width=1)
    assert told["state"] == "incomplete"
    assert {row["namespace"]: row["state"] for row in told["namespaces"]} == {
        "other": "completed", "tenant-a": "failed", "tenant-b": "completed",
    }  # fmt: skip
    assert "facts" in next(row["error"] for row in told["namespaces"] if row["state"] == "failed")
    assert (nights(store)["other"], nights(store)["tenant-b"]) == (1, 1)


def test_what_cannot_be_meant_is_said_before_anything_is_done(store: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="tenant-a"):
        went(store, "tenent-*")
    with pytest.raises(NoStoreYet):
        went(tmp_path / "nowhere")
    assert nights(store) == dict.fromkeys(NAMES, 0)
