"""Undo for the command line, the page and the flow; in the Prefect UI undo and restore show what they did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from recall.history import run_to_undo
from recall.overview import UNDID
from slowwave.errors import UnusableInput
from storage import undo as undoing
from storage.transactions import Transaction
from tasks.entities.retirement import Restored
from tasks.runtime.engine import is_inline, task
from tasks.runtime.run_pages import markdown_table, plain_text
from tasks.runtime.runs import Run, existing_store, finished_row

SHOWN = 100


def take_back(
    run: Run, name: str, *, cascade: bool, dry_run: bool, only: Collection[str] | None = None
) -> undoing.UndoReport:
    """Take back, as this run, which is listed and can be taken back, the run of this id or whose id begins so.

    See `storage.undo.undo`.
    """
    store = existing_store(run)
    meant = run_to_undo(store.snapshot(), name)

    def record(tx: Transaction, report: undoing.UndoReport) -> None:
        asked = {"run": meant, "cascade": cascade}
        tx.upsert("runs", finished_row(run, asked, {UNDID: list(report.runs)}))

    return undoing.undo(store, meant, run.id, run.now, cascade=cascade, dry_run=dry_run, only=only, record=record)


@task("take a run back")
def undo_run(run: Run, name: str, *, cascade: bool, dry_run: bool) -> undoing.UndoReport:
    """Take back the run of this id, or whose id begins so; raises where later runs rest on it, unless `cascade`."""
    if not name:
        raise UnusableInput("No run is named.", "Give the id of a run: `slowwave runs` and the pages of runs show it.")
    return take_back(run, name, cascade=cascade, dry_run=dry_run)


async def publish_undone(run: Run, report: undoing.UndoReport, *, dry_run: bool) -> dict[str, Any]:
    """Show what was taken back on the run's page; returns the same as plain data."""
    verb = "Would take back" if dry_run else "Took back"
    lines = [f"# {verb} {len(report.runs)} run{'s' if len(report.runs) != 1 else ''}", ""]
    lines += [*(f"- {plain_text(each)}" for each in report.runs), ""]
    lines += markdown_table(("table", "rows put back", "rows removed"), report.rows)
    await _publish("undo-summary", lines, "What was taken back")
    return {**asdict(report), "run": run.id, "dry_run": dry_run}


async def publish_restored(run: Run, restored: Restored, *, dry_run: bool) -> dict[str, Any]:
    """Show what came back on the run's page; returns the same as plain data, with the keys of `slowwave restore`."""
    verb = "Would restore" if dry_run else "Restored"
    lines = [f"# {verb} {len(restored.facts)} facts", ""]
    lines += markdown_table(("fact", "id"), _shown([(text, fact) for fact, text in restored.facts]))
    if restored.refused:
        lines += ["## Not restored", ""]
        lines += markdown_table(("fact", "reason"), _shown([(text, reason) for _, text, reason in restored.refused]))
    if restored.facts and not dry_run:
        lines += [f"Take it back: `slowwave undo {run.id} --store {run.store} --namespace {run.namespace}`."]
    await _publish("restore-summary", lines, "Which facts came back")
    return {
        "run": None if dry_run else run.id,
        "dry_run": dry_run,
        "restored": [{"id": fact, "statement": text} for fact, text in restored.facts],
        "refused": [{"id": fact, "statement": text, "reason": reason} for fact, text, reason in restored.refused],
    }


def _shown(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    more = [(f"… and {len(rows) - SHOWN} more", "")] if len(rows) > SHOWN else []
    return [*rows[:SHOWN], *more]


async def _publish(key: str, lines: Sequence[str], description: str) -> None:
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact

    await acreate_markdown_artifact("\n".join(lines), key=key, description=description)
