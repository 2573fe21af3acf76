"""What runs changed, row by row, found by comparing table versions.

A row carries the version that last wrote it (`_row_last_updated_at_version`, its *mark*), so two versions of a table
are compared by reading ids and marks only. A restored version has the marks it had, so undo and crash recovery compare
right.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from slowwave.common.errors import UndoRefused
from slowwave.common.validity import live_sql
from slowwave.facts.revision.mutual_exclusion import single_valued
from slowwave.graph.community_detection import without_members
from slowwave.review.changes import RowChange

from .rows import MARK, id_filters
from .snapshots import Reading, read_rows
from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from lancedb.db import DBConnection

    from .transactions import Transaction

WHOLES = tuple(
    tuple(name for name, table in TABLES.items() if table.whole == word)
    for word in sorted({table.whole for table in TABLES.values()} - {""})
)
"""Tables that undo takes back together, or not at all."""
FACT_TABLES = ("facts", "facts_archive")
_TRACE = pl.Schema(
    {
        "id": pl.String,
        "mark": pl.UInt64,
        "first_before": pl.Int64,
        "last_after": pl.Int64,
    }
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a table's history, from the version before to the version after."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that somebody else may have written between two versions."""

    ids: list[str]
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What some runs did to one table: the rows touched with the versions before and after, and the gaps between."""

    name: str
    segments: tuple[Segment, ...]
    touched: pl.DataFrame
    gaps: tuple[Gap, ...]


class VersionReader:
    """Reads tables at any version that is still kept."""

    def __init__(self, db: DBConnection) -> None:
        self._db = db

    def marks(self, name: str, version: int) -> pl.DataFrame:
        """Ids and marks of all rows: columns id, mark."""
        if not version:
            return pl.DataFrame(schema={"id": pl.String, "mark": pl.UInt64})
        return self._read(name, version, None, ["id", MARK]).rename({MARK: "mark"})

    def rows(self, name: str, version: int, ids: Sequence[str]) -> pl.DataFrame:
        """Full rows, stamps and vectors included."""
        return pl.concat([self._read(name, version, where, None) for where in id_filters(list(ids))])

    def _read(self, name: str, version: int, where: str | None, columns: list[str] | None) -> pl.DataFrame:
        table = self._db.open_table(name)
        try:
            table.checkout(version)
            return read_rows(table, where, columns)
        except (ValueError, RuntimeError, OSError) as error:
            raise UndoRefused(
                f"Version {version} of table {name} is no longer kept.",
                "Undo reaches back retention.undo_days, and never beyond a `slowwave forget`.",
            ) from error


def segments_of(commits: pl.DataFrame) -> dict[str, list[Segment]]:
    """For each state table, the stretches that these commits wrote, neighbours joined."""
    state = set(tables_of(Role.STATE))
    found: dict[str, list[Segment]] = {}
    for row in commits.sort("sequence").iter_rows(named=True):
        versions = json.loads(row["versions"])
        for name, before in json.loads(row["before"]).items():
            if name not in state:
                continue
            stretch = found.setdefault(name, [])
            if stretch and stretch[-1].after == before:
                before = stretch.pop().before
            stretch.append(Segment(before, versions[name]))
    return found


def changed_by_others(
    reader: VersionReader, commits: pl.DataFrame, theirs: pl.DataFrame, head: Mapping[str, int], whole: Sequence[str]
) -> bool:
    """Whether one of the tables of a whole was changed by others after the first of `theirs` that wrote one.

    Up to the head; changes that were taken back since do not count. `commits` is the whole history, `head` the versions
    of now.
    """
    rows = theirs.sort("sequence").select("sequence", "before", "versions").iter_rows()
    writing = [(n, json.loads(versions)) for n, before, versions in rows if json.loads(before).keys() & {*whole}]
    earlier = commits.filter(pl.col("sequence").is_in([n - 1 for n, _ in writing[1:]])).sort("sequence")
    lefts = [versions for _, versions in writing]
    rights = [*map(json.loads, earlier["versions"]), head]
    pairs = [
        (name, left.get(name, 0), right.get(name, 0))
        for left, right in zip(lefts, rights, strict=True)
        for name in whole
    ]
    moved = ((name, Segment(left, right)) for name, left, right in pairs if left != right)
    return any(len(_difference(reader, name, stretch)) for name, stretch in moved)


def trace(reader: VersionReader, name: str, segments: Sequence[Segment], head: int) -> Trace:
    """Follow a table through the segments up to the head's version."""
    touched = pl.DataFrame(schema=_TRACE)
    gaps: list[Gap] = []
    for segment in segments:
        changed = _difference(reader, name, segment)
        gaps += _gaps(touched, changed.rename({"mark_before": "mark_now"}), segment.before)
        touched = _extend(touched, changed, segment)
    if segments and segments[-1].after != head:
        now = reader.marks(name, head).rename({"mark": "mark_now"})
        gaps += _gaps(touched, touched.select("id").join(now, on="id", how="left"), head)
    return Trace(name, tuple(segments), touched, tuple(gaps))


