"""A sample of `python -m bench faults`: killed at a durable step and run again, the end is as without a fault."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from talk import NOW, learn, rows, said, written

from bench.faults.campaign import Campaign, run_scene
from bench.faults.model import Model
from slowwave.common.errors import NoRoom
from slowwave.common.settings import RetentionSettings
from storage.doctor import examine
from storage.store import Store
from tasks.runtime.runs import Counts, new_run, recorded

SEED = 11
SAMPLE = {"merge": 4, "decay": 4}
"""How often a scene dies here; all of them die in the program."""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """Processes that are forked from one that has loaded everything."""
    with Model() as model:
        yield Campaign(tmp_path_factory.mktemp("faults"), model, SEED)


@pytest.mark.proof
def test_after_a_kill_at_any_durable_step_a_second_run_ends_as_one_without_a_fault(campaign: Campaign) -> None:
    outcomes = [run_scene(campaign, name, most) for name, most in SAMPLE.items()]
    deaths = [death for outcome in outcomes for death in outcome.deaths]
    assert [(death.scene, death.step, death.point, death.wrong) for death in deaths if death.wrong] == []
    assert len(deaths) == sum(SAMPLE.values())
    assert {death.is_published for death in deaths} == {True, False}


@pytest.mark.proof
def test_a_run_that_is_told_to_stop_is_interrupted_and_its_lease_is_free(tmp_path: Path) -> None:
    place = tmp_path / "m"
    learn(written(tmp_path / "a.jsonl", said()), place)
    run = new_run("ingest", str(place), "default", Store.open(str(place)).head.embed_model, NOW)
    with pytest.raises(asyncio.CancelledError), recorded(run, Counts(run.id), {}):
        raise asyncio.CancelledError
    store = Store.open(str(place))
    assert rows(place, "runs", f"id = '{run.id}'")["state"].to_list() == ["interrupted"]
    assert (store.head.is_free(), examine(store)) == (True, ())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("mounting a small disk is not permitted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path, but: int) -> Path:
    """A file that leaves so many bytes of a disk free."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free - but))
    return ballast


def test_on_a_full_disk_nothing_is_lost_and_with_room_the_same_run_goes_on(
    small_disk: Path, new_store: Callable[[], Store]
) -> None:
    place = shutil.copytree(new_store().uri, small_disk / "m")
    store = Store.open(str(place), retention=RetentionSettings(lease_s=1.0))  # one that cannot be given back runs out

    def write(key: str) -> None:
        with store.commit(key, "test", NOW) as tx:
            tx.upsert("entities", pl.DataFrame({"id": [key], "canonical_name": [key]}))
            tx.upsert("metadata", pl.DataFrame({"id": [key], "text": ["x" * 50_000]}))

    write("first")
    ballast = fill(small_disk, but=30_000)
    with pytest.raises(NoRoom, match=r"no room left.*Nothing is lost") as caught:
        write("second")
    assert (caught.value.exit_code, "--store" in caught.value.remedy) == (1, True)
    assert rows(place, "entities")["id"].to_list() == ["first"]
    ballast.unlink()
    write("second")
    assert rows(place, "entities")["id"].to_list() == ["first", "second"]
    assert examine(store) == ()
