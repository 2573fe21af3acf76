"""Consolidate: facts that say the same become one, versions of documents are linked.

Facts are compared and merged in `tasks/nightly/fact_reconciliation`, documents in `tasks/ingest/artifacts`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ConsolidateSettings
from slowwave.facts.deduplication.pairs_for_a_model import Mode
from tasks.entities.derived import refresh_profiles
from tasks.entities.retirement import clear_stale_flags
from tasks.ingest.artifacts import link_artifacts
from tasks.nightly.aspects import refreshed_aspects
from tasks.nightly.fact_reconciliation import asks_model, reconcile
from tasks.nightly.open_questions import MERGE, propose_pairs, withdraw_overtaken
from tasks.orchestration.phases import conclude, gated, tidy
from tasks.orchestration.tallies import Tally
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run, language_of, recorded
from tasks.runtime.writing import titles_of, under_approval


@flow("consolidate", takes_turns=True)
async def consolidate(
    namespace: str = "default",
    store: str = "./memory",
    since: datetime | None = None,
    scope: str | None = None,
    mode: Mode = "auto",
    artifacts: bool = True,
    settings: ConsolidateSettings = ConsolidateSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Give each concept one fact: what says the same is merged, what something newer updates or corrects ends.

    Without a model only what guards allow is merged; the rest stays as it is and waits for a run with a model. On an
    unchanged store a second run changes nothing and asks nothing.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        since: Also look again at what was learned since then; empty for what was never looked at.
        scope: Only this project or artifact; empty for all. Facts of two scopes are never compared.
        mode: auto compares pair by pair up to twenty new facts and in clusters beyond; pairwise and cluster force it.
        artifacts: Also link versions of documents and pasted texts.
        settings: Who decides, from which likeness, and how much may be spent.
        now: The time that counts as now; empty for the real time.
        require_approval: Every merge waits for a person; see the flow `review`.
        dry_run: Show what would be merged; nothing is changed and no model is asked.
    """
    run = existing_run("consolidate", store, namespace, now, settings.retention)
    tally = Tally(run.id, dry_run)
    parameters = {"since": since, "scope": scope, "mode": mode, "settings": settings.model_dump()}
    async with gated(run, tally, settings.gate, dry_run=dry_run) as gate:
        gate.freeze()
        with recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects) as run:
            merging = under_approval(run, "merge", settings.approval, require=require_approval)
            llm = settings.llm.model_copy(update={"concurrency": settings.cluster_concurrency})
            async with language_of(run, llm) as language:
                try:
                    if not dry_run:
                        withdraw_overtaken(run, MERGE)
                    found = await reconcile(
                        merging, settings, language, since=since, scope=scope, mode=mode, dry_run=dry_run
                    )
                    tally.took(found)
                    if artifacts:
                        tally.took(await link_artifacts(merging, settings, language, dry_run=dry_run))
                finally:
                    tally.paid(language, "consolidate")
                if not dry_run and not asks_model(settings, language):
                    propose_pairs(run, settings, scope=scope)
            if not dry_run:
                tally.proposed(titles_of(run))
                tally.counts[RunCount.FLAGS_CLEARED] += clear_stale_flags(run)
                tally.counts[RunCount.PROFILES_RENEWED] += refresh_profiles(run)
                if tally.has_written:
                    tidy(run)
    return await conclude(run, tally)
