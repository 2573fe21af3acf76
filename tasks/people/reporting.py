"""What flows of oversight show and ask in the Prefect UI: the report, findings, the form of a review.

Stored text is text on pages and in forms, never Markdown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from recall.history import run_to_undo
from recall.overview import UNDID
from recall.proposals import summary_of
from recall.report import consolidation_report
from slowwave.common.errors import Damaged
from slowwave.common.settings import ReportSettings
from slowwave.review.proposals import Person, ProposalQuestion, ReviewDecision
from slowwave.review.report import counts, sections, verdict
from storage import doctor
from storage import undo as undoing
from storage.store import Store
from storage.transactions import Transaction
from tasks.runtime.engine import is_inline, log, task
from tasks.runtime.retrying import WHOLE_MEMORY
from tasks.runtime.run_pages import markdown_table, plain_text, show_page, show_table
from tasks.runtime.runs import Run, existing_store, finished_row

from .review import Choice, DecidedProposal, waiting

if TYPE_CHECKING:
    from prefect.input import RunInput

# The report: the health of a memory as it is found and shown (S0-16, S0-17).


SHOWN = 50
"""Rows of each section on the page of a run."""


@task("consolidation report", tags=[WHOLE_MEMORY])
def look_over(run: Run, settings: ReportSettings, stale_days: float | None = None) -> dict[str, Any]:
    """The report of the newest state; nothing is written, and no read is logged (T27)."""
    return consolidation_report(existing_store(run).snapshot(), settings, run.now, stale_days)


async def publish_report(run: Run, report: Mapping[str, Any]) -> None:
    """Show the report on the run's page, as a Markdown artifact."""
    place = f"--store {run.store} --namespace {run.namespace}"
    lines = [report_markdown(report, place), "Nothing was changed. No model was asked: 0 calls, 0 dollars."]
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
    """Show all defects on the run's page; raises `Damaged` if something is wrong."""
    rows = [{"state": "mended", **each} for each in found["mended"]]
    rows += [{"state": "found", **each} for each in found["findings"]]
    counts = Counter(each["check"] for each in found["findings"])
    defects = f"{len(found['findings'])} defects: {', '.join(f'{kind} ({n})' for kind, n in sorted(counts.items()))}."
    mended = f" {len(found['mended'])} defects were mended." if found["mended"] else ""
    sentence, place = (defects if counts else "Healthy.") + mended, f"--store {run.store} --namespace {run.namespace}"
    log.info("%s: %s", run.namespace, sentence)
    await show_table(rows, "doctor-findings", f"{run.namespace} in {run.store}: {sentence}")
    if counts:
        raise Damaged(sentence, f"Look with `slowwave doctor {place}`, mend with --repair.")


# Undo, for the command line and the page in the browser.


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


# The form of a review: built from what waits, and read again when it is filled in.


DIFF_LINES = 12
_PAGE = ("review-summary", "What a person decided")


def form_of(questions: Sequence[ProposalQuestion], person: str = "") -> type[RunInput]:
    """The form: a name, a note, and a box with the decision on each proposal."""
    from prefect.input import RunInput  # only where a form is made

    fields: dict[str, Any] = {
        "name": (str, Field(*([person] if person else []), title="Your name", max_length=100, pattern=r"\w",
                            description="It stands in the ledger beside every decision.")),
        "note": (str, Field("", title="Note", max_length=1000, description="Why, for the ledger.")),
    }  # fmt: skip
    fields |= {_field(number): _box(number, each) for number, each in enumerate(questions, 1)}
    return create_model("ReviewForm", __base__=RunInput, **fields).with_initial_data(
        description=_description(questions)
    )


def _field(number: int) -> str:
    return f"proposal_{number:02d}"


def _box(number: int, each: ProposalQuestion) -> tuple[type[BaseModel], Any]:
    """A box of the form, with the decision."""
    title = f"{number}. {each.title}"
    decision = Field("wait", title="Decision", description="wait leaves it for another time.")
    box = create_model(
        f"Proposal{number:02d}",
        __config__=ConfigDict(extra="ignore", title=title),
        decision=(ReviewDecision, decision),
    )
    return box, Field(default_factory=box, title=title)


def _description(questions: Sequence[ProposalQuestion]) -> str:
    """The page above the form, in Markdown; stored text shows as text only."""
    safe = "Nothing is changed unless you say so, and `slowwave undo RUN` takes it back."
    lines = [f"{len(questions)} waiting. {safe}\n"]
    for number, each in enumerate(questions, 1):  # title, risks and reason, what would change
        lead, *diff = each.lines or ("",)
        lines += [f"#### {number}. {plain_text(each.title)}", "", plain_text(lead), ""]
        lines += [*(f"- {plain_text(line)}" for line in diff), ""]
    return "\n".join(lines)


