"""Reporting: the health of a memory as it is found, shown, and turned into proposals for splits (S0-16, S0-17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recall.history import run_to_undo
from recall.overview import UNDID
from recall.proposals import list_proposals
from recall.report import PENDING, consolidation_report
from slowwave.common.errors import Damaged, SlowwaveError, UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import ReportSettings
from slowwave.review.report import counts, sections, verdict
from storage import doctor
from storage import undo as undoing
from storage.store import Store
from storage.transactions import Transaction
from tasks.entities.retirement import Restored
from tasks.runtime.engine import task
from tasks.runtime.retrying import WHOLE_MEMORY
from tasks.runtime.run_pages import markdown_table, plain_text, show_page, show_table
from tasks.runtime.runs import Run, as_run, existing_store, finished_row
from tasks.runtime.writing import proposed

from .review import propose_split

SHOWN = 50
"""Rows of each section on the page of a run."""
MOST = 50
"""Splits that one run proposes: more nobody would read."""


@dataclass(frozen=True, slots=True)
class ProposedSplits:
    """Ids of the proposals that were left, and why none was left for some entities."""

    ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@task("consolidation report", tags=[WHOLE_MEMORY])
def look_over(run: Run, settings: ReportSettings, stale_days: float | None = None) -> dict[str, Any]:
    """The report of the newest state; nothing is written, and no read is logged (T27)."""
    return consolidation_report(existing_store(run).snapshot(), settings, run.now, stale_days)


@task("propose splits")
def propose_splits(run: Run, settings: ReportSettings, found: Mapping[str, Any]) -> ProposedSplits:
    """Leave a proposal for each split candidate, and for what is approaching but clearly of several topics (S0-16).

    At most fifty at a time, the fullest first; none where a split waits or a person rejected it.
    """
    fullest = [(each["entity_id"], each["name"]) for each in found["split_candidates"]]
    fullest += [(each["entity_id"], each["entity_name"]) for each in found["large_entities"] if each["is_distinct"]]
    waiting = {each.subject_id for each in list_proposals(existing_store(run).snapshot(), action="split")}
    wanted = [(entity, name) for entity, name in fullest if entity not in waiting]
    if not wanted:
        return ProposedSplits()
    parameters = {"settings": settings.model_dump()}
    left = as_run(
        run,
        parameters,
        lambda: _propose(run, settings, wanted[:MOST]),
        lambda left: {RunCount.PROPOSALS: len(left.ids)},
    )
    more = f"{len(wanted) - MOST} more could be proposed: run the report again."
    return left if len(wanted) <= MOST else replace(left, notes=(*left.notes, more))


def _propose(run: Run, settings: ReportSettings, wanted: list[tuple[str, str]]) -> ProposedSplits:
    notes = []
    for entity, name in wanted:
        try:
            propose_split(run, entity, settings.split)
        except SlowwaveError as error:  # the others are proposed all the same
            notes.append(f"{name}: {error.message}")
    return ProposedSplits(proposed(run), tuple(notes))


def with_waiting(run: Run, found: dict[str, Any]) -> dict[str, Any]:
    """The report with the proposals that wait now counted."""
    waiting = existing_store(run).snapshot().count("proposals", PENDING)
    return {**found, "summary": {**found["summary"], "pending_proposals_count": waiting}}


async def publish_report(run: Run, report: Mapping[str, Any]) -> None:
    """Show the report on the run's page, as a Markdown artifact."""
    place = f"--store {run.store} --namespace {run.namespace}"
    left = len(report["proposals"])
    outcome = (
        f"{left} splits proposed; take them back: `slowwave undo {run.id} {place}`." if left else "Nothing was changed."
    )
    lines = [report_markdown(report, place), f"{outcome} No model was asked: 0 calls, 0 dollars."]
    await show_page(lines, "consolidation-report", "What wants a person's eye")


def report_markdown(report: Mapping[str, Any], place: str = "") -> str:
    """The report as Markdown; stored text in it is text. `place`: the options that all its commands need."""
    lines = [
        f"# Consolidation report, {report['generated_at'][:10]}",
        "",
        *([plain_text(verdict(report)), ""] if verdict(report) else []),
        *markdown_table(("what", "count"), counts(report)),
    ]
    for section, rows, more in sections(report, SHOWN):
        lines += [f"## {plain_text(section.title)}", "", *markdown_table(section.columns, rows)]
        lines += [f"… and {more} more.", ""] if more else []
        lines += [f"- {plain_text(sentence)}" for sentence in section.following] + [""]
    lines += [f"- {plain_text(note)}" for note in report.get("notes", ())]
    return "\n".join([*lines, *([f"All commands with `{place}`.", ""] if place else [])])


