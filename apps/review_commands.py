"""Commands by which a person decides about proposals: show, approve, reject."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.text import short_id

from .configuration import Place, person_name
from .options import By, JsonOption, Limit, Shown, Yes
from .printing import Aside, err, out, shown, table, undo_line

if TYPE_CHECKING:
    from recall.proposals import Proposal, ProposalStory
    from tasks.people.review import Choice, DecidedProposal
    from tasks.runtime.runs import Run

# Proposals in a terminal: the list, one with its changes, and the result of decisions.


LINES, RESTS = 40, 10
"""How much is shown: lines of what changes, and of what it rests on."""


def risk_tier(proposal: Proposal) -> str:
    """`high: pinned, large` (decide one by one) or `low` (may be decided in bulk)."""
    return f"high: {', '.join(proposal.risks)}" if proposal.is_risky else "low"


def list_lines(proposals: Sequence[Proposal], total: int, state: str | None) -> RenderableType:
    """One row for each, oldest first."""
    if not proposals:
        return "No proposal waits for a decision." if state == "pending" else "There is no such proposal."
    columns = ("id", "risk", "proposed", "action", "title")
    rows = [
        (short_id(each.id), risk_tier(each), each.proposed_at, each.action if state else f"{each.action}, {each.state}",
         each.title)
        for each in proposals
    ]  # fmt: skip
    noun, is_one = ("proposal", True) if total == 1 else ("proposals", False)
    what = ("waits" if is_one else "wait") if state == "pending" else state or "in all"
    caption = f"… and {total - len(proposals)} more: --limit" if total > len(proposals) else ""
    return table(f"{total} {noun} {what}", columns, rows, caption)


def proposal_lines(story: ProposalStory) -> Iterator[RenderableType]:
    """One proposal in words."""
    one = story.proposal
    yield Text(one.title, style="bold")
    facts = [
        ("id", one.id), ("state", one.state), ("why", one.reason), ("risk", risk_tier(one)),
        ("about", f"{one.subject} ({one.subject_id})" if one.subject_id else one.subject),
        ("proposed", f"{shown(one.proposed_at)} by {one.proposed_by}"), ("plan hash", one.plan_hash),
        ("decided", f"{shown(one.decided_at)} by {one.decider} ({one.door})" if one.decider else ""),
        ("note", one.note), ("outcome", one.outcome),
    ]  # fmt: skip
    yield table("", ("", ""), [row for row in facts if row[1]])
    yield Text("What it would change", style="bold")
    yield from map(_inside, _shortened(story.summary, LINES))
    if story.rests_on:
        yield Text("What it rests on", style="bold")
        yield from map(_inside, _shortened([f"{m.statement} ({short_id(m.id)})" for m in story.rests_on]))
    if story.evidence:
        yield Text("Who said it", style="bold")
        said = [f"{shown(each.occurred_at)} {each.message_id}: {each.quote}" for each in story.evidence]
        yield from map(_inside, _shortened(said))
    if one.state == "pending" and story.stale:
        from tasks.people.review import what_to_do

        yield Text("It has grown stale, and will be refused:", style="bold red")
        yield from map(_inside, _shortened(story.stale))
        yield what_to_do(one)
    elif one.state == "pending":
        name = short_id(one.id)
        yield f"Decide: slowwave review approve {name}, or: slowwave review reject {name}"


def _inside(line: str) -> RenderableType:
    return Padding(Text(line), (0, 0, 0, 2), expand=False)


def _shortened(lines: Sequence[str], limit: int = RESTS) -> list[str]:
    """The first lines, and how many more there are."""
    hidden = len(lines) - limit
    return [*lines[:limit], *([f"… and {hidden} more: --json"] if hidden > 0 else [])]


def decided_lines(done: Sequence[DecidedProposal], run: str, namespace: str) -> Iterator[RenderableType]:
    """The new state of each proposal, refused ones last, and the command that undoes them."""
    decided = [each for each in done if each.state != "stale"]
    if decided:
        yield table("", ("id", "state", "title"), [(short_id(each.id), each.state, each.title) for each in decided])
    for each in done:
        if each.state == "stale":
            yield Aside(f"Refused as stale: {each.title} ({short_id(each.id)})")
            yield Aside(f"  {each.outcome}")
    if decided:
        yield undo_line(run)


Ids = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Proposals, by the ids that tables show.")]
All = Annotated[bool, typer.Option("--all", help="All pending proposals without a risk.")]
Action = Annotated[str | None, typer.Option("--action", metavar="NAME", help="Only proposals of this action: split …")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="The reason, kept with the decision.")]


def review() -> None:
    """Show, approve or reject proposals."""


def review_list(
    state: Annotated[str, typer.Option("--state", help="pending, rejected, applied, stale or replaced.")] = "pending",
    every: Annotated[bool, typer.Option("--all", help="Proposals in every state.")] = False,
    action: Action = None,
    limit: Limit = 50,
    *,
    place: Place,
) -> Shown:
    """List proposals, oldest first."""
    from recall.proposals import list_proposals

    wanted = None if every else state
    chosen = list_proposals(place.store().snapshot(), wanted, action=action)
    yield {"total": len(chosen), "proposals": chosen[:limit]}
    yield list_lines(chosen[:limit], len(chosen), wanted)
    if chosen and wanted == "pending":
        yield "Look: slowwave review show ID. Decide: slowwave review approve ID, or reject ID."


def review_show(
    id: Annotated[str, typer.Argument(metavar="ID", help="A proposal, by the id that tables show.")], *, place: Place
) -> Shown:
    """Show one proposal: its changes, reason, risk and sources, and whether it is stale."""
    from recall.proposals import proposal_named, story_of_proposal

    snapshot = place.store().snapshot()
    story = story_of_proposal(snapshot, proposal_named(snapshot, id), datetime.now(UTC))
    yield story
    yield from proposal_lines(story)


def review_approve(
    ids: Ids = None,
    every: All = False,
    by: By = None,
    note: Note = "",
    yes: Yes = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Approve proposals and make exactly their changes. Exit code 4 if one is stale and was refused."""
    from tasks.people.review import open_proposals
    from tasks.runtime.runs import store_of

    run, chosen = _chosen(place, ids, every)
    if not (yes or as_json) and sys.stdin.isatty():
        seen = store_of(run).snapshot()
        if risk := [each for each in open_proposals(seen, chosen) if each.is_risky]:
            out.print(list_lines(risk, len(risk), "pending"))
            these = "this one" if len(risk) == 1 else f"these {len(risk)}"
            typer.confirm(f"Decide about {these} with a risk?", abort=True, err=True)
    yield from _decide(run, chosen, "approve", by, note)


