"""Large buffers of this process go back to the system when they are freed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from storage.connection import LARGE_BUFFER

CODE = """
import ctypes, sys, tempfile
calls = []
class Library:
    def mallopt(self, *given): calls.append(given)
ctypes.CDLL = lambda name: Library() if {has_it} else object()
from storage.connection import connect
for _ in range(2):
    connect(tempfile.mkdtemp(), "default")
print(calls)
"""
BOTH = f"[(-3, {LARGE_BUFFER}), (-1, {2 * LARGE_BUFFER})]"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
@pytest.mark.parametrize(
    ("has_it", "environ", "expected"),
    [
        (True, {}, BOTH),
        (True, {"MALLOC_ARENA_MAX": "2"}, "[]"),
        (True, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}, "[]"),
        (False, {}, "[]"),
    ],
    ids=["glibc", "set by the environment", "set by tunables", "another library"],
)
def test_the_limits_are_set_once_where_nobody_else_set_them(
    has_it: bool, environ: dict[str, str], expected: str
) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(has_it=has_it)],
        env=own | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().splitlines()[-1] == expected
