"""Steward: what is used rises, what repeats is merged, what nobody ever needed fades."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Literal

from inference.language import Language
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import StewardSettings
from tasks.nightly.aspects import refreshed_aspects
from tasks.nightly.scoring_and_pruning import count_usage, is_learning, merge_duplicates, prune, score, weigh_entities
from tasks.orchestration.phases import attempt, conclude, gated, tidy, weighed
from tasks.orchestration.tallies import StewardTally
from tasks.runtime.engine import flow
from tasks.runtime.runs import Run, existing_run, language_of, recorded
from tasks.runtime.writing import titles_of, under_approval

Phase = Literal["score", "prune", "merge"]
PHASES: tuple[Phase, ...] = ("score", "prune", "merge")


@flow("steward", takes_turns=True)
async def steward(
    namespace: str = "default",
    store: str = "./memory",
    phases: tuple[Phase, ...] = PHASES,
    settings: StewardSettings = StewardSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Score facts by how they are used, let fade what nobody ever recalled, and merge what repeats.

    One recall saves a fact for ever. What fades is archived, not deleted: `slowwave archived` lists it and
    `slowwave restore` brings it back. Until fifty recalls were logged facts are scored only.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        phases: What to do: score first, then prune, then merge. Facts fade by what they score now, written or not.
        settings: From which score facts fade and from which likeness they are merged, and what it may cost.
        now: The time that counts as now; empty for the real time.
        require_approval: What would fade or be merged waits for a person; see the flow `review`.
        dry_run: Show what would fade and be merged; nothing is changed and no model is asked.
    """
    run = existing_run("steward", store, namespace, now, settings.retention)
    tally = StewardTally(run.id, dry_run)
    parameters = {"phases": phases, "settings": settings.model_dump()}
    async with gated(run, tally, settings.gate, dry_run=dry_run) as gate:
        gate.freeze(settings)
        whole_count = partial(refreshed_aspects, anew=True)  # once a night, in case that a change was missed
        record = recorded(run, tally, parameters, dry_run=dry_run, last=whole_count)
        with record as run, weighed(run, tally):
            async with language_of(run, settings.llm) as language:
                try:
                    await _sweep(run, settings, phases, language, tally, require_approval)
                finally:
                    tally.paid(language, "consolidate")
            if not dry_run:
                tally.proposed(titles_of(run))
            if tally.has_written and not dry_run:
                tidy(run)
    return await conclude(run, tally)


async def _sweep(
    run: Run,
    settings: StewardSettings,
    phases: tuple[Phase, ...],
    language: Language,
    tally: StewardTally,
    require: bool,
) -> None:
    """Scores first, and nothing without them; then what fades and what repeats, neither in the way of the other."""
    dry_run = tally.dry_run
    pruning = under_approval(run, "prune", settings.approval, require=require, risks=False)
    merging = under_approval(run, "merge", settings.approval, require=require)
    if not dry_run:
        tally.took(count_usage(run))
        if "score" in phases:
            tally.took(score(run, settings))
    tally.is_learning = is_learning(run, settings)
    if "prune" in phases and not tally.is_learning:
        tally.took(await attempt(tally, "prune", lambda: prune(pruning, settings, dry_run=dry_run)))
    if "merge" in phases and not tally.is_learning:
        tally.took(
            await attempt(tally, "merge", lambda: merge_duplicates(merging, settings, language, dry_run=dry_run))
        )
    if "score" in phases and not dry_run:
        changed = await attempt(tally, "entities", lambda: weigh_entities(run, settings.use))
        tally.counts[RunCount.ENTITIES_WEIGHED] += changed or 0
