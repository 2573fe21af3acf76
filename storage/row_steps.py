"""The rows that commits wrote: kept by the process that wrote them, left for others in files, and joined to pieces.

What is in memory follows them (`following`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from slowwave.common.errors import UnusableInput

from .connection import all_left, leave, left, remove_left
from .disk import manifest_on_disk
from .tables import TABLES

log = logging.getLogger("slowwave")

MOST_ROWS = 256
"""Rows of a table that a process keeps of the last commits, and one more for each commit: some 20 kB each."""

BY_KEY = ("episodes", "episode_entities", "runs", "patch_batches")
"""Tables that nobody holds in memory, of which a writer asks for what it has just written."""

Change: TypeAlias = pa.Table | frozenset[str]
"""Full rows that were put in the place of those with their ids or beside the others, or the ids of rows that went."""


RowPlace: TypeAlias = tuple[pa.Table, int]
"""A row of a table, by its number."""


@dataclass(frozen=True)
class RowStep:
    """The changes, in their order, that lead from the version `before` of a table to the version `after`."""

    before: int
    after: int
    changes: tuple[Change, ...]

    @property
    def size(self) -> int:
        """How many rows are written or gone."""
        return sum(len(change) for change in self.changes)

    @property
    def ids(self) -> set[str]:
        """The rows that are written or gone."""
        each = (change if isinstance(change, frozenset) else change["id"].to_pylist() for change in self.changes)
        return {id_ for ids in each for id_ in ids}

    @cached_property
    def left(self) -> Mapping[str, RowPlace | None]:
        """Where the rows are that are written or gone, as they were afterwards; None for those that are gone."""
        found: dict[str, RowPlace | None] = {}
        for change in self.changes:
            ids = change if isinstance(change, frozenset) else change["id"].to_pylist()
            found |= {id_: None if isinstance(change, frozenset) else (change, n) for n, id_ in enumerate(ids)}
        return found


# The last steps of each table, with the manifest that each led to: those of this process, and those of others that
# were learned from their files.


_lock = threading.Lock()
_learning = threading.Lock()  # steps are kept in the order of their commits
_steps: dict[tuple[str, str], deque[tuple[RowStep, object]]] = {}
_sizes = Counter[tuple[str, str]]()
_seen: dict[str, int] = {}
"""By address of a namespace: the last commit whose steps are kept, if they are known."""


def follow(address: str, names: Iterable[str]) -> None:
    """From here on keep the steps of these tables."""
    with _lock:
        for name in names:
            _steps.setdefault((address, name), deque())


def keep_steps(address: str, sequence: int, steps: Mapping[str, RowStep]) -> None:
    """Keep what this process has just published with the commit of this number, where somebody follows the tables."""
    with _learning:
        _seen[address] = max(sequence, _seen.get(address, 0))
        for name, step in steps.items():
            if (address, name) in _steps:
                _keep(address, name, step, manifest_on_disk(address, name, step.after))


def lose_track(address: str) -> None:
    """Another state lies in the folder than was known: begin with the next commit."""
    with _learning:
        _seen.pop(address, None)
        _forget(address)


def _is_there(address: str, name: str, step: RowStep, place: object) -> bool:
    """Whether the version that a step led to is the one that the folder has now: else another store lies there."""
    return place == manifest_on_disk(address, name, step.after)


def _forget(address: str) -> None:
    with _lock:
        for key in [key for key in _steps if key[0] == address]:
            _steps[key].clear()
            del _sizes[key]


def _keep(address: str, name: str, step: RowStep, place: object) -> None:
    with _lock:
        steps = _steps[address, name]
        if steps and not _is_there(address, name, *steps[-1]):
            steps.clear()
            del _sizes[address, name]
        if steps and steps[-1][0].after >= step.after:
            return  # learned already, from the own file
        steps.append((step, place))
        _sizes[address, name] += step.size + 1
        while len(steps) > 1 and _sizes[address, name] > MOST_ROWS:
            _sizes[address, name] -= steps.popleft()[0].size + 1


# Steps for other processes: a commit of few rows leaves them in a file beside the tables. To read them there takes a
# tenth of the time of opening the new versions of six tables. A file that is not there, or of another store, costs that
# time and no more: the tables are the truth. An erasure removes all of them.


KEPT_FILES, MOST_BYTES, LARGE_FILE = 128, 32 << 20, 1 << 20
"""How many files stay, and up to which size together: old ones are removed after a large one, and now and then."""
MOST_LEFT = 8_192
"""Rows of a commit of which the steps are left; of more the tables are read."""
_ABOUT = b"slowwave"
_ENDS = ".arrow"


def leave_steps(address: str, sequence: int, steps: Mapping[str, RowStep]) -> None:
    """Leave the steps of a commit that is about to be published."""
    if not 0 < sum(step.size for step in steps.values()) <= MOST_LEFT:
        return
    file = pa.BufferOutputStream()
    for name, step in steps.items():
        place = manifest_on_disk(address, name, step.after)
        about = {"table": name, "before": step.before, "after": step.after, "place": place}
        for change in step.changes or (frozenset[str](),):
            _write(file, change, about)
    content = file.getvalue()
    leave(address, f"{sequence}{_ENDS}", content)
    if len(content) > LARGE_FILE:
        tidy_steps(address)


def remove_steps(address: str, sequence: int) -> None:
    """Remove the steps of a commit that was not published."""
    with suppress(OSError):
        remove_left(address, [f"{sequence}{_ENDS}"])


def tidy_steps(address: str, since: datetime | None = None) -> None:
    """Remove all but the newest of what was left, and what is older than a time."""
    room = MOST_BYTES
    try:
        found = {name: file for name, file in all_left(address).items() if name.endswith(_ENDS)}
        for place, name in enumerate(sorted(found, key=lambda name: int(name.removesuffix(_ENDS)), reverse=True)):
            size, at = found[name]
            room -= size
            if place >= KEPT_FILES or room < 0 or (since is not None and at < since):
                remove_left(address, [name])
    except (OSError, ValueError, UnusableInput) as error:
        log.info("what was left for other processes is not tidied: %s", error)


def _write(file: pa.NativeFile, change: Change, about: Mapping[str, object]) -> None:
    rows = pa.table({"id": pa.array(sorted(change), pa.string())}) if isinstance(change, frozenset) else change
    described = {_ABOUT: json.dumps({**about, "is_gone": rows is not change})}
    rows = rows.replace_schema_metadata(described).combine_chunks()
    with pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows)


def learn_steps(address: str, sequence: int) -> None:
    """Keep what others wrote up to the commit of this number, as far as they left it and somebody here follows it."""
    with _learning:
        followed = [name for where, name in _steps if where == address]
        before = _seen.get(address, sequence)
        if before > sequence:  # an older look, or another store lies in the folder now
            last = [(name, *_steps[address, name][-1]) for name in followed if _steps[address, name]]
            if all(_is_there(address, *each) for each in last):
                return
            _forget(address)
        _seen[address] = sequence
        if not followed:
            return
        for number in range(max(before, sequence - KEPT_FILES) + 1, sequence + 1):
            try:
                steps = _steps_in(left(address, f"{number}{_ENDS}"), followed)
            except (OSError, pa.ArrowException, ValueError, TypeError, KeyError):
                continue  # none was left, or it was cut off: the tables are read
            for name, (step, place) in steps.items():
                if _is_there(address, name, step, place):
                    _keep(address, name, step, place)


def _steps_in(content: bytes, names: Collection[str]) -> dict[str, tuple[RowStep, object]]:
    """The steps of these tables in a file, with the manifests that they led to.

    Raises `ValueError` where a table has other columns than here: another version of slowwave wrote it.
    """
    file, found = pa.BufferReader(content), dict[str, tuple[RowStep, object]]()
    while (start := file.tell()) < len(content):
        about = json.loads((stream := pa.ipc.open_stream(file)).schema.metadata[_ABOUT])
        stream.read_all()
        if (name := about["table"]) not in names:
            continue
        own = content[start : file.tell()]  # rows of the whole file would keep all of it in memory
        rows = pa.ipc.open_stream(own).read_all().replace_schema_metadata(None)
        if not about["is_gone"] and {*rows.schema.names} != {*TABLES[name].schema(1).names}:
            raise ValueError(f"{name} has other columns")
        change: Change = frozenset(rows["id"].to_pylist()) if about["is_gone"] else rows
        known = found[name][0].changes if name in found else ()
        step = RowStep(about["before"], about["after"], (*known, change) if len(change) else known)
        found[name] = step, about["place"] and tuple(about["place"])
    return found


def kept_steps(address: str, name: str, before: int, after: int) -> list[RowStep] | None:
    """The steps between two versions, if all of them are kept."""
    with _lock:
        steps = [*_steps.get((address, name), ())]
    found: list[RowStep] = []
    version = after
    for step, place in reversed(steps):
        if version == before:
            break
        if step.after == version:
            if not found and not _is_there(address, name, step, place):
                return None
            found.append(step)
            version = step.before
    return found[::-1] if version == before else None


def kept_rows(address: str, name: str, version: int, ids: Sequence[str]) -> list[pa.Table] | None:
    """Those of the rows that are there in a version, if the kept steps wrote or removed each of them."""
    with _lock:
        steps = [*_steps.get((address, name), ())]
    if not steps or steps[-1][0].after != version or not _is_there(address, name, *steps[-1]):
        return None
    wanted, found = {*ids}, list[RowPlace]()
    for step, _ in reversed(steps):
        if step.after != version:
            return None
        version = step.before
        found += (place for id_ in ids if id_ in wanted and (place := step.left.get(id_)) is not None)
        wanted -= step.left.keys()
        if not wanted:
            return taken(found)
    return None


def taken(places: Iterable[RowPlace], columns: Sequence[str] | None = None) -> list[pa.Table]:
    """The rows at these places, those of one table together; by default with all columns."""
    tables: dict[int, tuple[pa.Table, list[int]]] = {}
    for table, place in places:
        tables.setdefault(id(table), (table, []))[1].append(place)
    parts = ((table if columns is None else table.select(columns), own) for table, own in tables.values())
    return [table.take(own) for table, own in parts]  # Polars reads no slice of vectors with nulls


# Pieces: each commit of few rows leaves a small file in every table it writes, which each later read opens. A process
# that commits again and again joins what it left itself: the rows are written once more as they are, in one piece.
# Everything else is left to `upkeep`, which compacts whole tables.


FEW = 64
"""Rows that a commit puts into a table at most, for these to be joined with those of others."""
AT_ONCE = 32
"""Pieces of one size that are joined to one."""
LEVELS = 2
"""Sizes of joined pieces; the largest have a thousand rows and are left to `upkeep`."""
_WHILE_AT_IT = 4


class Pieces:
    """The rows of the small pieces that one process left in the tables of a namespace."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, list[list[Sequence[str]]]] = {}

    def add(self, puts: Mapping[str, Sequence[str]]) -> None:
        """Note what a commit put."""
        with self._lock:
            for name, ids in puts.items():
                self._levels.setdefault(name, [[] for _ in range(LEVELS)])[0].append(ids)

    def due(self) -> dict[str, list[str]]:
        """The rows by table that are to be joined now, most often none."""
        with self._lock:
            if max((len(levels[0]) for levels in self._levels.values()), default=0) < AT_ONCE:
                return {}
            joined = {name: _joined(levels) for name, levels in self._levels.items()}
            return {name: rows for name, rows in joined.items() if rows}


def _joined(levels: list[list[Sequence[str]]]) -> list[str]:
    """The rows of the next larger piece, which takes in all of its size where these are many."""
    if len(levels[0]) < _WHILE_AT_IT:
        return []
    rows: list[str] = []
    for pieces in levels:
        if rows and len(pieces) < AT_ONCE - 1:
            pieces.append(rows)
            break
        rows = [*dict.fromkeys(id_ for ids in (*pieces, rows) for id_ in ids)]
        pieces.clear()
    return rows
