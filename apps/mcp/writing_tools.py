"""Tools that write, and those that look after memory: what is new is added at once, what is lost waits for a person."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field

from recall.entities import exact_row
from recall.proposals import Proposal
from recall.proposals import list_proposals as listed
from slowwave.common.errors import UnusableInput

from .changes import change_of, deletion_of, split_numbers, split_of
from .reading_tools import EntityName, Text
from .tools import Agent, Document, memory_of, tool, worded

if TYPE_CHECKING:
    from slowwave.review.split_plan import SplitPart

Observations = Annotated[list[Text], Field(min_length=1, max_length=200)]


@tool("Add observations", "adds")
def add_observations(
    ctx: Agent,
    entity_name: EntityName,
    observations: Annotated[Observations, Field(description="What is so, a sentence each.")],
    entity_type: Annotated[
        str | None,
        Field(description="What the entity is: person, tool, project, session …, or Persona, Herramienta, Proyecto, "
                          "Sesion …. Give it to make an entity that is unknown."),
    ] = None,
) -> Document:  # fmt: skip
    """State facts about an entity; each becomes an observation. An unknown entity is an error without `entity_type`.

    Keep decisions and why, configuration choices, root causes, changes of state. Leave out logs, file listings, and
    what stands in code already. What looks like something known is stored and flagged; what is known word for word is
    passed over; what reads like an instruction to a model is refused.
    """
    memory = memory_of(ctx)
    try:
        added = memory.add_observations(entity_name, observations, entity_type, create=entity_type is not None)
    except UnusableInput as error:
        if entity_type is not None or "--create" not in error.remedy:
            raise
        raise UnusableInput(error.message, "Give entity_type to make it; search_semantic finds names.") from error
    results = [
        {**asdict(each), "outcome": "flagged" if each.similarity_flag else each.outcome} for each in added.outcomes
    ]
    counts = dict(Counter(each["outcome"] for each in results))
    columns = {key: getattr(added, key) for key in ("entity", "entity_id", "is_new", "redacted")}
    return {**columns, "counts": counts, "results": results, "run_id": added.run}


@tool("Delete observations", "destroys")
def delete_observations(
    ctx: Agent,
    entity_name: EntityName,
    observations: Annotated[
        Observations, Field(description="Observations of the entity, by their ids or their whole content.")
    ],
) -> Document:
    """Let observations of an entity go, if a person allows it. All of them go, or none.

    It leaves a proposal, which waits until a person decides in one of the `doors`: until then nothing has changed.
    `list_proposals` tells what was decided. What is deleted is retired, and comes back with undo.
    """
    memory = memory_of(ctx)
    return change_of(memory, deletion_of(memory, entity_name, observations))


class Suggested(BaseModel):
    """An observation as `propose_entity_split_tool` names it."""

    id: str


class ApprovedSplit(BaseModel):
    """One new entity, and what it takes along."""

    name: str = Field(min_length=1, max_length=200, description="The new entity, usually 'Parent - Topic'.")
    entity_type: str | None = Field(None, description="By default that of the parent.")
    observations: list[Text | Suggested] = Field(
        min_length=1, max_length=5000, description="Observations of the parent: ids, whole contents, or as suggested."
    )

    @property
    def part(self) -> SplitPart:
        """As `changes.split_of` takes it."""
        from slowwave.review.split_plan import SplitPart

        ids = tuple(each if isinstance(each, str) else each.id for each in self.observations)
        return SplitPart(self.name, self.entity_type or "", ids)


Splits = Annotated[list[ApprovedSplit], Field(min_length=1, max_length=100)]


@tool("Execute a split", "destroys")
def execute_entity_split_tool(
    ctx: Agent,
    entity_name: EntityName,
    approved_splits: Annotated[Splits, Field(description="The suggested splits, as your person wants them.")],
    parent_entity_name: Annotated[
        str | None, Field(description="The entity that contains the new ones: the one that is split.")
    ] = None,
    plan_hash: Annotated[
        str | None, Field(description="That of the suggestion: what was made for another state is refused.")
    ] = None,
) -> Document:
    """Part an entity, if a person allows it: new entities, their observations, contiene and parte_de. All or nothing.

    It leaves a proposal, which waits until a person decides in one of the `doors`: until then nothing has changed.
    `list_proposals` tells what was decided. What is not listed stays where it is.
    """
    memory, parts = memory_of(ctx), [each.part for each in approved_splits]
    proposal = split_of(memory, entity_name, parts, parent_entity_name, plan_hash)
    return {**change_of(memory, proposal), **split_numbers(memory, proposal)}


# What waits: agents see it, persons decide it


@tool("List proposals", "reads")
def list_proposals(
    ctx: Agent,
    state: Annotated[
        Literal["pending", "rejected", "applied", "stale", "replaced", "all"],
        Field(description="pending: what waits for a person."),
    ] = "pending",
    action: Annotated[str | None, Field(description="Only of this action: delete, split, patch, merge …")] = None,
    entity_name: Annotated[str | None, Field(description="Only what is mostly about this entity.")] = None,
    limit: Annotated[int, Field(ge=1, le=200, description="Proposals at most.")] = 20,
) -> Document:
    """Changes that wait for a person, or waited: what each would do, how risky it is, and who decided what."""
    snapshot = memory_of(ctx).snapshot
    about = exact_row(snapshot, entity_name)["id"] if entity_name else None
    found = listed(snapshot, None if state == "all" else state, action=action, entity=about, limit=limit)
    return {"proposals": [_brief(each) for each in found]}


def _brief(proposal: Proposal) -> dict[str, object]:
    shown = ("state", "action", "title", "reason", "subject", "proposed_by", "note", "outcome")
    columns = {key: getattr(proposal, key) for key in shown}
    decided = {"decided_by": proposal.decider, "door": proposal.door}
    more = {"risks": list(proposal.risks), "proposed_at": proposal.proposed_at.isoformat()}
    return {"proposal_id": proposal.id, **columns, **more, **decided}


# Tools that look after memory and change nothing: what repeats, what holds too much, what nobody reads.


Share = Annotated[float, Field(ge=0.0, le=1.0)]


@tool("Find duplicate observations", "reads")
def find_duplicate_observations(
    ctx: Agent,
    entity_name: EntityName,
    threshold: Annotated[Share, Field(description="Cosine from which two look alike.")] = 0.85,
    containment_threshold: Annotated[
        Share, Field(description="Share of words of a much shorter one that a longer one holds.")
    ] = 0.7,
) -> Document:
    """Pairs and clusters of observations of an entity that look alike, flagged or not, for a person to judge.

    What is redundant goes with `delete_observations`, if a person allows it. Numbers and negations matter: 'likes' and
    'does not like' look alike and are no duplicates.
    """
    return memory_of(ctx).duplicates(entity_name, threshold, containment_threshold).as_json()


@tool("Find split candidates", "reads")
def find_split_candidates(ctx: Agent) -> Document:
    """Entities that hold more observations than their type should, of several topics: the first stage of a split."""
    from recall.report import find_split_candidates as find

    memory = memory_of(ctx)
    found = find(memory.snapshot, memory.place.settings.split, datetime.now(UTC))
    return {"candidates": [worded(each, memory.place.locale) for each in found]}


@tool("Analyze an entity", "reads")
def analyze_entity_split(ctx: Agent, entity_name: EntityName) -> Document:
    """How full an entity is, and which topics its observations are about: the second stage of a split."""
    from recall.report import analyze_split

    memory = memory_of(ctx)
    analysis = analyze_split(memory.snapshot, memory.place.settings.split, datetime.now(UTC), entity_name)
    return worded(analysis, memory.place.locale)


@tool("Suggest a split", "reads")
def propose_entity_split_tool(ctx: Agent, entity_name: EntityName) -> Document:
    """How an entity could be parted by topic: the third stage of a split. Nothing is stored.

    Show `suggested_splits` to your person, change them as they wish, and give them to `execute_entity_split_tool`.
    """
    from recall.report import suggest_split

    memory = memory_of(ctx)
    suggestion = suggest_split(memory.snapshot, memory.place.settings.split, datetime.now(UTC), entity_name)
    return worded(suggestion.as_json(), memory.place.locale)


@tool("Consolidation report", "reads")
def consolidation_report(
    ctx: Agent,
    stale_days: Annotated[
        float | None,
        Field(ge=0.0, le=36_500.0, description="Days without a read; by default as configured, 90.0 unless it is."),
    ] = None,
) -> Document:
    """A health check of the whole memory: split candidates, flagged observations, stale and large entities.

    It changes nothing. What to do about an item is for a person to decide.
    """
    from recall.report import consolidation_report as report

    memory = memory_of(ctx)
    found = report(memory.snapshot, memory.place.settings.report, datetime.now(UTC), stale_days)
    return worded(found, memory.place.locale)
