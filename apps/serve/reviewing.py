"""What waits for a person: what each proposal would do, and approve, change, reject, as `slowwave review` does it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast, get_args

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from apps.configuration import person_name
from recall.proposals import (
    OPEN,
    Proposal,
    ProposalStory,
    list_proposals,
    proposal_named,
    story_of_proposal,
    summary_of,
)
from slowwave.errors import UnknownName, UnusableInput
from slowwave.review.proposals import Person, renamed, without
from tasks.people.review_runs import Choice, decide, modified, what_to_do, with_ways_on

from .site import Site, Values, text

SHOWN = 50
"""Proposals on one page."""
CAN_CHANGE = ("split", "delete")


def listed(site: Site, request: Request, values: Values) -> Response:
    """What waits, oldest first, or the last decisions."""
    seen, is_open = site.snapshot, values.get("show") != "decided"
    found: Sequence[Proposal] = list_proposals(seen, "pending") if is_open else _decided(site)
    shown = [(each, summary_of(seen, each)) for each in found[:SHOWN]]
    return site.page(request, "reviews.html", proposals=shown, total=len(found), is_open=is_open)


def _decided(site: Site) -> list[Proposal]:
    closed = [each for each in list_proposals(site.snapshot, None) if each.state != "pending"]
    return sorted(closed, key=lambda each: each.decided_at or each.proposed_at, reverse=True)


def one(site: Site, request: Request, values: Values) -> Response:
    """One proposal: what it would change, what it rests on, who said it, and the forms to decide."""
    story = _story(site, request)
    proposal = story.proposal
    return site.page(
        request, "proposal.html", story=story, proposal=proposal, is_open=proposal.state in OPEN,
        can_change=proposal.action in CAN_CHANGE, way_on=what_to_do(proposal), person=person_name(),
        parts=[part["name"] for part in proposal.ask.get("splits", ())],
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
