"""What a run asks of the Prefect API: events for its listeners, and its turn in a namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from .engine import is_inline, log

if TYPE_CHECKING:
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
