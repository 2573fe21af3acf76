"""Changes that only a person may allow: an agent leaves a proposal, and learns what became of it.

An agent has no tool that says yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recall.context import inert
from recall.entities import exact_row
from recall.proposals import Proposal, summary_of
from recall.report import observations_of
from slowwave.common.errors import Refused, UnusableInput
from slowwave.integrations.python_api import OpenMemory
from slowwave.review.proposals import observations_in

from .tools import inert_text

if TYPE_CHECKING:
    from slowwave.review.split_plan import SplitPart
    from storage.snapshots import Snapshot

PLACES = (
    "in a terminal: slowwave review approve {id}",
    "in a browser: the page of `slowwave serve`",
    "in Prefect: the deployment `review`",
)
"""Where a person decides."""


def change_of(memory: OpenMemory, proposal: Proposal) -> dict[str, Any]:
    """A change that waits for a person, what it would do, and the `doors` where a person can decide."""
    return {
        "state": proposal.state,
        "message": "It waits: only a person can allow it, and nothing has changed. Do not try another way.",
        "proposal_id": proposal.id,
        "action": proposal.action,
        "title": proposal.title,
        "diff": [inert(line) for line in summary_of(memory.snapshot, proposal)],
        "risks": list(proposal.risks),
        "doors": [place.format(id=proposal.id) for place in PLACES],
        "entity": proposal.subject,
    }


def deletion_of(memory: OpenMemory, name: str, observations: Sequence[str]) -> Proposal:
    """The proposal to delete these observations (ids or contents) of an entity; the same waits only once.

    Raises `UnknownName`, `UnusableInput` for what is no live observation of it, `Refused` where a person said no.
    """
    from tasks.people.observations import propose_deletion

    entity: str = exact_row(memory.snapshot, name)["id"]
    ids = _ids(_live(memory.snapshot, entity), observations)
    return propose_deletion(memory.place.run("propose"), entity, ids, reason="An agent asked for it.")


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


def split_of(
    memory: OpenMemory,
    name: str,
    requested: Sequence[SplitPart],
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
    if made_for not in (None, plan_hash(entity, live)):
        raise Refused(
            f"Something else is known of {entity['name']} since the plan was made.",
            "`propose_entity_split_tool` makes another.",
        )
    place = memory.place
    splits = [replace(each, observations=tuple(_ids(live, each.observations))) for each in requested]
    return propose_split(place.run("propose"), entity["id"], place.settings.split, splits, proposed_by="agent")


def split_numbers(memory: OpenMemory, proposal: Proposal) -> dict[str, Any]:
    """The numbers of a split, as they are once a person has allowed it (S0-14)."""
    names, moved = [each["name"] for each in proposal.ask["splits"]], len(observations_in(proposal.ask))
    left = len(_live(memory.snapshot, proposal.subject_id)) - moved
    return {
        "new_entities": names, "moved_observations": moved, "relations_created": 2 * len(names),
        "original_observations_remaining": left,
    }  # fmt: skip
