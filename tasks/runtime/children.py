"""Children: runs of a deployment that another run starts and waits for, each once however often it is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .engine import is_inline, log

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

PARENT = "slowwave-parent:"
"""Begins the tag by which a child knows whose it is."""
WAIT_S = 86_400


def parent_by_tag() -> str | None:
    """The run that started this one as a deployment; none where nobody did."""
    if is_inline():
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    tags = context.flow_run.tags if context is not None and context.flow_run is not None else ()
    return next((tag.removeprefix(PARENT) for tag in tags if tag.startswith(PARENT)), None)


@asynccontextmanager
async def turn_of(store: str, namespace: str) -> AsyncIterator[None]:
    """Inside, no deployment maintains this namespace, if this run is one of a deployment itself."""
    if is_inline():
        yield
        return
    from .prefect_engine import is_deployed, turn

    if not is_deployed():
        yield
        return
    async with turn(store, namespace):
        yield


async def can_deploy(name: str) -> bool:
    """Whether a deployment of this name is there, and somebody who takes its runs."""
    if is_inline():
        return False
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import DeploymentStatus
    from prefect.exceptions import ObjectNotFound

    async with get_client() as client:
        try:
            found = await client.read_deployment_by_name(name)
        except ObjectNotFound:
            log.info("There is no deployment %s: its work is done in this run.", name)
            return False
    is_ready = found.status == DeploymentStatus.READY and not found.paused
    if not is_ready:
        log.info("Nobody takes runs of %s: its work is done in this run.", name)
    return is_ready


async def run_child(name: str, parameters: Mapping[str, Any], key: str, parent: str, title: str) -> str:
    """Run the deployment, or wait for the run of this key that is under way; one that failed is followed by a new one.

    Returns how it ended: an empty string where it completed, else what its last state says.
    """
    from prefect.client.orchestration import get_client
    from prefect.deployments import arun_deployment

    async def start(key: str) -> FlowRun:
        return await arun_deployment(
            name, parameters=dict(parameters), timeout=0, idempotency_key=key, flow_run_name=title,
            tags=["slowwave", f"{PARENT}{parent}"],
        )  # fmt: skip

    started = await last_try(start, key)
    async with get_client() as client:
        return await _ended(client, started.id)


async def last_try(start: Callable[[str], Awaitable[FlowRun]], key: str) -> FlowRun:
    """The first run of this key that has not failed, begun where all have.

    Each try has a key of its own that names the one before it. A failed run is not tried again itself: it would keep
    the parameters that it was first given, and with them a budget that is spent by now.
    """
    found = await start(key)
    while found.state is not None and found.state.is_final() and not found.state.is_completed():
        found = await start(f"{key}:after:{found.id}")
    return found


async def _ended(client: Any, run: UUID) -> str:
    from prefect.flow_runs import wait_for_flow_run

    found = await client.read_flow_run(run)
    while not found.state.is_final():  # events of an earlier try may wake it too soon
        await wait_for_flow_run(run, timeout=WAIT_S)
        found = await client.read_flow_run(run)
    return "" if found.state.is_completed() else f"{found.state.name}: {found.state.message or ''}".strip(": ")
