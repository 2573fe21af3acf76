"""Maintenance: the phases of a night, each also a flow of its own, and upkeep."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Literal

from slowwave.common.run_counts import RunCount
from slowwave.common.settings import (
    CommunitySettings,
    ConsolidateSettings,
    DecaySettings,
    RetentionSettings,
    StewardSettings,
)
from slowwave.facts.deduplication.pairs_for_a_model import Mode
from tasks.entities.derived import refresh_profiles
from tasks.entities.retirement import clear_stale_flags
from tasks.ingest.artifacts import link_artifacts
from tasks.nightly.eviction import archive_facts, archive_orphans, cap_beliefs, cap_entities
from tasks.nightly.fact_reconciliation import reconcile
from tasks.nightly.groups import refresh_communities, refreshed_aspects
from tasks.nightly.overrides import withdraw_overtaken
from tasks.nightly.scoring_and_pruning import (
    count_usage,
    fade_links,
    is_learning,
    merge_duplicates,
    prune,
    score,
    weigh_entities,
)
from tasks.orchestration.phases import asking, attempt, conclude, finish, gated, tend_all
from tasks.orchestration.tallies import Tally, publish_summary
from tasks.runtime.engine import flow
from tasks.runtime.runs import existing_run, recorded
from tasks.runtime.writing import under_approval

# Consolidate: facts that say the same become one, versions of documents are linked.


@flow("consolidate", takes_turns=True)
async def consolidate(
    namespace: str = "default",
    store: str = "./memory",
    since: datetime | None = None,
    scope: str | None = None,
    mode: Mode = "auto",
    settings: ConsolidateSettings = ConsolidateSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Give each concept one fact: what says the same is merged, what something newer updates or corrects ends.

    Without a model only what guards allow is merged; the rest stays as it is and waits for a run with a model. On an
    unchanged store a second run changes nothing and asks nothing.

    Args:
        since: Also look again at what was learned since then; empty for what was never looked at.
        scope: Only this project or artifact; empty for all. Facts of two scopes are never compared.
        mode: auto compares pair by pair up to twenty new facts and in clusters beyond; pairwise and cluster force it.
        settings: Who decides, from which likeness, and how much may be spent.
    """
    run = existing_run("consolidate", store, namespace, now, settings.retention)
    tally = Tally(run.id, dry_run=dry_run)
    parameters = {"since": since, "scope": scope, "mode": mode, "settings": settings.model_dump()}
    async with gated(run, tally, settings.gate, dry_run=dry_run) as freeze:
        freeze()
        with recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects) as run:
            merging = under_approval(run, "merge", settings.approval, require=require_approval)
            llm = settings.llm.model_copy(update={"concurrency": settings.cluster_concurrency})
            async with asking(run, tally, llm, "consolidate") as language:
                if not dry_run:
                    withdraw_overtaken(run, "merge")
                found = await reconcile(
                    merging, settings, language, since=since, scope=scope, mode=mode, dry_run=dry_run
                )
                tally.took(found)
                tally.took(link_artifacts(merging, settings, dry_run=dry_run))
            if not dry_run:
                tally.counts[RunCount.FLAGS_CLEARED] += clear_stale_flags(run)
                tally.counts[RunCount.PROFILES_RENEWED] += refresh_profiles(run)
            finish(run, tally)
    return await conclude(run, tally)


# Steward: what is used rises, what repeats is merged, what nobody ever needed fades.


Sweep = Literal["score", "prune", "merge"]
SWEEPS: tuple[Sweep, ...] = ("score", "prune", "merge")
LEARNING = (
    "Still learning how the memory is used, until recalls have returned as many facts as [steward] "
    "learning_events says (50): facts are scored, and none is archived or merged."
)


