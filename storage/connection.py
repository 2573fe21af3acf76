"""Where namespaces live: a LanceDB database directory each, opened lazily."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

import polars as pl

from slowwave.common.errors import NoStoreYet, UnknownName, UnusableInput

from .object_storage import exist, folders, is_remote, one_endpoint

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb import Session
    from lancedb.db import DBConnection
    from lancedb.query import AsyncQuery, AsyncQueryBase, AsyncTakeQuery
    from lancedb.table import Table

# LanceDB without the client of REST services, which it imports and no store of ours uses. `lancedb` needs records
# that lie in the package of that client. Python executes a package before anything that lies in it, and this one
# prepares hundreds of generated calls: half of the processor time that importing `lancedb` takes. Here the package is
# executed once something of its own is asked for; what lies in it is imported as ever. Python imports the package,
# under the locks by which it imports all, so that threads that come at once have the same.


CLIENT = "lance_namespace_urllib3_client"
_ITS_OWN = ("__all__", "__version__")


def defer_client() -> None:
    """To be called before `import lancedb`; does nothing where the client is imported already, or is not there."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Finder(MetaPathFinder):
    """Finds the client where Python would, to be executed later."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == CLIENT else None
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Deferred(spec.loader)
        return spec


_FINDER = _Finder()


class _Deferred(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader, self._lock, self._is_begun = loader, RLock(), False

    def exec_module(self, module: ModuleType) -> None:
        """Put off what the loader would do until a name is asked for that the package does not have."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        names = vars(module)

        def ask(name: str) -> Any:
            if name.startswith("__") and name not in _ITS_OWN:  # whoever looks through all modules asks for these
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            inner = f"{module.__name__}.{name}"
            if PathFinder.find_spec(inner, module.__path__) is not None:
                return import_module(inner)  # no reason to execute the package, which may wait for whoever imports this
            with self._lock:
                if not self._is_begun:
                    self._is_begun = True
                    try:
                        self._loader.exec_module(module)
                    except BaseException:
                        self._is_begun = False
                        raise
            try:
                return names[name]
            except KeyError:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None

        names["__getattr__"] = ask


HEAD = "_head"
_PUBLISHED = f"{HEAD}.lance/_versions"  # holds a file only once the head is really there
LARGEST = 2**64 - 1
LONGEST = len(str(LARGEST))
NO_STORE = "Check the path: --store, SLOWWAVE_STORE, or `store` of `open_memory`. `slowwave ingest PATH` makes a store."
INDEX_CACHE, METADATA_CACHE = 48 << 20, 16 << 20
_MANIFEST = ".manifest"
_AT_ONCE = 4  # queries: one alone leaves cores idle
_MAKING = ".making-"  # begins the name of a folder in which a namespace is made
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_namespace(name: str) -> str:
    """The name itself, or an error that says what a namespace may be called."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise UnusableInput(
            f"{name!r} cannot be a namespace.",
            "Use letters, digits, '.', '_' and '-', starting with a letter or digit.",
        )
    return name


def namespaces(uri: str, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """The namespaces that a store holds, in order of their names."""
    if is_remote(uri):
        names = [name for name in folders(uri, storage_options) if _NAME.fullmatch(name)]
        made = exist(uri, (f"{name}/{_PUBLISHED}" for name in names), storage_options)
        return sorted(place.partition("/")[0] for place in made)
    return sorted(place.name for place in _root(uri).glob("*") if _NAME.fullmatch(place.name) and _has_head(place))


def namespaces_like(uri: str, pattern: str) -> list[str]:
    """The namespaces that a name, or a pattern such as tenant-*, means; raises `UnknownName` where there is none."""
    known = namespaces(uri)
    if not known:
        raise NoStoreYet(f"There is no store at {uri!r}.", NO_STORE)
    found = [name for name in known if fnmatchcase(name, pattern)]
    if not found:
        raise UnknownName("namespace", pattern, known)
    return found


def has_namespace(uri: str, namespace: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Whether a store holds a namespace, without a look at its others."""
    check_namespace(namespace)
    if is_remote(uri):
        return bool(exist(uri, [f"{namespace}/{_PUBLISHED}"], storage_options))
    return _has_head(_root(uri) / namespace)


def _has_head(place: Path) -> bool:
    try:
        with os.scandir(place / _PUBLISHED) as entries:
            return any(entry.name.endswith(_MANIFEST) for entry in entries)
    except OSError:
        return False


@contextmanager
def place_for_making(uri: str, namespace: str) -> Iterator[str]:
    """Where to make a namespace: a directory that is moved to its place when it is complete, or vanishes.

    Of several makers one wins and the others' work is dropped: LanceDB's own `create_table` lets the later of two
    concurrent ones empty the table of the earlier. Object storage cannot move: see `claims`.
    """
    try:
        _root(uri).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableInput(f"No store can be made at {uri!r}: {error.strerror}.", "Choose another --store.") from error
    remove_unfinished(uri)
    with _locked_folder(_root(uri)) as place:
        yield str(place)
        try:
            Path(place, namespace).rename(_root(uri) / namespace)
        except OSError as error:
            if namespace not in namespaces(uri):
                raise UnusableInput(
                    f"{str(_root(uri) / namespace)!r} is there already and is no namespace.",
                    "Choose another --namespace.",
                ) from error


