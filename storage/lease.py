"""The head: one row that says which version of every table is the state of a namespace, and which process may write.

Who holds the writer lease, whether that process can still be alive, and whether its time is over; the row itself; and
the lock of creation.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from slowwave.common.errors import Fenced, LeaseBusy, UnusableInput

from .connection import HEAD, answer, is_remote, leave, left, query_of
from .disk import newest_file_on_disk

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

IMPORTED = "imported"
"""In place of an owner: the run was not a process of this place, but came with an export."""
_PARTS = 5  # of an owner's name; one more says how long its lease lasts


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since 1970, which somebody may set, and seconds of this machine's own, which only ever go on."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class _Owner:
    """An owner's name taken apart; `lease_s` only where it holds a lease."""

    run: str
    machine: str
    pid: int
    started: str
    lease_s: float | None = None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The process's start time in clock ticks, empty if there is no such process or it only waits to be buried."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if fields and fields[0] not in "ZX" else ""


@cache
def _machine() -> str:
    """Names the boot and the process space, so that a process number means one process."""
    boot = _read("/proc/sys/kernel/random/boot_id")
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()},{boot},{space}" if boot and space else ""


def new_owner(run_id: str) -> str:
    """A name for this process as holder of a lease."""
    pid = os.getpid()
    return "|".join((run_id.replace("|", "_"), _machine(), str(pid), _started(pid), uuid4().hex))


def with_time(owner: str, lease_s: float) -> str:
    """The owner's name with how long its lease lasts."""
    return "|".join((*owner.split("|")[:_PARTS], f"{lease_s:.3f}"))


def _parsed(owner: str) -> _Owner | None:
    parts = owner.split("|")
    if len(parts) not in (_PARTS, _PARTS + 1):
        return None
    run, machine, pid, started = parts[:4]
    return _Owner(run, machine, int(pid), started, *map(float, parts[_PARTS:]))


def is_surely_dead(owner: str) -> bool:
    """True if the holder ran in this machine's process space and is gone; False whenever that cannot be known."""
    parsed = _parsed(owner)
    return parsed is not None and _is_here(parsed) and _started(parsed.pid) != parsed.started


def is_surely_alive(owner: str) -> bool:
    """True if the holder runs in this machine's process space; False where it is gone or elsewhere."""
    parsed = _parsed(owner)
    return parsed is not None and _is_here(parsed) and _started(parsed.pid) == parsed.started


def _is_here(parsed: _Owner) -> bool:
    return bool(parsed.machine) and parsed.machine == _machine()


def is_over(owner: str, until: float, clock: Clock) -> bool:
    """Whether the holder's time is over by the clocks of both machines, `until` being seconds since 1970.

    Of a process that is alive on this machine a clock tells nothing: somebody may have set it.
    """
    return clock.wall() > until and not is_surely_alive(owner)


def holder(owner: str) -> str:
    """The holder as a person would name it."""
    parsed = _parsed(owner)
    return f"run {parsed.run} (process {parsed.pid})" if parsed else owner


# The row is moved by compare-and-swap only, which LanceDB gives on local disks and object stores alike: a version of a
# table is written only where there is none of that number yet (on object storage by a conditional put).


_COLUMNS = {
    "name": pa.string(), "sequence": pa.int64(), "versions": pa.string(), "schema_version": pa.int64(),
    "embed_model": pa.string(), "dims": pa.int64(), "lease_count": pa.int64(), "owner": pa.string(),
    "lease_until": pa.float64(),
}  # fmt: skip
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])
_FIRST_POLL_S = 0.02
_LONGEST_POLL_S = {False: 0.1, True: 0.5}  # by whether every look is a request over the network
_RENEWED_AFTER = 3  # parts of a lease


