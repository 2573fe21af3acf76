"""What can be wrong with the validity of facts: cycles of supersession, and a status that its columns deny (§6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from .changes import FACTS
from .checks import Patient, found, whole_rows

if TYPE_CHECKING:
    from .transactions import Transaction

_EDGES = {"old": pl.String, "new": pl.String}
_STATUS = ["id", "status", "expired_at", "replaced_by", "patch_batch_id"]


def find_twice(patient: Patient) -> pl.DataFrame:
    """Facts that lie in the archive though they were not moved, or not moved for good."""
    rows = patient.frame("facts_archive", ["id"]).unique()
    twice = rows.join(patient.frame("facts", ["id"]), on="id", how="semi")
    return found(twice, "facts_archive", pl.lit("It lies among the facts in use, too."))


def find_cycles(patient: Patient) -> pl.DataFrame:
    """Facts that, step by step, replaced themselves."""
    steps = _cyclic(_steps(patient))
    facts = steps.group_by(id="old").agg(news=pl.col("new").sort().str.join(", "))
    detail = pl.format("It was replaced by {}, which it replaced itself.", "news")
    parts = [facts.join(patient.frame(name, ["id"]), on="id", how="semi") for name in FACTS]
    return pl.concat([found(rows, name, detail, "replaced_by") for name, rows in zip(FACTS, parts, strict=True)])


def _steps(patient: Patient) -> pl.DataFrame:
    """Every step from a fact to the one that replaced it: columns old, new."""
    direct = [patient.frame(name, ["id", "replaced_by"], "replaced_by IS NOT NULL") for name in FACTS]
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
    patient = Patient(tx, frozenset((*FACTS, "lineage")), "")
    steps = _cyclic(_steps(patient))
    ages = pl.concat([tx.by_ids(name, steps["old"], ["id", "created_at"]) for name in FACTS])
    ages = ages.sort("created_at", "id", nulls_last=False)
    cut = pl.DataFrame(schema=_EDGES)
    while len(steps):
        newest = ages.filter(pl.col("id").is_in(steps["old"].implode()))["id"]
        is_cut = pl.col("old") == (newest[-1] if len(newest) else steps["old"].max())
        cut = pl.concat([cut, steps.filter(is_cut)])
        steps = _cyclic(steps.filter(~is_cut))
    lineage = tx.by_ids("lineage", cut["old"], ["id", "old_id", "new_id"], key="old_id")
    tx.delete("lineage", lineage.join(cut, left_on=["old_id", "new_id"], right_on=["old", "new"], how="semi")["id"])
    for name in FACTS:
        facts = whole_rows(tx, name, cut["old"]).join(
            cut, left_on=["id", "replaced_by"], right_on=["old", "new"], how="semi"
        )
        tx.upsert(name, facts.with_columns(replaced_by=pl.lit(None, dtype=pl.String)))


def find_contradictions(patient: Patient) -> pl.DataFrame:
    """Facts whose status their columns, or the place where they lie, deny."""
    applied = patient.frame("patch_batches", ["id"], "state = 'applied'")["id"].implode()
    closed, replaced = pl.col("expired_at").is_not_null(), pl.col("replaced_by").is_not_null()
    status, is_moved = pl.col("status"), pl.col("table") == FACTS[1]
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
    for name in FACTS:
        facts = patient.frame(name, _STATUS).with_columns(table=pl.lit(name)).with_columns(detail=detail)
        parts.append(found(facts.drop_nulls("detail"), name, pl.col("detail"), "status"))
    return pl.concat(parts)


def settle(tx: Transaction, rows: pl.DataFrame) -> None:
    """Make the status agree with the columns: replaced is superseded, closed without successor is archived."""
    for name in FACTS:
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
