"""Decay: what has been out of use long enough moves out of the way."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from slowwave.common.run_counts import RunCount
from slowwave.common.settings import DecaySettings
from tasks.nightly.aspects import refreshed_aspects
from tasks.nightly.eviction import archive_facts, archive_orphans, cap_beliefs, cap_entities
from tasks.nightly.scoring_and_pruning import count_usage, fade_links
from tasks.orchestration.phases import attempt, conclude, gated, tidy, weighed
from tasks.orchestration.tallies import DecayTally
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run, recorded
from tasks.runtime.writing import titles_of, under_approval

EVICTIONS = {
    "facts": archive_facts,
    "orphans": archive_orphans,
    "beliefs": cap_beliefs,
}


@flow("decay", takes_turns=True)
async def decay(
    namespace: str = "default",
    store: str = "./memory",
    settings: DecaySettings = DecaySettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Move closed facts and entities of which nothing is known to the archive, and let links decay.

    Nothing is lost: questions about the past still see the archive, and `slowwave restore` brings facts back. Only
    where retention.mode is delete it is gone for good.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        settings: After how long, and how many entities and pending beliefs are kept.
        now: The time that counts as now; empty for the real time.
        require_approval: What would move waits for a person; see the flow `review`.
        dry_run: Show what would move; nothing is changed.
    """
    run = existing_run("decay", store, namespace, now, settings.retention)
    tally = DecayTally(run.id, dry_run)
    async with gated(run, tally, settings.gate, dry_run=dry_run) as gate:
        parameters = {"settings": settings.model_dump()}
        record = recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects)
        with record as run, weighed(run, tally):
            risks = settings.retention.mode == "delete"
            moving = under_approval(run, "decay", settings.approval, require=require_approval, risks=risks)
            gone = await attempt(tally, "cap", partial(cap_entities, moving, settings, dry_run=dry_run))
            tally.took(gone)
            gate.freeze()  # what lies beyond the cap was to go: it is no loss
            for what, evict in EVICTIONS.items():
                gone = await attempt(tally, what, partial(evict, moving, settings, dry_run=dry_run))
                tally.took(gone)
            if not dry_run:
                tally.proposed(titles_of(run))
                tally.took(count_usage(run))
                faded = await attempt(tally, "links", partial(fade_links, run, settings))
                tally.counts[RunCount.LINKS_FADED] += faded or 0
            if tally.has_written and not dry_run:
                tidy(run)
    return await conclude(run, tally)
