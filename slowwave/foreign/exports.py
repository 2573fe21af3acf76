"""The memory system that wrote an export, and its content in one common form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from slowwave import frames
from slowwave.errors import UnknownName, UnusableInput
from slowwave.lexicon.labels import TYPES
from slowwave.text import readable

from . import parsers
from .parsers import parse_graphiti, parse_mcp_memory, parse_mem0
from .records import CLAIMS, ENTITIES, EPISODES, Drafts, Foreign, Loss, Skipped

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


# An untrusted export of our own, in the common form of foreign exports. Entities, statements with their times, and the
# source messages are taken. A pin, a rank, a status or a decision is not: it has no more weight than the file itself.
# The facts pass ingestion like new ones.


SYSTEM = "slowwave"
OWN_TABLES: Mapping[str, tuple[str, ...]] = {
    "entities": ("id", "name", "entity_type", "summary", "first_seen_at", "pinned", "merged_into"),
    "entity_aliases": ("id", "alias_name", "entity_id"),
    "facts": (
        "id", "kind", "subject_id", "predicate_raw", "predicate", "object_id", "object_text", "statement",
        "search_terms", "status", "valid_from", "valid_to", "confidence", "entrenchment", "pinned", "message_id",
        "created_at",
    ),
    "facts_archive": (),
    "fact_evidence": ("fact_id", "message_id"),
    "messages": ("id", "conversation_id", "content", "occurred_at"),
}  # fmt: skip
"""The columns of each table; `facts_archive` has those of `facts`."""

_STATED = ("relation", "observation", "note")
_ENDED = ("superseded", "archived")


def columns_of(table: str) -> tuple[str, ...]:
    """The columns of a table."""
    return OWN_TABLES[table] or OWN_TABLES["facts"]


def parse_own(tables: Mapping[str, pl.DataFrame]) -> Foreign:
    """The content of the tables of OWN_TABLES, each with the columns of `columns_of`."""
    read = {name: _identified(_visible(frame), name) for name, frame in tables.items()}
    entities = read["entities"].unique("id", keep="first", maintain_order=True)
    facts = pl.concat([_placed(read[name], name) for name in ("facts", "facts_archive")])
    claims, notes = _claims(facts.unique("id", keep="first", maintain_order=True), entities, read)
    listed = _placed(entities, "entities").filter(pl.col("merged_into").is_null())
    notes += _notes(listed.filter("pinned"), "its pin is not taken over", "adjusted")
    notes += _notes(listed.filter(_is_empty("name")), "it has no name")
    named = listed.filter(~_is_empty("name"))
    messages = _placed(read["messages"], "messages").filter(~_is_empty("content"))
    return Foreign(
        SYSTEM,
        _entities(named, read["entity_aliases"]),
        claims,
        _conform(messages.select("place", key="id", text="content", stated_at="occurred_at", group="conversation_id"),
                 EPISODES),
        tuple(notes),
    )  # fmt: skip


def _entities(named: pl.DataFrame, aliases: pl.DataFrame) -> pl.DataFrame:
    others = (
        aliases.filter(~_is_empty("alias_name")).group_by(id="entity_id").agg(aliases=pl.col("alias_name").unique())
    )
    rows = named.join(others, on="id", how="left", maintain_order="left").with_columns(
        pl.col("aliases").fill_null([]),
        known_type=pl.when(pl.col("entity_type").is_in(list(TYPES))).then("entity_type"),
        seen_at="first_seen_at",
    )
    return _conform(rows, ENTITIES)


def _claims(
    facts: pl.DataFrame, entities: pl.DataFrame, read: Mapping[str, pl.DataFrame]
) -> tuple[pl.DataFrame, list[Skipped]]:
    """(claims, notes): the facts that hold or held as claims, and notes on the others."""
    names = entities.filter(~_is_empty("name")).select("id", "name")
    rows = facts
    for end in ("subject", "object"):
        named = names.rename({"id": f"{end}_id", "name": f"{end}_name"})
        rows = rows.join(named, on=f"{end}_id", how="left", maintain_order="left")
    notes: list[Skipped] = []
    for is_refused, loss, reason in _refusals():
        refused = rows.select("place", reason=reason, is_refused=is_refused.fill_null(True)).filter("is_refused")
        notes += [Skipped(place, why, loss) for place, why in refused.select("place", "reason").iter_rows()]
        rows = rows.filter(~is_refused)
    notes += _notes(rows.filter("pinned"), "its pin is not taken over", "adjusted")
    is_axiom = pl.col("entrenchment") == "user_axiom"
    notes += _notes(rows.filter(is_axiom), "its rank user_axiom is not taken over", "adjusted")
    first = rows.select("message_id", fact_id="id")
    rests = pl.concat([read["fact_evidence"].select("message_id", "fact_id"), first]).drop_nulls()
    evidence = rests.unique(maintain_order=True).group_by(id="fact_id").agg(episodes="message_id")
    claims = rows.join(evidence, on="id", how="left", maintain_order="left").with_columns(
        key="id",
        subject="subject_name",
        object=pl.coalesce("object_name", "object_text"),
        is_value=pl.col("object_name").is_null(),
        stated_at="created_at",
        relation=pl.coalesce("predicate_raw", "predicate"),
        confidence=pl.when(pl.col("confidence").is_between(0, 1)).then("confidence"),
    )
    return _conform(claims, CLAIMS), notes


def _refusals() -> tuple[tuple[pl.Expr, Loss, pl.Expr], ...]:
    """(is_refused, loss, reason) of facts that are not taken, applied in this order."""
    is_active = pl.col("status") == "active"
    is_over = pl.col("status").is_in(_ENDED) & (pl.col("valid_to") > pl.col("valid_from"))
    lost_object = pl.col("object_id").is_not_null() & pl.col("object_name").is_null()
    return (
        (~pl.col("kind").is_in(_STATED), "gone", pl.lit("it is no statement: it files others")),
        (~(is_active | is_over), "gone", pl.format("its status is {}", pl.col("status").fill_null("empty"))),
        (_is_empty("statement"), "broken", pl.lit("it says nothing")),
        (pl.col("subject_id").is_null(), "endless", pl.lit("it is about no entity")),
        (
            pl.col("subject_name").is_null(), "endless",
            pl.format("its subject {} is not in the export", pl.col("subject_id").fill_null("")),
        ),
        (lost_object, "endless", pl.format("its object {} is not in the export", pl.col("object_id").fill_null(""))),
    )  # fmt: skip


def _notes(rows: pl.DataFrame, reason: str, loss: Loss = "broken") -> list[Skipped]:
    return [Skipped(place, reason, loss) for place in rows["place"]]


def _identified(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Every row with an id: a row without one gets its number, so that its text is not lost."""
    if "id" not in rows.columns:
        return rows
    number = pl.format(f"row {{}} of {table}", pl.int_range(1, pl.len() + 1))
    return rows.with_columns(id=pl.when(_is_empty("id")).then(number).otherwise("id"))


def _placed(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    return rows.with_columns(place=pl.format(f"{table} {{}}", "id"))


def _is_empty(column: str) -> pl.Expr:
    return pl.col(column).fill_null("").str.strip_chars() == ""


def _visible(rows: pl.DataFrame) -> pl.DataFrame:
    """Every text without invisible signs, because they would hide a secret or an order."""
    texts = [column for column, kind in rows.schema.items() if kind == pl.String]
    return rows.with_columns(_without_signs(rows[column]) for column in texts)


def _without_signs(values: pl.Series) -> pl.Series:
    odd = [text for text in values.drop_nulls().unique() if not (text.isascii() and text.isprintable())]
    return values.replace({text: readable(text) for text in odd}) if odd else values


def _conform(rows: pl.DataFrame, schema: frames.Schema) -> pl.DataFrame:
    return frames.conform(rows, schema).select(*schema)