def _difference(reader: VersionReader, name: str, segment: Segment) -> pl.DataFrame:
    """Rows whose mark differs: id, mark_before, mark (either is empty where the row does not exist)."""
    before = reader.marks(name, segment.before).rename({"mark": "mark_before"})
    after = reader.marks(name, segment.after)
    both = before.join(after, on="id", how="full", coalesce=True)
    return both.filter(pl.col("mark").ne_missing(pl.col("mark_before")))


def _gaps(touched: pl.DataFrame, seen: pl.DataFrame, version: int) -> list[Gap]:
    """Rows touched earlier that are found with another mark at `version`, by the version they were left at."""
    moved = touched.join(seen.select("id", "mark_now"), on="id").filter(pl.col("mark").ne_missing(pl.col("mark_now")))
    return [
        Gap(rows["id"].to_list(), int(str(left)), version)
        for (left,), rows in moved.group_by("last_after", maintain_order=True)
    ]


def _extend(touched: pl.DataFrame, changed: pl.DataFrame, segment: Segment) -> pl.DataFrame:
    now = changed.select("id", "mark", first_before=pl.lit(segment.before), last_after=pl.lit(segment.after))
    earlier = touched.select("id", "first_before")
    first = now.join(earlier, on="id", how="left", suffix="_earlier").with_columns(
        first_before=pl.coalesce("first_before_earlier", "first_before")
    )
    untouched = touched.join(now.select("id"), on="id", how="anti")
    return pl.concat([untouched, first.select(*_TRACE).cast(_TRACE)])


def before_images(reader: VersionReader, found: Trace) -> pl.DataFrame:
    """The touched rows as they were before; rows that did not exist are left out."""
    parts = [
        reader.rows(found.name, int(str(version)), rows["id"].to_list())
        for (version,), rows in found.touched.group_by("first_before", maintain_order=True)
        if version
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"id": pl.String})


def writers_in(reader: VersionReader, name: str, gap: Gap, later: pl.DataFrame) -> set[str]:
    """Runs that changed rows inside a gap; rows that were only refreshed, or changed and put back, do not count.

    `later` are commits in which to look for whoever deleted a row.
    """
    table = TABLES[name]
    if table.is_rebuildable:
        return set()
    before, after = (reader.rows(name, version, gap.ids) for version in (gap.left, gap.right))
    left, right = (
        {row["id"]: row for row in rows.drop(table.refreshed, strict=False).to_dicts()} for rows in (before, after)
    )
    changed = {i for i in gap.ids if left.get(i) != right.get(i)}
    writers = set(after.filter(pl.col("id").is_in(list(changed)))["run_id"])
    gone = {i for i in changed if i not in right}
    return writers | (_deleters(reader, name, gone, later) if gone else set())


def _deleters(reader: VersionReader, name: str, gone: set[str], later: pl.DataFrame) -> set[str]:
    found: set[str] = set()
    for (run,), commits in later.group_by("run_id", maintain_order=True):  # a run may delete in hundreds of commits
        for segment in segments_of(commits).get(name, []):
            lost = _difference(reader, name, segment).filter(pl.col("mark").is_null())
            if gone & set(lost["id"]):
                found.add(str(run))
    return found


def places_of(target: str) -> tuple[str, ...]:
    """The tables in which the rows of one table lie: facts that were moved to the archive are referred to as before."""
    return FACT_TABLES if target == "facts" else (target,)


def references_to(target: str) -> Iterable[tuple[str, str]]:
    """Columns of state tables that hold ids of `target`: (table, column)."""
    for name in tables_of(Role.STATE):
        for column, spec in TABLES[name].columns.items():
            if spec.refers == target:
                yield name, column


def leave_communities(tx: Transaction, entities: Collection[str]) -> None:
    """Take entities that are no more out of their communities, whose summaries are then to be made again."""
    if not len(entities):
        return
    lists = tx.frame("communities", columns=["id", "entity_ids", "joined_ids", "fingerprint"])
    left, dropped = without_members(lists, entities)
    stored = tx.by_ids("communities", left["id"]).drop("entity_ids", "joined_ids", "fingerprint")
    tx.upsert("communities", stored.join(left, on="id", maintain_order="left"))
    tx.delete("communities", dropped)


def undo_steps(commits: pl.DataFrame) -> list[tuple[str, list[str]]]:
    """Every undo so far in order: the undoing run and the runs it took back."""
    steps = commits.sort("sequence").filter(pl.col("undoes").list.len() > 0).select("run_id", "undoes")
    return [(run, list(taken)) for run, taken in steps.iter_rows()]


