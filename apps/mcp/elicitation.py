"""Asking the person: a change waits as a proposal until a person answers a form, which the user of the client sees.

An agent has no tool that says yes; where its client cannot ask, the proposal waits for the other doors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Elicit
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, Field, StringConstraints

from recall.context import inert
from recall.entities import exact_row
from recall.facts import ALL, stored
from recall.proposals import OPEN, Proposal, list_proposals, proposal_named, summary_of
from recall.report import observations_of
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.lexicon.labels import canonical_type
from slowwave.integrations.python_api import OpenMemory
from slowwave.review.proposals import Door, Person, named_observations, observations_in

from .tools import Agent, inert_text, memory_of

if TYPE_CHECKING:
    from slowwave.review.split_plan import SplitPart
    from storage.snapshots import Snapshot

DOORS = (
    "in a terminal: slowwave review approve {ids}",
    "in Prefect: the deployment `review`",
    "in a browser: the page of `slowwave serve`",
    "over MCP: the same call again, from a client that asks its person (elicitation)",
)
_MOST_LINES = 40
_BACK_CHANNEL = "2026-07-28"  # from this revision on a question is part of the answer, before it a request of its own

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class Decision(BaseModel):
    """The form that the person fills in."""

    decision: Literal["approve", "reject"] = Field(
        title="Decision", description="approve carries it out now; reject leaves everything as it is."
    )
    name: Name = Field(title="Your name", description="It stands in the ledger beside the decision.")
    note: str = Field("", title="Note", description="Why, if you like.", max_length=1000)


def question(ctx: Agent, proposal: Proposal) -> Elicit[Decision] | None:
    """The form about what waits, where the client can ask; None where it waits no more or nobody can be asked."""
    if proposal.state != "pending" or not can_ask(ctx):
        return None
    return Elicit("\n".join(_form_lines(memory_of(ctx), proposal)), Decision)


def can_ask(ctx: Agent) -> bool:
    """Whether this client can put a form before its person, and the settings let it."""
    if memory_of(ctx).place.settings.mcp.approvals != "ask":
        return False
    declared = ctx.client_capabilities.elicitation if ctx.client_capabilities else None
    if declared is None or (declared.form is None and declared.url is not None):
        return False
    version = ctx.protocol_version
    is_part_of_the_answer = version is not None and is_version_at_least(version, _BACK_CHANNEL)
    return is_part_of_the_answer or ctx.session.can_send_request


def _form_lines(memory: OpenMemory, proposal: Proposal) -> list[str]:
    """The text of the form: title, reason and changes in sentences, one page at most. Stored texts are made inert."""
    risks = f" Risks: {', '.join(proposal.risks)}." if proposal.risks else ""
    diff = _diff(memory, proposal)
    hidden = len(diff) - _MOST_LINES
    more = [f"… and {hidden} more lines: slowwave review show {proposal.id}"] if hidden > 0 else []
    head = f"{inert(proposal.title)} ({proposal.id}).{risks}"
    return [head, *filter(None, [inert(proposal.reason)]), *diff[:_MOST_LINES], *more]


def _diff(memory: OpenMemory, proposal: Proposal) -> list[str]:
    """The changes in sentences, one line each."""
    return [inert(line) for line in summary_of(memory.snapshot, proposal)]


def settled(ctx: Agent, proposal: Proposal, answer: ElicitationResult[Decision]) -> Proposal:
    """The proposal after the decision of the person, or one that was approved for later, was carried out."""
    memory = memory_of(ctx)
    form: Any = answer.data if isinstance(answer, AcceptedElicitation) else None
    if isinstance(form, Decision) and proposal.state == "pending":
        _decide(memory, proposal.id, form.decision, Person(form.name, "mcp"), form.note)
    elif proposal.state == "approved":
        doors: dict[str, Door] = {each: each for each in get_args(Door)}
        _decide(memory, proposal.id, "approve", Person(proposal.decider, doors[proposal.door]), proposal.note)
    return proposal_named(memory.snapshot, proposal.id)


def _decide(memory: OpenMemory, id_: str, decision: Literal["approve", "reject"], person: Person, note: str) -> None:
    from tasks.people.review import decide

    decide(memory.place.run("review"), [id_], decision, person, note)


def change_of(memory: OpenMemory, proposal: Proposal) -> dict[str, Any]:
    """What became of a change that only a person may allow; `doors` are where one can decide, as long as it waits."""
    return {
        "state": proposal.state,
        "message": _message(proposal),
        "proposal_id": proposal.id,
        "action": proposal.action,
        "title": proposal.title,
        "diff": _diff(memory, proposal),
        "risks": list(proposal.risks),
        "decided_by": proposal.decider or None,
        "door": proposal.door or None,
        "note": proposal.note or None,
        "doors": [way.format(ids=proposal.id) for way in DOORS] if proposal.state in OPEN else [],
    }


def _message(proposal: Proposal) -> str:
    state = {
        "pending": "It waits: only a person can allow it, and nothing has changed. Do not try another way.",
        "approved": f"{proposal.decider} allowed it; it waits to be carried out.",
        "applied": f"Done: {proposal.decider} allowed it.",
        "rejected": f"{proposal.decider} said no. Nothing has changed.",
        "stale": "Memory has changed since this was proposed, so nothing was done. Look again, then ask anew.",
        "replaced": "Another proposal took its place.",
    }[proposal.state]
    more = [proposal.note, proposal.outcome]
    return " ".join([state, *(f"{text.rstrip('.')}." for text in more if text)])


# A second call with the same arguments gets the same proposal: one that waits, as nothing is proposed twice, or the one
# that was carried out.


SplitRequest = tuple[str, str | None, Sequence[str]]
"""Name, type (None: that of the parent) and observations of a new entity."""


def deletion_of(memory: OpenMemory, name: str, observations: Sequence[str]) -> Proposal:
    """The proposal to delete these observations (ids or contents) of an entity.

    Raises `UnknownName`, `UnusableInput` for what is no live observation of it, `Refused` where a person said no.
    """
    from tasks.people.observations import propose_deletion

    snapshot = memory.snapshot
    entity: str = exact_row(snapshot, name)["id"]
    live = _live(snapshot, entity)
    if done := _done_before(snapshot, "delete", entity, live, [("", observations)]):
        return done
    ids = _ids(live, observations)
    return propose_deletion(memory.place.run("propose"), entity, ids, reason="An agent asked for it.")


def _done_before(
    snapshot: Snapshot, action: str, entity: str, live: Mapping[str, str], wanted: Sequence[tuple[str, Sequence[str]]]
) -> Proposal | None:
    """The last proposal about an entity that did just this: observations by new entity; None while one is live."""
    if {fact for _, observations in wanted for fact in _ids(live, observations)} & {*live}:
        return None
    for each in reversed(list_proposals(snapshot, "applied", action=action, entity=entity)):
        known = _contents(snapshot, observations_in(each.ask))
        meant = {(name, fact) for name, observations in wanted for fact in _ids(known, observations)}
        if meant == {*named_observations(each.ask)}:
            return each
    return None


def _live(snapshot: Snapshot, entity: str) -> dict[str, str]:
    """The live observations of an entity: id and content."""
    return dict(observations_of(snapshot, entity, datetime.now(UTC)).select("id", "statement").iter_rows())


def _ids(live: Mapping[str, str], observations: Sequence[str]) -> list[str]:
    """The ids of observations named by content, stored or as agents see it; other texts count as ids."""
    by_content: dict[str, list[str]] = {}
    for fact, content in live.items():
        for text in {content, inert_text(content)}:
            by_content.setdefault(text, []).append(fact)
    return list(dict.fromkeys(fact for each in observations for fact in by_content.get(" ".join(each.split()), [each])))


def _contents(snapshot: Snapshot, ids: Sequence[str]) -> dict[str, str]:
    return dict(stored(snapshot, ALL, ids, columns=("id", "statement")).sort("id").iter_rows())


def deleted_rows(memory: OpenMemory, proposal: Proposal) -> list[dict[str, Any]]:
    """The observations of a deletion."""
    contents = _contents(memory.snapshot, proposal.ask.get("observations", []))
    return [{"id": fact, "content": content} for fact, content in contents.items()]


def split_of(
    memory: OpenMemory,
    name: str,
    requests: Sequence[SplitRequest],
    parent_name: str | None = None,
    made_for: str | None = None,
) -> Proposal:
    """The proposal to split an entity like this; `made_for` is the plan hash of the suggestion, where it is known.

    Raises as `deletion_of`, `UnusableInput` for a plan that cannot be, and `Refused` for one that grew stale (T49).
    """
    from slowwave.review.split_plan import plan_hash
    from tasks.people.review import propose_split

    snapshot = memory.snapshot
    entity = exact_row(snapshot, name)
    if parent_name is not None and exact_row(snapshot, parent_name)["id"] != entity["id"]:
        raise UnusableInput(
            f"{parent_name} is not what is split.", "New entities belong to the one that they come from; leave it out."
        )
    live = _live(snapshot, entity["id"])
    if done := _done_before(snapshot, "split", entity["id"], live, [(name, known) for name, _, known in requests]):
        return done
    splits, now = _splits(entity["entity_type"], requests, live), plan_hash(entity, live)
    if made_for not in (None, now):
        raise Refused(
            f"Something else is known of {entity['name']} since the plan was made.",
            "`propose_entity_split_tool` makes another.",
        )
    place = memory.place
    made = propose_split(place.run("propose"), entity["id"], place.settings.split, splits, proposed_by="agent")
    return proposal_named(memory.snapshot, made.proposal_id)


def _splits(parent_type: str, requests: Sequence[SplitRequest], live: Mapping[str, str]) -> list[SplitPart]:
    from slowwave.review.split_plan import SplitPart

    return [
        SplitPart(name, (canonical_type(kind) or kind) if kind else parent_type, tuple(_ids(live, observations)))
        for name, kind, observations in requests
    ]


def split_numbers(memory: OpenMemory, proposal: Proposal) -> dict[str, Any]:
    """The numbers of a split, done or proposed (S0-14); the remaining observations are counted now."""
    from slowwave.review.split_plan import splits_of

    splits = splits_of(proposal.ask)
    moved = sum(len(each.observations) for each in splits)
    left = len(_live(memory.snapshot, proposal.subject_id)) - (0 if proposal.state == "applied" else moved)
    return {
        "new_entities": [each.name for each in splits], "moved_observations": moved,
        "relations_created": 2 * len(splits), "original_observations_remaining": left,
    }  # fmt: skip
