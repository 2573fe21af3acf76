"""What a run asks of the Prefect API: events for its listeners, and runs of other deployments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from .engine import is_inline, log

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

    from .runs import Run

Event = Literal[
    "slowwave.messages.ingested",
    "slowwave.community.refresh_due",
    "slowwave.night.finished",
    "slowwave.gate.failed",
]
INGESTED: Event = "slowwave.messages.ingested"
REFRESH_DUE: Event = "slowwave.community.refresh_due"
NIGHT_FINISHED: Event = "slowwave.night.finished"
GATE_FAILED: Event = "slowwave.gate.failed"


def announce(event: Event, run: Run, **counts: Any) -> None:
    """Say that something happened in the run's namespace; without an engine nobody listens, and nothing is said.

    An event is sent in the background and may be lost. A reader who must not miss one reads the store.
    """
    if not is_inline():
        from prefect.events import emit_event

        log.info("%s in %s: %s", event, run.namespace, ", ".join(f"{what} {n}" for what, n in counts.items()))
        emit_event(**event_of(event, run, **counts))


def event_of(event: Event, run: Run, **counts: Any) -> dict[str, Any]:
    """The event: its resource is the namespace, and its payload tells namespace, store, run, flow and the counts."""
    return {
        "event": event,
        "resource": {
            "prefect.resource.id": f"slowwave.namespace.{run.namespace}",
            "prefect.resource.name": run.namespace,
        },
        "payload": {
            "namespace": run.namespace,
            "store": run.store,
            "run": run.id,
            "flow": run.flow,
            "counts": counts,
        },
    }


# Runs of a deployment that another run starts and waits for, each once however often it is asked for.


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
