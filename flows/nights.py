"""Nights: all phases one after the other, in one memory or many, and what was said long ago before one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import date, datetime
from functools import partial
from typing import Any, Literal

from inference.secrets import without_secrets
from slowwave.common.errors import RecallFell
from slowwave.common.settings import BackfillSettings, ExtractSettings, FleetSettings, SleepSettings
from slowwave.reading.ingestion.windows import Period, moment
from storage.connection import namespaces_like
from tasks.ingest.application import reading_of_night
from tasks.ingest.reading import look_at
from tasks.nightly.groups import refreshed_aspects
from tasks.orchestration.backfilling import (
    BackfillRequest,
    BackfillTally,
    backfill_run,
    check,
    estimate,
    fill_windows,
    windows_left,
)
from tasks.orchestration.phases import NightTally, attempt, check_interrupted, close_night
from tasks.orchestration.tallies import part_row, publish_summary
from tasks.runtime.engine import flow, task, turn_of
from tasks.runtime.retrying import ONCE
from tasks.runtime.run_pages import show_table
from tasks.runtime.runs import Run, existing_run, phases_of, recorded

from .ingest import ingest
from .maintenance import communities, consolidate, decay, steward, upkeep

# Sleep: a phase after which recall got worse is taken back.


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
    taken back and the night goes on without it. So is a night that was interrupted, if recall is worse since.

    Args:
        phases: What to do, in this order.
        settings: Those of each phase; gate and retention hold for all of them.
    """
    run = existing_run("sleep", store, namespace, now, settings.retention)
    tally = NightTally(run.id, dry_run=dry_run)
    parameters = {"phases": phases, "settings": settings.model_dump()}
    if (reading := reading_of_night(run, settings)) is not None and not dry_run:
        read = partial(ingest, [], namespace, store, settings=reading, now=now, require_approval=require_approval)
        tally.phase("ingest", await attempt(tally, "ingest", read))
    with recorded(run, tally, parameters, dry_run=dry_run) as run:
        if not dry_run and (verdict := check_interrupted(run, settings)) is not None:
            tally.remarks.append(f"The interrupted night: {verdict.reason()}")
        with phases_of(run):
            for phase in (phase for phase in phases if not (dry_run and phase == "upkeep")):
                try:
                    work = _work(run, phase, settings.after(tally.usage), require_approval, dry_run)
                    tally.phase(phase, await attempt(tally, phase, work))
                except RecallFell as fell:
                    tally.fell(phase, fell)
    return await close_night(run, tally)


def _work(
    run: Run, phase: str, settings: SleepSettings, require_approval: bool, dry_run: bool
) -> Callable[[], Awaitable[dict[str, Any]]]:
    """The flow of a phase with what it takes: its own settings, the night's gate and retention."""
    place = {"namespace": run.namespace, "store": run.store}
    if phase == "upkeep":
        return partial(upkeep, **place, settings=settings.retention)
    own = getattr(settings, phase).model_copy(update={"gate": settings.gate, "retention": settings.retention})
    how: dict[str, Any] = {**place, "settings": own, "now": run.now, "dry_run": dry_run}
    if phase == "communities":
        return partial(communities, **how)
    works: Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]
    works = {"consolidate": consolidate, "steward": steward, "decay": decay}
    return partial(works[phase], **how, require_approval=require_approval)


# Fleet: one night for each of many namespaces.


