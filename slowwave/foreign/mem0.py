"""mem0: memories of a user or agent (`get_all()`, pages of the platform, rows of its vector store), and its graph.

A memory is `{id, memory, hash, metadata, user_id | agent_id | run_id | actor_id, created_at, updated_at}`; a relation
`{source, relationship, target | destination}`. A history is `{memory_id, old_memory, new_memory, event, …}`: only its
last state is taken, never updated or deleted memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowwave.text import digest

from .records import (
    Drafts,
    Item,
    called,
    entity,
    items_of,
    key_of,
    moment_of,
    name_of,
    relation_sentence,
    share_of,
    text_of,
)

MEMORIES = ("results", "memories", "data")
RELATIONS = ("relations",)
HISTORY = ("history",)
NOBODY = "user"
_TEXT = ("memory", "data", "text", "new_memory")
_OWNERS = ("actor_id", "user_id", "agent_id")
_TIMES = ("updated_at", "created_at")


def parse_mem0(values: Iterable[tuple[str, Any]], drafts: Drafts) -> None:
    """Fill the drafts from the documents or lines of an export."""
    memories: list[tuple[str, Any]] = []
    history: list[tuple[str, Any]] = []
    for place, value in values:
        for inner, item in _items(place, value):
            if isinstance(item, Mapping) and "relationship" in item:
                _relation(drafts, inner, item)
            elif isinstance(item, Mapping) and "event" in item and "memory_id" in item:
                history.append((inner, item))
            else:
                memories.append((inner, item))
    last = _latest(drafts, history)
    for place, item in memories:
        _memory(drafts, place, item, last)
    if not memories:
        for key, (place, item) in last.items():
            _memory(drafts, place, {**item, "id": key}, last)


def _items(place: str, value: Any) -> list[tuple[str, Any]]:
    found = items_of(value, (*MEMORIES, *RELATIONS, *HISTORY))
    if found:
        return [(f"{place} {inner}".strip(), item) for inner, item in found]
    is_page = isinstance(value, Mapping) and any(isinstance(value.get(name), list) for name in MEMORIES)
    return [] if is_page else [(place, value)]


def _latest(drafts: Drafts, history: Iterable[tuple[str, Item]]) -> dict[str, tuple[str, Item]]:
    """The last event of each memory."""
    timed = [(moment_of(drafts, place, item, *_TIMES) or 0, n, place, item) for n, (place, item) in enumerate(history)]
    return {name_of(item, "memory_id"): (place, item) for _, _, place, item in sorted(timed, key=lambda row: row[:2])}


def _memory(drafts: Drafts, place: str, given: Any, last: Mapping[str, tuple[str, Item]]) -> None:
    if not isinstance(given, Mapping):
        drafts.skip(place, "it is no object")
        return
    payload = given.get("payload")
    item = {**payload, "id": given.get("id")} if isinstance(payload, Mapping) else given
    key = key_of(drafts, place, item, "id")
    event = last.get(key, ("", {}))[1]
    if "DELETE" in (item.get("event"), event.get("event")) or item.get("is_deleted") in (True, 1):
        drafts.skip(place, "it was deleted in mem0", "gone")
        return
    statement = text_of(item, *_TEXT)
    if not statement:
        drafts.skip(place, "it has no text under memory")
        return
    owner = next((name for name in _OWNERS if key_of(drafts, place, item, name) and name_of(item, name)), "")
    subject = name_of(item, owner) if owner else NOBODY
    made = moment_of(drafts, place, item, "created_at", "updated_at")
    changed = moment_of(drafts, place, item, *_TIMES)
    is_newer = event.get("event") == "UPDATE" and text_of(event, "new_memory", "new_value") == statement
    metadata = item.get("metadata")
    drafts.entities.append(entity(place, subject, "agent" if owner == "agent_id" else "person", seen_at=changed))
    drafts.claims.append(
        {
            "place": place,
            "key": key or digest(subject, statement, size=8),
            "kind": "observation",
            "subject": subject,
            "relation": "observed",
            "statement": statement,
            "role": item.get("role") if item.get("role") in ("user", "assistant") else None,
            "confidence": share_of(item, "confidence")
            or (share_of(metadata, "confidence") if isinstance(metadata, Mapping) else None),
            "valid_from": moment_of(drafts, place, event, *_TIMES) or made if is_newer else made,
            "valid_to": moment_of(drafts, place, item, "expiration_date", "invalid_at"),
            "told_at": changed,
            "group": name_of(item, "user_id", "agent_id", "run_id"),
        }
    )


def _relation(drafts: Drafts, place: str, item: Item) -> None:
    source, target = name_of(item, "source"), name_of(item, "target", "destination")
    relation = text_of(item, "relationship")
    if not (source and target and relation):
        drafts.skip(place, "its source, relationship or target is missing")
        return
    kinds = [text_of(item, name) or None for name in ("source_type", "target_type")]
    kinds[1] = kinds[1] or text_of(item, "destination_type") or None
    seen = moment_of(drafts, place, item, *_TIMES)
    names = [called(name, None, spaced=True) for name in (source, target)]
    drafts.entities += [
        entity(place, name, kind, spaced=True, seen_at=seen) for name, kind in zip((source, target), kinds, strict=True)
    ]
    drafts.claims.append(
        {
            "place": place,
            "key": digest(*names, relation, size=8),
            "kind": "relation",
            "subject": names[0],
            "relation": relation,
            "object": names[1],
            "statement": relation_sentence(names[0], relation, names[1]),
            "confidence": share_of(item, "confidence"),
            "valid_from": moment_of(drafts, place, item, "valid_at", "created_at"),
            "valid_to": moment_of(drafts, place, item, "invalid_at", "invalidated_at"),
            "told_at": seen,
            "group": name_of(item, "user_id", "agent_id"),
        }
    )