def verdicts_in(questions: Sequence[ProposalQuestion], given: Mapping[str, Any]) -> dict[str, Choice]:
    """The decisions of a form that was filled in, by proposal; what waits has none."""
    boxes = [(each.id, given.get(_field(number)) or {}) for number, each in enumerate(questions, 1)]
    return {row: box["decision"] for row, box in boxes if box.get("decision", "wait") != "wait"}


# Pages of a review: what waits, and what became of it, on the page of the run and as plain data.


def can_ask() -> bool:
    """Whether the run can be suspended: under Prefect, and from a deployment."""
    if is_inline():
        return False
    from prefect import runtime

    return runtime.deployment.id is not None


async def nobody_to_ask(run: Run, questions: Sequence[ProposalQuestion]) -> dict[str, Any]:
    """The end of a run that asks nothing, or that cannot be suspended: without Prefect, or not from a deployment."""
    where = f"slowwave review list --store {run.store} --namespace {run.namespace}"
    note = f"{len(questions)} waiting. Decide in a terminal: {where}" if questions else "Nothing waits."
    log.info("%s: %s", run.namespace, note)
    await show_page([plain_text(f"{note} Nothing was changed, and no model was asked.")], *_PAGE)
    return {"run": run.id, "state": "completed", "waiting": _plain(questions), "decided": [], "note": note}


async def publish_decided(
    run: Run,
    questions: Sequence[ProposalQuestion],
    verdicts: Mapping[str, Choice],
    done: Sequence[DecidedProposal],
    name: str,
) -> dict[str, Any]:
    """Show the results; returns the same as plain data."""
    left = [each for each in questions if each.id not in verdicts]
    rows = [(each.title, each.state, each.outcome) for each in done]
    rows += [(each.title, "waits", "") for each in left]
    place = f"--store {run.store} --namespace {run.namespace}"
    lines = [f"# {plain_text(name)} decided", "", *markdown_table(("proposal", "became", "why"), rows)]
    lines += [f"Take it back: `slowwave undo {run.id} {place}`."] if done else []
    lines += ["", "No model was asked: 0 calls, 0 dollars."]
    await show_page(lines, *_PAGE)
    state = "incomplete" if any(each.state == "stale" for each in done) else "completed"
    decided = [asdict(each) for each in done]
    return {"run": run.id, "state": state, "by": name, "waiting": _plain(left), "decided": decided, "note": ""}


def _plain(questions: Sequence[ProposalQuestion]) -> list[dict[str, Any]]:
    return [{"id": each.id, "action": each.action, "title": each.title, "risky": each.is_risky} for each in questions]


# Prefect executes a flow that was suspended from its first line. So the questions are written down once, as an input of
# the flow run.


KEPT = "review-asked"


async def frozen(run: Run, action: str, limit: int) -> tuple[ProposalQuestion, ...]:
    """What to ask about: what waits now; when the run goes on, what waited when it began."""
    if is_inline():
        return _questions(run, action, limit)
    from prefect.input import acreate_flow_run_input, aread_flow_run_input

    kept = await aread_flow_run_input(KEPT)
    if kept is not None:
        return tuple(ProposalQuestion(**{**each, "lines": tuple(each["lines"])}) for each in kept)
    questions = _questions(run, action, limit)
    await acreate_flow_run_input(KEPT, [asdict(each) for each in questions])
    return questions


def _questions(run: Run, action: str, limit: int) -> tuple[ProposalQuestion, ...]:
    """What the form is to ask about: risks, reason, and in words the first of what would change."""
    reading, questions = existing_store(run).snapshot(), []
    for each in waiting(run, action, limit=limit):
        risks = f"High risk: {', '.join(each.risks)}." if each.is_risky else "Low risk."
        lines = summary_of(reading, each)
        more = [f"… and {len(lines) - DIFF_LINES} more"] if len(lines) > DIFF_LINES else []
        told = (f"{risks} {each.reason}".strip(), *lines[:DIFF_LINES], *more)
        questions.append(ProposalQuestion(each.id, each.action, each.title, each.is_risky, told))
    return tuple(questions)


async def answered(
    questions: Sequence[ProposalQuestion], person: str, timeout_hours: float
) -> tuple[Person, str, dict[str, Choice]]:
    """Suspend until a person answers: who, their note, and what to carry out, by proposal."""
    from prefect.flow_runs import asuspend_flow_run

    log.info("Waiting for a person: press Resume on this run, or use `slowwave review`.")
    form = form_of(questions, person)
    given = (await asuspend_flow_run(form, timeout=round(timeout_hours * 3600), key="review")).model_dump()
    return Person(" ".join(given["name"].split()), "prefect"), given["note"], verdicts_in(questions, given)