class Queue:
    """The place of one process among those that wait for the lease, on a local disk.

    A writer that takes the lease again and again would let others wait for seconds: whoever waits leaves a file there,
    and nobody takes the lease while an earlier one waits. Only the order hangs on it; the head says who has the lease.
    """

    FOLDER = "_waiting"
    SILENT_S = 2.0
    """A file that was not renewed for so long is of nobody any more."""

    def __init__(self, address: str) -> None:
        self._folder = None if is_remote(address) else Path(address.removeprefix("file://"), self.FOLDER)
        self._own = f"{time.time_ns():020}-{uuid4().hex[:8]}"

    def is_first(self) -> bool:
        """Whether nobody waits who came earlier."""
        return all(each.name >= self._own or self._is_silent(each) for each in self._waiting())

    def wait(self) -> None:
        """Leave the file, or renew it; a disk that refuses it stands in nobody's way."""
        if self._folder is not None:
            with suppress(OSError):
                self._folder.mkdir(exist_ok=True)
                (self._folder / self._own).touch()

    def leave(self) -> None:
        """Take the file away, and those that nobody renews."""
        for each in self._waiting():
            if each.name == self._own or self._is_silent(each):
                with suppress(OSError):
                    os.unlink(each.path)

    def _waiting(self) -> list[os.DirEntry[str]]:
        if self._folder is None:
            return []
        try:
            return [*os.scandir(self._folder)]
        except OSError:  # nobody ever waited
            return []

    def _is_silent(self, file: os.DirEntry[str]) -> bool:
        try:
            return abs(time.time() - file.stat().st_mtime) > self.SILENT_S  # in the future: the clock was set back
        except OSError:  # it has just gone
            return True


@dataclass(frozen=True, slots=True)
class Head:
    """The one row: `sequence` counts commits, `lease_count` counts every change of the lease."""

    sequence: int
    versions: Mapping[str, int]
    schema_version: int
    embed_model: str
    dims: int
    lease_count: int
    owner: str
    lease_until: float

    def row(self) -> dict[str, Any]:
        """The values of the row."""
        return {each.name: getattr(self, each.name) for each in fields(Head)}

    def is_free(self, clock: Clock | None = None) -> bool:
        """Whether a writer may take the lease now, by this clock."""
        return not self.owner or is_surely_dead(self.owner) or is_over(self.owner, self.lease_until, clock or Clock())


@dataclass(frozen=True, slots=True)
class Lease(Head):
    """The head under this process's lease of `lease_s` seconds, as it was last renewed (steady seconds).

    `waited_s` is how long others stood in its way, `is_taken_over` whether its last holder had not given it back.
    """

    lease_s: float
    renewed: float
    waited_s: float
    is_taken_over: bool


def create_head(
    db: DBConnection, versions: Mapping[str, int], schema_version: int, embed_model: str, dims: int
) -> None:
    """Publish the first, empty state; of several processes that try, one wins and the others see its head."""
    row = [["head"], [0], [json.dumps(dict(versions))], [schema_version], [embed_model], [dims], [0], [""], [0.0]]
    try:
        db.create_table(HEAD, pa.table(row, schema=_SCHEMA))
    except (ValueError, RuntimeError, OSError) as error:
        if "already exists" not in str(error).lower() and HEAD not in db.list_tables().tables:
            raise


def _head_of(row: Mapping[str, Any]) -> Head:
    versions = row["versions"]
    values = {each.name: row[each.name] for each in fields(Head)}
    return Head(**values | {"versions": json.loads(versions) if isinstance(versions, str) else versions})


_last: dict[str, tuple[tuple[int, int, int], Head]] = {}
"""By address of a namespace: what was read last or written by this process, and the file at or before that."""


LEFT_HEAD = "head.json"
"""What the row is since it was last moved, for other processes: reading it there takes a tenth of a query."""


def _left_head(address: str, newest: tuple[int, int, int]) -> Head | None:
    """The row as another process left it, if it is that of the newest file."""
    try:
        of, row = json.loads(left(address, LEFT_HEAD))
        return _head_of(row) if tuple(of) == newest else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


