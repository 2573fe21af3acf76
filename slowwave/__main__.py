"""The command line: the console script and `python -m slowwave` start here."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress

from slowwave.common.installation import REINSTALL, project_folder

ALLOCATIONS = 50_000
"""Between two looks for garbage: what a command imports stays, and Python's own 700 would search it again and again."""
_M_ARENA_MAX = -8
"""The number by which glibc knows the limit of its heaps (malloc.h)."""


def use_few_heaps() -> None:
    """Give the C library as many heaps as there are cores, here and in processes that this one starts.

    Each heap keeps what was freed in it, and there may be eight for each core: beside 1,000,000 facts, an ingest takes
    60 MiB less so, in the same time. Does nothing where `MALLOC_ARENA_MAX` is set or the library is not glibc.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    heaps = max(2, os.cpu_count() or 2)
    os.environ["MALLOC_ARENA_MAX"] = str(heaps)
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, heaps)


def main() -> None:
    """Run the command line; libraries that would report home from it are asked not to."""
    os.environ.setdefault("DO_NOT_TRACK", "1")
    use_few_heaps()
    gc.set_threshold(ALLOCATIONS)
    ours = str(project_folder())
    sys.path[:] = [ours, *(each for each in sys.path if each != ours)]  # a folder `apps` of somebody else hides nothing
    try:
        from apps.cli import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"Error: slowwave is not installed completely: there is no module {error.name!r}. {REINSTALL}")
    run()


if __name__ == "__main__":
    main()
