"""Where namespaces live: a LanceDB database directory each, on a disk or on object storage, opened lazily."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import RLock
from typing import TYPE_CHECKING, Any

from slowwave.common.errors import NoStoreYet, UnknownName, UnusableInput

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from lancedb import Session
    from lancedb.db import DBConnection
    from lancedb.query import AsyncQuery, AsyncQueryBase, AsyncTakeQuery
    from lancedb.table import AddResult, Table
    from pyarrow import fs

log = logging.getLogger("slowwave")

# LanceDB without the client of REST services, which it imports and no store of ours uses. `lancedb` needs records
# that lie in the package of that client. Python executes a package before anything that lies in it, and this one
# prepares hundreds of generated calls: half of the processor time that importing `lancedb` takes. Here the package is
# executed once something of its own is asked for; what lies in it is imported as ever.


CLIENT = "lance_namespace_urllib3_client"
_ITS_OWN = ("__all__", "__version__")


def defer_client() -> None:
    """To be called before `import lancedb`; does nothing where the client is imported already, or is not there."""
    spec = None if CLIENT in sys.modules else find_spec(CLIENT)
    if spec is None or spec.loader is None:
        return
    module, loader, lock, begun = module_from_spec(spec), spec.loader, RLock(), list[bool]()

    def ask(name: str) -> Any:
        """Called for a name that the package does not have, or does not have yet."""
        missing = AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        if name.startswith("__") and name not in _ITS_OWN:  # whoever looks through all modules asks for these
            raise missing
        inner = f"{module.__name__}.{name}"
        if PathFinder.find_spec(inner, module.__path__) is not None:
            return import_module(inner)  # no reason to execute the package, which may wait for whoever imports this
        with lock:
            if not begun:
                begun.append(True)
                try:
                    loader.exec_module(module)
                except BaseException:
                    begun.clear()
                    raise
        if name not in vars(module):
            raise missing
        return vars(module)[name]

    vars(module)["__getattr__"] = ask
    sys.modules.setdefault(CLIENT, module)


HEAD = "_head"
_PUBLISHED = f"{HEAD}.lance/_versions"  # holds a file only once the head is really there
NO_STORE = "Check the path: --store, SLOWWAVE_STORE, or `store` of `open_memory`. `slowwave ingest PATH` makes a store."
CACHES, CACHES_OF_QUESTIONS = (8 << 20, 4 << 20), (48 << 20, 16 << 20)
"""Bytes of indexes and of metadata that a connection keeps: writes fill them with versions that nobody reads again."""
MANIFEST = ".manifest"
LARGE_BUFFER = 1 << 20
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # of glibc's mallopt
_AT_ONCE = 4  # queries: one alone leaves cores idle
_MAKING = ".making-"  # begins the name of a folder in which a namespace is made
_MAKING_S = 3600  # making one takes seconds
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_namespace(name: str) -> str:
    """The name itself, or an error that says what a namespace may be called."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise UnusableInput(
            f"{name!r} cannot be a namespace.",
            "Use letters, digits, '.', '_' and '-', starting with a letter or digit.",
        )
    return name


def namespaces(uri: str) -> list[str]:
    """The namespaces that a store holds, in order of their names."""
    if is_remote(uri):
        names = [name for name in folders(uri) if _NAME.fullmatch(name)]
        made = exist(uri, (f"{name}/{_PUBLISHED}" for name in names))
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


def has_namespace(uri: str, namespace: str) -> bool:
    """Whether a store holds a namespace, without a look at its others."""
    check_namespace(namespace)
    if is_remote(uri):
        return bool(exist(uri, [f"{namespace}/{_PUBLISHED}"]))
    return _has_head(_root(uri) / namespace)


