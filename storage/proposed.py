"""Carrying out what was proposed: the very rows of a proposal, on rows that are still as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.review.changes import NOW, Change

from .rows import empty_frame
from .transactions import Transaction

Written = tuple[Change, Mapping[str, Any]]
"""A change, and columns that it gets where it is a decision: who said yes, and to what."""


def write_changes(tx: Transaction, written: Sequence[Written], now: datetime) -> None:
    """Write rows as they were proposed; no row twice."""
    more_of = {each.id: more for each, more in written if each.table == "decisions"}
    for name in dict.fromkeys(each.table for each, _ in written):
        mine = [each for each, _ in written if each.table == name]
        tx.delete(name, [each.id for each in mine if each.is_removal])
        fresh = [{"id": each.id, **(each.after or {})} for each in mine if each.is_new and not each.is_removal]
        told = [{**row, **more_of[row["id"]]} for row in fresh] if name == "decisions" else fresh
        moved = [row for row in told if "run_id" in row]
        tx.put_back(name, _frame(tx, name, moved, now))
        tx.upsert(name, _frame(tx, name, [row for row in told if "run_id" not in row], now))
        tx.upsert(name, _changed(tx, name, {each.id: each.after for each in mine if each.before and each.after}, now))


def _changed(tx: Transaction, name: str, cells: Mapping[str, Mapping[str, Any]], now: datetime) -> pl.DataFrame:
    """Whole rows as they are, with the cells that change; a row that is gone stays gone."""
    has_vector = "vector" in empty_frame(name, tx.dims).columns
    held = tx.by_ids(name, list(cells), with_vector=has_vector)
    return _frame(tx, name, [{**row, **cells[row["id"]]} for row in held.iter_rows(named=True)], now)


def _frame(tx: Transaction, name: str, rows: Sequence[Mapping[str, Any]], now: datetime) -> pl.DataFrame:
    schema = empty_frame(name, tx.dims).schema
    times = {column for column, kind in schema.items() if isinstance(kind, pl.Datetime)}
    whole = [{c: _value(row.get(c), now, c in times) for c in schema} for row in rows]
    return pl.DataFrame(whole, schema=schema)


def _value(value: Any, now: datetime, is_time: bool) -> Any:
    if not is_time or not isinstance(value, str):
        return value
    return now if value == NOW else datetime.fromisoformat(value)
