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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slowwave.common.errors import UnknownName, UnusableInput
from slowwave.common.text import digest, normalise_name, readable

from .records import (
    Drafts,
    Foreign,
    Item,
    Skipped,
    called,
    entity,
    items_of,
    key_of,
    moment_of,
    name_of,
    share_of,
    text_of,
)

NODES = ("nodes", "entities", "entity_nodes")
EDGES = ("edges", "relationships", "facts", "entity_edges")
_ENDS = ("source_node_uuid", "target_node_uuid")
_DERIVED = frozenset({"Community", "Saga"})


def parse_graphiti(values: Iterable[tuple[str, Any]], drafts: Drafts) -> None:
    """Fill the drafts from the documents or lines of an export; nodes may come after the edges that name them."""
    edges: list[tuple[str, Item]] = []
    names: dict[str, str] = {}
    for place, value in values:
        for inner, item in _items(place, value, (*NODES, *EDGES)):
            if not isinstance(item, Mapping):
                drafts.skip(inner, "it is no object")
            elif any(name in item for name in _ENDS):
                edges.append((inner, item))
            elif "content" not in item:  # what has one is an episode: the words from which edges were read
                _node(drafts, inner, item, names)
    for place, item in edges:
        _edge(drafts, place, item, names)


def _items(place: str, value: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """The items of the lists with these names, each with its place, or the value itself; none of an empty page."""
    if found := items_of(value, names):
        return [(f"{place} {inner}".strip(), item) for inner, item in found]
    is_page = isinstance(value, Mapping) and any(isinstance(value.get(name), list) for name in names)
    return [] if is_page else [(place, value)]


def _uuid(item: Item) -> str:
    return text_of(item, "uuid", "uuid_", "id")


def _node(drafts: Drafts, place: str, item: Item, names: dict[str, str]) -> None:
    given = item.get("labels")
    labels = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    name = name_of(item, "name")
    if _DERIVED & {*labels}:
        drafts.skip(place, "a community is derived from its members: it is found again here", "gone")
        return
    if not name or not _uuid(item):
        drafts.skip(place, "it has no name or no uuid")
        return
    words = [label for label in labels if label != "Entity" and not label.startswith("Entity_")]
    seen = moment_of(item, "created_at")
    row = entity(place, name, words[-1] if words else None, summary=text_of(item, "summary") or None, seen_at=seen)
    drafts.entities.append(row)
    names[_uuid(item)] = row["name"]


def _edge(drafts: Drafts, place: str, item: Item, names: Mapping[str, str]) -> None:
    relation, statement = text_of(item, "name"), text_of(item, "fact")
    if not relation and not statement:
        if "fact" in item or "name" in item:
            drafts.skip(place, "it has neither a name nor a fact")
        return  # an edge from an episode or a community to its members
    ends = [text_of(item, name) for name in _ENDS]
    lost = [end or "without a name" for end in ends if end not in names]
    if lost:
        drafts.skip(place, f"its node {' and '.join(dict.fromkeys(lost))} is not in the file", "endless")
        return
    subject, target = (names[end] for end in ends)
    made, known = moment_of(item, "created_at"), moment_of(item, "expired_at")
    drafts.claim(
        place, subject, None if subject == target else target, relation or "related_to", statement, _uuid(item),
        valid_from=moment_of(item, "valid_at", "reference_time", "created_at"),
        valid_to=moment_of(item, "invalid_at", "expired_at"),
        stated_at=max((at for at in (made, known) if at is not None), default=None),
        group=name_of(item, "group_id", "graph_id", "user_id"),
    )  # fmt: skip


LISTS = ("entities", "relations")


def parse_mcp_memory(values: Iterable[tuple[str, Any]], drafts: Drafts) -> None:
    """Fill the drafts from the lines or the document of a memory file; entities may come after their relations."""
    relations: list[tuple[str, Item]] = []
    names: dict[str, str] = {}
    for place, value in values:
        for inner, item in _items(place, value, LISTS):
            if not isinstance(item, Mapping):
                drafts.skip(inner, "it is no object")
            elif item.get("type") == "relation" or "relationType" in item:
                relations.append((inner, item))
            else:
                _entity(drafts, inner, item, names)
    for place, item in relations:
        _relation(drafts, place, item, names)


def _entity(drafts: Drafts, place: str, item: Item, names: dict[str, str]) -> None:
    name = name_of(item, "name")
    if not name:
        drafts.skip(place, "it is neither an entity with a name nor a relation")
        return
    row = entity(place, name, text_of(item, "entityType") or None)
    names.setdefault(normalise_name(name), row["name"])
    drafts.entities.append(row)
    observations = item.get("observations", [])
    if not isinstance(observations, list):
        drafts.skip(place, "its observations are no list")
        return
    for number, observation in enumerate(observations):
        inner = f"{place} observations[{number}]"
        statement = " ".join(readable(observation).split()) if isinstance(observation, str) else ""
        if not statement:
            drafts.skip(inner, "it is no text")
            continue
        drafts.claim(inner, row["name"], None, "observed", statement)


def _relation(drafts: Drafts, place: str, item: Item, names: Mapping[str, str]) -> None:
    ends = [name_of(item, name) for name in ("from", "to")]
    relation = text_of(item, "relationType")
    if not (all(ends) and relation):
        drafts.skip(place, "its from, to or relationType is missing")
        return
    subject, target = (names.get(normalise_name(end), end) for end in ends)
    drafts.claim(place, subject, target, relation)


MEMORIES = ("results", "memories", "data")
RELATIONS = ("relations",)
NOBODY = "user"
_TEXT = ("memory", "data", "text")
_OWNERS = ("actor_id", "user_id", "agent_id")
_TIMES = ("updated_at", "created_at")


def parse_mem0(values: Iterable[tuple[str, Any]], drafts: Drafts) -> None:
    """Fill the drafts from the documents or lines of an export."""
    for place, value in values:
        for inner, item in _items(place, value, (*MEMORIES, *RELATIONS)):
            if isinstance(item, Mapping) and "relationship" in item:
                _mem0_relation(drafts, inner, item)
            else:
                _memory(drafts, inner, item)


def _memory(drafts: Drafts, place: str, item: Any) -> None:
    if not isinstance(item, Mapping):
        drafts.skip(place, "it is no object")
        return
    key = key_of(item, "id")
    if item.get("event") == "DELETE" or item.get("is_deleted") in (True, 1):
        drafts.skip(place, "it was deleted in mem0", "gone")
        return
    statement = text_of(item, *_TEXT)
    if not statement:
        drafts.skip(place, "it has no text under memory")
        return
    owner = next((name for name in _OWNERS if key_of(item, name) and name_of(item, name)), "")
    subject = name_of(item, owner) if owner else NOBODY
    made = moment_of(item, "created_at", "updated_at")
    changed = moment_of(item, *_TIMES)
    metadata = item.get("metadata")
    drafts.entities.append(entity(place, subject, "agent" if owner == "agent_id" else "person", seen_at=changed))
    confidence = share_of(item, "confidence")
    if confidence is None and isinstance(metadata, Mapping):
        confidence = share_of(metadata, "confidence")
    drafts.claim(
        place, subject, None, "observed", statement, key, confidence=confidence,
        valid_from=made, valid_to=moment_of(item, "expiration_date", "invalid_at"), stated_at=changed,
        group=name_of(item, "user_id", "agent_id", "run_id"),
    )  # fmt: skip


def _mem0_relation(drafts: Drafts, place: str, item: Item) -> None:
    source, target = name_of(item, "source"), name_of(item, "target", "destination")
    relation = text_of(item, "relationship")
    if not (source and target and relation):
        drafts.skip(place, "its source, relationship or target is missing")
        return
    kinds = [text_of(item, name) or None for name in ("source_type", "target_type")]
    kinds[1] = kinds[1] or text_of(item, "destination_type") or None
    seen = moment_of(item, *_TIMES)
    names = [called(name, None, spaced=True) for name in (source, target)]
    drafts.entities += [
        entity(place, name, kind, spaced=True, seen_at=seen) for name, kind in zip((source, target), kinds, strict=True)
    ]
    source, target = names
    drafts.claim(
        place, source, target, relation, key=digest(source, target, relation, size=8),
        confidence=share_of(item, "confidence"),
        valid_from=moment_of(item, "valid_at", "created_at"),
        valid_to=moment_of(item, "invalid_at", "invalidated_at"), stated_at=seen,
        group=name_of(item, "user_id", "agent_id"),
    )  # fmt: skip


# The memory system that wrote an export, and its content in the common form


Values = Sequence[tuple[str, Any]]

_PARSERS: Mapping[str, Callable[[Iterable[tuple[str, Any]], Drafts], None]] = {
    "mem0": parse_mem0,
    "graphiti": parse_graphiti,
    "mcp-memory": parse_mcp_memory,
}
SYSTEMS = tuple(_PARSERS)
READS = "Exports of mem0, of Graphiti or Zep, and of the memory server of MCP can be read; name one with --from."
_LISTS = {"mem0": (*MEMORIES, *RELATIONS), "graphiti": (*NODES, *EDGES), "mcp-memory": LISTS}
_MARKS = {
    "mcp-memory": {"entityType", "relationType"},
    "graphiti": {"source_node_uuid", "fact", "group_id", "graph_id", "uuid", "uuid_"},
    "mem0": {"memory", "relationship"},
}
_SEEN = 50
_SHOWN = 6


def known_system(name: str) -> str:
    """The name itself, or UnknownName."""
    if name not in (*SYSTEMS, "auto"):
        raise UnknownName("memory system", name, (*SYSTEMS, "auto"))
    return name


def read_export(values: Values, system: str = "auto", before: Iterable[Skipped] = (), name: str = "It") -> Foreign:
    """The content of the JSON values of a file, each with its place; `before` are items that the reader skipped.

    Raises `UnusableInput` if the system is unknown, or nothing can be read as an export of `system`.
    """
    found = system_of(values, name) if known_system(system) == "auto" else system
    drafts = Drafts()
    _PARSERS[found](values, drafts)
    read = drafts.foreign(found, before)
    broken = [each for each in read.skipped if each.loss == "broken"]
    if broken and read.claims.is_empty() and read.entities.is_empty():
        why = f"{broken[0].place}: {broken[0].reason}" if broken[0].place else broken[0].reason
        raise UnusableInput(f"Nothing in {name} can be read as {found}: {why}.", READS)
    return read


def system_of(values: Values, name: str = "It") -> str:
    """The system by the fields of the first items."""
    top = {key for _, value in values if isinstance(value, Mapping) for key in value}
    keys = {key for item in _first_items(values) for key in item}
    for system, marks in _MARKS.items():
        if marks & keys:
            return system
    named = [system for system, lists in _LISTS.items() if top & {*lists}]
    if named and not keys:  # an empty store is known by the names of its lists
        return named[0]
    shown = sorted(readable(str(key)) for key in keys or top)
    reason = f"its fields are {', '.join(shown[:_SHOWN])}" if shown else "it holds no object with fields"
    raise UnusableInput(f"Nothing in {name} shows which memory system wrote it: {reason}.", READS)


def _first_items(values: Values) -> list[Mapping[str, Any]]:
    """Some of the items, also from the lists of documents."""
    found: list[Mapping[str, Any]] = []
    for _, value in values[:_SEEN]:
        if not isinstance(value, Mapping):
            continue
        lists = [each for names in _LISTS.values() for n in names if isinstance(each := value.get(n), list)]
        inner = [item for each in lists for item in each[:_SEEN] if isinstance(item, Mapping)]
        found += inner or ([] if lists else [value])
    return found