@flow("steward", takes_turns=True)
async def steward(
    namespace: str = "default",
    store: str = "./memory",
    phases: tuple[Sweep, ...] = SWEEPS,
    settings: StewardSettings = StewardSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Score facts by how they are used, let fade what nobody ever recalled, and merge what repeats.

    One recall saves a fact for ever. What fades is archived, not deleted: `slowwave archived` lists it and
    `slowwave restore` brings it back. Until fifty recalls were logged facts are scored only.

    Args:
        phases: What to do: score first, then prune, then merge. Facts fade by what they score now, written or not.
        settings: From which score facts fade and from which likeness they are merged, and what it may cost.
    """
    run = existing_run("steward", store, namespace, now, settings.retention)
    tally = Tally(run.id, dry_run=dry_run, idle="Nothing to do: no score changed, no fact is unused, none repeats.")
    parameters = {"phases": phases, "settings": settings.model_dump()}
    async with gated(run, tally, settings.gate, dry_run=dry_run) as freeze:
        freeze(settings)
        record = recorded(run, tally, parameters, dry_run=dry_run, last=partial(refreshed_aspects, is_nightly=True))
        with record as run:
            async with asking(run, tally, settings.llm, "consolidate") as language:
                pruning = under_approval(run, "prune", settings.approval, require=require_approval, risks=False)
                merging = under_approval(run, "merge", settings.approval, require=require_approval)
                if not dry_run:
                    tally.took(count_usage(run))
                    if "score" in phases:
                        tally.took(score(run, settings))  # nothing else without it
                learns = is_learning(run, settings)
                tally.remarks += [LEARNING] if learns else []
                if "prune" in phases and not learns:
                    tally.took(await attempt(tally, "prune", partial(prune, pruning, settings, dry_run=dry_run)))
                if "merge" in phases and not learns:
                    merge = partial(merge_duplicates, merging, settings, language, dry_run=dry_run)
                    tally.took(await attempt(tally, "merge", merge))
                if "score" in phases and not dry_run:
                    changed = await attempt(tally, "entities", partial(weigh_entities, run, settings.use))
                    tally.counts[RunCount.ENTITIES_WEIGHED] += changed or 0
            finish(run, tally)
    return await conclude(run, tally)


# Decay: what has been out of use long enough moves out of the way.


EVICTIONS = {"facts": archive_facts, "orphans": archive_orphans, "beliefs": cap_beliefs}


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

    Nothing is lost: questions about the past still see the archive, and `slowwave restore` brings facts back.

    Args:
        settings: After how long, and how many entities and pending beliefs are kept.
    """
    run = existing_run("decay", store, namespace, now, settings.retention)
    tally = Tally(run.id, dry_run=dry_run, idle="Nothing to do: nothing has been out of use for so long.")
    async with gated(run, tally, settings.gate, dry_run=dry_run) as freeze:
        parameters = {"settings": settings.model_dump()}
        with recorded(run, tally, parameters, dry_run=dry_run, last=refreshed_aspects) as run:
            moving = under_approval(run, "decay", settings.approval, require=require_approval, risks=False)
            tally.took(await attempt(tally, "cap", partial(cap_entities, moving, settings, dry_run=dry_run)))
            freeze()  # what lies beyond the cap was to go: it is no loss
            for what, evict in EVICTIONS.items():
                tally.took(await attempt(tally, what, partial(evict, moving, settings, dry_run=dry_run)))
            if not dry_run:
                tally.took(count_usage(run))
                faded = await attempt(tally, "links", partial(fade_links, run, settings))
                tally.counts[RunCount.LINKS_FADED] += faded or 0
            finish(run, tally)
    return await conclude(run, tally)


# Communities: what belongs together is found, named and summarised.


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
        settings: How they are found, who summarises them, and how much may be spent.
    """
    run = existing_run("communities", store, namespace, now, settings.retention)
    tally = Tally(run.id, dry_run=dry_run, idle="Nothing new: every community is as it was.")
    async with gated(run, tally, settings.gate, dry_run=dry_run) as freeze:
        freeze()
        with recorded(run, tally, {"settings": settings.model_dump()}, dry_run=dry_run) as run:
            llm = settings.llm.model_copy(update={"concurrency": settings.concurrency})
            async with asking(run, tally, llm, "summarize") as language:
                tally.took(await refresh_communities(run, settings, language, dry_run=dry_run))
            if not tally.counts[RunCount.COMMUNITIES]:
                tally.remarks.append("No communities: no two entities are related yet.")
            finish(run, tally)
    return await conclude(run, tally)


# Upkeep: compaction, indexes, and older versions beyond the days of undo.


@flow("upkeep", takes_turns=True)
async def upkeep(
    namespace: str = "default",
    store: str = "./memory",
    settings: RetentionSettings = RetentionSettings(),  # noqa: B008 (frozen)
) -> dict[str, Any]:
    """Compact every table, make the indexes it has grown into, and drop versions older than the days of undo.

    No row changes. Undo and questions about earlier states end where the versions end.

    Args:
        settings: For how many days a run can be undone.
    """
    run = existing_run("upkeep", store, namespace, None, settings)
    tally = Tally(run.id, remarks=["No row changed."])
    with recorded(run, tally, {"settings": settings.model_dump()}) as run:
        report = tend_all(run)
        tally.counts[RunCount.TABLES_COMPACTED] += len(report.compacted)
        tally.counts[RunCount.INDEXES_MADE] += len(report.indexed)
    await publish_summary(run, tally)
    return tally.summary()
