"""The files of a namespace on a disk: which are gone or broken, and which versions of its tables there are.

That a file is gone or broken, or that no room is left, is told as an error that names the way out. LanceDB reports it
in the words of its own source files; a message alone is not believed: the files are looked at.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from slowwave.common.errors import NoRoom, NoStoreYet, SlowwaveError, StoreMismatch
from slowwave.common.validity import time_sql

from .connection import HEAD, MANIFEST, is_remote

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENDS_WITH = b"LANC"
"""The last bytes of every data file, manifest and index file."""
CHECKED = (".lance", ".manifest")
FULL = ("no space left on device", "disk quota exceeded", "storage full", "quotaexceeded")
BROKEN = (
    "not found", "lanceerror(", "lance file", "magic", "protobuf", "no field named", "does not exist in schema",
    "no longer exists", "corrupt", "unexpected end of file", "manifest",
)  # fmt: skip
_LOST = re.compile(r"(\w+)\.lance/((?:data|_versions|_indices|_deletions)/[^\s,]+)")
_MOST_NAMED = 3
WAY_OUT = (
    "`slowwave doctor` shows all that is damaged, `slowwave doctor --repair` puts back the newest state whose files "
    "are whole and says what that takes back."
)


class MissingTable(StoreMismatch):
    """There is no folder of that name."""


@contextmanager
def plain_errors(uri: str, name: str = "") -> Iterator[None]:
    """Inside, an error of the disk becomes `NoRoom`, or `StoreMismatch` with the names of the table and the file.

    `name` is the table that is read or written, where it is known. Any other error passes as it is.
    """
    try:
        yield
    except Exception as error:
        if (plain := in_plain_words(error, uri, name)) is None:
            raise
        raise plain from error


def in_plain_words(error: BaseException, uri: str = "", name: str = "") -> SlowwaveError | None:
    """The error that says what the disk did and what to do; None where it was something else."""
    if not isinstance(error, RuntimeError | ValueError | OSError) and not _is_panic(error):
        return None
    if any(sign in str(error).lower() for sign in FULL):
        return NoRoom(
            f"There is no room left on the disk{f' of {uri}' if uri else ''}.",
            "Nothing is lost and nothing half done is visible. Make room, or move the store to a larger disk and give "
            "its new place with --store; then run the same command again.",
        )
    if not is_of_files(error):
        return None
    lost = _LOST.search(str(error))
    if not uri or is_remote(uri):
        return damaged(lost[1], [lost[0]]) if lost else None
    place = Path(uri.removeprefix("file://"))
    if not any(place.glob("*.lance")):  # LanceDB makes the folder anew when it is asked for a table
        return NoStoreYet(
            f"There is no store at {str(place.parent)!r}.", "It was there before: look for where it went."
        )
    if name and not (place / f"{name}.lance").exists():
        return MissingTable(f"Table {name} is missing.", WAY_OUT)
    for table in [name or (lost[1] if lost else "")] if name or lost else _tables(uri):
        if is_damaged(uri, table):
            return damaged(table, broken_files(uri, table) or ([lost[0]] if lost else []))
    return None


def is_of_files(error: BaseException) -> bool:
    """Whether an error may be about files that are gone or broken."""
    return _is_panic(error) or any(sign in str(error).lower() for sign in BROKEN)


def _is_panic(error: BaseException) -> bool:
    """Whether LanceDB gave up in the middle: what it read was too short to be anything."""
    return type(error).__name__ == "RustPanic"


def damaged(table: str, files: list[str]) -> StoreMismatch:
    """The error for a table that cannot be read."""
    more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    listed = f": {', '.join(files[:_MOST_NAMED])}{more} is gone or broken" if files else ""
    return StoreMismatch(f"Table {table} is damaged{listed}.", WAY_OUT)


def is_damaged(uri: str, name: str) -> bool:
    """Whether the newest version of a table on a local disk cannot be read to its end."""
    import lancedb

    try:
        read_through(lancedb.connect(uri).open_table(name))
    except Exception:  # whatever a damaged file makes the reader say
        return True
    return False


def read_through(table: Table) -> None:
    """Read every row of an open table; raises what a damaged file makes the reader say."""
    if "id" not in table.schema.names and "name" not in table.schema.names:
        raise ValueError("Its manifest says nothing.")
    for _ in table.search().limit(None).to_batches():
        pass


def unreadable_indexes(table: Table) -> list[tuple[str, str]]:
    """Name and column of every index that cannot be read."""
    found = []
    for index in table.list_indices():
        column = index.columns[0]
        try:
            _ask(table, column, index.index_type)
        except Exception:  # whatever a damaged file makes the reader say
            found.append((index.name, column))
    return found


def _ask(table: Table, column: str, kind: str) -> None:
    """One question that only the index answers."""
    if kind == "FTS":
        table.search("the", query_type="fts", fts_columns=column).limit(1).to_arrow()
    elif column == "vector":
        width = table.schema.field(column).type.list_size
        table.search([0.0] * width, vector_column_name=column).limit(1).to_arrow()
    else:
        type_ = table.schema.field(column).type
        literal = "''" if type_ == pa.string() else time_sql(EPOCH) if pa.types.is_timestamp(type_) else "0"
        table.search().where(f"{column} = {literal}").limit(1).to_arrow()


def broken_files(uri: str, name: str) -> list[str]:
    """Files of a table that do not end as they must, by their place below the namespace; none on object storage."""
    folder = Path(uri.removeprefix("file://"), f"{name}.lance")
    if is_remote(uri) or not folder.is_dir():
        return []
    found = sorted(path for path in folder.rglob("*") if path.suffix in CHECKED and path.is_file())
    return [f"{folder.name}/{path.relative_to(folder)}" for path in found if not _is_whole(path)]


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - len(ENDS_WITH)))
        return file.read() == ENDS_WITH


def _tables(uri: str) -> list[str]:
    return sorted(path.stem for path in Path(uri.removeprefix("file://")).glob("*.lance"))


# Which versions of a table there are, by the names of its files.


LARGEST = 2**64 - 1
LONGEST = len(str(LARGEST))


def newest_on_disk(address: str, table: str) -> int | None:
    """The newest version of a table by its manifests; None on object storage, or where their names say nothing."""
    if is_remote(address):
        return None
    try:
        entries = os.listdir(f"{address.removeprefix('file://')}/{table}.lance/_versions")
    except OSError:
        return None
    named = [name for name in entries if name.endswith(MANIFEST)]
    if {*map(len, named)} != {LONGEST + len(MANIFEST)}:  # there is none, or one of another scheme of names
        return None
    newest = min(named).removesuffix(MANIFEST)
    return LARGEST - int(newest) if newest.isdecimal() else None


def is_newest_on_disk(address: str, table: str, version: int) -> bool | None:
    """Whether a version of a table is its newest, by two names of files; None where they do not tell."""
    if is_remote(address):
        return None
    folder = f"{address.removeprefix('file://')}/{table}.lance/_versions"
    if not os.path.exists(f"{folder}/{manifest_name(version)}"):
        return None
    return not os.path.exists(f"{folder}/{manifest_name(version + 1)}")


def newest_file_on_disk(address: str, table: str) -> tuple[int, int, int] | None:
    """The newest version of a table, with the number and the time of change of its manifest's file; None as above."""
    newest = newest_on_disk(address, table)
    return None if newest is None else manifest_on_disk(address, table, newest)


