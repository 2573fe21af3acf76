"""The reference memory server of MCP: JSON lines of entities with observations, and of relations between them.

`{"type": "entity", name, entityType, observations}` and `{"type": "relation", from, to, relationType}`; as one document
`{entities, relations}`, the answer of its `read_graph`. It has no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowwave.text import digest, normalise_name, readable

from .records import Drafts, Item, entity, items_of, name_of, relation_sentence, text_of

LISTS = ("entities", "relations")


def parse_mcp_memory(values: Iterable[tuple[str, Any]], drafts: Drafts) -> None:
    """Fill the drafts from the lines or the document of a memory file; entities may come after their relations."""
    relations: list[tuple[str, Item]] = []
    names: dict[str, str] = {}
    for place, value in values:
        found = items_of(value, LISTS)
        is_empty = not found and isinstance(value, Mapping) and any(name in value for name in LISTS)
        for inner, item in [(f"{place} {each}".strip(), item) for each, item in found] or [(place, value)] * (
            not is_empty
        ):
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
        drafts.claims.append(
            {
                "place": inner,
                "key": digest(normalise_name(row["name"]), statement, size=8),
                "kind": "observation",
                "subject": row["name"],
                "relation": "observed",
                "statement": statement,
            }
        )


def _relation(drafts: Drafts, place: str, item: Item, names: Mapping[str, str]) -> None:
    ends = [name_of(item, name) for name in ("from", "to")]
    relation = text_of(item, "relationType")
    if not (all(ends) and relation):
        drafts.skip(place, "its from, to or relationType is missing")
        return
    subject, target = (names.get(normalise_name(end), end) for end in ends)
    drafts.claims.append(
        {
            "place": place,
            "key": digest(normalise_name(subject), relation, normalise_name(target), size=8),
            "kind": "relation",
            "subject": subject,
            "relation": relation,
            "object": target,
            "statement": relation_sentence(subject, relation, target),
        }
    )
