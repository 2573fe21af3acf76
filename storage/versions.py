"""The past of a namespace, table by table: which versions can still be read, and what was done since a commit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from .connection import manifest_name
from .disk import read_through
from .object_storage import is_remote
from .schema import Role
from .tables import tables_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import DBConnection
    from lancedb.table import Table

    from .lease import Head
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
        if was_set_aside(self._db, name, version):
            return False
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


ASIDE = "_damaged"  # the folder of a table that takes manifests which cannot be read


def was_set_aside(db: DBConnection, name: str, version: int) -> bool:
    """Whether an interrupted repair took away the manifest of this version: another content may have its number."""
    return (_folder(db, name) / ASIDE / manifest_name(version)).exists()


def _folder(db: DBConnection, name: str) -> Path:
    return Path(str(db.uri).removeprefix("file://"), f"{name}.lance")


def state_label(commit: Mapping[str, Any]) -> str:
    """A commit in words: its time and its number."""
    return f"{commit['at']:%Y-%m-%d %H:%M} UTC (commit {commit['sequence']})"


# A table goes past a version number that must not get another content: the head names a version of every table, and the
# manifest of that version is gone.


def leap(db: DBConnection, name: str, number: int) -> None:
    """Bring a table's newest readable version to a number after `number`, which stays unreadable on the way."""
    _mark(db, name, number)
    _advance(db.open_table(name), number)


def begin_again(db: DBConnection, name: str, schema: pa.Schema, number: int) -> None:
    """Put an empty table in the place of what is there, if anything, at a version after `number`."""
    table = db.create_table(name, schema=schema, mode="overwrite")
    _advance(table, number)
    with warnings.catch_warnings(action="ignore"):  # of readers of older versions: nothing of these is left
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


def _mark(db: DBConnection, name: str, number: int) -> None:
    """Note that the content of a version is lost, as `was_set_aside` finds it: a repair may be cut off from here on."""
    folder = _folder(db, name)
    if not is_remote(str(db.uri)) and not (folder / "_versions" / manifest_name(number)).exists():
        (folder / ASIDE).mkdir(parents=True, exist_ok=True)
        (folder / ASIDE / manifest_name(number)).touch()


def _advance(table: Table, number: int) -> None:
    while table.version <= number:
        table.restore(table.version)