def undone_runs(steps: Iterable[tuple[str, list[str]]]) -> set[str]:
    """Runs that are taken back at present.

    What an undo took back holds again once that undo is taken back, and no longer once that is taken back as well.
    """
    undone: set[str] = set()
    taken_by: dict[str, list[str]] = {}
    for run, taken in steps:
        taken_by[run] = taken
        left = [(each, True) for each in taken]
        while left:
            each, is_undone = left.pop(0)
            (undone.add if is_undone else undone.discard)(each)
            left += [(one, not is_undone) for one in taken_by.get(each, ())]
    return undone


# The basis of a plan: the state of all it rests on, which tells a stale plan from a fresh one (T49, T50).


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


def named_ids(changes: Iterable[RowChange]) -> set[str]:
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


def basis_of(reading: Reading, changes: Sequence[RowChange], owners: Sequence[str], now: datetime) -> dict[str, Any]:
    """The state of everything that a plan rests on: facts it names, columns it changes, what is filed under owners."""
    return Preconditions(reading, changes, now).of(changes, owners)


class Preconditions:
    """What plans rest on, read once for many of them."""

    def __init__(self, reading: Reading, changes: Sequence[RowChange], now: datetime) -> None:
        self._reading, self._now = reading, now
        self.facts = facts_by_id(reading, named_ids(changes))
        tables = dict.fromkeys(each.table for each in changes if not TABLES[each.table].is_rebuildable)
        self._current = {name: _rows(reading, name, changes) for name in tables if name != "decisions"}
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

    def of(self, changes: Sequence[RowChange], owners: Sequence[str]) -> dict[str, Any]:
        """The basis of one plan among them."""
        named = named_ids(changes)
        basis: dict[str, Any] = {fact: self._state(self.facts[fact]) for fact in named if fact in self.facts}
        for each in changes:
            if each.table in self._current and (TABLES[each.table].needs_approval or not each.is_removal):
                basis[f"{each.table} {each.id}"] = _cells(each, self._current[each.table].get(each.id))
        for row in filter(None, map(self._learned, changes)):
            slot = _slot_of(row, "predicate" if row.get("predicate") in self._single else "statement_hash")
            basis[f"{SLOT}{' '.join(slot)}"] = sorted(self._known.get(slot, []))
            for entity in filter(None, (row.get("subject_id"), row.get("object_id"))):
                basis[f"entity {entity}"] = self._entities.get(entity)
        for owner in owners:
            filed = self._reading.by_ids("facts", [owner], ["id"], key="owner_entity_id", where=live_sql(self._now))
            state = self._reading.by_ids("entities", [owner], ["name", "status", "merged_into"])
            basis[f"{_FILED}{owner}"] = sorted(filed["id"])
            basis[f"entity {owner}"] = [str(cell) for row in state.iter_rows() for cell in row]
        return basis

    def _state(self, fact: Mapping[str, Any]) -> list[str]:
        is_over = fact["valid_to"] is not None and fact["valid_to"] <= self._now
        return [*(str(fact.get(name)) for name in STATE[:-1]), str(is_over)]

    def rows(self, changes: Sequence[RowChange]) -> dict[str, Mapping[str, Any]]:
        """The rows of entities and documents that a plan changes, by id, as they are."""
        return {
            each.id: row
            for each in changes
            if each.table in _NAMED and (row := self._current[each.table].get(each.id)) is not None
        }

    def _learned(self, change: RowChange) -> Mapping[str, Any] | None:
        """The whole row of a fact that is to be learned.

        What holds in the same words, or of a relation that allows one object, is part of its basis: two plans that
        would fill one slot do not know of each other, and the second has to be made again.
        """
        if change.table != "facts" or (change.after or {}).get("status") != "active":
            return None
        if change.is_new:
            return change.after
        row = self._current["facts"].get(change.id)
        return row if row is not None and row["status"] == "candidate" else None


def _rows(reading: Reading, name: str, changes: Sequence[RowChange]) -> dict[str, Mapping[str, Any]]:
    ids = [each.id for each in changes if each.table == name]
    return {row["id"]: row for row in reading.by_ids(name, ids).iter_rows(named=True)}


def _slot_of(row: Mapping[str, Any], place: str) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in ("subject_id", "scope", place))


def _cells(change: RowChange, row: Mapping[str, Any] | None) -> Any:
    """Of a row that changes the columns that do; of a new row that it does not exist."""
    if change.is_new or row is None:
        return None if row is None else "there"
    table = TABLES[change.table]
    columns = [c for c in change.before or {} if c not in table.refreshed and not table.columns[c].is_signal]
    return {c: str(row.get(c)) for c in sorted(columns)}


def owners_in(basis: Mapping[str, Any]) -> list[str]:
    """The entities whose observations are part of a basis."""
    return [key.removeprefix(_FILED) for key in basis if key.startswith(_FILED)]
