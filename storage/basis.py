"""The basis of a plan: the state of all it rests on, which tells a stale plan from a fresh one (T49, T50)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.application.conflicts import single_valued
from slowwave.review.changes import Change
from slowwave.validity import live_sql

from .snapshots import Reading
from .tables import TABLES

FACT_TABLES = ("facts", "facts_archive")
STATE = ("status", "valid_to", "expired_at", "replaced_by", "owner_entity_id", "pinned")
_FILED = "filed under "
SLOT = "slot "


def facts_by_id(reading: Reading, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Facts by id, wherever they lie."""
    wanted = sorted(set(ids))
    return {row["id"]: row for name in FACT_TABLES for row in reading.by_ids(name, wanted).iter_rows(named=True)}


def named_ids(changes: Iterable[Change]) -> set[str]:
    """The facts that decisions among the changes name, and the rows of facts that change."""
    named = {each.id for each in changes if each.table in FACT_TABLES}
    for each in changes:
        if each.table == "decisions" and each.after:
            named |= {
                each.after.get("subject_id", ""),
                *(each.after.get("ids_in") or ()),
                *(each.after.get("ids_out") or ()),
            }
        for row in (each.before, each.after):
            named |= {(row or {}).get(name) or "" for name in ("replaced_by", "new_id", "old_id")}
    return named - {""}


def basis_of(reading: Reading, changes: Sequence[Change], owners: Sequence[str], now: datetime) -> dict[str, Any]:
    """The state of everything that a plan rests on: facts it names, columns it changes, what is filed under owners."""
    basis: dict[str, Any] = {}
    for fact, row in facts_by_id(reading, named_ids(changes)).items():
        basis[fact] = [str(row.get(name)) for name in STATE]
    for name in dict.fromkeys(each.table for each in changes if not TABLES[each.table].is_rebuildable):
        basis |= _columns_basis(reading, name, [each for each in changes if each.table == name])
    basis |= _slots(reading, changes)
    for owner in owners:
        where = live_sql(now)
        filed = reading.by_ids("facts", [owner], ["id"], key="owner_entity_id", where=where)
        basis[f"{_FILED}{owner}"] = sorted(filed["id"])
        state = reading.by_ids("entities", [owner], ["name", "status", "merged_into"])
        basis[f"entity {owner}"] = [str(cell) for row in state.iter_rows() for cell in row]
    return basis


def _slots(reading: Reading, changes: Sequence[Change]) -> dict[str, Any]:
    """What holds where something is to be learned: in the same words, and of a relation that allows one object.

    Two plans that would fill the same slot do not know of each other; the second has to be made again.
    """
    learning = [each for each in changes if each.table == "facts" and (each.after or {}).get("status") == "active"]
    held = reading.by_ids("facts", [each.id for each in learning if not each.is_new]).to_dicts()
    rows = [row for row in held if row["status"] == "candidate"] + [
        dict(each.after or {}) for each in learning if each.is_new
    ]
    if not rows:
        return {}
    single = single_valued(pl.Series([row.get("predicate") or "" for row in rows]), reading.frame("predicates"))
    columns = ["id", "subject_id", "predicate", "statement_hash", "scope"]
    subjects = [row["subject_id"] for row in rows if row.get("subject_id")]
    known = reading.by_ids("facts", subjects, columns, key="subject_id", where="status = 'active'").to_dicts()
    slots: dict[str, list[str]] = {}
    for row in rows:
        place = "predicate" if row.get("predicate") in single else "statement_hash"
        same = [
            each["id"] for each in known if all(each[name] == row.get(name) for name in ("subject_id", "scope", place))
        ]
        slots[f"{SLOT}{row.get('subject_id')} {row.get('scope')} {row.get(place)}"] = sorted(same)
    return slots


def _columns_basis(reading: Reading, name: str, changes: Sequence[Change]) -> dict[str, Any]:
    """Of rows that change the columns that do; of new rows that they do not exist."""
    held = {row["id"]: row for row in reading.by_ids(name, [each.id for each in changes]).iter_rows(named=True)}
    basis: dict[str, Any] = {}
    for each in changes:
        if name == "decisions" or (each.is_removal and not TABLES[name].speaks):
            continue
        row = held.get(each.id)
        if each.is_new or row is None:
            basis[f"{name} {each.id}"] = None if row is None else "there"
            continue
        columns = [
            c for c in (each.before or {}) if c not in TABLES[name].refreshed and not TABLES[name].columns[c].is_signal
        ]
        basis[f"{name} {each.id}"] = {c: str(row.get(c)) for c in sorted(columns)}
    return basis


def owners_in(basis: Mapping[str, Any]) -> list[str]:
    """The entities of which a basis holds what is filed under them."""
    return [key.removeprefix(_FILED) for key in basis if key.startswith(_FILED)]
