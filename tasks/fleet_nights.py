"""The nights of one run of a fleet: known again when that run is carried out a second time, on whichever machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import polars as pl

from slowwave.settings import RetentionSettings
from storage.store import Store

from .engine import is_inline
from .runs import interrupt

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
        told: dict[str, Any] = json.loads(done["summary"][-1] or "{}")
        return {**told, "run": done["id"][-1], "state": "completed"}
    if lost := nights.filter(pl.col("state") == "running")["id"].to_list():
        with opened.commit(lost[-1], "run") as tx:
            interrupt(tx, lost, lambda _: True)
    return None
