"""What changed, and what waits: runs with their costs and undo, proposals with approve, change and reject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast, get_args

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from apps.configuration import person_name
from recall.history import run_to_undo, story_of
from recall.overview import costs_by_day, list_runs, run_record, stats
from recall.proposals import (
    OPEN,
    Proposal,
    ProposalStory,
    list_proposals,
    proposal_named,
    story_of_proposal,
    summary_of,
    texts_of,
)
from slowwave.errors import UndoRefused, UnknownName, UnusableInput
from slowwave.review.proposals import Person, renamed, without
from slowwave.types.stories import ACTIONS, Decided, plain_reason
from storage.snapshots import Snapshot
from tasks.people.review_runs import Choice, decide, modified, what_to_do, with_ways_on
from tasks.people.undo_and_restore import take_back

from .site import Site, Values, text

RUNS = 30
"""Runs on the page, a night with its phases counts as one."""
NIGHT, MOST = "sleep", 50


def listed(site: Site, request: Request, values: Values) -> Response:
    """The last night, what each of its phases did, and all runs, the newest first."""
    runs = list_runs(site.snapshot, RUNS)
    night = next((n for n, run in enumerate(runs) if run["flow"] == NIGHT and not run["depth"]), None)
    parts = [] if night is None else runs[night : night + 1 + _parts_after(runs, night)]
    done = [(run, changes_of_run(site.snapshot, run["id"])) for run in parts[1:] if run["commits"]]
    undone = text(values, "undone")
    if undone and run_record(site.snapshot, undone)["state"] != "undone":
        undone = ""
    return site.page(
        request, "runs.html", runs=runs, night=parts[0] if parts else None, phases=done, undone=undone,
    )  # fmt: skip


def _parts_after(runs: list[dict[str, Any]], place: int) -> int:
    """How many of the runs that follow are parts of this one."""
    return next((n for n, run in enumerate(runs[place + 1 :]) if not run["depth"]), len(runs) - place - 1)


def one(site: Site, request: Request, values: Values) -> Response:
    """One run: what it did and decided, what it cost."""
    run = run_record(site.snapshot, request.path_params["id"])
    parts = [run_record(site.snapshot, part) for part in run["phases"]]
    done = [(part, changes_of_run(site.snapshot, part["id"], MOST)) for part in (run, *parts) if part["commits"]]
    return site.page(request, "run.html", run=run, done=done, parts=len(parts))


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


def costs(site: Site, request: Request, values: Values) -> Response:
    """Calls, tokens and dollars, by day and model, and the runs that paid."""
    store = site.place.store()
    paid = [run for run in list_runs(site.snapshot, 200) if run["calls"]]
    counted = stats(store, datetime.now(UTC))
    return site.page(request, "costs.html", stats=counted, costs=costs_by_day(store), runs=paid)


WORDS: Mapping[str, str] = {
    **ACTIONS, "archive": "Archived", "prune": "Archived", "merge_entity": "Joined", "gather": "Grouped",
    "move": "Filed elsewhere", "delete": "Deleted", "pin": "Pinned", "undo": "Taken back",
}  # fmt: skip
_BESIDE = {"supersede": "now", "absorb": "also stands for", "contradict": "against", "dispute": "against"}
"""Decisions that are told with the other row, and what stands between the two."""
_MANY = ("create", "reassert", "repeat")
"""Decisions that differ in their reasons only, which are of no interest in a list."""


@dataclass(frozen=True, slots=True)
class RunChange:
    """Decisions of one kind: what was done, to which rows (id, words), how many rows, and why."""

    what: str
    rows: tuple[tuple[str, str], ...]
    count: int
    reason: str

    @property
    def is_short(self) -> bool:
        """Whether the rows are names, not sentences."""
        return all(len(words) <= 40 for _, words in self.rows)


def changes_of_run(snapshot: Snapshot, run: str, most: int = 12) -> list[RunChange]:
    """The changes of a run, those that only add last; of each kind at most so many rows are named."""
    decisions = story_of(snapshot, run).decisions
    words = texts_of(snapshot, {row for each in decisions for row in (each.about, *each.beside)})
    kinds: dict[tuple[bool, str, str], list[Decided]] = {}
    for each in decisions:
        is_routine = each.action in _MANY
        reason = "" if is_routine else plain_reason(each.reason, words)
        what = WORDS.get(each.action, each.action.replace("_", " ").capitalize())
        kinds.setdefault((is_routine, what, reason), []).append(each)
    return [
        RunChange(what, tuple(_row(each, words) for each in alike[:most] if each.about in words), len(alike), reason)
        for (_, what, reason), alike in sorted(kinds.items(), key=lambda kind: kind[0][0])
    ]


def _row(each: Decided, words: Mapping[str, str]) -> tuple[str, str]:
    others = [f"“{words[row]}”" for row in each.beside if row != each.about and row in words]
    between = _BESIDE.get(each.action)
    if not (between and others):
        return each.about, words[each.about]
    return each.about, f"“{words[each.about]}” – {between}: {', '.join(others)}"


# What waits for a person, as `slowwave review` does it


SHOWN = 50
"""Proposals on one page."""
CAN_CHANGE = ("split", "delete")


def waiting(site: Site, request: Request, values: Values) -> Response:
    """What waits, oldest first, or the last decisions."""
    seen, is_open = site.snapshot, values.get("show") != "decided"
    found: Sequence[Proposal] = list_proposals(seen, "pending") if is_open else _decided(site)
    shown = [(each, summary_of(seen, each)) for each in found[:SHOWN]]
    return site.page(request, "reviews.html", proposals=shown, total=len(found), is_open=is_open)


def _decided(site: Site) -> list[Proposal]:
    closed = [each for each in list_proposals(site.snapshot, None) if each.state != "pending"]
    return sorted(closed, key=lambda each: each.decided_at or each.proposed_at, reverse=True)


def proposal(site: Site, request: Request, values: Values) -> Response:
    """One proposal: what it would change, what it rests on, who said it, and the forms to decide."""
    story = _story(site, request)
    shown = story.proposal
    return site.page(
        request, "proposal.html", story=story, proposal=shown, is_open=shown.state in OPEN,
        can_change=shown.action in CAN_CHANGE, way_on=what_to_do(shown), person=person_name(),
        parts=[part["name"] for part in shown.ask.get("splits", ())],
    )  # fmt: skip


def _story(site: Site, request: Request) -> ProposalStory:
    seen = site.snapshot
    return story_of_proposal(seen, proposal_named(seen, request.path_params["id"]), datetime.now(UTC))


def decide_now(site: Site, request: Request, values: Values) -> Response:
    """Approve or reject, and show what became of it."""
    proposal = proposal_named(site.snapshot, request.path_params["id"])
    choice = _choice(request.path_params["choice"])
    if choice != "reject" and proposal.is_risky and values.get("risk") != "yes":
        raise UnusableInput(
            f"This proposal has a risk: {', '.join(proposal.risks)}.",
            "Go back, and confirm the risk beside the button.",
        )
    run, person = site.place.run("review"), Person(person_name(text(values, "by")), "browser")
    with_ways_on(run, decide(run, [proposal.id], choice, person, text(values, "note")))
    return RedirectResponse(f"/review/{proposal.id}", 303)


def change_now(site: Site, request: Request, values: Values) -> Response:
    """Replace a split or a deletion by a changed one, and show that one: fields `name OLD` and `move ID`."""
    proposal = proposal_named(site.snapshot, request.path_params["id"])
    names = {key.removeprefix("name "): str(new).strip() for key, new in values.items() if key.startswith("name ")}
    kept = {key.removeprefix("move ") for key in values if key.startswith("move ")}
    story = _story(site, request)
    left = [each.id for _, each in story.observations if each.id not in kept]
    renames = {old: new for old, new in names.items() if new and new != old}
    wanted = renamed(proposal.ask, renames) if renames else proposal.ask
    wanted = without(wanted, left) if left else wanted
    done = modified(site.place.run("review"), proposal.id, wanted, Person(person_name(text(values, "by")), "browser"))
    return RedirectResponse(f"/review/{done.id}", 303)


def _choice(text: str) -> Choice:
    if text not in get_args(Choice):
        raise UnknownName("decision", text, get_args(Choice))
    return cast(Choice, text)
