"""What runs changed, and their undo; what waits for a person, and approve, reject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, cast, get_args

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from apps.configuration import person_name
from recall.history import run_to_undo, story_of
from recall.overview import list_runs, run_record
from recall.proposals import Proposal, list_proposals, proposal_named, story_of_proposal, summary_of
from slowwave.common.errors import UndoRefused, UnknownName, UnusableInput
from slowwave.common.types.stories import Line, changed_lines
from slowwave.review.proposals import Person
from tasks.people.reporting import take_back
from tasks.people.review import Choice, decide, what_to_do

from .access import Values, text
from .site import Site

# Runs, in sentences, and their undo, which first says what it would put back, or what prevents it


RUNS = 30
"""Runs on the page, a night with its phases counts as one."""
NIGHT = "sleep"


def runs_listed(site: Site, request: Request, values: Values) -> Response:
    """The last night, what each of its phases did, and all runs, the newest first."""
    runs = list_runs(site.snapshot, RUNS)
    night = next((n for n, run in enumerate(runs) if run["flow"] == NIGHT and not run["depth"]), None)
    parts = [] if night is None else [runs[night], *takewhile(lambda run: run["depth"], runs[night + 1 :])]
    done = [(run, _changes(site, run)) for run in parts[1:] if run["commits"]]
    undone = text(values, "undone")
    if undone and run_record(site.snapshot, undone)["state"] != "undone":
        undone = ""
    return site.page(
        request, "runs.html", runs=runs, night=parts[0] if parts else None, phases=done, undone=undone,
    )  # fmt: skip


def one_run(site: Site, request: Request, values: Values) -> Response:
    """One run: what it did and decided, what it cost."""
    run = run_record(site.snapshot, request.path_params["id"])
    parts = [run_record(site.snapshot, part) for part in run["phases"]]
    done = [(part, _changes(site, part)) for part in (run, *parts) if part["commits"]]
    return site.page(request, "run.html", run=run, done=done, parts=len(parts))


def _changes(site: Site, run: Mapping[str, Any]) -> list[Line]:
    return changed_lines(story_of(site.snapshot, run["id"]))


def way_back(site: Site, request: Request, values: Values) -> Response:
    """What undo would put back, and the button; or the runs that stand in its way."""
    with_later = values.get("cascade") == "yes"
    return _look(site, request, run_to_undo(site.snapshot, request.path_params["id"]), with_later)


def _look(site: Site, request: Request, run: str, with_later: bool, refused: UndoRefused | None = None) -> Response:
    """The page before an undo; `refused` is why one was not carried out."""
    try:
        report, blocked = take_back(site.place.run("undo"), run, cascade=with_later, dry_run=True), None
    except UndoRefused as error:
        report, blocked = None, error
    return site.page(
        request, "undo.html", 409 if refused else 200, run=run, report=report, blocked=blocked, with_later=with_later,
        refused=refused,
    )  # fmt: skip


def undo_now(site: Site, request: Request, values: Values) -> Response:
    """Take back the runs that the page showed, fields `run`, and show all runs; where others go with it, look again."""
    run, with_later = run_to_undo(site.snapshot, request.path_params["id"]), values.get("cascade") == "yes"
    try:
        own = site.place.run("undo")
        take_back(own, run, cascade=with_later, dry_run=False, only=values.getlist("run"))
    except UndoRefused as error:
        return _look(site, request, run, with_later, error)
    return RedirectResponse(f"/runs?undone={run}", 303)


# What waits for a person, as `slowwave review` shows and decides it


SHOWN = 50
"""Proposals on one page."""


def proposals_listed(site: Site, request: Request, values: Values) -> Response:
    """What waits, oldest first, or the last decisions."""
    seen, is_open = site.snapshot, values.get("show") != "decided"
    found: Sequence[Proposal] = list_proposals(seen, "pending" if is_open else None)
    if not is_open:
        closed = (each for each in found if each.state != "pending")
        found = sorted(closed, key=lambda each: each.decided_at or each.proposed_at, reverse=True)
    shown = [(each, summary_of(seen, each)) for each in found[:SHOWN]]
    return site.page(request, "reviews.html", proposals=shown, total=len(found), is_open=is_open)


def one_proposal(site: Site, request: Request, values: Values) -> Response:
    """One proposal: what it would change, what it rests on, who said it, and the forms to decide."""
    seen = site.snapshot
    proposal = proposal_named(seen, request.path_params["id"])
    story = story_of_proposal(seen, proposal, datetime.now(UTC))
    return site.page(
        request, "proposal.html", story=story, proposal=proposal, is_open=proposal.state == "pending",
        way_on=what_to_do(proposal), person=person_name(),
    )  # fmt: skip


def decide_now(site: Site, request: Request, values: Values) -> Response:
    """Approve or reject, and show what became of it."""
    proposal = proposal_named(site.snapshot, request.path_params["id"])
    choice = request.path_params["choice"]
    if choice not in get_args(Choice):
        raise UnknownName("decision", choice, get_args(Choice))
    if choice != "reject" and proposal.is_risky and values.get("risk") != "yes":
        risks = ", ".join(proposal.risks)
        raise UnusableInput(f"This proposal has a risk: {risks}.", "Go back, and confirm it beside the button.")
    person = Person(person_name(text(values, "by")), "browser")
    decide(site.place.run("review"), [proposal.id], cast(Choice, choice), person, text(values, "note"))
    return RedirectResponse(f"/review/{proposal.id}", 303)
