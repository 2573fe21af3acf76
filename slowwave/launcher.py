"""Where the rest of the project lies, in a checkout or in the wheel; and the console script, which starts there."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from .errors import UnusableInput

PACKAGES = ("apps", "flows", "inference", "prompts", "recall", "storage", "tasks")
"""The contents of the project folder beside this package."""
ALLOCATIONS = 50_000
"""Between two looks for garbage: what a command imports stays, and Python's own 700 would search it again and again."""

REINSTALL = "Install it again: pip install --force-reinstall slowwave"


def project_folder() -> Path:
    """The folder that holds `apps`, `flows`, `tasks` and the rest."""
    package = Path(__file__).resolve().parent
    inside = package / "project"
    return inside if (inside / "apps").is_dir() else package.parent


def bring_in() -> None:
    """Let the project be imported into a program that is not ours.

    Raises `UnusableInput` where a module of that program has the name of one of ours: one of the two would be hidden.
    """
    folder = project_folder()
    for name in PACKAGES:
        if (other := _other_module(name, folder)) is not None:
            raise UnusableInput(
                f"The module {name!r} of {other} has the name of one that slowwave needs in the same process.",
                "Rename it, or reach the memory through `slowwave mcp` or the command line.",
            )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _other_module(name: str, folder: Path) -> str | None:
    """The file of a module of that name that is not the project's; plain folders hide nothing."""
    if name in sys.modules and sys.modules[name].__spec__ is None:
        return str(getattr(sys.modules[name], "__file__", "this program"))
    spec = find_spec(name)
    if spec is None or spec.origin is None or Path(spec.origin).resolve().is_relative_to(folder / name):
        return None
    return spec.origin


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
