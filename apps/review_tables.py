"""How proposals look in a terminal: what waits, what one of them would change, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from .printing import err, out, short_id, show_undo, shown, table

if TYPE_CHECKING:
    from recall.proposal_stories import ProposalStory
    from recall.proposals import Proposal
    from tasks.review import Decided

Cells = Sequence[Sequence[Any]]
QUOTES, LINES, RESTS, STALE = 20, 40, 10, 20
"""How much is shown unless all rows are asked for: quotes, lines of what changes, what it rests on, what is stale."""


def risk_tier(proposal: Proposal) -> str:
    """`high: pinned, large`, or `low`: what is decided one by one, and what may be decided in bulk."""
    return f"high: {', '.join(proposal.risks)}" if proposal.is_risky else "low"


def age(since: datetime, now: datetime) -> str:
    """How long ago, in the largest unit of which there are at least two."""
    seconds = max(0.0, (now - since).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def print_list(proposals: Sequence[Proposal], total: int, state: str | None, now: datetime) -> None:
    """One row for each, oldest first."""
    if not proposals:
        out.print("Nothing waits." if state == "pending" else "There is none.")
        return
    columns = ("id", "risk", "age", "action", "title")
    rows = [
        (short_id(each.id), _narrow(each), age(each.proposed_at, now), _action(each, state), each.title)
        for each in proposals
    ]
    noun, is_one = ("proposal", True) if total == 1 else ("proposals", False)
    what = ("waits" if is_one else "wait") if state == "pending" else state or "in all"
    title = f"{total} {noun} {what}"
    caption = f"… and {total - len(proposals)} more: --limit" if total > len(proposals) else ""
    out.print(table(title, columns, rows, caption))


def _narrow(proposal: Proposal) -> str:
    """The tier on several lines, which leaves room for the title."""
    return risk_tier(proposal).replace(": ", ":\n").replace(", ", ",\n")


def _action(proposal: Proposal, state: str | None) -> str:
    return proposal.action if state else f"{proposal.action}, {proposal.state}"


def print_proposal(story: ProposalStory, rows: bool = False) -> None:
    """What there is to know of one: in words, or all rows."""
    one = story.proposal
    out.print(one.title, style="bold", markup=False)
    facts = [
        ("id", one.id), ("state", one.state), ("why", one.reason), ("risk", risk_tier(one)),
        ("about", f"{one.subject} ({one.subject_id})" if one.subject_id else one.subject),
        ("proposed", _proposed(one)), ("plan hash", one.plan_hash),
        ("decided", f"{shown(one.decided_at)} by {one.decider} ({one.door})" if one.decider else ""),
        ("note", one.note), ("outcome", one.outcome),
    ]  # fmt: skip
    out.print(table("", ("", ""), [row for row in facts if row[1]]))
    out.print("What it would change", style="bold")
    lines = story.diff if rows else story.summary
    for line in lines if rows else lines[:LINES]:
        out.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if not rows:
        hidden = f"… and {len(lines) - LINES} more. " if len(lines) > LINES else ""
        out.print(f"{hidden}Row by row: slowwave review show {short_id(one.id)} --rows", markup=False)
    is_split = any(name for name, _ in story.asked)
    if rows or not (is_split or len(story.asked) > LINES):
        _print_ask(story)
    if story.rests_on:
        told = [(m.statement, short_id(m.id)) for m in story.rests_on]
        out.print(_shortened("What it rests on", ("fact", "id"), told, RESTS, rows))
    if story.evidence:
        said = [(each.occurred_at, each.message_id, each.quote) for each in story.evidence]
        out.print(_shortened("Who said it", ("when", "message", "words"), said, RESTS if is_split else QUOTES, rows))
    if one.state in ("pending", "approved"):
        _print_way_on(story)


def _shortened(title: str, columns: Sequence[str], cells: Cells, limit: int, every: bool) -> RenderableType:
    """A table of the first rows, or of all."""
    hidden = 0 if every else max(len(cells) - limit, 0)
    return table(title, columns, cells[: len(cells) - hidden], f"… and {hidden} more: --rows" if hidden else "")


def _proposed(one: Proposal) -> str:
    """By whom and when; the run is told while it waits, because a decision is one of another run."""
    return f"{shown(one.proposed_at)} by {one.proposed_by}{f' in {one.run}' if one.state == 'pending' else ''}"


def _print_ask(story: ProposalStory) -> None:
    """What may be left out, or called otherwise, with `modify`."""
    if not story.asked:
        return
    is_split = any(name for name, _ in story.asked)
    columns = ("new entity", "observation", "id") if is_split else ("observation", "id")
    rows = [(*((name,) if is_split else ()), each.statement, short_id(each.id)) for name, each in story.asked]
    out.print(table("What was asked for", columns, rows, "slowwave review modify changes it"))


def _print_way_on(story: ProposalStory) -> None:
    from tasks.reviewing import what_to_do

    name = short_id(story.proposal.id)
    if story.stale:
        out.print("It has grown stale, and will be refused:", style="bold red")
        for each in story.stale[:STALE]:
            out.print(Padding(Text(each), (0, 0, 0, 2), expand=False))
        if len(story.stale) > STALE:
            out.print(f"  … and {len(story.stale) - STALE} more: --json")
        out.print(what_to_do(story.proposal), markup=False)
        return
    out.print(f"Decide: slowwave review approve {name}, or: slowwave review reject {name}", markup=False)


def print_decided(done: Sequence[Decided], run: str, namespace: str) -> None:
    """What became of each, those that were refused last, and how to take it back."""
    held = [each for each in done if each.state != "stale"]
    if held:
        out.print(
            table("", ("id", "state", "title"), [(short_id(each.id), each.state, each.title) for each in held]),
        )
    for each in done:
        if each.state == "stale":
            err.print(f"Refused as stale: {each.title} ({short_id(each.id)})", style="bold", markup=False)
            err.print(f"  {each.outcome}", markup=False)
    if held:
        show_undo(run, namespace)
