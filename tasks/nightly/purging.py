"""Purging: under retention.mode = delete, what is out of use goes for good, with everything that hangs on it (C3).

What the ledger says about them stays, and so does undo, as long as old versions are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from slowwave import frames
from slowwave.lifecycle.pruning_and_eviction import POINTERS, deletable, without_pointers
from slowwave.lifecycle.usage_scores import REDUNDANT, usage_of
from storage.changes import references_to
from storage.snapshots import Reading
from storage.tables import TABLES
from storage.transactions import Transaction
from tasks.entities.linking import part_with

PLACES = ("facts", "facts_archive")
_ABOUT_FACTS = (
    ("fact_directives", "known_id"),
    ("fact_usage", "id"),
    ("fact_scores", "id"),
    ("refusals", "subject_id"),
    ("refusals", "similar_to_id"),
)
_ABOUT_ENTITIES = (
    ("entity_profiles", "id"),
    ("entity_usage", "id"),
    ("entity_scores", "id"),
    ("entity_days", "entity_id"),
    ("co_occurrences", "a_id"),
    ("co_occurrences", "b_id"),
    ("entity_links", "a_id"),
    ("entity_links", "b_id"),
)
"""What is about a row without being declared to refer to it: counters and scores."""


@dataclass(frozen=True, slots=True)
class Purge:
    """Facts to delete: which, the predecessors among all facts, and the facts that point at them (table, id)."""

    ids: pl.Series
    before: Mapping[str, str]
    pointing: pl.DataFrame


def plan_purge(reading: Reading, ids: pl.Series) -> Purge:
    """Of these facts those that nothing staying needs, in their order."""
    steps = [reading.frame(name, "replaced_by IS NOT NULL", ["id", "replaced_by"]) for name in PLACES]
    gone = deletable(ids, pl.concat(steps))
    columns, named = ["id", "supersedes_id"], "supersedes_id IS NOT NULL"
    before = pl.concat([reading.by_ids(name, gone, columns, where=named) for name in PLACES])
    somewhere = " OR ".join(f"{name} IS NOT NULL" for name in POINTERS)
    pointers = [
        reading.frame(name, somewhere, ["id", *POINTERS]).with_columns(table=pl.lit(name)).unpivot(
            list(POINTERS), index=["table", "id"], value_name="at"
        )
        for name in PLACES
    ]  # fmt: skip
    found = pl.concat(pointers).filter(pl.col("at").is_in(gone.implode()), ~pl.col("id").is_in(gone.implode()))
    return Purge(gone, dict(before.iter_rows()), found.select("table", "id", "at"))


def delete_facts(tx: Transaction, purge: Purge, ids: pl.Series) -> None:
    """Delete some of the facts of a plan."""
    _hand_on_usage(tx, ids)
    for name, found in _hanging(tx, "facts", ids, _ABOUT_FACTS).items():
        tx.delete(name, found)
    theirs = purge.pointing.filter(pl.col("at").is_in(ids.implode()))
    for name in PLACES:
        rows = tx.by_ids(name, theirs.filter(pl.col("table") == name)["id"], with_vector=True)
        tx.upsert(name, without_pointers(rows, purge.ids, purge.before))
    tx.upsert("artifacts", _unlinked(tx, ids))
    for name in PLACES:
        tx.delete(name, tx.by_ids(name, ids, ["id"])["id"])


def mentioned(reading: Reading) -> pl.Series:
    """Entities that some row names which would stay without them."""
    named = [(name, column) for name, column in references_to("entities") if TABLES[name].columns[column].nullable]
    found = [reading.frame(name, f"{column} IS NOT NULL", [column])[column].unique() for name, column in named]
    return pl.concat([each.rename("id") for each in found]).unique()


def delete_entities(tx: Transaction, ids: pl.Series) -> None:
    """Delete entities that nothing names any more: their names, links, place in talks and communities, counts."""
    for name, found in _hanging(tx, "entities", ids, _ABOUT_ENTITIES).items():
        tx.delete(name, found)
    part_with(tx, ids)
    tx.delete("entities", ids)


def _hanging(tx: Transaction, target: str, ids: pl.Series, more: tuple[tuple[str, str], ...]) -> dict[str, pl.Series]:
    """By table: the rows that are nothing without one of these rows of `target`."""
    needed = [(name, c) for name, c in references_to(target) if not TABLES[name].columns[c].nullable]
    found: dict[str, pl.Series] = {}
    for name, column in (*needed, *more):
        rows = tx.by_ids(name, ids, ["id"], key=column)["id"]
        found[name] = pl.concat([found[name], rows]).unique() if name in found else rows
    return found


def _hand_on_usage(tx: Transaction, ids: pl.Series) -> None:
    """Recalls of a merged fact count for the fact that it was merged into (T26)."""
    absorbed = tx.by_ids("fact_usage", ids)
    if absorbed.is_empty():
        return
    steps = tx.by_ids("lineage", absorbed["id"], list(frames.LINEAGE), key="old_id")
    steps = steps.filter(pl.col("reason").is_in(REDUNDANT))
    heirs = tx.by_ids("fact_usage", steps["new_id"].filter(~steps["new_id"].is_in(ids.implode())))
    both = pl.concat([absorbed, heirs]).select(*frames.FACT_USAGE)
    whole = usage_of(both, steps).select(*frames.FACT_USAGE).filter(pl.col("id").is_in(steps["new_id"].implode()))
    stamps = heirs.select("id", "created_at")
    tx.upsert("fact_usage", whole.join(stamps, on="id", how="left"))


def _unlinked(tx: Transaction, ids: pl.Series) -> pl.DataFrame:
    """Artifacts that name one of the facts, without it."""
    linked = tx.frame("artifacts", "linked_fact_ids IS NOT NULL", ["id", "linked_fact_ids"])
    named = linked.explode("linked_fact_ids").filter(pl.col("linked_fact_ids").is_in(ids.implode()))
    left = pl.col("linked_fact_ids").list.set_difference(pl.lit(pl.Series([ids])))
    return tx.by_ids("artifacts", named["id"], with_vector=True).with_columns(left.list.sort())
