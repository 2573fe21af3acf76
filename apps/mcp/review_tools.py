"""Tools for what waits: agents see it, persons decide it."""

from __future__ import annotations

from typing import Annotated, Literal

from mcp.server.mcpserver import Elicit, ElicitationResult, Resolve
from pydantic import Field

from recall.entities import exact_row
from recall.proposals import Proposal, proposal_named
from recall.proposals import list_proposals as listed
from slowwave.errors import Refused

from .asking import OPEN, Decision, can_ask, change_of, question, settled
from .declaring import Agent, answering, door_of, tool
from .results import Change, Proposals, Reviewed

Id = Annotated[str, Field(min_length=6, max_length=200)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=50, description="Proposals, by the ids that results name.")]


@tool("List proposals", "reads")
def list_proposals(
    ctx: Agent,
    state: Annotated[
        Literal["pending", "approved", "rejected", "applied", "stale", "replaced", "all"],
        Field(description="pending: what waits for a person."),
    ] = "pending",
    action: Annotated[str | None, Field(description="Only of this action: delete, split, patch, merge …")] = None,
    entity_name: Annotated[str | None, Field(description="Only what is mostly about this entity.")] = None,
    limit: Annotated[int, Field(ge=1, le=200, description="Proposals at most.")] = 20,
) -> Proposals:
    """Changes that wait for a person, or waited: what each would do, how risky it is, and who decided what."""
    snapshot = door_of(ctx).snapshot()
    about = exact_row(snapshot, entity_name)["id"] if entity_name else None
    found = listed(snapshot, None if state == "all" else state, action=action, entity=about, limit=limit)
    return Proposals(proposals=[_brief(each) for each in found])


def _brief(proposal: Proposal) -> dict[str, object]:
    shown = ("state", "action", "title", "reason", "subject", "proposed_by", "note", "outcome")
    told = {key: getattr(proposal, key) for key in shown}
    decided = {"decided_by": proposal.decider, "door": proposal.door}
    more = {"risks": list(proposal.risks), "proposed_at": proposal.proposed_at.isoformat()}
    return {"proposal_id": proposal.id, **told, **more, **decided}


@answering
def _under_review(ctx: Agent, proposal_ids: list[str]) -> tuple[Proposal, ...]:
    snapshot = door_of(ctx).snapshot()
    chosen = tuple({each.id: each for each in (proposal_named(snapshot, asked) for asked in proposal_ids)}.values())
    if len(chosen) > 1 and (risky := [each.id for each in chosen if each.is_risky and each.state in OPEN]):
        raise Refused(f"{', '.join(risky)} must be decided alone: it is of high risk.", "Review it by itself.")
    return chosen


@answering
def _ask_to_review(
    ctx: Agent, proposals: Annotated[tuple[Proposal, ...], Resolve(_under_review)]
) -> Elicit[Decision] | None:
    return question(ctx, proposals)


@tool("Review proposals", "destroys")
def review(
    ctx: Agent,
    proposal_ids: Ids,
    proposals: Annotated[tuple[Proposal, ...], Resolve(_under_review)],
    answer: Annotated[ElicitationResult[Decision], Resolve(_ask_to_review)],
) -> Reviewed:
    """Put what waits before the person: they see what would change, and say yes or no to all of it at once.

    You cannot decide for them. Where the client cannot ask, this shows what would change, and where a person can
    decide. What is of high risk is reviewed alone, of the rest at most ten at a time.
    """
    told = settled(ctx, proposals, answer)
    is_open = any(each.state == "pending" for each in told)
    asked = "The person did not decide." if can_ask(ctx) else "This client cannot ask its person."
    message = f"{asked} Nothing has changed." if is_open else "Nothing of it waits any more."
    return Reviewed(proposals=[Change(**change_of(door_of(ctx), each)) for each in told], message=message)
