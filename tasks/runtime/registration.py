"""Register on the Prefect server the objects that deployments need: the work pool and the automations.

A second time changes nothing that is as it should be, and nothing that people have changed in the UI: an automation
that they switched off stays off.
"""

from __future__ import annotations

import asyncio
from typing import Any

import yaml
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound

from slowwave.common.installation import project_folder

AUTOMATIONS = "automations.yaml"  # in the folder of the project
POOL = "slowwave"
AT_ONCE = 4  # runs of a pool that a worker carries out at once


async def register() -> list[str]:
    """Make what is missing and bring automations up to date; returns a line for each change."""
    async with get_client() as client:
        done = await _pool(client)
        for entry in yaml.safe_load((project_folder() / AUTOMATIONS).read_text(encoding="utf-8"))["automations"]:
            done += await _automation(client, AutomationCore.model_validate(entry))
        return done


async def _pool(client: PrefectClient) -> list[str]:
    try:
        await client.read_work_pool(POOL)
    except ObjectNotFound:
        await client.create_work_pool(WorkPoolCreate(name=POOL, type="process", concurrency_limit=AT_ONCE))
        return [f"work pool {POOL}"]
    return []


async def _automation(client: PrefectClient, wanted: AutomationCore) -> list[str]:
    found = await client.read_automations_by_name(wanted.name)
    if not found:
        await client.create_automation(wanted)
        return [f"automation {wanted.name!r}"]
    kept = wanted.model_copy(update={"enabled": found[0].enabled})
    if _content(kept) == _content(found[0]):
        return []
    await client.update_automation(found[0].id, kept)
    return [f"automation {wanted.name!r} changed"]


def _content(automation: AutomationCore) -> Any:
    content = automation.model_dump(include=set(AutomationCore.model_fields))
    content["trigger"].pop("id", None)
    return content


if __name__ == "__main__":
    for line in asyncio.run(register()):
        print(f"registered: {line}")
