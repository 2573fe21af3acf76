"""Leaps: a table goes past a version number that must never be written.

The head names a version of every table. Where the manifest of that version is gone, the next write would take its
number: should the repair die then, the head would name another content than it did, and nobody could tell. So the
versions up to that number are made in a folder aside, and only the one beyond it is put among those of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from .connection import manifest_name
from .object_storage import file_system

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import DBConnection
    from lancedb.table import Table
    from pyarrow import fs

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
