"""Where namespaces live: a LanceDB database directory each, opened lazily."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from slowwave.errors import NoStoreYet, UnknownName, UnusableInput

from .object_storage import exist, folders, is_remote, one_endpoint
from .unused_client import defer_client

if TYPE_CHECKING:
    from lancedb.db import DBConnection

HEAD = "_head"
_PUBLISHED = f"{HEAD}.lance/_versions"  # holds a file only once the head is really there
LARGEST = 2**64 - 1
LONGEST = len(str(LARGEST))
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
        raise NoStoreYet(f"There is no store at {uri!r}.", "Give --store, or make one with `slowwave ingest PATH`.")
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
            return any(entry.name.endswith(".manifest") for entry in entries)
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
    return lancedb.connect(where, storage_options=options, read_consistency_interval=freshness(uri))


def freshness(uri: str) -> timedelta | None:
    """After what time a table looks for newer versions by itself; None: never."""
    return None if is_remote(uri) else timedelta(0)


def newest_on_disk(address: str, table: str) -> int | None:
    """The newest version of a table by the names of its manifests; None where they do not tell, as on object storage.

    A manifest is named by how far its version is from the largest one, so that the newest is listed first. Opening
    every table to ask it takes a commit many times as long.
    """
    if is_remote(address):
        return None
    try:
        entries = os.listdir(_root(address) / f"{table}.lance" / "_versions")
    except OSError:
        return None
    named = [name.removesuffix(".manifest") for name in entries if name.endswith(".manifest")]
    if not named or not all(len(name) == LONGEST and name.isdecimal() for name in named):
        return None
    return LARGEST - int(min(named))


def manifest_name(version: int) -> str:
    """The name of the manifest of a version."""
    return f"{LARGEST - version:0{LONGEST}}.manifest"