def _has_head(place: Path) -> bool:
    try:
        with os.scandir(place / _PUBLISHED) as entries:
            return any(entry.name.endswith(MANIFEST) for entry in entries)
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
    for place in _root(uri).glob(f"{_MAKING}*"):  # of processes that were killed: those an hour old
        with suppress(FileNotFoundError):  # finished meanwhile
            if place.stat().st_mtime < time.time() - _MAKING_S:
                rmtree(place, ignore_errors=True)
    place = Path(mkdtemp(prefix=_MAKING, dir=_root(uri)))
    try:
        yield str(place)
        try:
            Path(place, namespace).rename(_root(uri) / namespace)
        except OSError as error:
            if namespace not in namespaces(uri):
                raise UnusableInput(
                    f"{str(_root(uri) / namespace)!r} is there already and is no namespace.",
                    "Choose another --namespace.",
                ) from error
    finally:
        rmtree(place, ignore_errors=True)


def _root(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def address_of(uri: str) -> str:
    """The address of a store, the same however it is written: a folder absolute and without links."""
    return uri.rstrip("/") if is_remote(uri) else os.path.realpath(_root(uri))


def connect(uri: str, namespace: str) -> DBConnection:
    """A connection to one namespace that keeps row ids stable.

    A table of it shows other writers' commits at once; on object storage, where each look is five requests, when it is
    opened and when `checkout_latest` asks.
    """
    os.environ.setdefault("LANCEDB_LOG", "error")  # a warning per search otherwise
    _give_memory_back()
    defer_client()
    import lancedb

    where, options = f"{uri.rstrip('/')}/{check_namespace(namespace)}", {"new_table_enable_stable_row_ids": "true"}
    return lancedb.connect(
        where, storage_options=options, read_consistency_interval=freshness(uri), session=engine_session()
    )


@cache
def _give_memory_back() -> None:
    """Give the memory of large buffers back when they are freed, in this process, unless the environment says how.

    Otherwise glibc serves later buffers of that size from its heap, which keeps 40 MB of 100,000 facts. Once one of the
    two limits is set, glibc does not move the other.
    """
    is_set = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if sys.platform != "linux" or is_set:
        return
    with suppress(ImportError, AttributeError, OSError):  # musl has no mallopt
        from ctypes import CDLL

        limit = CDLL(None).mallopt
        limit(_M_MMAP_THRESHOLD, LARGE_BUFFER)
        limit(_M_TRIM_THRESHOLD, 2 * LARGE_BUFFER)


def engine_session(caches: tuple[int, int] = CACHES) -> Session:
    """What the engine may keep in memory for one connection; by default seven gigabytes, of each version it reads."""
    from lancedb import Session

    return Session(index_cache_size_bytes=caches[0], metadata_cache_size_bytes=caches[1])


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

    from slowwave.common.frames import of_arrow

    return [of_arrow(rows) for rows in LOOP.run(_put(queries))]


async def _put(queries: Sequence[AsyncQueryBase]) -> list[pa.Table]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def put(query: AsyncQueryBase) -> pa.Table:
        async with room:
            return await query.to_arrow()

    return await asyncio.gather(*map(put, queries))


def add_all(additions: Sequence[tuple[Table, pa.Table, str]]) -> list[AddResult]:
    """Add rows to tables, to all of them at once; the third of each says what becomes of vectors that are no numbers.

    An error is raised when all have ended.
    """
    from lancedb.background_loop import LOOP

    done: list[AddResult] = LOOP.run(_added(additions))
    return done


async def _added(additions: Sequence[tuple[Table, pa.Table, str]]) -> list[AddResult]:
    work = (table._table.add(rows, on_bad_vectors=bad) for table, rows, bad in additions)
    ended = await asyncio.gather(*work, return_exceptions=True)
    if errors := [each for each in ended if isinstance(each, BaseException)]:
        raise errors[0]
    return ended


# Files on object storage, looked at with the same settings of the environment as LanceDB's.

IN_HOST = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"


def is_remote(uri: str) -> bool:
    """Whether the store is on object storage."""
    return "://" in uri and not uri.startswith("file://")


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a place, and its path there."""
    from pyarrow import fs

    if not is_remote(uri):
        return fs.LocalFileSystem(), os.path.abspath(uri.removeprefix("file://"))
    in_host = os.environ.get(IN_HOST, "").lower() in ("1", "true", "yes", "on")  # the others PyArrow knows itself
    options = ["allow_delayed_open=true", *(["force_virtual_addressing=true"] if in_host else [])]  # one request a file
    more = f"?{'&'.join(options)}" if uri.startswith("s3://") else ""
    system, path = fs.FileSystem.from_uri(f"{uri.rstrip('/')}{more}")
    return system, path


def exist(uri: str, names: Iterable[str]) -> list[str]:
    """Those of the names below the place under which there is any file; one small request or two for each."""
    from pyarrow import fs

    listed = list(names)
    with _reached(uri):
        system, path = file_system(uri)
        infos = system.get_file_info([f"{path}/{name}" for name in listed])
    return [name for name, info in zip(listed, infos, strict=True) if info.type == fs.FileType.Directory]


def folders(uri: str) -> list[str]:
    """Names of the folders of the place."""
    return [name for name, info in _listed(uri) if info.type.name == "Directory"]


def files(uri: str) -> dict[str, int]:
    """Every file below the place with its size in bytes."""
    return {name: info.size or 0 for name, info in _listed(uri, is_deep=True) if info.is_file}


def _listed(uri: str, *, is_deep: bool = False) -> list[tuple[str, fs.FileInfo]]:
    """What lies in the place, or below it, with its name there; nothing where there is no such place."""
    from pyarrow import fs

    with _reached(uri):
        system, path = file_system(uri)
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=is_deep))
    return [(info.path[len(path) + 1 :], info) for info in infos]


def check_bucket(uri: str) -> None:
    """Raise `UnusableInput` where there is no such bucket: it is not ours to make."""
    from pyarrow import fs

    with _reached(uri):
        system, path = file_system(uri)
        bucket = path.partition("/")[0]
        is_there = system.get_file_info(bucket).type != fs.FileType.NotFound
    if not is_there:
        raise UnusableInput(f"There is no bucket {bucket!r}.", "Make it, or choose another --store.")


@contextmanager
def _reached(uri: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise UnusableInput(
            f"The object storage of {uri!r} does not answer as it should: {reason}",
            "Check the bucket and what AWS_ENDPOINT_URL, AWS_REGION and the AWS keys say: see docs/object-storage.md.",
        ) from error


# Files that a process leaves beside the tables for others, which save them queries. The tables are the truth: each file
# says which versions it belongs to, and nothing depends on its being there.


LEFT = "_steps"


def leave(address: str, name: str, content: bytes) -> None:
    """Leave a file; a place that refuses it stands in nobody's way."""
    try:
        if is_remote(address):  # where a file is there once it is whole
            system, path = file_system(address)
            with system.open_output_stream(f"{path}/{LEFT}/{name}") as file:
                file.write(content)
            return
        place = _left_at(address) / name
        place.parent.mkdir(exist_ok=True)
        made = place.with_name(f"{name}.new")
        made.write_bytes(content)
        made.replace(place)
    except OSError as error:
        log.info("%s is not left for other processes: %s", name, error)


def left(address: str, name: str) -> bytes:
    """What was left; raises `OSError` where nothing was."""
    if not is_remote(address):
        return (_left_at(address) / name).read_bytes()
    system, path = file_system(address)
    with system.open_input_file(f"{path}/{LEFT}/{name}") as file:
        return bytes(file.read())


def all_left(address: str) -> dict[str, tuple[int, datetime]]:
    """The names of the files that were left, with their sizes in bytes and when they were written."""
    there = _listed(f"{address.rstrip('/')}/{LEFT}")
    return {name: (info.size or 0, info.mtime) for name, info in there if info.is_file}


def remove_left(address: str, names: Iterable[str]) -> None:
    """Remove files that were left, if they are still there."""
    system, path = file_system(address)
    for name in names:
        with suppress(FileNotFoundError):
            system.delete_file(f"{path}/{LEFT}/{name}")


def _left_at(address: str) -> Path:
    return Path(address.removeprefix("file://"), LEFT)
