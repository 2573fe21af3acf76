"""Which memory system wrote an export, and what it holds in the form that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slowwave.errors import UnknownName, UnusableInput
from slowwave.intake.foreign import graphiti, mcp_memory, mem0
from slowwave.intake.foreign.graphiti import parse_graphiti
from slowwave.intake.foreign.mcp_memory import parse_mcp_memory
from slowwave.intake.foreign.mem0 import parse_mem0
from slowwave.intake.foreign.records import Drafts, Foreign, Skipped
from slowwave.text import readable

Values = Sequence[tuple[str, Any]]

_PARSERS: Mapping[str, Callable[[Iterable[tuple[str, Any]], Drafts], None]] = {
    "mem0": parse_mem0,
    "graphiti": parse_graphiti,
    "mcp-memory": parse_mcp_memory,
}
SYSTEMS = tuple(_PARSERS)
READS = "Exports of mem0, of Graphiti or Zep, and of the memory server of MCP can be read; name one with --from."
_LISTS = {
    "mem0": (*mem0.MEMORIES, *mem0.RELATIONS, *mem0.HISTORY),
    "graphiti": (*graphiti.NODES, *graphiti.EDGES, *graphiti.EPISODES),
    "mcp-memory": mcp_memory.LISTS,
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
    """What the JSON values of a file hold, each with its place in it; `before` was skipped when it was read.

    Raises `UnusableInput` where nothing shows which system wrote it, or nothing in it can be read as of `system`.
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
    """The system whose fields the first items have."""
    keys = [set(item) for item in _first_items(values)]
    for system, marks in _MARKS:
        if any(marks & own for own in keys):
            return system
    top = {key for _, value in values if isinstance(value, Mapping) for key in value}
    named = [system for system in ("mem0", "graphiti", "mcp-memory") if top & {*_LISTS[system]}]
    if named and not keys:  # a store that holds nothing is read as what its lists are called
        return named[0]
    shown = sorted({readable(str(key)) for own in keys or [top] for key in own})
    told = f"its fields are {', '.join(shown[:_SHOWN])}" if shown else "it holds no object with fields"
    raise UnusableInput(f"Nothing in {name} shows which memory system wrote it: {told}.", READS)


def _first_items(values: Values) -> list[Mapping[str, Any]]:
    """Some of the items, those in the lists of documents among them, and their payloads."""
    found: list[Mapping[str, Any]] = []
    for _, value in values[:_SEEN]:
        if not isinstance(value, Mapping):
            continue
        lists = [each for names in _LISTS.values() for n in names if isinstance(each := value.get(n), list)]
        inner = [item for each in lists for item in each[:_SEEN] if isinstance(item, Mapping)]
        own = value.get("properties")
        found += inner or ([] if lists else [own if isinstance(own, Mapping) else value])
    return found