# Examining: what the doctor finds in a namespace, shown on the run's page.


@task("examine the store", tags=[WHOLE_MEMORY])
def examine_store(run: Run, *, repair: bool) -> dict[str, Any]:
    """Every defect of the newest state (`findings`), after what can be was `mended` if asked for, in one commit."""
    mended = doctor.mend_head(run.store, run.namespace) if repair else ()
    store = Store.attach(run.store, run.namespace, retention=run.retention)
    mended += doctor.repair(store, run.id, run.now) if repair else ()
    lists = {"mended": [*map(asdict, mended)], "findings": [*map(asdict, doctor.examine(store))]}
    return {"run": run.id, "state": "completed", **lists}


async def publish_findings(run: Run, found: Mapping[str, Any]) -> None:
    """Show the counts and all defects on the run's page; raises `Damaged` if something is wrong."""
    rows = [{"state": "mended", **each} for each in found["mended"]]
    rows += [{"state": "found", **each} for each in found["findings"]]
    kinds = sorted(Counter((row["state"], row["check"], row["table"]) for row in rows).items())
    counts = Counter(each["check"] for each in found["findings"])
    defects = f"{len(found['findings'])} defects: {', '.join(f'{kind} ({n})' for kind, n in sorted(counts.items()))}."
    mended = f" {len(found['mended'])} defects were mended." if found["mended"] else ""
    sentence, place = (defects if counts else "Healthy.") + mended, f"--store {run.store} --namespace {run.namespace}"
    lines = [f"# {run.id}", "", f"Store `{run.store}`, namespace `{run.namespace}`. {sentence}", ""]
    lines += markdown_table(("state", "check", "table", "count"), [(*kind, n) for kind, n in kinds])
    await show_page(lines, "doctor-summary", "How the namespace is")
    await show_table(rows, "doctor-findings", "Every defect")
    if counts:
        raise Damaged(sentence, f"Look with `slowwave doctor {place}`, mend with --repair.")


# Undo and restore: what they did, on the page of their run.


SHOWN_FACTS = 100


def take_back(
    run: Run, name: str, *, cascade: bool, dry_run: bool, only: Collection[str] | None = None
) -> undoing.UndoReport:
    """Take back, as this run, the run of this id or whose id begins so (`storage.undo.undo`)."""
    store = existing_store(run)
    meant = run_to_undo(store.snapshot(), name)

    def record(tx: Transaction, report: undoing.UndoReport) -> None:
        parameters = {"run": meant, "cascade": cascade}
        tx.upsert("runs", finished_row(run, parameters, {UNDID: list(report.runs)}))

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
    await show_page(lines, "undo-summary", "What was taken back")
    return {**asdict(report), "run": run.id, "dry_run": dry_run}


async def publish_restored(run: Run, restored: Restored, *, dry_run: bool) -> dict[str, Any]:
    """Show what came back on the run's page; returns the same as plain data."""
    verb = "Would restore" if dry_run else "Restored"
    lines = [f"# {verb} {len(restored.facts)} facts", ""]
    lines += markdown_table(("fact", "id"), _shown([(text, fact) for fact, text in restored.facts]))
    if restored.refused:
        lines += ["## Not restored", ""]
        lines += markdown_table(("fact", "reason"), _shown([(text, reason) for _, text, reason in restored.refused]))
    if restored.facts and not dry_run:
        lines += [f"Take it back: `slowwave undo {run.id} --store {run.store} --namespace {run.namespace}`."]
    await show_page(lines, "restore-summary", "Which facts came back")
    return restored_document(run, restored, dry_run)


def restored_document(run: Run, restored: Restored, dry_run: bool) -> dict[str, Any]:
    """The contract of `restore --json`."""
    return {
        "run": None if dry_run else run.id,
        "dry_run": dry_run,
        "restored": [{"id": fact, "statement": text} for fact, text in restored.facts],
        "refused": [{"id": fact, "statement": text, "reason": reason} for fact, text, reason in restored.refused],
    }


def _shown(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    more = [(f"… and {len(rows) - SHOWN_FACTS} more", "")] if len(rows) > SHOWN_FACTS else []
    return [*rows[:SHOWN_FACTS], *more]
