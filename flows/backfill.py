"""Backfill: what was said long ago is read window by window, then one night puts it in order."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from slowwave.common.errors import RecallFell
from slowwave.common.settings import BackfillSettings, ExtractSettings
from slowwave.reading.ingestion.windows import Period, moment
from tasks.ingest.reading import look_at
from tasks.nightly.aspects import refreshed_aspects
from tasks.orchestration.backfilling import (
    BackfillRequest,
    BackfillTally,
    Stage,
    backfill_run,
    check,
    estimate,
    fill_windows,
    night_line,
    windows_left,
)
from tasks.orchestration.tallies import publish_summary
from tasks.runtime.engine import flow, tell, turn_of
from tasks.runtime.run_pages import show_table
from tasks.runtime.runs import Run, phases_of, recorded

from .ingest import ingest
from .sleep import sleep

STAGES: tuple[Stage, ...] = ("ingest", "sleep")


@flow("backfill")
async def backfill(
    start: datetime | date | None = None,
    end: datetime | date | None = None,
    namespace: str = "default",
    store: str = "./memory",
    paths: tuple[str, ...] = (),
    window: Period = "week",
    limit: int | None = None,
    force: bool = False,
    stages: tuple[Stage, ...] = STAGES,
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
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        paths: Files or folders whose messages are stored first; empty for what is stored already.
        window: How much time one run of `ingest` is about, by the calendar in UTC.
        limit: Messages at most, the oldest first; 0 for none, empty for all.
        force: Also messages that were extracted before, or skipped for what they tell a model to do.
        stages: ingest, sleep, or both.
        settings: How windows are read, how the night is spent, and what all of it may cost.
        now: The time that counts as now; empty for the real time.
        dry_run: Estimate messages, calls, tokens and dollars; nothing is written and no model is asked.
    """
    request = BackfillRequest(moment(start), moment(end), tuple(paths), window, limit, force, tuple(stages), settings)
    check(request)
    found = look_at(paths, "auto", settings.ingest)
    run = backfill_run(store, namespace, request, now)
    if dry_run:
        estimated = estimate(run, request, found)
        await show_table(estimated["windows"], "backfill-windows", "Window by window")
        return estimated
    tally = BackfillTally(run.id, namespace=run.namespace)
    await _fill(run, request, tally)
    summary = tally.summary()
    await show_table(summary["windows"], "backfill-windows", "Window by window")
    return summary


async def _fill(run: Run, request: BackfillRequest, tally: BackfillTally) -> None:
    """One namespace: store, extract window by window, sleep; all of them parts of one run."""
    with recorded(run, tally, request.parameters(), last=refreshed_aspects), phases_of(run):
        if request.paths:
            storing = request.storing_settings()
            paths, place = list(request.paths), (run.namespace, run.store)
            tally.child("store", await ingest(paths, *place, settings=storing, embedder=run.embedder, now=run.now))
        windows = windows_left(run, request) if "ingest" in request.stages else []
        is_whole = await fill_windows(run, request, windows, tally, ingest)
        if "sleep" in request.stages and is_whole:
            await _sleep(run, request, tally)
    await publish_summary(run, tally)


async def _sleep(run: Run, request: BackfillRequest, tally: BackfillTally) -> None:
    night = request.settings.sleep
    nothing = night.ingest.model_copy(update={"extract": ExtractSettings(enabled=False)})
    settings = night.within(request.settings.less(tally.usage)).model_copy(update={"ingest": nothing})
    try:
        async with turn_of(run.store, run.namespace):
            tally.child("sleep", await sleep(run.namespace, run.store, settings=settings, now=run.now))
    except RecallFell as fell:
        tally.fell(fell)
    if tally.night:
        tell(f"The night, {night_line(tally.night)}")
