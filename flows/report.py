"""Report: what in a memory wants a person's eye."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slowwave.common.settings import ReportSettings
from tasks.people.reporting import ProposedSplits, look_over, propose_splits, publish_report, with_waiting
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run


@flow("report")
async def report(
    namespace: str = "default",
    store: str = "./memory",
    stale_days: float | None = None,
    settings: ReportSettings = ReportSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
) -> dict[str, Any]:
    """Look over the whole memory: what should be split, what repeats, what nobody reads, what leans on what is over.

    Nothing is changed. Only if `propose_splits` is set, what could be split is left as proposals, which a person
    approves or rejects.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        stale_days: Days without a read after which an entity is stale; empty: as the settings say.
        settings: What is stale or large, how many of the most read entities are looked at for repeats, and whether
            splits are proposed.
        now: The time that counts as now; empty for the real time.
    """
    run = existing_run("report", store, namespace, now, settings.retention)
    found = look_over(run, settings, stale_days)
    left = propose_splits(run, settings, found) if settings.propose_splits else ProposedSplits()
    if left.ids:
        found = with_waiting(run, found)
    summary = {**found, "namespace": namespace, "proposals": list(left.ids), "notes": list(left.notes)}
    if settings.propose_splits:
        summary["run"] = run.id
    await publish_report(run, summary)
    return summary
