"""What a destructive call wants: the proposal of exactly that change, found where there is one, else made.

Who calls again with the same arguments gets the same proposal, whatever became of it meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recall.entities import exact_row
from recall.facts import ALL, stored
from recall.proposals import Proposal, list_proposals, proposal_named
from recall.splits import observations_of
from slowwave.errors import Refused, UnusableInput
from slowwave.labels import canonical_type

from .door import Door
from .evidence import inert_text

if TYPE_CHECKING:
    from slowwave.splitting.split_plan import Split
    from storage.snapshots import Snapshot

OPEN, DONE = ("pending", "approved"), ("applied",)

Asked = tuple[str, str | None, Sequence[str]]
"""Name, type (None: that of the parent) and observations of a new entity."""


def deletion_of(door: Door, name: str, asked: Sequence[str]) -> Proposal:
    """The proposal to delete these observations (ids or contents) of an entity.

    Raises `UnknownName`, `UnusableInput` for what is no live observation of it, `Refused` where a person said no.
    """
    from tasks.observations import propose_deletion

    snapshot = door.snapshot()
    entity: str = exact_row(snapshot, name)["id"]
    live = _live(snapshot, door, entity)
    ids = _ids(live, asked)
    is_open = bool({*ids} & {*live})
    for each in _of(snapshot, "delete", entity, OPEN if is_open else DONE):
        known = each.ask.get("observations", [])
        wanted = ids if is_open else _ids(_contents(snapshot, known), asked)
        if {*wanted} == {*known} and (not is_open or {*known} <= {*live}):  # else it can only grow stale
            return each
    return propose_deletion(door.run("propose"), entity, ids, reason="An agent asked for it.")


def _of(snapshot: Snapshot, action: str, entity: str, states: Sequence[str]) -> Iterator[Proposal]:
    """Proposals of an action about an entity, the latest of each state first."""
    for state in states:
        yield from reversed(list_proposals(snapshot, state, action=action, entity=entity))


def _live(snapshot: Snapshot, door: Door, entity: str) -> dict[str, str]:
    """The live observations of an entity: id and content."""
    return dict(observations_of(snapshot, entity, door.now()).select("id", "statement").iter_rows())


def _ids(live: Mapping[str, str], asked: Sequence[str]) -> list[str]:
    """The ids of what was asked for by content, as it is stored or as agents see it; the rest is left for an id."""
    by_content: dict[str, list[str]] = {}
    for fact, content in live.items():
        for told in {content, inert_text(content)}:
            by_content.setdefault(told, []).append(fact)
    return list(dict.fromkeys(fact for each in asked for fact in by_content.get(" ".join(each.split()), [each])))


def _contents(snapshot: Snapshot, ids: Sequence[str]) -> dict[str, str]:
    return dict(stored(snapshot, ALL, ids, columns=("id", "statement")).sort("id").iter_rows())


def deleted_rows(door: Door, proposal: Proposal) -> list[dict[str, Any]]:
    """The observations that a deletion is about."""
    contents = _contents(door.snapshot(), proposal.ask.get("observations", []))
    return [{"id": fact, "content": content} for fact, content in contents.items()]


def split_of(
    door: Door, name: str, asked: Sequence[Asked], parent_name: str | None = None, made_for: str | None = None
) -> Proposal:
    """The proposal to part an entity so; `made_for` is the plan hash of the suggestion, where it is known.

    Raises as `deletion_of`, `UnusableInput` for a plan that cannot be, and `Refused` for one that grew stale (T49).
    """
    from slowwave.splitting.split_plan import plan_hash
    from tasks.splitting import propose_split

    snapshot = door.snapshot()
    entity = exact_row(snapshot, name)
    if parent_name is not None and exact_row(snapshot, parent_name)["id"] != entity["id"]:
        raise UnusableInput(
            f"{parent_name} is not what is split.", "New entities belong to the one that they come from; leave it out."
        )
    live = _live(snapshot, door, entity["id"])
    splits, now = _splits(entity["entity_type"], asked, live), plan_hash(entity, live)
    is_open = bool({fact for split in splits for fact in split.observations} & {*live})
    for each in _of(snapshot, "split", entity["id"], OPEN if is_open else DONE):
        if _is_into(snapshot, each, entity["entity_type"], asked) and (_made_for(each) == now or not is_open):
            return each
    if made_for not in (None, now):
        raise Refused(
            f"Something else is known of {entity['name']} since the plan was made.",
            "`propose_entity_split_tool` makes another.",
        )
    made = propose_split(door.run("propose"), entity["id"], door.settings.split, splits, proposed_by="agent")
    return proposal_named(door.snapshot(), made.proposal_id)


def _splits(parent_type: str, asked: Sequence[Asked], live: Mapping[str, str]) -> list[Split]:
    from slowwave.splitting.split_plan import Split

    return [
        Split(name, (canonical_type(kind) or kind) if kind else parent_type, tuple(_ids(live, observations)))
        for name, kind, observations in asked
    ]


def _is_into(snapshot: Snapshot, proposal: Proposal, parent_type: str, asked: Sequence[Asked]) -> bool:
    """Whether a split is the very one that is asked for."""
    from slowwave.splitting.split_plan import splits_of

    made = splits_of(proposal.ask)
    contents = _contents(snapshot, [fact for split in made for fact in split.observations])
    return _shape(made) == _shape(_splits(parent_type, asked, contents))


def _made_for(proposal: Proposal) -> str | None:
    """The hash of what was known of the entity when its split was planned."""
    told = [change.after or {} for change in proposal.changes if change.table == "decisions"]
    seen = [json.loads(row["measures"]) for row in told if row.get("action") == "split" and row.get("measures")]
    return seen[0].get("plan_hash") if seen else None


def _shape(splits: Sequence[Split]) -> set[tuple[str, str | None, frozenset[str]]]:
    return {(each.name, each.entity_type, frozenset(each.observations)) for each in splits}


def split_numbers(door: Door, proposal: Proposal) -> dict[str, Any]:
    """What a split did, or would do: the numbers of S0-14; what remains is counted now."""
    from tasks.split_execution import split_done

    done = split_done(door.snapshot(), door.run("look"), proposal)
    told = done.as_json()
    names = ("new_entities", "moved_observations", "relations_created", "original_observations_remaining")
    moving = 0 if proposal.state == "applied" else done.moved_observations
    return {name: told[name] for name in names} | {
        "original_observations_remaining": done.original_observations_remaining - moving
    }
