"""Undo: everything that a run changed is taken back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tasks.people.reporting import publish_undone, undo_run
from tasks.runtime.engine import flow
from tasks.runtime.retrying import ONCE
from tasks.runtime.runs import existing_run


@flow("undo", tries=ONCE)
async def undo(
    run: str = "",
    namespace: str = "default",
    store: str = "./memory",
    cascade: bool = False,
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Take back everything that a run changed, also long ago. Refused where later runs rest on it; they are named.

    Args:
        run: The id of the run, or its beginning, as `slowwave runs` and the page of the run show it.
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        cascade: Also take back later runs that rest on it.
        now: The time that counts as now; empty for the real time.
        dry_run: Show what would be taken back; nothing is changed.
    """
    mine = existing_run("undo", store, namespace, now)
    report = undo_run(mine, run, cascade=cascade, dry_run=dry_run)
    return await publish_undone(mine, report, dry_run=dry_run)
