"""Register on the Prefect server the objects that deployments need: pool, block, variable, automations.

A second time changes nothing that is as it should be, and nothing that people have changed in the UI: an automation
that they switched off stays off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import yaml
from prefect.blocks.notifications import SlackWebhook
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType
from prefect.events.actions import DoNothing
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed
from prefect.variables import Variable
from pydantic import SecretStr

from slowwave.common.installation import project_folder

AUTOMATIONS = "automations.yaml"  # in the folder of the project
POOL = "slowwave"
AT_ONCE = 4  # runs of a pool that a worker carries out at once
NOTIFY = "slowwave_notify"  # the variable that names the block: type/name
NOBODY = "none"
BLOCK = "slowwave"  # the block that SLOWWAVE_SLACK_WEBHOOK makes
WEBHOOK = "SLOWWAVE_SLACK_WEBHOOK"
LOST = "The machine went down while it ran. What it committed is kept; run it again to go on."


async def register(environment: Mapping[str, str], *, is_only_machine: bool = False) -> list[str]:
    """Make what is missing, bring automations up to date; returns a line for each thing that was made or changed.

    Where all workers are on this machine, runs without a process are reported as crashed.
    """
    async with get_client() as client:
        done = [
            *await _pool(client),
            *(await _lost(client) if is_only_machine else []),
            *await _block(environment),
            *await _variable(client, environment),
        ]
        notifier = await _notifier(client)
        for entry in yaml.safe_load((project_folder() / AUTOMATIONS).read_text(encoding="utf-8"))["automations"]:
            done += await _automation(client, automation_of(entry, notifier))
    return done


async def _pool(client: PrefectClient) -> list[str]:
    try:
        await client.read_work_pool(POOL)
    except ObjectNotFound:
        await client.create_work_pool(WorkPoolCreate(name=POOL, type="process", concurrency_limit=AT_ONCE))
        return [f"work pool {POOL}"]
    return []


async def _lost(client: PrefectClient) -> list[str]:
    """Runs of this machine when it went down are reported as crashed, else they occupy places that others need."""
    under_way = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.CANCELLING]))
    )
    runs = await client.read_flow_runs(
        flow_run_filter=under_way, work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
    )
    dead = [run for run in runs if is_gone(run.infrastructure_pid or "")]
    for run in dead:
        await client.set_flow_run_state(run.id, Crashed(message=LOST), force=True)
    return [f"{run.name} is lost, run it again to go on" for run in dead]


def is_gone(pid: str) -> bool:
    """Whether a process that a worker of this machine noted is no more."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, PermissionError):
        return False
    return False


async def _block(environment: Mapping[str, str]) -> list[str]:
    """The block that the environment describes; one that people made under this name is written over."""
    if not (url := environment.get(WEBHOOK, "")):
        return []
    block = SlackWebhook(url=SecretStr(url))
    await block.asave(BLOCK, overwrite=True)
    return [f"block slack-webhook/{BLOCK}"]


async def _variable(client: PrefectClient, environment: Mapping[str, str]) -> list[str]:
    named = await _named(client)
    wanted = f"slack-webhook/{BLOCK}" if environment.get(WEBHOOK) else NOBODY
    if named not in ("", NOBODY) or named == wanted:  # what people chose stays
        return []
    await Variable.aset(NOTIFY, wanted, tags=[POOL], overwrite=True)
    return [f"variable {NOTIFY} = {wanted}"]


async def _named(client: PrefectClient) -> str:
    """The block that the variable names; empty where there is no variable."""
    variable = await client.read_variable_by_name(NOTIFY)
    return str(variable.value) if variable else ""


async def _notifier(client: PrefectClient) -> str:
    """The id of the block that the variable names; empty where there is none."""
    kind, _, name = (await _named(client)).partition("/")
    if not name:
        return ""
    try:
        return str((await client.read_block_document_by_name(name, kind, include_secrets=False)).id)
    except ObjectNotFound:
        return ""


def automation_of(entry: Mapping[str, Any], notifier: str) -> AutomationCore:
    """The automation as the server takes it: one that notifies is off and does nothing without a notifier."""
    rest = {key: value for key, value in entry.items() if key != "notify"}
    if "notify" not in entry:
        return AutomationCore.model_validate(rest)
    notification = {"type": "send-notification", "block_document_id": notifier, **entry["notify"]}
    actions = [notification] if notifier else [{"type": "do-nothing"}]
    return AutomationCore.model_validate({**rest, "actions": actions, "enabled": bool(notifier)})


async def _automation(client: PrefectClient, wanted: AutomationCore) -> list[str]:
    found = await client.read_automations_by_name(wanted.name)
    if not found:
        await client.create_automation(wanted)
        return [f"automation {wanted.name!r}{'' if wanted.enabled else ' (off)'}"]
    kept = _with_choice(wanted, found[0])
    if _content(kept) == _content(found[0]):
        return []
    await client.update_automation(found[0].id, kept)
    return [f"automation {wanted.name!r} changed"]


def _with_choice(wanted: AutomationCore, found: Automation) -> AutomationCore:
    """With what people chose about whether it is on, unless it could only be off until now."""
    could_act = not any(isinstance(action, DoNothing) for action in found.actions)
    return wanted.model_copy(update={"enabled": found.enabled}) if could_act and wanted.enabled else wanted


def _content(automation: AutomationCore) -> Any:
    content = automation.model_dump(include=set(AutomationCore.model_fields))
    content["trigger"].pop("id", None)
    return content


if __name__ == "__main__":
    for line in asyncio.run(register(os.environ)):
        print(f"registered: {line}")
