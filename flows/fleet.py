"""Fleet: one night for each of many namespaces."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from slowwave.settings import FleetSettings, SleepSettings
from storage.connection import namespaces_like
from tasks.orchestration.fleet import earlier_night, fleet_summary, fleet_under_way, nights_of, publish_fleet, spread
from tasks.runtime.engine import flow, task
from tasks.runtime.retrying import ONCE

from .sleep import NIGHT, Phase, sleep


@flow("fleet")
async def fleet(
    namespace: str = "*",
    store: str = "./memory",
    phases: tuple[Phase, ...] = NIGHT,
    settings: FleetSettings = FleetSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """One night for each namespace that a pattern means, side by side on this machine or spread over a cluster.

    Namespaces share nothing, so that as many nights go on at once as there is room for. One that fails does not keep
    the others awake; the run says so at its end. A run that was lost and is run again goes on with the nights that are
    left.

    Args:
        namespace: Which memories inside the store: a name, or a pattern such as tenant-*.
        store: Folder or address of the store; for a cluster one that all its machines reach.
        phases: What to do in each, in this order.
        settings: Where the work is done, how many at once, and what each night can be told.
        now: The time that counts as now; empty for the real time.
        dry_run: Show what each night would do; nothing is changed and no model is asked.
    """
    names = namespaces_like(store, namespace)
    arguments = {"store": store, "phases": phases, "settings": settings.sleep, "now": now, "dry_run": dry_run}
    arguments["fleet"] = "" if dry_run else fleet_under_way()
    summary = fleet_summary(await spread(night_of, names, settings, **arguments))
    await publish_fleet(summary)
    return summary


@task("night of a namespace", about="{namespace}", tries=ONCE, longest_s=None)
def night_of(
    namespace: str, store: str, phases: tuple[Phase, ...], settings: SleepSettings, now: datetime | None, dry_run: bool,
    fleet: str = "",
) -> dict[str, Any]:  # fmt: skip
    """A night of its own, on whichever machine this is; where an earlier try of the fleet had it, what came of that."""
    if (earlier := earlier_night(store, namespace, fleet, settings.retention)) is not None:
        return earlier
    with nights_of(fleet):
        return asyncio.run(sleep(namespace, store, phases=phases, settings=settings, now=now, dry_run=dry_run))
