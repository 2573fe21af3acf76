"""The doctor: looks for damage in a namespace, and repairs it as one commit.

A check finds rows (table, row_id, column, detail), and its mend, if it has one, changes them; no mend ever makes a fact
live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from typing import TYPE_CHECKING

import polars as pl

from slowwave.common.errors import SlowwaveError
from slowwave.graph.community_detection import member_lists

from .changes import FACT_TABLES, leave_communities, places_of
from .connection import HEAD, has_namespace
from .disk import MissingTable, read_through, unreadable_indexes, was_set_aside
from .migrations import make_indexes, make_text_indexes
from .rows import empty_frame
from .salvage import is_head_broken, salvage, salvage_head
from .snapshots import Reading
from .store import Store
from .tables import SCHEMA_VERSION, TABLES, Role, tables_of

if TYPE_CHECKING:
    from lancedb.table import Table

    from .lease import Head
    from .transactions import Transaction

UNREADABLE, LOST = "unreadable table", "lost run"
CUT_OFF = "It cannot be read: its newest content is lost, and a repair of it was cut off."
REPORTED = (UNREADABLE, LOST, "missing table", "head")
"""What a person must hear of even when it is mended: something may be gone."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect; `row_id` is empty where a whole table is meant."""

    check: str
    table: str
    row_id: str
    detail: str


def examine(store: Store) -> tuple[Defect, ...]:
    """Every defect of the newest state; changes nothing. Open the store with `Store.attach`."""
    head, snapshot = store.head, store.snapshot()
    sound, findings = _survey(_names(head), snapshot.handle)
    cut_off = {name for name in sound if was_set_aside(store.db, name, head.versions.get(name, 1))}
    findings += [Defect(UNREADABLE, name, "", CUT_OFF) for name in sorted(cut_off)]
    sound -= cut_off
    findings += _broken_indexes(sound, snapshot.handle)
    return (*findings, *defects(PartialSnapshot(snapshot, sound)))


def defects(patient: PartialSnapshot) -> Iterator[Defect]:
    """What is wrong with the rows of a state."""
    for check in CHECKS:
        yield from _findings(check.name, check.find(patient))


def look(uri: str, namespace: str) -> tuple[Defect, ...]:
    """`examine`, also of a namespace whose head is broken, of which nothing else can be seen."""
    if is_head_broken(uri, namespace):
        return (Defect("head", HEAD, "", "It cannot be read. Only when it is mended can the rest be examined."),)
    return examine(Store.attach(uri, namespace))


def mend_head(uri: str, namespace: str) -> tuple[Defect, ...]:
    """Write the head of a namespace again if its files are broken: without a head no process can open the namespace."""
    if not has_namespace(uri, namespace) or not salvage_head(uri, namespace):
        return ()
    return (Defect("head", HEAD, "", "It could not be read, and was made anew from its past and from commits."),)


def repair(store: Store, run_id: str, now: datetime) -> tuple[Defect, ...]:
    """Repair all defects, with a decision for each; returns them."""
    with store.commit(run_id, "repair", now, is_repair=True) as tx:
        repaired = _repair_tables(store, tx)
        repaired += _salvaged(store, tx)
        sound, _ = _survey(_names(tx.lease), tx.handle)
        repaired += _repair_indexes(tx, sound)
        patient = PartialSnapshot(tx, sound)
        for check in CHECKS:
            if check.mend is not None and len(rows := check.find(patient)):
                check.mend(tx, rows)
                repaired += _findings(check.name, rows)
        tx.upsert("decisions", _decisions(tx, repaired))
    return tuple(repaired)


def _names(head: Head) -> list[str]:
    """The tables that the state must have."""
    is_current = head.schema_version == SCHEMA_VERSION
    return [n for n, t in TABLES.items() if n in head.versions or (t.role is Role.LOG and is_current)]


def _survey(names: Iterable[str], handle: Callable[[str], Table]) -> tuple[frozenset[str], list[Defect]]:
    """Which tables can be read to the end, and what is wrong with the others."""
    sound, findings = set(), []
    for name in names:
        try:
            read_through(handle(name))
            sound.add(name)
        except Exception as error:  # whatever a damaged file makes the reader say
            if isinstance(error, MissingTable) or (isinstance(error, ValueError) and "not found" in str(error)):
                findings.append(Defect("missing table", name, "", "The table is missing."))
            else:
                findings.append(Defect(UNREADABLE, name, "", _first_line(error)))
    return frozenset(sound), findings


