"""An export of our own that nobody vouches for: its tables in the form that all foreign exports share.

Entities, statements with their times, and the messages they rest on are taken. What makes a fact strong is not: a pin,
a rank, a status or a decision is worth only as much as the file that says so. Facts are stated anew, and judged anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from slowwave import frames
from slowwave.intake.foreign.entity_types import TYPES
from slowwave.intake.foreign.records import CLAIMS, ENTITIES, EPISODES, Foreign, Loss, Skipped
from slowwave.text import readable

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
"""The columns that are read of each table; facts in the archive have those of `facts`."""

_STATED = ("relation", "observation", "note")
_ENDED = ("superseded", "archived")


def columns_of(table: str) -> tuple[str, ...]:
    """The columns that are read of a table."""
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
        _conform(messages.select("place", key="id", text="content", told_at="occurred_at", group="conversation_id"),
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
    """The facts that hold or held, as claims, and what is not taken of the others."""
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
    said = rows.join(evidence, on="id", how="left", maintain_order="left").with_columns(
        key="id",
        subject="subject_name",
        object=pl.coalesce("object_name", "object_text"),
        is_value=pl.col("object_name").is_null(),
        told_at="created_at",
        relation=pl.coalesce("predicate_raw", "predicate"),
        confidence=pl.when(pl.col("confidence").is_between(0, 1)).then("confidence"),
    )
    return _conform(said, CLAIMS), notes


def _refusals() -> tuple[tuple[pl.Expr, Loss, pl.Expr], ...]:
    """Which facts are not taken, what that means, and why; of what is left after each line."""
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
    """Every row with an id: what lost its own is known by its number, so that its text is not lost, too."""
    if "id" not in rows.columns:
        return rows
    number = pl.format(f"row {{}} of {table}", pl.int_range(1, pl.len() + 1))
    return rows.with_columns(id=pl.when(_is_empty("id")).then(number).otherwise("id"))


def _placed(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    return rows.with_columns(place=pl.format(f"{table} {{}}", "id"))


def _is_empty(column: str) -> pl.Expr:
    return pl.col(column).fill_null("").str.strip_chars() == ""


def _visible(rows: pl.DataFrame) -> pl.DataFrame:
    """Every text without signs that nobody sees: they would hide a secret or an order."""
    texts = [column for column, kind in rows.schema.items() if kind == pl.String]
    return rows.with_columns(_without_signs(rows[column]) for column in texts)


def _without_signs(values: pl.Series) -> pl.Series:
    odd = [text for text in values.drop_nulls().unique() if not (text.isascii() and text.isprintable())]
    return values.replace({text: readable(text) for text in odd}) if odd else values


def _conform(rows: pl.DataFrame, schema: frames.Schema) -> pl.DataFrame:
    return frames.conform(rows, schema).select(*schema)
