"""Tools that look after memory and change nothing: what repeats, what holds too much, what nobody reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apps.report_command import report_settings

from .declaring import Agent, door_of, tool
from .reading_tools import EntityName
from .results import Document, Duplicates, SplitAnalysis, SplitCandidates, SplitProposal
from .wording import worded

Share = Annotated[float, Field(ge=0.0, le=1.0)]


@tool("Find duplicate observations", "reads")
def find_duplicate_observations(
    ctx: Agent,
    entity_name: EntityName,
    threshold: Annotated[Share, Field(description="Cosine from which two look alike.")] = 0.85,
    containment_threshold: Annotated[
        Share, Field(description="Share of words of a much shorter one that a longer one holds.")
    ] = 0.7,
) -> Duplicates:
    """Pairs and clusters of observations of an entity that look alike, flagged or not, for a person to judge.

    What is redundant goes with `delete_observations`, if a person allows it. Numbers and negations matter: 'likes' and
    'does not like' look alike and are no duplicates.
    """
    report = door_of(ctx).memory.duplicates(entity_name, threshold, containment_threshold)
    return Duplicates(**report.as_json())


@tool("Find split candidates", "reads")
def find_split_candidates(ctx: Agent) -> SplitCandidates:
    """Entities that hold more observations than their type should, of several topics: the first stage of a split."""
    from recall.splits import find_split_candidates as find

    door = door_of(ctx)
    found = find(door.snapshot(), door.settings.split, door.now())
    return SplitCandidates(candidates=[worded(each.as_json(), door.locale) for each in found])


@tool("Analyze an entity", "reads")
def analyze_entity_split(ctx: Agent, entity_name: EntityName) -> SplitAnalysis:
    """How full an entity is, and which topics its observations are about: the second stage of a split."""
    from recall.splits import analyze_split

    door = door_of(ctx)
    analysis = analyze_split(door.snapshot(), door.settings.split, door.now(), entity_name)
    return SplitAnalysis(**worded(analysis.as_json(), door.locale))


@tool("Suggest a split", "reads")
def propose_entity_split_tool(ctx: Agent, entity_name: EntityName) -> SplitProposal:
    """How an entity could be parted by topic: the third stage of a split. Nothing is stored.

    Show `suggested_splits` to your person, change them as they wish, and give them to `execute_entity_split_tool`.
    """
    from recall.splits import suggest_split

    door = door_of(ctx)
    suggestion = suggest_split(door.snapshot(), door.settings.split, door.now(), entity_name)
    return SplitProposal(**worded(suggestion.as_json(), door.locale))


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

    door = door_of(ctx)
    told = report(door.snapshot(), report_settings(door.place), door.now(), stale_days)
    document: Document = worded(told.as_json(), door.locale)
    return document
