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
STATE = ("status", "valid_to", "expired_at", "replaced_by", "owner_entity_id", "pinned", "over")
_FILED = "filed under "
SLOT = "slot "
_NAMED = ("entities", "artifacts")
_PLACES = ("predicate", "statement_hash")
_SLOT = ("subject_id", "scope", *_PLACES)


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
    return Ground(reading, changes, now).of(changes, owners)


class Ground:
    """What plans rest on, read once for many of them."""

    def __init__(self, reading: Reading, changes: Sequence[Change], now: datetime) -> None:
        self._reading, self._now = reading, now
        self.facts = facts_by_id(reading, named_ids(changes))
        tables = dict.fromkeys(each.table for each in changes if not TABLES[each.table].is_rebuildable)
        self._held = {name: _rows(reading, name, changes) for name in tables if name != "decisions"}
        learned = [row for each in changes if (row := self._learned(each))]
        predicates = pl.Series([row.get("predicate") or "" for row in learned], dtype=pl.String)
        self._single = single_valued(predicates, reading.frame("predicates")) if learned else frozenset[str]()
        subjects = [row["subject_id"] for row in learned if row.get("subject_id")]
        named = [row[end] for row in learned for end in ("subject_id", "object_id") if row.get(end)]
        states = reading.by_ids("entities", named, ["id", "status", "merged_into"])
        self._entities = {row: ["", str(status), str(merged)] for row, status, merged in states.iter_rows()}
        rows = reading.by_ids("facts", subjects, [*_SLOT, "id"], key="subject_id", where=live_sql(now))
        self._known: dict[tuple[str, ...], list[str]] = {}
        for row in rows.iter_rows(named=True):
            for place in _PLACES:
                self._known.setdefault(_slot_of(row, place), []).append(row["id"])

    def of(self, changes: Sequence[Change], owners: Sequence[str]) -> dict[str, Any]:
        """The basis of one plan among them."""
        named = named_ids(changes)
        basis: dict[str, Any] = {fact: self._state(self.facts[fact]) for fact in named if fact in self.facts}
        for each in changes:
            if each.table in self._held and (TABLES[each.table].speaks or not each.is_removal):
                basis[f"{each.table} {each.id}"] = _cells(each, self._held[each.table].get(each.id))
        for row in filter(None, map(self._learned, changes)):
            slot = _slot_of(row, "predicate" if row.get("predicate") in self._single else "statement_hash")
            basis[f"{SLOT}{' '.join(slot)}"] = sorted(self._known.get(slot, []))
            for entity in filter(None, (row.get("subject_id"), row.get("object_id"))):
                basis[f"entity {entity}"] = self._entities.get(entity)
        for owner in owners:
            basis |= self._filed(owner)
        return basis

    def _state(self, fact: Mapping[str, Any]) -> list[str]:
        is_over = fact["valid_to"] is not None and fact["valid_to"] <= self._now
        return [*(str(fact.get(name)) for name in STATE[:-1]), str(is_over)]

    def rows(self, changes: Sequence[Change]) -> dict[str, Mapping[str, Any]]:
        """The rows of entities and documents that a plan changes, by id, as they are."""
        return {
            each.id: row
            for each in changes
            if each.table in _NAMED and (row := self._held[each.table].get(each.id)) is not None
        }

    def _learned(self, change: Change) -> Mapping[str, Any] | None:
        """The whole row of a fact that is to be learned.

        What holds in the same words, or of a relation that allows one object, is part of its basis: two plans that
        would fill one slot do not know of each other, and the second has to be made again.
        """
        if change.table != "facts" or (change.after or {}).get("status") != "active":
            return None
        if change.is_new:
            return change.after
        row = self._held["facts"].get(change.id)
        return row if row is not None and row["status"] == "candidate" else None

    def _filed(self, owner: str) -> dict[str, Any]:
        filed = self._reading.by_ids("facts", [owner], ["id"], key="owner_entity_id", where=live_sql(self._now))
        state = self._reading.by_ids("entities", [owner], ["name", "status", "merged_into"])
        cells = [str(cell) for row in state.iter_rows() for cell in row]
        return {f"{_FILED}{owner}": sorted(filed["id"]), f"entity {owner}": cells}


def _rows(reading: Reading, name: str, changes: Sequence[Change]) -> dict[str, Mapping[str, Any]]:
    ids = [each.id for each in changes if each.table == name]
    return {row["id"]: row for row in reading.by_ids(name, ids).iter_rows(named=True)}


def _slot_of(row: Mapping[str, Any], place: str) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in ("subject_id", "scope", place))


def _cells(change: Change, row: Mapping[str, Any] | None) -> Any:
    """Of a row that changes the columns that do; of a new row that it does not exist."""
    if change.is_new or row is None:
        return None if row is None else "there"
    table = TABLES[change.table]
    columns = [c for c in change.before or {} if c not in table.refreshed and not table.columns[c].is_signal]
    return {c: str(row.get(c)) for c in sorted(columns)}


def owners_in(basis: Mapping[str, Any]) -> list[str]:
    """The entities of which a basis holds what is filed under them."""
    return [key.removeprefix(_FILED) for key in basis if key.startswith(_FILED)]
