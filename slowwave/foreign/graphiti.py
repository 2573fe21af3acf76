"""Graphiti and Zep: a graph of entity nodes and fact edges, with their source episodes.

A node is `{uuid, name, labels, summary, created_at, group_id}`, an edge `{uuid, name, fact, source_node_uuid,
target_node_uuid, created_at, valid_at, invalid_at, expired_at, episodes, group_id}`, an episode `{uuid, content,
valid_at}`. `invalid_at` is the end of the fact, `expired_at` the time when the graph learned of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowwave.text import digest

from .records import Drafts, Item, entity, items_of, moment_of, name_of, relation_sentence, text_of, texts_of

NODES = ("nodes", "entities", "entity_nodes")
EDGES = ("edges", "relationships", "facts", "entity_edges")
EPISODES = ("episodes", "episodic_nodes")
_ENDS = ("source_node_uuid", "target_node_uuid")
_SHORT_ENDS = ("source_uuid", "target_uuid")
_DERIVED = frozenset({"Community", "Saga"})


def parse_graphiti(values: Iterable[tuple[str, Any]], drafts: Drafts) -> None:
    """Fill the drafts from the documents or lines of an export; nodes may come after the edges that name them."""
    parts: dict[str, list[tuple[str, Item]]] = {"node": [], "edge": [], "episode": [], "": []}
    for place, value in values:
        for inner, given in _items(place, value):
            item = _flat(given)
            kind = _kind(item)
            parts[kind].append((inner, item))
            if not kind:
                drafts.skip(inner, "it is neither a node, an edge nor an episode")
    names: dict[str, str] = {}
    for place, item in parts["node"]:
        _node(drafts, place, item, names)
    for place, item in parts["episode"]:
        _episode(drafts, place, item)
    for place, item in parts["edge"]:
        _edge(drafts, place, item, names)


def _items(place: str, value: Any) -> list[tuple[str, Any]]:
    found = items_of(value, (*NODES, *EDGES, *EPISODES))
    if found:
        return [(f"{place} {inner}".strip(), item) for inner, item in found]
    is_page = isinstance(value, Mapping) and any(isinstance(value.get(name), list) for name in (*NODES, *EDGES))
    return [] if is_page else [(place, value)]


def _flat(given: Any) -> Item:
    """The item itself, or the properties of a node or relationship as Neo4j dumps them."""
    if not isinstance(given, Mapping):
        return {}
    own = given.get("properties")
    return {**own, "labels": given.get("labels", own.get("labels"))} if isinstance(own, Mapping) else given


def _kind(item: Item) -> str:
    if any(name in item for name in (*_ENDS, *_SHORT_ENDS)):
        return "edge"
    if "content" in item and _uuid(item):
        return "episode"
    return "node" if "name" in item and _uuid(item) else ""


def _uuid(item: Item) -> str:
    return text_of(item, "uuid", "uuid_", "id")


def _node(drafts: Drafts, place: str, item: Item, names: dict[str, str]) -> None:
    labels = texts_of(drafts, place, item, "labels")
    name = name_of(item, "name")
    if _DERIVED & {*labels}:
        drafts.skip(place, "a community is derived from its members: it is found again here", "gone")
        return
    if not name:
        drafts.skip(place, "it has no name")
        return
    words = [label for label in labels if label != "Entity" and not label.startswith("Entity_")]
    seen = moment_of(drafts, place, item, "created_at")
    row = entity(place, name, words[-1] if words else None, summary=text_of(item, "summary") or None, seen_at=seen)
    drafts.entities.append(row)
    names[_uuid(item)] = row["name"]


def _episode(drafts: Drafts, place: str, item: Item) -> None:
    if text := text_of(item, "content"):
        at = moment_of(drafts, place, item, "valid_at", "created_at")
        drafts.episodes.append({"place": place, "key": _uuid(item), "text": text, "told_at": at, "group": _group(item)})
    else:
        drafts.skip(place, "it has no content")


def _edge(drafts: Drafts, place: str, item: Item, names: Mapping[str, str]) -> None:
    relation, statement = text_of(item, "name"), text_of(item, "fact")
    if not relation and not statement:
        if "fact" in item or "name" in item:
            drafts.skip(place, "it has neither a name nor a fact")
        return  # an edge from an episode or a community to its members
    ends = [text_of(item, *pair) for pair in zip(_ENDS, _SHORT_ENDS, strict=True)]
    lost = [end or "without a name" for end in ends if end not in names]
    if lost:
        drafts.skip(place, f"its node {' and '.join(dict.fromkeys(lost))} is not in the file", "endless")
        return
    subject, target = (names[end] for end in ends)
    is_own = subject == target
    ended = moment_of(drafts, place, item, "invalid_at", "expired_at")
    made, known = moment_of(drafts, place, item, "created_at"), moment_of(drafts, place, item, "expired_at")
    drafts.claims.append(
        {
            "place": place,
            "key": _uuid(item) or digest(subject, relation, target, statement, size=8),
            "kind": "observation" if is_own else "relation",
            "subject": subject,
            "relation": relation or "related_to",
            "object": None if is_own else target,
            "statement": statement or relation_sentence(subject, relation, target),
            "valid_from": moment_of(drafts, place, item, "valid_at", "reference_time", "created_at"),
            "valid_to": ended,
            "told_at": max((at for at in (made, known) if at is not None), default=None),
            "group": _group(item),
            "episodes": texts_of(drafts, place, item, "episodes"),
        }
    )


def _group(item: Item) -> str:
    return name_of(item, "group_id", "graph_id", "user_id")
