"""What can be wrong with the rows of a state, and how each defect is mended.

A check finds rows: columns table, row_id, column, detail, is_repairable. No mend ever makes a fact live.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from slowwave.graph.communities import member_lists, without_members

from .changes import FACTS, places_of
from .rows import empty_frame
from .snapshots import Reading
from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from .transactions import Transaction

FOUND = {
    "table": pl.String, "row_id": pl.String, "column": pl.String, "detail": pl.String, "is_repairable": pl.Boolean,
}  # fmt: skip
UNIT_TOLERANCE = 1e-3
_BATCH = 8192


@dataclass(frozen=True, slots=True)
class Patient:
    """A state of which only the tables in `sound` can be read; `embed_model` is the head's."""

    reading: Reading
    sound: frozenset[str]
    embed_model: str

    def frame(self, name: str, columns: list[str], where: str | None = None) -> pl.DataFrame:
        """Columns of a table, no rows if it cannot be read."""
        if name in self.sound:
            return self.reading.frame(name, where, columns)
        return empty_frame(name, self.reading.dims).select(columns)

    def holds(self, target: str) -> bool:
        """Whether all rows that a reference to this table may mean can be read."""
        return bool(target) and self.sound.issuperset(places_of(target))


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of defect."""

    name: str
    find: Callable[[Patient], pl.DataFrame]
    mend: Callable[[Transaction, pl.DataFrame], None]


def found(
    rows: pl.DataFrame, table: str, detail: pl.Expr, column: str = "", *, is_repairable: bool = True
) -> pl.DataFrame:
    """Findings about rows of one table that have an `id`."""
    return rows.select(
        table=pl.lit(table), row_id="id", column=pl.lit(column), detail=detail, is_repairable=pl.lit(is_repairable)
    ).cast(pl.Schema(FOUND))


def _pinned() -> list[str]:
    return tables_of(Role.STATE, Role.HISTORY)


def whole_rows(tx: Transaction, name: str, ids: pl.Series) -> pl.DataFrame:
    """Rows with every column, vectors and stamps included."""
    return tx.by_ids(name, ids, with_vector=TABLES[name].has_vector)


def find_duplicates(patient: Patient) -> pl.DataFrame:
    """Keys that more than one row has."""
    parts = []
    for name in _pinned():
        counts = patient.frame(name, ["id"]).group_by("id").len().filter(pl.col("len") > 1)
        parts.append(found(counts, name, pl.format("{} rows have this key.", "len")))
    return pl.concat(parts)


def keep_newest(tx: Transaction, rows: pl.DataFrame) -> None:
    """Keep the row that was written last, as it is."""
    for (name,), twice in rows.group_by("table", maintain_order=True):
        copies = whole_rows(tx, str(name), twice["row_id"])
        newest = copies.sort("updated_at", descending=True, nulls_last=True).unique("id", keep="first")
        tx.delete(str(name), twice["row_id"])
        tx.put_back(str(name), newest)


def find_dangling(patient: Patient) -> pl.DataFrame:
    """References to rows that are not there."""
    parts = [pl.DataFrame(schema=FOUND)]
    there: dict[str, pl.Series] = {}
    for name in _pinned():
        refers = {c: spec.refers for c, spec in TABLES[name].columns.items() if patient.holds(spec.refers)}
        rows = patient.frame(name, ["id", *refers]) if refers else pl.DataFrame()
        for column, target in refers.items():
            if target not in there:
                there[target] = pl.concat([patient.frame(place, ["id"]) for place in places_of(target)])["id"].unique()
            lost = rows.filter(pl.col(column).is_not_null() & ~pl.col(column).is_in(there[target].implode()))
            detail = pl.format(f"{column} names {{}}, which {target} does not have.", column)
            parts.append(found(lost, name, detail, column))
    return pl.concat(parts)


def cut_dangling(tx: Transaction, rows: pl.DataFrame) -> None:
    """Empty the reference; a row that is nothing without it goes."""
    for (name,), lost in rows.group_by("table", maintain_order=True):
        columns = TABLES[str(name)].columns
        needed = pl.col("column").is_in([c for c, spec in columns.items() if not spec.nullable])
        tx.delete(str(name), lost.filter(needed)["row_id"])
        kept = whole_rows(tx, str(name), lost.filter(~needed)["row_id"])
        for (column,), empty in lost.filter(~needed).group_by("column"):
            is_lost = pl.col("id").is_in(empty["row_id"].to_list())
            kept = kept.with_columns(pl.when(~is_lost).then(pl.col(str(column))).alias(str(column)))
        tx.upsert(str(name), kept)


def find_stray_members(patient: Patient) -> pl.DataFrame:
    """Communities that name members that are not there."""
    if "entities" not in patient.sound:
        return pl.DataFrame(schema=FOUND)
    listed = member_lists(patient.frame("communities", ["id", "entity_ids", "joined_ids"]))
    lost = listed.join(patient.frame("entities", ["id"]), on="id", how="anti").sort("community_id", "id")
    named = lost.group_by(id="community_id").agg(lost=pl.col("id").unique(maintain_order=True))
    detail = pl.format("entities does not have {}.", pl.col("lost").list.join(", "))
    return found(named, "communities", detail, "entity_ids")


def part_with_strays(tx: Transaction, rows: pl.DataFrame) -> None:
    """Take them out; a community of fewer than two goes."""
    held = whole_rows(tx, "communities", rows["row_id"])
    listed = member_lists(held)["id"].unique()
    there = tx.by_ids("entities", listed, ["id"])["id"]
    left, dropped = without_members(held, listed.filter(~listed.is_in(there.implode())))
    tx.upsert("communities", left)
    tx.delete("communities", dropped)


def find_shared_aliases(patient: Patient) -> pl.DataFrame:
    """Aliases of one type that name several entities; the smallest id, which look-ups take, keeps it (S2-04)."""
    key = ["alias_name", "entity_type"]
    rows = patient.frame("entity_aliases", ["id", "entity_id", *key])
    owner = rows.group_by(key).agg(owner=pl.col("entity_id").min())
    others = rows.join(owner, on=key, nulls_equal=True).filter(pl.col("entity_id") != pl.col("owner"))
    detail = pl.format("{} already names {}, not only {}.", "alias_name", "owner", "entity_id")
    return found(others.unique("id"), "entity_aliases", detail)


def remove_rows(tx: Transaction, rows: pl.DataFrame) -> None:
    """Delete what was found."""
    for (name,), extra in rows.group_by("table", maintain_order=True):
        tx.delete(str(name), extra["row_id"])


def find_long_vectors(patient: Patient) -> pl.DataFrame:
    """Vectors that are not of length one."""
    parts = [pl.DataFrame(schema=FOUND)]
    for name in (n for n in _pinned() if TABLES[n].has_vector and n in patient.sound):
        query = patient.reading.handle(name).search().where("vector IS NOT NULL").select(["id", "vector"])
        for batch in query.limit(None).to_batches(_BATCH):
            vectors = batch["vector"].flatten().to_numpy().reshape(batch.num_rows, -1)
            lengths = np.linalg.norm(vectors, axis=1)
            rows = pl.DataFrame({"id": pl.Series(batch["id"].to_pylist(), dtype=pl.String), "length": lengths})
            wrong = rows.filter((pl.col("length") - 1).abs() > UNIT_TOLERANCE)
            parts.append(
                found(wrong, name, pl.format("Its vector has length {}.", pl.col("length").round(4)), "vector")
            )
    return pl.concat(parts)


def make_unit(tx: Transaction, rows: pl.DataFrame) -> None:
    """Scale to length one; a vector of length zero says nothing and goes."""
    for (name,), wrong in rows.group_by("table", maintain_order=True):
        whole = whole_rows(tx, str(name), wrong["row_id"])
        vectors = whole["vector"].to_numpy()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = pl.Series("vector", vectors / np.where(lengths > 0, lengths, 1), dtype=whole.schema["vector"])
        says_something = pl.Series(lengths[:, 0] > 0)
        tx.upsert(str(name), whole.with_columns(pl.when(says_something).then(unit).alias("vector")))


def find_foreign_vectors(patient: Patient) -> pl.DataFrame:
    """Vectors of another model than the store's, which cannot be compared."""
    detail = pl.format(
        f"Its vector is of {{}}, the store's are of {patient.embed_model}: `slowwave reembed`.", "embed_model"
    )
    parts = []
    for name in FACTS:
        rows = patient.frame(name, ["id", "embed_model"]).filter(pl.col("embed_model") != patient.embed_model)
        parts.append(found(rows, name, detail, "embed_model", is_repairable=False))
    return pl.concat(parts)


def leave(tx: Transaction, rows: pl.DataFrame) -> None:
    """Nothing can be done here."""