def manifest_on_disk(address: str, table: str, version: int) -> tuple[int, int, int] | None:
    """A version, with the number and the time of change of its manifest's file; None as above, or where it is gone."""
    if is_remote(address):
        return None
    try:
        found = os.stat(f"{address.removeprefix('file://')}/{table}.lance/_versions/{manifest_name(version)}")
    except OSError:  # cleaned up, or the folder was removed meanwhile
        return None
    return version, found.st_ino, found.st_mtime_ns


Folder = tuple[int, int]


def folder_on_disk(address: str) -> Folder | None:
    """What tells the folder of a namespace from another one that was put in its place; None as above."""
    if is_remote(address):
        return None
    try:
        found = os.stat(f"{address.removeprefix('file://')}/{HEAD}.lance")
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def manifest_name(version: int) -> str:
    """The name of the manifest of a version."""
    return f"{LARGEST - version:0{LONGEST}}{MANIFEST}"


ASIDE = "_damaged"  # the folder of a table that takes manifests which cannot be read


def was_set_aside(db: DBConnection, name: str, version: int) -> bool:
    """Whether an interrupted repair took away the manifest of this version: another content may have its number."""
    return (_folder(db, name) / ASIDE / manifest_name(version)).exists()


def _folder(db: DBConnection, name: str) -> Path:
    return Path(str(db.uri).removeprefix("file://"), f"{name}.lance")


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
