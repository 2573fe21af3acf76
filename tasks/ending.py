"""Ending a run by hand: of a process on another machine nobody here can know that it is gone."""

from __future__ import annotations

from datetime import datetime

from recall.stories import run_named
from slowwave.errors import Refused
from storage.lease import holder, is_surely_alive
from storage.store import Store

from .runs import interrupt


def end_run(store: Store, asked: str, now: datetime) -> str:
    """Record that a run which counts as running was interrupted, with its parts; returns its id.

    Raises `Refused` for a run that has ended, and for one whose process is alive on this machine.
    """
    run = run_named(store.snapshot(), asked)["id"]
    with store.commit(run, "run", now) as tx:
        [row] = tx.by_ids("runs", [run]).to_dicts()
        if row["state"] != "running":
            raise Refused(f"Run {run} has ended already: it is {row['state']}.", "Nothing is to be done.")
        if is_surely_alive(row["owner"] or ""):
            raise Refused(f"{holder(row['owner'])} is alive on this machine.", "Stop that process, or wait for it.")
        interrupt(tx, [run], lambda owner: not is_surely_alive(owner))
    return str(run)