class HeadRow:
    """Reads and moves the head of one namespace."""

    def __init__(self, db: DBConnection, clock: Clock | None = None) -> None:
        self._table: Table = db.open_table(HEAD)
        self._clock = clock or Clock()
        self._uri = str(db.uri)
        self._has_read = False
        self._is_far = is_remote(str(db.uri))

    def read(self) -> Head:
        """The head as it is now: the one that was read last, as long as its table has no newer file."""
        newest = newest_file_on_disk(self._uri, HEAD)
        last = _last.get(self._uri)
        if self._has_read and last is not None and last[0] == newest:
            return last[1]
        head = _left_head(self._uri, newest) if self._has_read and newest is not None else None
        head, self._has_read = head or self._read(), True
        if newest is not None:
            _last[self._uri] = newest, head
        return head

    def _read(self) -> Head:
        rows = self._rows()
        if len(rows) != 1:
            raise UnusableInput(
                f"The store's head has {len(rows)} rows instead of one.", "Run `slowwave doctor --repair`."
            )
        return _head_of(rows[0])

    def _rows(self) -> list[dict[str, Any]]:
        self._table.checkout_latest()
        return answer(query_of(self._table)).to_dicts()

    def acquire(self, run_id: str, lease_s: float, wait_s: float) -> Lease:
        """Take the writer lease, waiting up to `wait_s` seconds; a dead holder's lease is taken over.

        A lease that did not change for its whole length is taken over, too. This process measures that with its steady
        clock, so a wall clock that was set back by an hour blocks nobody for an hour.
        """
        queue = Queue(self._uri)
        try:
            return self._acquired(run_id, lease_s, wait_s, queue)
        finally:
            queue.leave()

    def _acquired(self, run_id: str, lease_s: float, wait_s: float, queue: Queue) -> Lease:
        clock, owner, poll = self._clock, new_owner(run_id), _FIRST_POLL_S
        began = changed_at = clock.steady()
        last: Head | None = None
        is_first, was_next = True, False
        while True:
            head, now, is_next = self.read(), clock.steady(), queue.is_first()
            if last is None or head.lease_count != last.lease_count:
                last, changed_at = head, now
            stated = _parsed(head.owner)
            length_s = lease_s if stated is None or stated.lease_s is None else stated.lease_s
            is_silent = now - changed_at > length_s
            if is_next and (is_silent or head.is_free(clock)) and (lease := self._take(head, owner, lease_s)):
                return lease if is_first else replace(lease, waited_s=clock.steady() - began)
            is_first = False
            if now - began > wait_s:
                writer = holder(head.owner) if head.owner else "one process after another"
                raise LeaseBusy(
                    f"The namespace is being written by {writer}; waited {wait_s:g} s.",
                    "Wait for it to finish, or raise retention.lease_wait_s.",
                )
            queue.wait()
            clock.sleep(poll)
            poll = _FIRST_POLL_S if is_next and not was_next else min(poll * 1.2, _LONGEST_POLL_S[self._is_far])
            was_next = is_next

    def _take(self, head: Head, owner: str, lease_s: float) -> Lease | None:
        named, until = with_time(owner, lease_s), self._clock.wall() + lease_s
        renewed = self._clock.steady()
        if not self._swap(head, owner=named, lease_until=until):
            return None
        values = {**head.row(), "lease_count": head.lease_count + 1, "owner": named, "lease_until": until}
        return Lease(**values, lease_s=lease_s, renewed=renewed, waited_s=0.0, is_taken_over=bool(head.owner))

    def is_due(self, lease: Lease) -> bool:
        """Whether a third of the lease has passed since its last renewal."""
        return self._clock.steady() - lease.renewed > lease.lease_s / _RENEWED_AFTER

    def renew(self, lease: Lease) -> Lease:
        """Extend the lease; raises `Fenced` if it was lost."""
        until, owner = self._clock.wall() + lease.lease_s, with_time(lease.owner, lease.lease_s)
        renewed = self._clock.steady()
        if not self._swap(lease, owner=owner, lease_until=until):
            raise Fenced("Another writer took over the namespace while this one was silent.", "Run it again.")
        return replace(lease, lease_count=lease.lease_count + 1, owner=owner, lease_until=until, renewed=renewed)

    def is_current(self, lease: Lease) -> bool:
        """Whether the head still has this lease."""
        return self.read().lease_count == lease.lease_count

    def publish(self, lease: Lease, versions: Mapping[str, int], **more: int | str) -> None:
        """Make `versions` the state and free the lease, in one step; raises `Fenced` if the lease was lost."""
        body = {"sequence": lease.sequence + 1, "versions": json.dumps(dict(versions)), **more}
        if not self._swap(lease, owner="", lease_until=0.0, **body):
            raise Fenced("Another writer took over the namespace before this one could publish.", "Run it again.")

    def release(self, lease: Lease) -> bool:
        """Free the lease without publishing; False if it was lost already."""
        return self._swap(lease, owner="", lease_until=0.0)

    def _swap(self, seen: Head, **values: int | float | str) -> bool:
        """Change the head if it is still as it was seen."""
        where = f"sequence = {seen.sequence} AND lease_count = {seen.lease_count}"
        wanted = {"lease_count": seen.lease_count + 1, **values}
        try:
            result = self._table.update(where=where, values=wanted)
        except RuntimeError as error:
            if "conflict" in str(error).lower() or "concurrent" in str(error).lower():
                return self._holds(wanted)
            raise
        if int(result.rows_updated) != 1:
            return self._holds(wanted)
        self._remember(result.version, seen.row() | wanted)
        return True

    def _remember(self, version: int, row: Mapping[str, Any]) -> None:
        """Keep what this process wrote as the head, so as not to read it, unless it was moved again since."""
        newest = newest_file_on_disk(self._uri, HEAD)
        if newest is not None and newest[0] == version:
            _last[self._uri] = newest, _head_of(row)
            leave(self._uri, LEFT_HEAD, json.dumps([newest, _last[self._uri][1].row()], default=dict).encode())

    def _holds(self, wanted: Mapping[str, int | float | str]) -> bool:
        """Whether the head has the values of this process: after a lost answer the change looks like a conflict."""
        row = self._rows()[0]
        return all(row[name] == value for name, value in wanted.items())


