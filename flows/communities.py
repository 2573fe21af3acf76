"""Communities: what belongs together is found, named and summarised (`tasks/nightly/community_refresh`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slowwave.common.settings import CommunitySettings
from tasks.nightly.community_refresh import refresh_communities
from tasks.orchestration.phases import conclude, gated, tidy
from tasks.orchestration.tallies import CommunityTally
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run, language_of, recorded


@flow("communities", takes_turns=True)
async def communities(
    namespace: str = "default",
    store: str = "./memory",
    settings: CommunitySettings = CommunitySettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Find what belongs together in what is known, and say what each community is about.

    A community keeps its id while most of its members stay. Only those that changed are summarised: on an unchanged
    graph a second run changes nothing and asks nothing. Without a model the strongest facts are the summary. The
    setting `max_prompt_bytes = 0` switches summaries off.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        settings: How they are found, who summarises them, and how much may be spent.
        now: The time that counts as now; empty for the real time.
        dry_run: Show what would be found; nothing is changed and no model is asked.
    """
    run = existing_run("communities", store, namespace, now, settings.retention)
    tally = CommunityTally(run.id, dry_run)
    async with gated(run, tally, settings.gate, dry_run=dry_run) as gate:
        gate.freeze()
        with recorded(run, tally, {"settings": settings.model_dump()}, dry_run=dry_run) as run:
            llm = settings.llm.model_copy(update={"concurrency": settings.concurrency})
            async with language_of(run, llm) as language:
                try:
                    tally.took(await refresh_communities(run, settings, language, dry_run=dry_run))
                finally:
                    tally.paid(language, "summarize")
            if tally.has_written and not dry_run:
                tidy(run)
    return await conclude(run, tally)
