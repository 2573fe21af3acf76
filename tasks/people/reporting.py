"""Reporting: the health of a memory as it is found, shown, and turned into proposals for splits (S0-16, S0-17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from recall.proposals import list_proposals
from recall.report import PENDING, consolidation_report
from slowwave.errors import Damaged, SlowwaveError
from slowwave.lifecycle.run_counts import RunCount
from slowwave.review.report_sections import counts, sections, verdict
from slowwave.settings import ReportSettings
from storage import doctor
from storage.doctor import Defect
from storage.store import Store
from tasks.runtime.engine import is_inline, task
from tasks.runtime.retrying import WHOLE_MEMORY
from tasks.runtime.run_pages import markdown_table, plain_cells, plain_text
from tasks.runtime.runs import Run, as_run, existing_store
from tasks.runtime.writing import proposed

from .splitting import propose_split

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

    At most fifty at a time, the fullest first. Where a split waits already none is added, and what a person rejected is
    not proposed again. A run without anything to propose leaves no trace.
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
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact

    place = f"--store {run.store} --namespace {run.namespace}"
    left = len(report["proposals"])
    outcome = (
        f"{left} splits proposed; take them back: `slowwave undo {run.id} {place}`." if left else "Nothing was changed."
    )
    await acreate_markdown_artifact(
        f"{report_markdown(report, place)}\n{outcome} No model was asked: 0 calls, 0 dollars.",
        key="consolidation-report",
        description="What wants a person's eye",
    )


def report_markdown(report: Mapping[str, Any], place: str = "", limit: int | None = SHOWN) -> str:
    """The report as Markdown; stored text in it is text. `place`: the options that all its commands need."""
    lines = [
        f"# Consolidation report, {report['generated_at'][:10]}",
        "",
        *([plain_text(verdict(report)), ""] if verdict(report) else []),
        *markdown_table(("what", "count"), counts(report)),
    ]
    for section in sections(report, limit):
        lines += [f"## {plain_text(section.title)}", "", *markdown_table(section.columns, section.rows)]
        more = section.count - len(section.rows)
        lines += [f"… and {more} more.", ""] if more else []
        lines += [f"- {plain_text(sentence)}" for sentence in section.following] + [""]
    lines += [f"- {plain_text(note)}" for note in report.get("notes", ())]
    return "\n".join([*lines, *([f"All commands with `{place}`.", ""] if place else [])])


# Examining: what the doctor finds in a namespace, shown on the run's page.


@dataclass(frozen=True, slots=True)
class Examined:
    """Mended defects, and those that are left."""

    run: str
    mended: tuple[Defect, ...]
    left: tuple[Defect, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        lists = {"mended": [asdict(each) for each in self.mended], "findings": [asdict(each) for each in self.left]}
        return {"run": self.run, "state": "completed", **lists}

    def sentence(self) -> str:
        """How the namespace is."""
        mended = f" {len(self.mended)} defects were mended." if self.mended else ""
        if not self.left:
            return f"Healthy.{mended}"
        kinds = Counter(each.check for each in self.left)
        return f"{len(self.left)} defects: {', '.join(f'{kind} ({n})' for kind, n in sorted(kinds.items()))}.{mended}"

    def enforce(self, run: Run) -> None:
        """Raise `Damaged` if something is wrong."""
        if self.left:
            place = f"--store {run.store} --namespace {run.namespace}"
            raise Damaged(self.sentence(), f"Look with `slowwave doctor {place}`, mend with --repair.")


@task("examine the store", tags=[WHOLE_MEMORY])
def examine_store(run: Run, *, repair: bool) -> Examined:
    """Every defect of the newest state, after what can be mended was mended if asked for, as one commit of this run.

    The state is not looked at before it is examined, so that a damaged one can be.
    """
    mended = doctor.mend_head(run.store, run.namespace) if repair else ()
    store = Store.attach(run.store, run.namespace, retention=run.retention)
    mended += doctor.repair(store, run.id, run.now) if repair else ()
    return Examined(run.id, mended, doctor.examine(store))


async def publish_findings(run: Run, examined: Examined) -> None:
    """Show them on the run's page: a Markdown artifact with the counts, and a table of all defects."""
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact

    rows = [{"state": "mended", **asdict(each)} for each in examined.mended]
    rows += [{"state": "found", **asdict(each)} for each in examined.left]
    kinds = Counter((row["state"], row["check"], row["table"]) for row in rows)
    lines = [
        f"# {run.id}",
        "",
        f"Store `{run.store}`, namespace `{run.namespace}`. {examined.sentence()}",
        "",
        *(markdown_table(("state", "check", "table", "count"), [(*kind, n) for kind, n in sorted(kinds.items())])),
    ]
    await acreate_markdown_artifact("\n".join(lines), key="doctor-summary", description="How the namespace is")
    if rows:
        await acreate_table_artifact(plain_cells(rows), key="doctor-findings", description="Every defect")
