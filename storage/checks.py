"""What can be wrong with the rows of a state, and how each defect is mended.

A check finds rows: columns table, row_id, column, detail. No mend ever makes a fact live.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from slowwave.graph.community_detection import member_lists

from .changes import FACT_TABLES, leave_communities, places_of
from .rows import empty_frame
from .snapshots import Reading
from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from .transactions import Transaction

FOUND = {"table": pl.String, "row_id": pl.String, "column": pl.String, "detail": pl.String}
UNIT_TOLERANCE = 1e-3
_BATCH = 8192


@dataclass(frozen=True, slots=True)
class PartialSnapshot:
    """A state of which only the tables in `sound` can be read."""

    reading: Reading
    sound: frozenset[str]

    def frame(self, name: str, columns: list[str], where: str | None = None) -> pl.DataFrame:
        """Columns of a table, no rows if it cannot be read."""
        if name in self.sound:
            return self.reading.frame(name, where, columns)
        return empty_frame(name, self.reading.dims).select(columns)

    def holds(self, target: str) -> bool:
        """Whether all rows that a reference to this table may mean can be read."""
        return bool(target) and self.sound.issuperset(places_of(target))


@dataclass(frozen=True, slots=True)
class DefectKind:
    """One kind of defect."""

    name: str
    find: Callable[[PartialSnapshot], pl.DataFrame]
    mend: Callable[[Transaction, pl.DataFrame], None]


def found(rows: pl.DataFrame, table: str, detail: pl.Expr, column: str = "") -> pl.DataFrame:
    """Findings about rows of one table that have an `id`."""
    named = rows.select(table=pl.lit(table), row_id="id", column=pl.lit(column), detail=detail)
    return named.cast(pl.Schema(FOUND))


def _pinned() -> list[str]:
    return tables_of(Role.STATE, Role.HISTORY)


def whole_rows(tx: Transaction, name: str, ids: pl.Series) -> pl.DataFrame:
    """Rows with every column, vectors and stamps included."""
    return tx.by_ids(name, ids, with_vector=TABLES[name].has_vector)


def find_duplicates(patient: PartialSnapshot) -> pl.DataFrame:
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


def find_dangling(patient: PartialSnapshot) -> pl.DataFrame:
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


def find_stray_members(patient: PartialSnapshot) -> pl.DataFrame:
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
    listed = member_lists(tx.by_ids("communities", rows["row_id"]))["id"].unique()
    there = tx.by_ids("entities", listed, ["id"])["id"]
    leave_communities(tx, listed.filter(~listed.is_in(there.implode())))


def find_shared_aliases(patient: PartialSnapshot) -> pl.DataFrame:
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


def find_long_vectors(patient: PartialSnapshot) -> pl.DataFrame:
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


# What can be wrong with the validity of facts: cycles of supersession, and a status that its columns deny (§6.3).


_EDGES = {"old": pl.String, "new": pl.String}
_STATUS = ["id", "status", "expired_at", "replaced_by", "patch_batch_id"]


def find_twice(patient: PartialSnapshot) -> pl.DataFrame:
    """Facts that lie in the archive though they were not moved, or not moved for good."""
    rows = patient.frame("facts_archive", ["id"]).unique()
    twice = rows.join(patient.frame("facts", ["id"]), on="id", how="semi")
    return found(twice, "facts_archive", pl.lit("It lies among the facts in use, too."))


def find_cycles(patient: PartialSnapshot) -> pl.DataFrame:
    """Facts that, step by step, replaced themselves."""
    steps = _cyclic(_steps(patient))
    facts = steps.group_by(id="old").agg(news=pl.col("new").sort().str.join(", "))
    detail = pl.format("It was replaced by {}, which it replaced itself.", "news")
    parts = [facts.join(patient.frame(name, ["id"]), on="id", how="semi") for name in FACT_TABLES]
    return pl.concat([found(rows, name, detail, "replaced_by") for name, rows in zip(FACT_TABLES, parts, strict=True)])


def _steps(patient: PartialSnapshot) -> pl.DataFrame:
    """Every step from a fact to the one that replaced it: columns old, new."""
    direct = [patient.frame(name, ["id", "replaced_by"], "replaced_by IS NOT NULL") for name in FACT_TABLES]
    lineage = patient.frame("lineage", ["old_id", "new_id"])
    parts = [part.select(old="id", new="replaced_by") for part in direct]
    return pl.concat([*parts, lineage.select(old="old_id", new="new_id")]).unique()


def _cyclic(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that lie on cycles, or between two: the others begin or end nowhere and are peeled off."""
    while True:
        left = steps.filter(pl.col("new").is_in(steps["old"].implode()) & pl.col("old").is_in(steps["new"].implode()))
        if len(left) == len(steps):
            return left
        steps = left


