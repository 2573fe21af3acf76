"""What `python -m bench machines` would find: lost messages, nights too many or too few, runs that are left open."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import polars as pl
import pytest
from conftest import EPOCH

from bench.machines import Campaign, Outcome, judge, talk
from flows.nights import sleep
from slowwave.common.settings import SleepSettings
from storage.store import Store


@pytest.mark.proof
def test_a_tenant_that_is_well_passes_and_what_happened_to_the_others_is_told(tmp_path: Path) -> None:
    place = tmp_path / "memory"
    campaign = Campaign(tmp_path, tenants=4, share=4, store=str(place))
    well, awake, poor, left = campaign.names
    said = talk(tmp_path, place, awake)
    shutil.copytree(place / awake, place / well)
    settings = SleepSettings.model_validate({"gate": {"enabled": False}})
    asyncio.run(sleep(well, str(place), phases=("decay",), settings=settings))
    for name in (poor, left):
        shutil.copytree(place / well, place / name)
    with Store.open(str(place), poor).commit("r", "test", EPOCH) as tx:
        tx.delete("messages", tx.frame("messages", columns=["id"])["id"].to_list()[:1])
    with Store.open(str(place), left).commit("r", "test", EPOCH) as tx:
        night = tx.frame("runs", "flow = 'sleep'")
        tx.upsert("runs", night.with_columns(id=pl.lit("sleep-lost"), state=pl.lit("running")))
    outcome = Outcome()
    judge(campaign, said, outcome)
    named = [each for each in outcome.wrong if "dangling" not in each]  # the lost message was a source of facts
    assert named == [
        f"{awake}: 0 times sleep", f"{poor}: 3 messages in place of 4", f"{left}: sleep-lost is running for ever",
    ]  # fmt: skip
    assert outcome.nights["tenant"].to_list() == [well, poor, left, left]