def review_reject(ids: Ids = None, every: All = False, by: By = None, note: Note = "", *, place: Place) -> Shown:
    """Reject proposals. Nothing changes, and no rule proposes the same again."""
    run, chosen = _chosen(place, ids, every)
    yield from _decide(run, chosen, "reject", by, note)


def _chosen(place: Place, ids: list[str] | None, every: bool) -> tuple[Run, list[str]]:
    """The run, and which proposals are meant; those with a risk are never meant by --all."""
    from tasks.people.review import waiting

    if every == bool(ids):
        raise UnusableInput(
            "Name proposals, or say --all." if not ids else "--all and ids exclude each other.",
            "`slowwave review list` shows what waits.",
        )
    run = place.run("review")
    return run, ids or [each.id for each in waiting(run) if not each.is_risky]


def _decide(run: Run, ids: Sequence[str], choice: Choice, by: str | None, note: str) -> Shown:
    from slowwave.review.proposals import Person  # imports Polars
    from tasks.people.review import decide

    person = Person(person_name(by), "terminal")
    done = decide(run, ids, choice, person, note) if ids else ()
    yield {"run": run.id if done else None, "by": person.name, "decided": done}
    yield from decided_lines(done, run.id, run.namespace)
    if not done:
        yield "Nothing waits that is meant: --all takes what has no risk; name the others."
    if stale := [each for each in done if each.state == "stale"]:
        err.print(f"{len(stale)} of {len(done)} were refused, because what they rest on has changed.")
        raise typer.Exit(Refused.exit_code)
