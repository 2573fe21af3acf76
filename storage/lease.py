"""Which process may write a namespace, and which may create one.

Who holds the writer lease, whether that process can still be alive, and whether its time is over; and the lock of
creation.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

if TYPE_CHECKING:
    from lancedb.db import DBConnection

IMPORTED = "imported"
"""In place of an owner: the run was not a process of this place, but came with an export."""
_PARTS = 5  # of an owner's name; the two more of a lease say how long it lasts, and until when


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since 1970, which somebody may set, and seconds of this machine's own, which only ever go on."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class _Owner:
    """An owner's name taken apart; `lease_s` and `until` (steady seconds) only where it holds a lease."""

    run: str
    machine: str
    pid: int
    started: str
    lease_s: float | None = None
    until: float | None = None


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


def with_time(owner: str, lease_s: float, clock: Clock) -> str:
    """The owner's name with how long its lease lasts, and until when by the steady clock of its machine."""
    return "|".join((*owner.split("|")[:_PARTS], f"{lease_s:.3f}", f"{clock.steady() + lease_s:.3f}"))


def _parsed(owner: str) -> _Owner | None:
    parts = owner.split("|")
    if len(parts) not in (_PARTS, _PARTS + 2):
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
    """Whether the holder's time is over: by the steady clock of this machine where it is its own too.

    Else by what the two machines' clocks say, `until` being seconds since 1970.
    """
    parsed = _parsed(owner)
    if parsed is not None and parsed.until is not None and _is_here(parsed):
        return clock.steady() > parsed.until
    return clock.wall() > until


def length_of(owner: str, default: float) -> float:
    """The length of the lease in seconds, if the owner states it."""
    parsed = _parsed(owner)
    return default if parsed is None or parsed.lease_s is None else parsed.lease_s


def holder(owner: str) -> str:
    """The holder as a person would name it."""
    parsed = _parsed(owner)
    return f"run {parsed.run} (process {parsed.pid})" if parsed else owner


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
    return first_claim(db, name)


def first_claim(db: DBConnection, name: str) -> str:
    """Whose a name is that was claimed; raises `ValueError` where nobody did."""
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
