"""Salvage: what is left of tables whose files are gone or broken, as part of a repair.

Facts, evidence and what else is known go back together, to the newest commit of which every file can be read. What
tells the history, and what follows from other rows, goes back alone. Of a log every row stays that can be read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from slowwave.common.errors import StoreMismatch

from .connection import HEAD, connect, has_namespace, is_remote
from .disk import ASIDE, leap, read_through, was_set_aside
from .rows import IDS_PER_FILTER, ROW
from .tables import TABLES, Role, tables_of

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

    from .store import Store
    from .transactions import Transaction

INTERRUPTED = "interrupted"
KNOWLEDGE = ("messages", "facts")
Saved = tuple[str, str, str]
"""A table, the row that is meant or nothing, and what became of it."""


def salvage(store: Store, tx: Transaction, broken: Collection[str]) -> list[Saved]:
    """Put back what can be put back of these tables; returns what became of each, and which runs lost what they did."""
    return list(_Salvage(store, tx).all_of(broken)) if broken else []


def is_head_broken(uri: str, namespace: str) -> bool:
    """Whether the head of a namespace that exists cannot be read, or is not one row."""
    return has_namespace(uri, namespace) and _newest_row(connect(uri, namespace)) is None


class _Salvage:
    """One salvage under the writer lease."""

    def __init__(self, store: Store, tx: Transaction) -> None:
        self._db, self._tx, self._head = store.db, tx, tx.lease
        self._rows = cache(self._counted)

    def all_of(self, broken: Collection[str]) -> Iterator[Saved]:
        moved = {name: set_aside(self._db, name) for name in broken}
        for name in broken:
            self._tx.forget_handle(name)
        roles = {name: TABLES[name].role for name in broken}
        if "commits" in broken:  # the others are found by it
            yield self._back_alone("commits", range(self._tx.versions["commits"] - 1, 0, -1))
        for name in sorted(name for name, role in roles.items() if role is Role.HISTORY and name != "commits"):
            yield self._back_alone(name, self._committed(name))
        for name in sorted(name for name, role in roles.items() if role is Role.LOG):
            yield self._readable_rows(name, moved[name])
        yield from self._state([name for name in tables_of(Role.STATE) if name in broken])

    def _state(self, broken: list[str]) -> Iterator[Saved]:
        if all(TABLES[name].is_rebuildable and not TABLES[name].whole for name in broken):  # made of others alone
            for name in broken:
                yield self._back_alone(name, self._committed(name))
            return
        commit = self._newest_whole()
        if commit is not None:
            yield from self._back_to(commit, broken)
            return
        for name in broken:
            yield self._rows_left(name)

    def _back_to(self, commit: Mapping[str, Any], broken: list[str]) -> Iterator[Saved]:
        tx, versions = self._tx, json.loads(commit["versions"])
        model = (commit["embed_model"], commit["dims"])
        if model != (tx.lease.embed_model, tx.dims):
            tx.turn_to(*model)
        back = {name: versions.get(name, 1) for name in tables_of(Role.STATE)}
        for name, version in back.items():
            if name in broken or tx.versions.get(name, 1) != version:
                tx.put_back_whole(name, version)
        label = f"{commit['at']:%Y-%m-%d %H:%M} UTC (commit {commit['sequence']})"
        for name in broken:
            yield name, "", f"It is as it was at {label}, the newest state whose files are whole."
        runs = self._runs_since(commit["sequence"])
        tx.upsert("runs", tx.by_ids("runs", runs).with_columns(state=pl.lit(INTERRUPTED)))
        for run in runs:  # whose work is gone, in part or all of it; what a model was paid for is kept
            yield "runs", run, f"What it did after {label} is lost."

    def _rows_left(self, name: str) -> Saved:
        """Every row of a table that can be read; references to the others are cut by the checks."""
        self._tx.put_back_whole(name, self._tx.handle(name).version)
        table = self._tx.handle(name)
        total, lost = table.count_rows(), drop_unreadable(table)
        self._tx.put_back_whole(name, table.version)
        return name, "", f"No earlier state is whole: {lost} of its {total} rows are lost."

    def _back_alone(self, name: str, versions: Collection[int]) -> Saved:
        for version in versions:
            if self._rows(name, version) is not None:
                self._tx.put_back_whole(name, version)
                return name, "", f"It is as it was {self._tx.versions[name] - version} versions ago."
        self._tx.start_again(name)
        return name, "", "No version of it can be read; it is empty now."

    def _readable_rows(self, name: str, moved: int) -> Saved:
        """A log without the rows that cannot be read; the others stay what they are, counted or not."""
        log = self._db.open_table(name)
        if moved:
            leap(self._db, name, log.version + moved)  # by its version a row is known to be counted
            log.checkout_latest()
        total, lost = log.count_rows(), drop_unreadable(log)
        return name, "", f"{lost} of its {total} rows are lost; the others are kept."

    # Which commits can still be read, and what was done since one.

    def _newest_whole(self) -> Mapping[str, Any] | None:
        """The newest commit of which every table of the state can be read and that knows anything.

        None from before the last migration, whose tables had other columns.
        """
        state = tables_of(Role.STATE)
        for row in self._commits().sort("sequence", descending=True).iter_rows(named=True):
            versions = json.loads(row["versions"])
            if all(self._rows(name, versions.get(name, 1)) is not None for name in state):
                return row if any(self._rows(name, versions.get(name, 1)) for name in KNOWLEDGE) else None
            if row["kind"] == "migrate":
                break
        return None

    def _commits(self) -> pl.DataFrame:
        """The rows of commits that were published."""
        return self._tx.frame("commits", f"sequence <= {self._head.sequence}")

    def _committed(self, name: str) -> list[int]:
        """The versions of a table that commits name, the newest first."""
        texts = self._commits()["versions"].to_list()
        return sorted({json.loads(text).get(name, 1) for text in texts} | {1}, reverse=True)

    def _runs_since(self, sequence: int) -> list[str]:
        """Runs that changed the state after a commit, in order; then the nights and backfills they are parts of."""
        state = set(tables_of(Role.STATE))
        later = self._commits().filter(pl.col("sequence") > sequence).sort("sequence")
        wrote = [bool(state & json.loads(before).keys()) for before in later["before"]]
        runs = later.filter(pl.Series(wrote, dtype=pl.Boolean))["run_id"].unique(maintain_order=True).to_list()
        whole_of = dict(self._tx.frame("runs", "parent_id IS NOT NULL", ["id", "parent_id"]).iter_rows())
        for run in runs:  # which grows
            if (whole := whole_of.get(run)) and whole not in runs:
                runs.append(whole)
        return runs

    def _counted(self, name: str, version: int) -> int | None:
        """How many rows a table has at a version; None where one of them cannot be read."""
        if was_set_aside(self._db, name, version):
            return None
        try:
            table = self._db.open_table(name)
            table.checkout(version)
            read_through(table)
        except Exception:  # whatever a damaged file makes the reader say
            return None
        return int(table.count_rows())


def drop_unreadable(table: Table) -> int:
    """Delete the rows of an open table that cannot be read; returns how many."""
    places = [*_unreadable(table, table.schema.names, 0, table.count_rows())]
    if places:
        rows = table.search().select([ROW]).with_row_id(True).limit(None).to_arrow()[ROW].take(places).to_pylist()
        for start in range(0, len(rows), IDS_PER_FILTER):
            table.delete(f"{ROW} IN ({', '.join(map(str, rows[start : start + IDS_PER_FILTER]))})")
    return len(places)


def _unreadable(table: Table, columns: list[str], start: int, count: int) -> Iterator[int]:
    """The places of all rows that cannot be read, found by halves."""
    if not count:
        return
    try:
        table.search().select(columns).offset(start).limit(count).to_arrow()
    except Exception:  # whatever a damaged file makes the reader say
        if count == 1:
            yield start
            return
        yield from _unreadable(table, columns, start, count // 2)
        yield from _unreadable(table, columns, start + count // 2, count - count // 2)


def set_aside(db: DBConnection, name: str) -> int:
    """Move manifests that cannot be read out of the way, the newest first, until the table opens; returns how many.

    Only on a local disk: on object storage the newest object must be removed by hand.
    """
    if is_remote(str(db.uri)):
        return 0
    folder = Path(str(db.uri).removeprefix("file://"), f"{name}.lance")
    moved = 0
    while not _opens(db, name):
        manifests = sorted((folder / "_versions").glob("*.manifest"))  # the newest is named first
        if not manifests:
            raise StoreMismatch(f"No manifest of table {name} can be read.", "Restore the store from a backup.")
        (folder / ASIDE).mkdir(exist_ok=True)
        manifests[0].rename(folder / ASIDE / manifests[0].name)
        (folder / "_versions" / "latest_version_hint.json").unlink(missing_ok=True)
        moved += 1
    return moved


def _opens(db: DBConnection, name: str) -> bool:
    try:
        return bool(db.open_table(name).schema.names)
    except Exception:  # whatever a damaged file makes the reader say
        return False


def salvage_head(uri: str, namespace: str) -> bool:
    """Write the head again if its files are broken, from its own past and the newest row of `commits`.

    True if there was something to do. Must run before the namespace can be opened.
    """
    db = connect(uri, namespace)
    if _newest_row(db) is not None:
        return False
    set_aside(db, HEAD)
    past = db.open_table(HEAD)
    row = next((found for v in range(past.version, 0, -1) if (found := _newest_row(db, v))), None)
    commits = db.open_table("commits")
    newest = commits.search().limit(None).to_polars().sort("sequence").row(-1, named=True)
    if row is None:
        raise StoreMismatch("No version of the head can be read.", "Restore the store from a backup.")
    if newest["sequence"] >= row["sequence"]:
        versions = {**json.loads(newest["versions"]), "commits": commits.version}
        row |= {"sequence": newest["sequence"], "versions": json.dumps(versions)}
        row |= {key: newest[key] for key in ("embed_model", "dims")}
    row |= {"lease_count": row["lease_count"] + 1000, "owner": "", "lease_until": 0.0}
    past.add(pa.Table.from_pylist([row], schema=past.schema), mode="overwrite")
    return True


def _newest_row(db: DBConnection, version: int | None = None) -> dict[str, Any] | None:
    try:
        table = db.open_table(HEAD)
        if version is not None:
            table.checkout(version)
        rows: list[dict[str, Any]] = table.to_arrow().to_pylist()
    except Exception:  # whatever a damaged file makes the reader say
        return None
    return rows[0] if len(rows) == 1 else None
