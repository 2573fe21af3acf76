"""Fleet: one night for each of many namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from inference.secrets import without_secrets
from slowwave.common.run_counts import effects
from slowwave.common.settings import FleetSettings, SleepSettings
from storage.connection import namespaces_like
from tasks.runtime.engine import flow, is_inline, task
from tasks.runtime.retrying import ONCE
from tasks.runtime.run_pages import show_table

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
    ended = sum(row["state"] == "completed" for row in summary["namespaces"])
    text = f"{ended} of {len(names)} namespaces completed; {summary['llm']['usd']:.4f} dollars"
    await show_table(summary["namespaces"], "fleet", text)
    return summary


@task("night of a namespace", about="{namespace}", tries=ONCE, longest_s=None)
def night_of(
    namespace: str, store: str, phases: tuple[Phase, ...], settings: SleepSettings, now: datetime | None, dry_run: bool
) -> dict[str, Any]:
    """A night of its own."""
    return asyncio.run(sleep(namespace, store, phases=phases, settings=settings, now=now, dry_run=dry_run))


class Ending(Protocol):
    """What both a future of Python's and one of Prefect's can tell."""

    def result(self) -> dict[str, Any]:
        """The summary of a namespace; raises what its work raised."""


async def spread(
    work: Callable[..., dict[str, Any]], names: Sequence[str], width: int, **arguments: Any
) -> list[dict[str, Any]]:
    """A row for the work of each namespace, side by side; one that fails does not keep the others from theirs."""
    if is_inline():
        with ThreadPoolExecutor(width) as pool:
            started: dict[str, Ending] = {
                name: pool.submit(copy_context().run, partial(work, namespace=name, **arguments)) for name in names
            }
            return await asyncio.to_thread(_gathered, started)
    from prefect.task_runners import ThreadPoolTaskRunner

    runner: Any = ThreadPoolTaskRunner(max_workers=width)
    with runner:
        submitted: dict[str, Ending] = {name: runner.submit(work, {"namespace": name, **arguments}) for name in names}
        return await asyncio.to_thread(_gathered, submitted)


def _gathered(endings: Mapping[str, Ending]) -> list[dict[str, Any]]:
    rows = []
    for name, ending in endings.items():
        try:
            rows.append(_row(name, ending.result()))
        except Exception as error:  # of any kind: it is reported, and the others go on
            problem = without_secrets(f"{type(error).__name__}: {error}")
            rows.append({**_row(name, {"state": "failed"}), "error": problem})
    return rows


def _row(namespace: str, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What was done in a namespace for how much."""
    llm = summary.get("llm", {})
    return {
        "namespace": namespace,
        "run": summary.get("run", ""),
        "state": str(summary.get("state", "completed")),
        "calls": llm.get("calls", 0),
        "usd": llm.get("usd", 0.0),
        "changed": ", ".join(effects(summary.get("counts", {}))),
        "error": "",
    }


def fleet_summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The summary of a fleet: how each namespace ended, and what all of it cost."""
    states = {row["state"] for row in rows}
    wrong = states - {"completed", "stopped"}
    return {
        "state": "incomplete" if wrong else "stopped" if "stopped" in states else "completed",
        "namespaces": list(rows),
        "llm": {"calls": sum(row["calls"] for row in rows), "usd": sum(row["usd"] for row in rows)},
    }
