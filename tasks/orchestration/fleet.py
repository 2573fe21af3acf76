"""A fleet: the same work in many namespaces, side by side on an engine that exists already."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Protocol, cast

import polars as pl

from inference.secrets import without_secrets
from slowwave.errors import MissingDependency, UnusableInput
from slowwave.lifecycle.run_counts import effects
from slowwave.settings import FleetWidth, RetentionSettings
from storage.store import Store
from tasks.runtime.engine import is_inline
from tasks.runtime.runs import interrupt

if TYPE_CHECKING:
    from prefect import Task
    from prefect.task_runners import TaskRunner


class Ending(Protocol):
    """What both a future of Python's and one of Prefect's can tell."""

    def result(self) -> dict[str, Any]:
        """The summary of a namespace; raises what its work raised."""


async def spread(
    work: Callable[..., dict[str, Any]], names: Sequence[str], width: FleetWidth, **arguments: Any
) -> list[dict[str, Any]]:
    """A row for the work of each namespace, side by side; one that fails does not keep the others from theirs.

    Without an engine threads of this process do it. Raises `UnusableInput` for a cluster without a Prefect server, and
    `MissingDependency` where its package is not there.
    """
    with _placed(work, width, arguments) as place:
        return await asyncio.to_thread(_gathered, {name: place(name) for name in names})


@contextmanager
def _placed(
    work: Callable[..., dict[str, Any]], width: FleetWidth, arguments: Mapping[str, Any]
) -> Iterator[Callable[[str], Ending]]:
    if is_inline():
        if width.runner != "threads":
            raise UnusableInput(
                f"The runner {width.runner!r} needs a Prefect server.",
                "Start one with `slowwave up` and set PREFECT_API_URL, or use --runner threads.",
            )
        with ThreadPoolExecutor(width.width) as pool:
            yield lambda name: pool.submit(copy_context().run, lambda: work(namespace=name, **arguments))
    else:
        with _runner(width) as runner:
            task = cast("Task[..., dict[str, Any]]", work)
            yield lambda name: runner.submit(task, {"namespace": name, **arguments})


def _runner(width: FleetWidth) -> TaskRunner[Any]:
    if width.runner == "threads":
        from prefect.task_runners import ThreadPoolTaskRunner

        return ThreadPoolTaskRunner(max_workers=width.width)
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError as error:
        raise MissingDependency(
            "The runner 'dask' needs the package prefect-dask.", "Install slowwave with the extra `dask`."
        ) from error
    if width.address:
        return DaskTaskRunner(address=width.address)
    return DaskTaskRunner(cluster_kwargs={"n_workers": width.width, "threads_per_worker": 1, "dashboard_address": None})


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


async def publish_fleet(summary: Mapping[str, Any]) -> None:
    """Show how each namespace ended on the run's page, as a table."""
    if is_inline():
        return
    from prefect.artifacts import acreate_table_artifact

    ended = sum(row["state"] == "completed" for row in summary["namespaces"])
    text = f"{ended} of {len(summary['namespaces'])} namespaces completed; {summary['llm']['usd']:.4f} dollars"
    await acreate_table_artifact([dict(row) for row in summary["namespaces"]], key="fleet", description=text)


# The nights of one run of a fleet: known again when that run is carried out a second time, on whichever machine.


_fleet: ContextVar[str] = ContextVar("fleet", default="")


def fleet_under_way() -> str:
    """The id that Prefect gave the run that is under way here, which it keeps when it is run again; else empty."""
    if is_inline():
        return ""
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return str(context.flow_run.id) if context is not None and context.flow_run is not None else ""


@contextmanager
def nights_of(fleet: str) -> Iterator[None]:
    """Inside, nights belong to this run of a fleet."""
    token = _fleet.set(fleet)
    try:
        yield
    finally:
        _fleet.reset(token)


def parameters_of_fleet() -> dict[str, str]:
    """What the record of a night says of the fleet that it belongs to."""
    return {"fleet": fleet} if (fleet := _fleet.get()) else {}


def earlier_night(store: str, namespace: str, fleet: str, retention: RetentionSettings) -> dict[str, Any] | None:
    """The summary of the night that an earlier try of this fleet completed in the namespace; None where it did not.

    One that still counts as running is that of a try whose machine is gone, as two tries of a run are never under way
    together: it is recorded as interrupted with its phases, so that the next night goes on with what is left of it.
    """
    if not fleet:
        return None
    opened = Store.open(store, namespace, retention=retention)
    rows = opened.snapshot().frame("runs", "flow = 'sleep'", ["id", "state", "parameters", "summary"])
    nights = rows.filter(pl.col("parameters").str.contains(fleet, literal=True)).sort("id")
    if len(done := nights.filter(pl.col("state") == "completed")):
        summary: dict[str, Any] = json.loads(done["summary"][-1] or "{}")
        return {**summary, "run": done["id"][-1], "state": "completed"}
    if lost := nights.filter(pl.col("state") == "running")["id"].to_list():
        with opened.commit(lost[-1], "run") as tx:
            interrupt(tx, lost, lambda _: True)
    return None
