"""The doctor: looks for damage in a namespace, and repairs what can be repaired as one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from typing import TYPE_CHECKING

import polars as pl

from slowwave.common.errors import SlowwaveError

from . import checks
from .checks import DefectKind, PartialSnapshot
from .connection import HEAD, has_namespace, remove_unfinished, unfinished
from .disk import MissingTable, read_through, unreadable_indexes, was_set_aside
from .migrations import make_indexes, make_text_indexes
from .salvage import is_head_broken, salvage, salvage_head
from .store import Store
from .tables import SCHEMA_VERSION, TABLES, Role

if TYPE_CHECKING:
    from lancedb.table import Table

    from .lease import Head
    from .transactions import Transaction

CHECKS = (
    DefectKind("duplicate key", checks.find_duplicates, checks.keep_newest),
    DefectKind("fact in two places", checks.find_twice, checks.remove_rows),
    DefectKind("dangling reference", checks.find_dangling, checks.cut_dangling),
    DefectKind("stray member of a community", checks.find_stray_members, checks.part_with_strays),
    DefectKind("supersession cycle", checks.find_cycles, checks.break_cycles),
    DefectKind("contradictory status", checks.find_contradictions, checks.settle),
    DefectKind("shared alias", checks.find_shared_aliases, checks.remove_rows),
    DefectKind("vector length", checks.find_long_vectors, checks.make_unit),
)
"""In the order of repair: a mend may leave work for a later one, never for an earlier one."""


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
    is_repairable: bool


def examine(store: Store) -> tuple[Defect, ...]:
    """Every defect of the newest state; changes nothing. Open the store with `Store.attach`."""
    if broken := _head_findings(store):
        return tuple(broken)
    head = store.head
    snapshot = store.snapshot()
    sound, findings = _survey(_names(head), snapshot.handle)
    cut_off = {name for name in sound if was_set_aside(store.db, name, head.versions.get(name, 1))}
    findings += [Defect(UNREADABLE, name, "", CUT_OFF, True) for name in sorted(cut_off)]
    sound -= cut_off
    findings += _broken_indexes(sound, snapshot.handle)
    findings += _ahead(store, head, sound)
    findings += [_unfinished_finding(name) for name in unfinished(store.uri)]
    return (*findings, *defects(PartialSnapshot(snapshot, sound)))


def defects(patient: PartialSnapshot) -> Iterator[Defect]:
    """What is wrong with the rows of a state."""
    for check in CHECKS:
        yield from _findings(check.name, check.find(patient))


def look(uri: str, namespace: str) -> tuple[Defect, ...]:
    """`examine`, also of a namespace whose head is broken, of which nothing else can be seen."""
    if is_head_broken(uri, namespace):
        return (Defect("head", HEAD, "", "It cannot be read. Only when it is mended can the rest be examined.", True),)
    return examine(Store.attach(uri, namespace))


def mend_head(uri: str, namespace: str) -> tuple[Defect, ...]:
    """Write the head of a namespace again if its files are broken: without a head no process can open the namespace."""
    if not has_namespace(uri, namespace) or not salvage_head(uri, namespace):
        return ()
    return (Defect("head", HEAD, "", "It could not be read, and was made anew from its past and from commits.", True),)


def repair(store: Store, run_id: str, now: datetime) -> tuple[Defect, ...]:
    """Repair all repairable defects, with a decision for each; returns the repaired defects."""
    repaired = [finding for finding in _head_findings(store) if finding.is_repairable]
    if repaired:
        _keep_newest_head(store)
    with store.commit(run_id, "repair", now, is_repair=True) as tx:
        repaired += _repair_tables(store, tx)
        repaired += _salvaged(store, tx)
        sound, _ = _survey(_names(tx.lease), tx.handle)
        repaired += _repair_indexes(tx, sound)
        patient = PartialSnapshot(tx, sound)
        for check in CHECKS:
            rows = check.find(patient)
            if len(rows):
                check.mend(tx, rows)
            repaired += _findings(check.name, rows)
        tx.upsert("decisions", _decisions(tx, repaired))
    repaired += [_unfinished_finding(name) for name in remove_unfinished(store.uri)]
    return tuple(repaired)


def _names(head: Head) -> list[str]:
    """The tables that the state must have."""
    is_current = head.schema_version == SCHEMA_VERSION
    return [n for n, t in TABLES.items() if n in head.versions or (t.role is Role.LOG and is_current)]


def _head_findings(store: Store) -> list[Defect]:
    rows = store.db.open_table(HEAD).count_rows()
    if rows == 1:
        return []
    return [Defect("head", HEAD, "", f"The head has {rows} rows instead of one.", rows > 1)]


def _keep_newest_head(store: Store) -> None:
    head = store.db.open_table(HEAD)
    newest = pl.DataFrame(pl.from_arrow(head.to_arrow())).sort("sequence", "lease_count").tail(1)
    store.db.create_table(HEAD, newest.to_arrow().cast(head.schema), mode="overwrite")


def _survey(names: Iterable[str], handle: Callable[[str], Table]) -> tuple[frozenset[str], list[Defect]]:
    """Which tables can be read to the end, and what is wrong with the others."""
    sound, findings = set(), []
    for name in names:
        try:
            read_through(handle(name))
            sound.add(name)
        except Exception as error:  # whatever a damaged file makes the reader say
            is_missing = isinstance(error, MissingTable) or (
                isinstance(error, ValueError) and "not found" in str(error)
            )
            check, detail = (
                ("missing table", "The table is missing.") if is_missing else (UNREADABLE, _first_line(error))
            )
            findings.append(Defect(check, name, "", detail, True))
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
    return [Defect(kinds[bool(row)], name, row, detail, True) for name, row, detail in salvage(store, tx, broken)]


def _broken_indexes(sound: Iterable[str], handle: Callable[[str], Table]) -> list[Defect]:
    """Indexes that cannot be read; their tables still have all rows."""
    return [
        Defect("broken index", name, "", f"The index of {column} cannot be read.", True)
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


def _ahead(store: Store, head: Head, sound: frozenset[str]) -> list[Defect]:
    """Leftovers of a writer that died; while one is at work, tables are ahead of the head by right."""
    latest = {name: store.db.open_table(name).version for name in head.versions.keys() & sound}
    if not head.is_free or store.head.lease_count != head.lease_count:
        return []
    return [
        _ahead_finding(name, head.versions[name], version)
        for name, version in sorted(latest.items())
        if version != head.versions[name]
    ]


def _ahead_finding(name: str, version: int, latest: int) -> Defect:
    detail = f"It is at version {latest}, the head says {version}; the next commit puts it back."
    return Defect("ahead of the head", name, "", detail, True)


def _unfinished_finding(folder: str) -> Defect:
    detail = "A process was killed while it made a namespace in this folder; it holds nothing that was finished."
    return Defect("unfinished namespace", folder, "", detail, True)


def _repair_tables(store: Store, tx: Transaction) -> list[Defect]:
    repaired = [_ahead_finding(name, version, latest) for name, (version, latest) in tx.recovered.items()]
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
    return repaired + [Defect("missing table", name, "", made, True) for name in [*lost_logs, *missing]]


def _findings(check: str, rows: pl.DataFrame) -> list[Defect]:
    wanted = rows.sort("table", "row_id", "column").select("table", "row_id", "detail")
    return [Defect(check, table, row_id, detail, True) for table, row_id, detail in wanted.iter_rows()]


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
