"""Upkeep: compaction, indexes, and older versions beyond the days of undo."""

from __future__ import annotations

from typing import Any

from slowwave.common.settings import RetentionSettings
from tasks.orchestration.phases import tend_all, weighed
from tasks.orchestration.tallies import UpkeepTally, publish_summary
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run, recorded


@flow("upkeep", takes_turns=True)
async def upkeep(
    namespace: str = "default",
    store: str = "./memory",
    settings: RetentionSettings = RetentionSettings(),  # noqa: B008 (frozen)
) -> dict[str, Any]:
    """Compact every table, make the indexes it has grown into, and drop versions older than the days of undo.

    No row changes. Undo and questions about earlier states end where the versions end.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        settings: For how many days a run can be undone.
    """
    run = existing_run("upkeep", store, namespace, None, settings)
    tally = UpkeepTally(run.id)
    with recorded(run, tally, {"settings": settings.model_dump()}) as run, weighed(run, tally):
        tally.tended(tend_all(run))
    await publish_summary(run, tally)
    return tally.summary()
