"""Restore: archived facts come back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tasks.entities.retirement import restore as bring_back
from tasks.people.reporting import publish_restored
from tasks.runtime.engine import flow
from tasks.runtime.retrying import ONCE
from tasks.runtime.runs import existing_run


@flow("restore", tries=ONCE)
async def restore(
    facts: tuple[str, ...] = (),
    run: str = "",
    namespace: str = "default",
    store: str = "./memory",
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Bring archived facts back: these, or all that a run archived. Facts that were replaced meanwhile stay archived.

    Args:
        facts: Their ids, or the beginnings of them, as `slowwave archived` shows them.
        run: Instead of facts: the id of the run that archived them, such as a night.
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        now: The time that counts as now; empty for the real time.
        dry_run: Show what would come back; nothing is changed.
    """
    mine = existing_run("restore", store, namespace, now)
    restored = bring_back(mine, facts, run or None, dry_run=dry_run)
    return await publish_restored(mine, restored, dry_run=dry_run)
