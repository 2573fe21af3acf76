"""Fleet: one night for each of many namespaces."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from slowwave.settings import FleetSettings, SleepSettings
from storage.connection import namespaces_like
from tasks.orchestration.fleet import fleet_summary, publish_fleet, spread
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
    """One night for each namespace that a pattern means, side by side on this machine.

    Namespaces share nothing, so that as many nights go on at once as there is room for. One that fails does not keep
    the others awake; the run says so at its end.

    Args:
        namespace: Which memories inside the store: a name, or a pattern such as tenant-*.
        store: Folder or address of the store.
        phases: What to do in each, in this order.
        settings: How many at once, and what each night can be told.
        now: The time that counts as now; empty for the real time.
        dry_run: Show what each night would do; nothing is changed and no model is asked.
    """
    names = namespaces_like(store, namespace)
    arguments = {"store": store, "phases": phases, "settings": settings.sleep, "now": now, "dry_run": dry_run}
    summary = fleet_summary(await spread(night_of, names, settings.width, **arguments))
    await publish_fleet(summary)
    return summary


@task("night of a namespace", about="{namespace}", tries=ONCE, longest_s=None)
def night_of(
    namespace: str, store: str, phases: tuple[Phase, ...], settings: SleepSettings, now: datetime | None, dry_run: bool
) -> dict[str, Any]:
    """A night of its own."""
    return asyncio.run(sleep(namespace, store, phases=phases, settings=settings, now=now, dry_run=dry_run))