@flow("fleet")
async def fleet(
    namespace: str = "*",
    store: str = "./memory",
    phases: tuple[Phase, ...] = NIGHT,
    settings: FleetSettings = FleetSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """One night for each namespace that a pattern means, side by side on this machine.

    Namespaces share nothing, so that as many nights go on at once as there is room for. One that fails does not keep
    the others awake; the run says so at its end.

    Args:
        namespace: Which memories inside the store: a name, or a pattern such as tenant-*.
        phases: What to do in each, in this order.
        settings: How many at once, and what each night can be told.
    """
    names = namespaces_like(store, namespace)
    arguments = {"store": store, "phases": phases, "settings": settings.sleep, "now": now, "dry_run": dry_run}
    rows = await spread(night_of, names, settings.width, **arguments)
    states, usd = [row["state"] for row in rows], sum(row["usd"] for row in rows)
    text = f"{states.count('completed')} of {len(names)} namespaces completed; {usd:.4f} dollars"
    await show_table(rows, "fleet", text)
    wrong = {*states} - {"completed", "stopped"}
    return {
        "state": "incomplete" if wrong else "stopped" if "stopped" in states else "completed",
        "namespaces": rows,
        "llm": {"calls": sum(row["calls"] for row in rows), "usd": usd},
    }


@task("night of a namespace", about="{namespace}", tries=ONCE, longest_s=None)
def night_of(
    namespace: str, store: str, phases: tuple[Phase, ...], settings: SleepSettings, now: datetime | None, dry_run: bool
) -> dict[str, Any]:
    """A night of its own."""
    return asyncio.run(sleep(namespace, store, phases=phases, settings=settings, now=now, dry_run=dry_run))


async def spread(
    work: Callable[..., dict[str, Any]], names: Sequence[str], width: int, **arguments: Any
) -> list[dict[str, Any]]:
    """A row for the work of each namespace, side by side; one that fails does not keep the others from theirs."""
    loop = asyncio.get_running_loop()

    async def ended(name: str) -> dict[str, Any]:
        called = partial(work, namespace=name, **arguments)
        row = {"namespace": name, "run": "", "state": "failed", "calls": 0, "usd": 0.0, "changed": "", "error": ""}
        try:
            row |= part_row(await loop.run_in_executor(pool, copy_context().run, called))
        except Exception as error:  # of any kind: it is reported, and the others go on
            row["error"] = without_secrets(f"{type(error).__name__}: {error}")
        return row

    with ThreadPoolExecutor(width) as pool:
        return await asyncio.gather(*map(ended, names))


# Backfill: what was said long ago is read window by window, then one night puts it in order.


@flow("backfill", tries=ONCE)
async def backfill(
    start: datetime | date | None = None,
    end: datetime | date | None = None,
    namespace: str = "default",
    store: str = "./memory",
    paths: tuple[str, ...] = (),
    window: Period = "week",
    limit: int | None = None,
    force: bool = False,
    settings: BackfillSettings = BackfillSettings(),  # noqa: B008 (frozen)
    now: datetime | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Extract what was said long ago, one run of `ingest` per window of time, then put it in order in one night.

    The same call again goes on with what waits; what is done costs nothing. Communities are left alone until the night.
    What contradicts newer knowledge is kept as history and overturns nothing.

    Args:
        start: Only messages said from this day or time on; empty for the first.
        end: Only messages said before this day or time; empty for the last.
        paths: Files or folders whose messages are stored first; empty for what is stored already.
        window: How much time one run of `ingest` is about, by the calendar in UTC.
        limit: Messages at most, the oldest first; 0 for none, empty for all.
        force: Also messages that were extracted before, or skipped for what they tell a model to do.
        settings: How windows are read, how the night is spent, and what all of it may cost.
        dry_run: Estimate messages, calls, tokens and dollars; nothing is written and no model is asked.
    """
    request = BackfillRequest(moment(start), moment(end), tuple(paths), window, limit, force, settings)
    check(request)
    found = look_at(paths, "auto", settings.ingest)
    run = backfill_run(store, namespace, request, now)
    if dry_run:
        estimated = estimate(run, request, found)
        await show_table(estimated["windows"], "backfill-windows", "Window by window")
        return estimated
    tally = BackfillTally(run.id, namespace=run.namespace)
    with recorded(run, tally, request.parameters(), last=refreshed_aspects), phases_of(run):
        if request.paths:
            storing = request.storing_settings()
            place = (run.namespace, run.store)
            tally.child(
                "store", await ingest(list(paths), *place, settings=storing, embedder=run.embedder, now=run.now)
            )
        if await fill_windows(run, request, windows_left(run, request), tally, ingest):
            nothing = settings.sleep.ingest.model_copy(update={"extract": ExtractSettings(enabled=False)})
            night = settings.sleep.within(settings.less(tally.usage)).model_copy(update={"ingest": nothing})
            try:
                async with turn_of(run.store, run.namespace):
                    tally.child("sleep", await sleep(run.namespace, run.store, settings=night, now=run.now))
            except RecallFell as fell:
                tally.fell(fell)
    await publish_summary(run, tally)
    summary = tally.summary()
    await show_table(summary["windows"], "backfill-windows", "Window by window")
    return summary
