"""Sleep: the night as a whole, phase by phase; a phase after which recall got worse is taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal

from slowwave.common.errors import RecallFell
from slowwave.common.settings import SleepSettings
from tasks.ingest.application import reading_of_night
from tasks.orchestration.phases import NightTally, attempt, begin_night, close_night, weighed
from tasks.runtime.engine import flow
from tasks.runtime.run_pages import collecting_decisions
from tasks.runtime.runs import Run, existing_run, phases_of, recorded

from .communities import communities
from .consolidate import consolidate
from .decay import decay
from .ingest import ingest
from .steward import steward
from .upkeep import upkeep

Phase = Literal["consolidate", "steward", "decay", "communities", "upkeep"]
NIGHT: tuple[Phase, ...] = ("consolidate", "steward", "decay", "communities", "upkeep")


@flow("sleep", takes_turns=True)
async def sleep(
    namespace: str = "default",
    store: str = "./memory",
    phases: tuple[Phase, ...] = NIGHT,
    settings: SleepSettings = SleepSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    require_approval: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Consolidate, score and prune, let fade, name what belongs together, tidy up: one night, one summary.

    Where a model and a budget are set, it reads before that what waits, and what was kept as quotations, as a run of
    its own.

    Each phase is watched: questions are frozen before it and asked after it, and where recall got worse the phase is
    taken back and the night goes on without it. A night that was interrupted goes on with the phases that are left.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        phases: What to do, in this order.
        settings: Those of each phase; gate and retention hold for all of them.
        now: The time that counts as now; empty for the real time.
        require_approval: What the phases would change waits for a person; see the flow `review`.
        dry_run: Show what each phase would do; nothing is changed and no model is asked.
    """
    run = existing_run("sleep", store, namespace, now, settings.retention)
    tally = NightTally(run.id, dry_run)
    parameters = {"phases": phases, "settings": settings.model_dump()}
    if (reading := reading_of_night(run, settings)) is not None and not dry_run:
        read = partial(ingest, [], namespace, store, settings=reading, now=now, require_approval=require_approval)
        tally.phase("ingest", await attempt(tally, "ingest", read))
    with recorded(run, tally, parameters, dry_run=dry_run) as run:
        night = begin_night(run, phases, settings, dry_run=dry_run)
        tally.resumed(night)
        with weighed(run, tally), phases_of(run), collecting_decisions(tally.decided):
            for phase in night.left:
                try:
                    afforded = settings.after(tally.usage)
                    work = _work(run, phase, afforded, require_approval, dry_run)
                    tally.phase(phase, await attempt(tally, phase, work))
                except RecallFell as fell:
                    tally.fell(phase, fell)
    return await close_night(run, tally)


def _work(
    run: Run, phase: str, settings: SleepSettings, require_approval: bool, dry_run: bool
) -> Callable[[], Awaitable[dict[str, Any]]]:
    """The flow of a phase with what it takes: its own settings, the night's gate and retention."""
    place: dict[str, Any] = {"namespace": run.namespace, "store": run.store}
    when: dict[str, Any] = {"now": run.now, "dry_run": dry_run}
    arguments: dict[str, Any] = {**when, "require_approval": require_approval}
    shared = {"gate": settings.gate, "retention": settings.retention}
    works: Mapping[str, Callable[[], Awaitable[dict[str, Any]]]] = {
        "consolidate": lambda: consolidate(
            **place, settings=settings.consolidate.model_copy(update=shared), **arguments
        ),
        "steward": lambda: steward(**place, settings=settings.steward.model_copy(update=shared), **arguments),
        "decay": lambda: decay(**place, settings=settings.decay.model_copy(update=shared), **arguments),
        "communities": lambda: communities(**place, settings=settings.communities.model_copy(update=shared), **when),
        "upkeep": lambda: upkeep(**place, settings=settings.retention),
    }
    return works[phase]
