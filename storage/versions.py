"""The past of a namespace, table by table: which versions can still be read, and what was done since a commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl

from .connection import manifest_name
from .disk import read_through
from .object_storage import file_system
from .schema import Role
from .tables import tables_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import DBConnection
    from lancedb.table import Table
    from pyarrow import fs

    from .head import Head
    from .snapshots import Reading

KNOWLEDGE = ("messages", "facts")


class EarlierStates:
    """Earlier states by commits and files; changes nothing."""

    def __init__(self, db: DBConnection, reading: Reading, head: Head) -> None:
        self._db, self._reading, self._head = db, reading, head
        self._read: dict[tuple[str, int], bool] = {}

    def newest_whole(self) -> Mapping[str, Any] | None:
        """The newest commit of which every table of the state can be read and that knows anything.

        None from before the last migration, whose tables had other columns.
        """
        state = tables_of(Role.STATE)
        for row in self._commits().sort("sequence", descending=True).iter_rows(named=True):
            versions = json.loads(row["versions"])
            if all(self.is_whole(name, versions.get(name, 1)) for name in state):
                return row if any(self._rows(name, versions.get(name, 1)) for name in KNOWLEDGE) else None
            if row["kind"] == "migrate":
                break
        return None

    def _commits(self) -> pl.DataFrame:
        """The rows of commits that were published, with the model of their vectors."""
        rows = self._reading.frame("commits", f"sequence <= {self._head.sequence}").sort("sequence")
        return rows.with_columns(
            pl.col("embed_model").fill_null(strategy="backward").fill_null(self._head.embed_model),
            pl.col("dims").fill_null(strategy="backward").fill_null(self._head.dims),
        )

    def committed(self, name: str) -> list[int]:
        """The versions of a table that commits name, the newest first."""
        texts = self._commits()["versions"].to_list()
        return sorted({json.loads(text).get(name, 1) for text in texts} | {1}, reverse=True)

    def runs_since(self, sequence: int) -> list[str]:
        """Runs that changed the state after a commit, in order; then the nights and backfills that they are a part of.

        A whole of which a part is lost did not come to its end, and goes on when it is run again.
        """
        state = set(tables_of(Role.STATE))
        later = self._commits().filter(pl.col("sequence") > sequence).sort("sequence")
        wrote = [bool(state & json.loads(before).keys()) for before in later["before"]]
        runs = later.filter(pl.Series(wrote, dtype=pl.Boolean))["run_id"].unique(maintain_order=True).to_list()
        whole_of = dict(self._reading.frame("runs", "parent_id IS NOT NULL", ["id", "parent_id"]).iter_rows())
        for run in runs:  # which grows
            if (whole := whole_of.get(run)) and whole not in runs:
                runs.append(whole)
        return runs

    def is_whole(self, name: str, version: int) -> bool:
        """Whether every row of a table at a version can be read."""
        if (name, version) not in self._read:
            self._read[name, version] = self._can_be_read(name, version)
        return self._read[name, version]

    def _can_be_read(self, name: str, version: int) -> bool:
        try:
            table = self._db.open_table(name)
            table.checkout(version)
            read_through(table)
        except Exception:  # whatever a damaged file makes the reader say
            return False
        return True

    def _rows(self, name: str, version: int) -> int:
        table = self._db.open_table(name)
        table.checkout(version)
        return int(table.count_rows())


def state_label(commit: Mapping[str, Any]) -> str:
    """A commit in words: its time and its number."""
    return f"{commit['at']:%Y-%m-%d %H:%M} UTC (commit {commit['sequence']})"


# Leaps: a table goes past a version number that must never be written. The head names a version of every table. Where
# the manifest of that version is gone, the next write would take its number: should the repair die then, the head
# would name another content than it did, and nobody could tell. So the versions up to that number are made in a
# folder aside, and only the one beyond it is put among those of the table.


ASIDE = "_damaged"  # the folder of a table that takes what a repair moves out of the way, and its work
_HINT = "latest_version_hint.json"


def leap(db: DBConnection, name: str, number: int) -> None:
    """Make a table's newest readable version the one after `number`; nothing where the table is as far already."""
    newest = int(db.open_table(name).version)
    if newest >= number:
        return
    with _aside(db, name) as (system, folder, place, scratch):
        system.create_dir(f"{place}/{name}.lance/_versions")
        manifest = manifest_name(newest)
        system.copy_file(f"{folder}/_versions/{manifest}", f"{place}/{name}.lance/_versions/{manifest}")
        _bring(system, f"{place}/{name}.lance", folder, _advanced(scratch.open_table(name), number))


def begin_again(db: DBConnection, name: str, schema: pa.Schema, number: int) -> None:
    """Put an empty table in the place of what is there, if anything; its only version is the one after `number`."""
    with _aside(db, name) as (system, folder, place, scratch):
        made = _advanced(scratch.create_table(name, schema=schema), number)
        system.create_dir(folder)
        for info in system.get_file_info(_listing(folder)):
            if info.base_name != ASIDE:
                (system.delete_file if info.is_file else system.delete_dir)(info.path)
        _bring(system, f"{place}/{name}.lance", folder, made)


def _advanced(table: Table, number: int) -> int:
    while table.version <= number:
        table.restore(table.version)
    return int(table.version)


def _bring(system: fs.FileSystem, source: str, target: str, version: int) -> None:
    """Move one version from one folder of a table to another; it is there with its manifest, which comes last."""
    for part in ("_transactions", "_versions"):
        system.create_dir(f"{target}/{part}")
    for info in system.get_file_info(_listing(f"{source}/_transactions")):
        system.move(info.path, f"{target}/_transactions/{info.base_name}")
    with suppress(FileNotFoundError):
        system.delete_file(f"{target}/_versions/{_HINT}")  # it names an older version
    manifest = f"_versions/{manifest_name(version)}"
    system.move(f"{source}/{manifest}", f"{target}/{manifest}")


def _listing(folder: str) -> fs.FileSelector:
    from pyarrow import fs

    return fs.FileSelector(folder, allow_not_found=True)


@contextmanager
def _aside(db: DBConnection, name: str) -> Iterator[tuple[fs.FileSystem, str, str, DBConnection]]:
    """The file system, the folder of a table, and a place aside that vanishes, with a connection to it."""
    import lancedb

    options: dict[str, str] = getattr(db, "storage_options", None) or {}
    work = f"{name}.lance/{ASIDE}/making-{uuid4().hex}"
    system, root = file_system(str(db.uri), options)
    system.create_dir(f"{root}/{work}")
    try:
        scratch = lancedb.connect(f"{str(db.uri).rstrip('/')}/{work}", storage_options=options)
        yield system, f"{root}/{name}.lance", f"{root}/{work}", scratch
    finally:
        with suppress(OSError):
            system.delete_dir(f"{root}/{work}")