def break_cycles(tx: Transaction, rows: pl.DataFrame) -> None:
    """The newest fact of a cycle was replaced by nothing."""
    patient = PartialSnapshot(tx, frozenset((*FACT_TABLES, "lineage")))
    steps = _cyclic(_steps(patient))
    ages = pl.concat([tx.by_ids(name, steps["old"], ["id", "created_at"]) for name in FACT_TABLES])
    ages = ages.sort("created_at", "id", nulls_last=False)
    cut = pl.DataFrame(schema=_EDGES)
    while len(steps):
        newest = ages.filter(pl.col("id").is_in(steps["old"].implode()))["id"]
        is_cut = pl.col("old") == (newest[-1] if len(newest) else steps["old"].max())
        cut = pl.concat([cut, steps.filter(is_cut)])
        steps = _cyclic(steps.filter(~is_cut))
    lineage = tx.by_ids("lineage", cut["old"], ["id", "old_id", "new_id"], key="old_id")
    tx.delete("lineage", lineage.join(cut, left_on=["old_id", "new_id"], right_on=["old", "new"], how="semi")["id"])
    for name in FACT_TABLES:
        facts = whole_rows(tx, name, cut["old"]).join(
            cut, left_on=["id", "replaced_by"], right_on=["old", "new"], how="semi"
        )
        tx.upsert(name, facts.with_columns(replaced_by=pl.lit(None, dtype=pl.String)))


def find_contradictions(patient: PartialSnapshot) -> pl.DataFrame:
    """Facts whose status their columns, or the place where they lie, deny."""
    applied = patient.frame("patch_batches", ["id"], "state = 'applied'")["id"].implode()
    closed, replaced = pl.col("expired_at").is_not_null(), pl.col("replaced_by").is_not_null()
    status, is_moved = pl.col("status"), pl.col("table") == FACT_TABLES[1]
    detail = (
        pl.when((status == "active") & replaced).then(pl.format("It is active though {} replaced it.", "replaced_by"))
        .when((status == "active") & closed).then(pl.lit("It is active though it has expired."))
        .when((status == "superseded") & ~replaced).then(pl.lit("It is superseded, but by nothing."))
        .when((status == "candidate") & pl.col("patch_batch_id").is_in(applied))
        .then(pl.lit("It is a candidate though its patch was applied."))
        .when(is_moved & status.is_in(["active", "candidate"]))
        .then(pl.format("It is {} though it lies in the archive.", "status"))
    )  # fmt: skip
    parts = []
    for name in FACT_TABLES:
        facts = patient.frame(name, _STATUS).with_columns(table=pl.lit(name)).with_columns(detail=detail)
        parts.append(found(facts.drop_nulls("detail"), name, pl.col("detail"), "status"))
    return pl.concat(parts)


def settle(tx: Transaction, rows: pl.DataFrame) -> None:
    """Make the status agree with the columns: replaced is superseded, closed without successor is archived."""
    for name in FACT_TABLES:
        _settle(tx, name, whole_rows(tx, name, rows.filter(pl.col("table") == name)["row_id"]))


def _settle(tx: Transaction, name: str, facts: pl.DataFrame) -> None:
    if facts.is_empty():
        return
    successors = (
        tx.by_ids("lineage", facts["id"], ["old_id", "new_id", "created_at"], key="old_id")
        .sort("created_at").unique("old_id", keep="last").select(id="old_id", successor="new_id")
    )  # fmt: skip
    replaced = pl.coalesce("replaced_by", "successor")
    is_candidate = pl.col("status") == "candidate"
    settled = facts.join(successors, on="id", how="left").with_columns(
        status=pl.when(is_candidate).then(pl.lit("rejected"))
        .when(replaced.is_not_null()).then(pl.lit("superseded")).otherwise(pl.lit("archived")),
        replaced_by=pl.when(~is_candidate).then(replaced),
        expired_at=pl.when(~is_candidate).then(pl.coalesce("expired_at", pl.lit(tx.now))),
        status_reason=pl.lit("settled by doctor"),
    )  # fmt: skip
    tx.upsert(name, settled.drop("successor"))
