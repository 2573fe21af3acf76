"""Who holds a namespace's writer lease, and whether that process can still be alive."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from uuid import uuid4


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


def is_surely_dead(owner: str) -> bool:
    """True if the holder ran in this machine's process space and is gone; False whenever that cannot be known."""
    parts = owner.split("|")
    if len(parts) != 5 or not parts[1] or parts[1] != _machine():
        return False
    return _started(int(parts[2])) != parts[3]


def holder(owner: str) -> str:
    """The holder as a person would name it."""
    parts = owner.split("|")
    return f"run {parts[0]} (process {parts[2]})" if len(parts) == 5 else owner