# The lock of creation: which process creates a namespace on object storage, where no folder can be moved into place.
# The first version of a table is written by a conditional put, so of all processes that create a table at once exactly
# one finds its own name in the first version. That one creates the namespace; the others wait until it is there. If the
# creator is gone, they claim it under the next number.


_CLAIM = "_making"
_POLL_S = 0.2


def make_once(
    db: DBConnection, make: Callable[[], None], is_made: Callable[[], bool], lease_s: float, clock: Clock | None = None
) -> None:
    """Run `make` in one of the processes that ask for it at once; returns when `is_made` says so.

    A maker that adds no table for `lease_s` seconds is taken for dead.
    """
    owner, watch = new_owner("making"), clock or Clock()
    for number in count():
        if is_made():
            return
        winner = claimed(db, f"{_CLAIM}_{number}", owner)
        if winner == owner:
            if not is_made():  # a claim made after the namespace was
                make()
            return
        _wait(db, winner, is_made, lease_s, watch)


def claimed(db: DBConnection, name: str, owner: str) -> str:
    """Claim a name as a table with this one row; returns whose it is, or what was written into it first."""
    with suppress(ValueError, RuntimeError, OSError):  # it is there already, or two came at once
        db.create_table(name, pa.table({"owner": [owner]}))
    table = db.open_table(name)
    table.checkout(1)
    return str(table.to_arrow()["owner"][0].as_py())


def _wait(db: DBConnection, maker: str, is_made: Callable[[], bool], lease_s: float, clock: Clock) -> None:
    """Until it is made, or its maker is gone or silent."""
    tables, changed_at = -1, clock.steady()
    while not is_made() and not is_surely_dead(maker):
        there = len(db.list_tables(limit=1000).tables)
        if there != tables:
            tables, changed_at = there, clock.steady()
        if clock.steady() - changed_at > lease_s:
            return
        clock.sleep(_POLL_S)