@contextmanager
def _locked_folder(root: Path) -> Iterator[Path]:
    """A new folder that is removed afterwards, and that `remove_unfinished` leaves alone until then."""
    place, lock = _new_locked(root)
    try:
        yield place
    finally:
        rmtree(place, ignore_errors=True)
        os.close(lock)


def _new_locked(root: Path) -> tuple[Path, int]:
    while True:
        place = Path(mkdtemp(prefix=_MAKING, dir=root))
        with suppress(FileNotFoundError):
            lock = os.open(place, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks: nothing is removed there
                fcntl.flock(lock, fcntl.LOCK_EX)
            if place.exists():
                return place, lock
            os.close(lock)  # another process removed it before it was locked


@contextmanager
def _lock_of_dead(folder: Path) -> Iterator[None]:
    """The lock of a folder whose maker is dead: the system unlocks when a process ends. Raises `OSError` otherwise."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def unfinished(uri: str) -> list[str]:
    """The folders in which namespaces were being made by processes that were killed."""
    return [place.name for place in _making(uri) if _is_left(place)]


def remove_unfinished(uri: str) -> list[str]:
    """Remove the folders of `unfinished` and return their names; a namespace that is being made now is left alone."""
    return [place.name for place in _making(uri) if _is_left(place, removes=True)]


def _making(uri: str) -> list[Path]:
    return [] if is_remote(uri) else sorted(_root(uri).glob(f"{_MAKING}*"))


def _is_left(place: Path, *, removes: bool = False) -> bool:
    """Whether the maker of a folder was killed; `removes` it then."""
    try:
        with _lock_of_dead(place):
            if removes:
                rmtree(place)
            return True
    except OSError:
        return False


def _root(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def address_of(uri: str) -> str:
    """The address of a store, the same however it is written: a folder absolute and without links."""
    return uri.rstrip("/") if is_remote(uri) else os.path.realpath(_root(uri))


def connect(uri: str, namespace: str, storage_options: Mapping[str, str] | None = None) -> DBConnection:
    """A connection to one namespace that keeps row ids stable.

    A table of it shows other writers' commits at once; on object storage, where each look is five requests, when it is
    opened and when `checkout_latest` asks.
    """
    os.environ.setdefault("LANCEDB_LOG", "error")  # a warning per search otherwise
    defer_client()
    import lancedb

    options: dict[str, Any] = {"new_table_enable_stable_row_ids": "true", **one_endpoint(storage_options or {})}
    where = f"{uri.rstrip('/')}/{check_namespace(namespace)}"
    return lancedb.connect(
        where, storage_options=options, read_consistency_interval=freshness(uri), session=engine_session()
    )


def engine_session() -> Session:
    """What the engine may keep in memory for one connection; by default seven gigabytes, of each version it reads."""
    from lancedb import Session

    return Session(index_cache_size_bytes=INDEX_CACHE, metadata_cache_size_bytes=METADATA_CACHE)


def freshness(uri: str) -> timedelta | None:
    """The time after which a table looks for newer versions by itself; None: never."""
    return None if is_remote(uri) else timedelta(0)


def query_of(table: Table) -> AsyncQuery:
    """A query of an open table, to be put by `answer`.

    A query that is built by the table itself asks four times for the schema, each time over the thread of LanceDB's
    event loop: more than half of the processor time of reading a few rows.
    """
    return table._table.query()


def numbered(table: Table, numbers: list[int]) -> AsyncTakeQuery:
    """A query of the rows with these numbers, to be put by `answer`."""
    return table._table.take_row_ids(numbers)


def answer(query: AsyncQueryBase) -> pl.DataFrame:
    """What LanceDB answers, as a frame."""
    return answers([query])[0]


def answers(queries: Sequence[AsyncQueryBase]) -> list[pl.DataFrame]:
    """What LanceDB answers to each, a few of them at once."""
    from lancedb.background_loop import LOOP

    return [pl.DataFrame(pl.from_arrow(rows)) for rows in LOOP.run(_put(queries))]


async def _put(queries: Sequence[AsyncQueryBase]) -> list[pa.Table]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def put(query: AsyncQueryBase) -> pa.Table:
        async with room:
            return await query.to_arrow()

    return await asyncio.gather(*map(put, queries))


def newest_on_disk(address: str, table: str) -> int | None:
    """The newest version of a table by the names of its manifests; None where they do not tell, as on object storage.

    A manifest is named by how far its version is from the largest one, so that the newest is listed first. Opening
    every table to ask it takes a commit many times as long.
    """
    if is_remote(address):
        return None
    try:
        entries = os.listdir(f"{address.removeprefix('file://')}/{table}.lance/_versions")
    except OSError:
        return None
    named = [name for name in entries if name.endswith(_MANIFEST)]
    if {*map(len, named)} != {LONGEST + len(_MANIFEST)}:  # there is none, or one of another scheme of names
        return None
    newest = min(named).removesuffix(_MANIFEST)
    return LARGEST - int(newest) if newest.isdecimal() else None


def is_newest_on_disk(address: str, table: str, version: int) -> bool | None:
    """Whether a version of a table is its newest, by two names of files; None where they do not tell.

    Versions follow each other without a gap, so no list of all of them is needed, which grows with the history.
    """
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
    """A version, with the number and the time of change of its manifest's file; None as above, or where it is gone.

    They also differ where the folder was removed and another store was put in its place, whose version is the same.
    """
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
    return f"{LARGEST - version:0{LONGEST}}{_MANIFEST}"
