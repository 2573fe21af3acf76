"""Parsers: the exports of Graphiti, mem0 and the memory server of MCP in the common form.

Graphiti and Zep: a node is `{uuid, name, labels, summary, created_at, group_id}`, an edge `{uuid, name, fact,
source_node_uuid, target_node_uuid, created_at, valid_at, invalid_at, expired_at, group_id}`. `invalid_at` is the end of
the fact, `expired_at` the time when the graph learned of it. Episodes, the words that edges were read from, are passed
over.

The memory server of MCP: `{"type": "entity", name, entityType, observations}` and `{"type": "relation", from, to,
relationType}`; as one document `{entities, relations}`, the answer of its `read_graph`. It has no times.

mem0: a memory is `{id, memory, hash, metadata, user_id | agent_id | run_id | actor_id, created_at, updated_at}`; a
relation `{source, relationship, target | destination}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.lexicon.labels import OBSERVED
from slowwave.common.text import readable

from .records import Drafts, Foreign, Item, key_of, moment_of, name_of, text_of

Values = Sequence[tuple[str, Any]]
READS = "Exports of mem0, of Graphiti or Zep, and of the memory server of MCP can be read; name one with --from."
_ENDS = ("source_node_uuid", "target_node_uuid")
_OWNERS = ("actor_id", "user_id", "agent_id")
_SEEN = 50
_SHOWN = 6


def _graphiti(drafts: Drafts, place: str, item: Item) -> None:
    if any(name in item for name in _ENDS):
        _edge(drafts, place, item)
    elif "content" not in item:  # what has one is an episode: the words from which edges were read
        _node(drafts, place, item)


def _node(drafts: Drafts, place: str, item: Item) -> None:
    given = item.get("labels")
    labels = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    name, key = name_of(item, "name"), text_of(item, "uuid", "uuid_", "id")
    if {"Community", "Saga"} & {*labels}:
        drafts.skip(place, "a community is derived from its members: it is found again here")
    elif not name or not key:
        drafts.skip(place, "it has no name or no uuid")
    else:
        words = [label for label in labels if label != "Entity" and not label.startswith("Entity_")]
        summary, seen = text_of(item, "summary") or None, moment_of(item, "created_at")
        drafts.entity(place, name, words[-1] if words else None, key, summary=summary, seen_at=seen)


def _edge(drafts: Drafts, place: str, item: Item) -> None:
    relation, statement = text_of(item, "name"), text_of(item, "fact")
    subject, target = (text_of(item, name) for name in _ENDS)
    if not relation and not statement:
        if "fact" in item or "name" in item:  # else it is one from an episode or a community to its members
            drafts.skip(place, "it has neither a name nor a fact")
    elif lost := [end or "without a name" for end in drafts.lacking((subject, target))]:
        drafts.skip(place, f"its node {' and '.join(lost)} is not in the file")
    else:
        changes = [at for at in (moment_of(item, "created_at"), moment_of(item, "expired_at")) if at is not None]
        drafts.claim(
            place, subject, target, relation or "related_to", statement, text_of(item, "uuid", "uuid_", "id"),
            valid_from=moment_of(item, "valid_at", "reference_time", "created_at"),
            valid_to=moment_of(item, "invalid_at", "expired_at"), stated_at=max(changes, default=None),
            group=name_of(item, "group_id", "graph_id", "user_id"),
        )  # fmt: skip


def _mcp_memory(drafts: Drafts, place: str, item: Item) -> None:
    name, observations = name_of(item, "name"), item.get("observations", [])
    if item.get("type") == "relation" or "relationType" in item:
        subject, target, relation = name_of(item, "from"), name_of(item, "to"), text_of(item, "relationType")
        if subject and target and relation:
            drafts.claim(place, subject, target, relation)
        else:
            drafts.skip(place, "its from, to or relationType is missing")
        return
    if not name:
        drafts.skip(place, "it is neither an entity with a name nor a relation")
        return
    drafts.entity(place, name, text_of(item, "entityType") or None)
    if not isinstance(observations, list):
        drafts.skip(place, "its observations are no list")
        return
    for number, observation in enumerate(observations):
        if statement := text_of({"text": observation}, "text"):
            drafts.claim(f"{place} observations[{number}]", name, None, OBSERVED, statement)
        else:
            drafts.skip(f"{place} observations[{number}]", "it is no text")


def _mem0(drafts: Drafts, place: str, item: Item) -> None:
    changed = moment_of(item, "updated_at", "created_at")
    if "relationship" in item:
        source, target = name_of(item, "source"), name_of(item, "target", "destination")
        relation = text_of(item, "relationship")
        if not (source and target and relation):
            drafts.skip(place, "its source, relationship or target is missing")
            return
        kinds = text_of(item, "source_type"), text_of(item, "target_type", "destination_type")
        for name, kind in zip((source, target), kinds, strict=True):
            drafts.entity(place, name, kind or None, spaced=True, seen_at=changed)
        drafts.claim(
            place, source, target, relation, stated_at=changed, valid_from=moment_of(item, "valid_at", "created_at"),
            valid_to=moment_of(item, "invalid_at", "invalidated_at"), group=name_of(item, "user_id", "agent_id"),
        )  # fmt: skip
    elif item.get("event") == "DELETE" or item.get("is_deleted") in (True, 1):
        drafts.skip(place, "it was deleted in mem0")
    elif not (statement := text_of(item, "memory", "data", "text")):
        drafts.skip(place, "it has no text under memory")
    else:
        owner = next((name for name in _OWNERS if name_of(item, name)), "")
        subject = name_of(item, owner) if owner else "user"
        drafts.entity(place, subject, "tool" if owner == "agent_id" else "person", seen_at=changed)
        drafts.claim(
            place, subject, None, OBSERVED, statement, key_of(item, "id"),
            valid_from=moment_of(item, "created_at", "updated_at"), stated_at=changed,
            valid_to=moment_of(item, "expiration_date", "invalid_at"),
            group=name_of(item, "user_id", "agent_id", "run_id"),
        )  # fmt: skip


class _System(NamedTuple):
    """How an item is read, the lists of items in a document, and fields that only they have.

    Items with one of the fields `last` are read after all others, because they name them.
    """

    read: Callable[[Drafts, str, Item], None]
    lists: tuple[str, ...]
    marks: frozenset[str]
    last: tuple[str, ...] = ()


_SYSTEMS: Mapping[str, _System] = {
    "mem0": _System(_mem0, ("results", "memories", "data", "relations"), frozenset({"memory", "relationship"})),
    "graphiti": _System(
        _graphiti,
        ("nodes", "entities", "entity_nodes", "edges", "relationships", "facts", "entity_edges"),
        frozenset({"source_node_uuid", "fact", "group_id", "graph_id", "uuid", "uuid_"}),
        _ENDS,
    ),
    "mcp-memory": _System(_mcp_memory, ("entities", "relations"), frozenset({"entityType", "relationType"})),
}
SYSTEMS = tuple(_SYSTEMS)


def read_export(values: Values, system: str = "auto", name: str = "It") -> Foreign:
    """The content of the JSON values of a file, each with its place.

    Raises `UnknownName` for an unknown system, and `UnusableInput` if nothing can be read as an export of `system`.
    """
    if system not in (*SYSTEMS, "auto"):
        raise UnknownName("memory system", system, (*SYSTEMS, "auto"))
    found = system_of(values, name) if system == "auto" else system
    drafts, chosen = Drafts(), _SYSTEMS[found]
    items = [each for place, value in values for each in _items(place, value, chosen.lists)]
    for place, item in sorted(
        items, key=lambda each: isinstance(each[1], Mapping) and any(end in each[1] for end in chosen.last)
    ):
        if isinstance(item, Mapping):
            chosen.read(drafts, place, item)
        else:
            drafts.skip(place, "it is no object")
    read = drafts.foreign(found)
    if read.skipped and read.claims.is_empty() and read.entities.is_empty():
        raise UnusableInput(f"Nothing in {name} can be read as {found}: {read.skipped[0].reason}.", READS)
    return read


def _items(place: str, value: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The items of the lists with these names, each with its place, or the value itself; none of an empty page."""
    lists = [name for name in names if isinstance(value.get(name), list)] if isinstance(value, Mapping) else []
    for name in lists:
        yield from ((f"{place} {name}[{number}]".strip(), item) for number, item in enumerate(value[name]))
    if not lists:
        yield place, value


def system_of(values: Values, name: str = "It") -> str:
    """The system by the fields of the first items."""
    documents = [value for _, value in values[:_SEEN] if isinstance(value, Mapping)]
    lists = {each for system in _SYSTEMS.values() for each in system.lists}
    items = [item for value in documents for _, item in _items("", value, sorted(lists))]
    keys = {key for item in items if isinstance(item, Mapping) for key in item}
    for system in ("mcp-memory", "graphiti", "mem0"):
        if _SYSTEMS[system].marks & keys:
            return system
    shown = sorted(readable(str(key)) for key in keys)
    reason = f"its fields are {', '.join(shown[:_SHOWN])}" if shown else "it holds no object with fields"
    raise UnusableInput(f"Nothing in {name} shows which memory system wrote it: {reason}.", READS)
