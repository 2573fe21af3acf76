"""What can be wrong with proposals that wait: they are about something that is gone, or cannot be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from slowwave.review.changes import decoded

from .changes import FACTS
from .checks import FOUND, Patient, found, whole_rows

if TYPE_CHECKING:
    from .transactions import Transaction

_READ = ["id", "subject_id", "changes", "otherwise", "basis"]
_OPEN = "state IN ('pending', 'approved')"
_SUBJECTS = ("entities", *FACTS)


def find_pointless(patient: Patient) -> pl.DataFrame:
    """Open proposals whose subject is nowhere, nor made by them, and those whose JSON is broken."""
    rows = patient.frame("proposals", _READ, _OPEN)
    is_broken = pl.Series([_is_broken(row) for row in rows.iter_rows(named=True)], dtype=pl.Boolean)
    parts = [found(rows.filter(is_broken), "proposals", pl.lit("What it would change cannot be read."), "changes")]
    if all(name in patient.sound for name in _SUBJECTS):
        there = pl.concat([patient.frame(name, ["id"]) for name in _SUBJECTS])
        lost = rows.filter(~is_broken & (pl.col("subject_id") != "")).join(
            there, left_on="subject_id", right_on="id", how="anti"
        )
        detail = pl.format("It is about {}, which is nowhere.", "subject_id")
        parts.append(found(lost.filter([not _makes(row) for row in lost.iter_rows(named=True)]), "proposals", detail))
    return pl.concat([pl.DataFrame(schema=FOUND), *parts])


def _is_broken(row: dict[str, Any]) -> bool:
    try:
        decoded(row["changes"]), decoded(row["otherwise"]), dict(json.loads(row["basis"] or ""))
    except (ValueError, TypeError, KeyError):
        return True
    return False


def _makes(row: dict[str, Any]) -> bool:
    """Whether the proposal itself would make what it is about."""
    return row["subject_id"] in {each.id for each in decoded(row["changes"]) if each.is_new}


def close(tx: Transaction, rows: pl.DataFrame) -> None:
    """They are stale: nobody can approve them any more. What cannot be read goes."""
    is_broken = pl.col("column") == "changes"
    tx.delete("proposals", rows.filter(is_broken)["row_id"])
    held = whole_rows(tx, "proposals", rows.filter(~is_broken)["row_id"])
    tx.upsert("proposals", held.with_columns(state=pl.lit("stale"), outcome=pl.lit("closed by doctor")))