def _first_line(error: Exception) -> str:
    """What cannot be read, without the line of LanceDB's source that says so."""
    text = error.message if isinstance(error, SlowwaveError) else (str(error).splitlines() or [repr(error)])[0]
    return f"It cannot be read: {text.partition(', /')[0]}"


def _salvaged(store: Store, tx: Transaction) -> list[Defect]:
    """Tables that cannot be read, or are not at the version that the head names, put back."""
    names = _names(tx.lease)
    sound, _ = _survey(names, tx.handle)
    late = {name for name in tx.versions.keys() & sound if tx.handle(name).version != tx.versions[name]}
    late |= {name for name, version in tx.lease.versions.items() if was_set_aside(store.db, name, version)}
    broken = [name for name in names if name not in sound or name in late]
    kinds = {False: UNREADABLE, True: LOST}
    return [Defect(kinds[bool(row)], name, row, detail) for name, row, detail in salvage(store, tx, broken)]


def _broken_indexes(sound: Iterable[str], handle: Callable[[str], Table]) -> list[Defect]:
    """Indexes that cannot be read; their tables still have all rows."""
    return [
        Defect("broken index", name, "", f"The index of {column} cannot be read.")
        for name in sorted(sound)
        for _, column in unreadable_indexes(handle(name))
    ]


def _repair_indexes(tx: Transaction, sound: Iterable[str]) -> list[Defect]:
    """Build broken indexes again from the rows."""
    pinned = [name for name in sorted(sound) if name in tx.versions]
    repaired = _broken_indexes(pinned, tx.handle)
    for name in {finding.table: None for finding in repaired}:
        for index, _ in unreadable_indexes(tx.handle(name)):
            tx.rebuild(name, methodcaller("drop_index", index))
        make_text_indexes(tx, [name])
        make_indexes(tx, name)
    return repaired


def _repair_tables(store: Store, tx: Transaction) -> list[Defect]:
    there = set(store.db.list_tables(limit=1000).tables)
    lost_logs = [name for name in _names(tx.lease) if TABLES[name].role is Role.LOG and name not in there]
    for name in lost_logs:
        store.db.create_table(name, schema=TABLES[name].schema(tx.dims))
    missing = list(tx.missing)
    for name in missing:
        tx.start_again(name)
    tx.delete("log_marks", tx.by_ids("log_marks", lost_logs, ["id"])["id"])  # the new log begins at its first row
    make_text_indexes(tx, missing)
    made = "The table was missing and is empty now."
    return [Defect("missing table", name, "", made) for name in [*lost_logs, *missing]]


def _findings(check: str, rows: pl.DataFrame) -> list[Defect]:
    wanted = rows.sort("table", "row_id", "column").select("table", "row_id", "detail")
    return [Defect(check, table, row_id, detail) for table, row_id, detail in wanted.iter_rows()]


def _decisions(tx: Transaction, repaired: list[Defect]) -> pl.DataFrame:
    ids = [f"d_{tx.run_id}_{number:06d}" for number in range(len(repaired))]
    return pl.DataFrame(
        {
            "id": ids,
            "action": ["repair"] * len(ids),
            "subject_id": [finding.row_id or finding.table for finding in repaired],
            "decided_by": ["rule"] * len(ids),
            "reason": [f"{finding.check} in {finding.table}: {finding.detail}" for finding in repaired],
            "at": [tx.now] * len(ids),
        }
    )


# What can be wrong with rows, and how it is mended.

FOUND = {"table": pl.String, "row_id": pl.String, "column": pl.String, "detail": pl.String}


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
    mend: Callable[[Transaction, pl.DataFrame], None] | None


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


# What can be wrong with the validity of facts: cycles of supersession, and a status that its columns deny (§6.3).


_STATUS = ["id", "status", "expired_at", "replaced_by", "patch_batch_id"]


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


CHECKS = (
    DefectKind("duplicate key", find_duplicates, keep_newest),
    DefectKind("dangling reference", find_dangling, cut_dangling),
    DefectKind("stray member of a community", find_stray_members, part_with_strays),
    DefectKind("supersession cycle", find_cycles, None),
    DefectKind("contradictory status", find_contradictions, settle),
)
"""In the order of repair: a mend may leave work for a later one, never for an earlier one."""
BY_HAND = frozenset(check.name for check in CHECKS if check.mend is None)
"""What a person mends: nothing tells which of the rows is wrong."""
