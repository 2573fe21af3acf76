"""The memory system that wrote an export, and its content in one common form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slowwave.errors import UnknownName, UnusableInput
from slowwave.text import readable

from . import parsers
from .parsers import parse_graphiti, parse_mcp_memory, parse_mem0
from .records import Drafts, Foreign, Skipped

Values = Sequence[tuple[str, Any]]

_PARSERS: Mapping[str, Callable[[Iterable[tuple[str, Any]], Drafts], None]] = {
    "mem0": parse_mem0,
    "graphiti": parse_graphiti,
    "mcp-memory": parse_mcp_memory,
}
SYSTEMS = tuple(_PARSERS)
READS = "Exports of mem0, of Graphiti or Zep, and of the memory server of MCP can be read; name one with --from."
_LISTS = {
    "mem0": (*parsers.MEMORIES, *parsers.RELATIONS, *parsers.HISTORY),
    "graphiti": (*parsers.NODES, *parsers.EDGES, *parsers.EPISODES),
    "mcp-memory": parsers.LISTS,
}
_MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    ("mcp-memory", frozenset({"entityType", "relationType"})),
    ("graphiti", frozenset({"source_node_uuid", "source_uuid", "fact", "group_id", "graph_id", "uuid", "uuid_"})),
    ("mem0", frozenset({"memory", "relationship", "memory_id", "payload"})),
)
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
    _PARSERS[found]([(place, value) for place, value in values], drafts)
    read = drafts.foreign(found, before)
    broken = [each for each in read.skipped if each.loss == "broken"]
    if broken and read.claims.is_empty() and read.entities.is_empty():
        why = f"{broken[0].place}: {broken[0].reason}" if broken[0].place else broken[0].reason
        raise UnusableInput(f"Nothing in {name} can be read as {found}: {why}.", READS)
    return read


def system_of(values: Values, name: str = "It") -> str:
    """The system by the fields of the first items."""
    keys = [set(item) for item in _first_items(values)]
    for system, marks in _MARKS:
        if any(marks & own for own in keys):
            return system
    top = {key for _, value in values if isinstance(value, Mapping) for key in value}
    named = [system for system in ("mem0", "graphiti", "mcp-memory") if top & {*_LISTS[system]}]
    if named and not keys:  # an empty store is known by the names of its lists
        return named[0]
    shown = sorted({readable(str(key)) for own in keys or [top] for key in own})
    reason = f"its fields are {', '.join(shown[:_SHOWN])}" if shown else "it holds no object with fields"
    raise UnusableInput(f"Nothing in {name} shows which memory system wrote it: {reason}.", READS)


def _first_items(values: Values) -> list[Mapping[str, Any]]:
    """Some of the items, also from the lists of documents, and their payloads."""
    found: list[Mapping[str, Any]] = []
    for _, value in values[:_SEEN]:
        if not isinstance(value, Mapping):
            continue
        lists = [each for names in _LISTS.values() for n in names if isinstance(each := value.get(n), list)]
        inner = [item for each in lists for item in each[:_SEEN] if isinstance(item, Mapping)]
        own = value.get("properties")
        found += inner or ([] if lists else [own if isinstance(own, Mapping) else value])
    return found
