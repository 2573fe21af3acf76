"""Durable steps: every call that changes files of a store, counted; at a chosen one the process kills itself.

The product knows nothing of it: the methods of LanceDB that write, and the moves of files, are wrapped in this process.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

Moment = Literal["before", "during", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")

WRITES_OF_TABLES = (
    "delete", "update", "restore", "optimize", "create_index", "drop_index", "add_columns", "alter_columns",
    "drop_columns", "cleanup_old_versions", "compact_files", "_do_merge",
)  # fmt: skip
WRITES_OF_DATABASES = ("create_table", "drop_table", "rename_table")
MOVES = ("rename", "replace")


@dataclass(frozen=True, slots=True)
class Step:
    """One durable step of a run: what is written and how, and how many seconds it took."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Point:
    """Where a run dies: the step, counted from 0, and whether before, in the middle of, or after it.

    `delay_s` is how long after the begin of the step "the middle" is.
    """

    step: int
    moment: Moment
    delay_s: float = 0.0


class Steps:
    """The steps of this process as they happen; `after` is told each one that is done and may have published something.

    Additions publish nothing, and several may be under way at once.
    """

    def __init__(self, dies_at: Point | None = None, after: Callable[[Step], None] | None = None) -> None:
        self.done: list[Step] = []
        self._numbers = itertools.count()
        self._dies_at, self._after = dies_at, after
        self._inside = threading.local()

    def watch(self) -> None:
        """Wrap everything that writes, for the rest of this process."""
        from lancedb.db import LanceDBConnection
        from lancedb.table import AsyncTable, LanceTable

        wrapped: Mapping[type, tuple[str, ...]] = {
            LanceTable: WRITES_OF_TABLES, LanceDBConnection: WRITES_OF_DATABASES, Path: MOVES,
        }  # fmt: skip
        for owner, names in wrapped.items():
            for name in names:
                setattr(owner, name, self._wrapped(getattr(owner, name), name.removeprefix("_do_")))
        setattr(AsyncTable, "add", self._wrapped_addition(AsyncTable.add))  # noqa: B010 a method is not assigned to

    def _wrapped(self, write: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(write)
        def step(target: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "is_so", False):  # a step that is made of others is one step
                return write(target, *args, **kwargs)
            self._inside.is_so = True
            try:
                return self._step(f"{_target(target, args)}.{name}", functools.partial(write, target, *args, **kwargs))
            finally:
                self._inside.is_so = False

        return step

    def _wrapped_addition(
        self, add: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        @functools.wraps(add)
        async def step(target: Any, *args: Any, **kwargs: Any) -> Any:
            with self._counted(f"{target.name}.add"):
                return await add(target, *args, **kwargs)

        return step

    def _step(self, what: str, write: Callable[[], Any]) -> Any:
        with self._counted(what):
            result = write()
        if self._after:
            self._after(self.done[-1])
        return result

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        number = next(self._numbers)
        point = self._dies_at if self._dies_at and self._dies_at.step == number else None
        if point and point.moment == "before":
            die()
        if point and point.moment == "during":
            threading.Timer(point.delay_s, die).start()
        start = time.perf_counter()
        yield
        if point:
            die()
        self.done.append(Step(what, time.perf_counter() - start))


def die() -> NoReturn:
    """As `kill -9` does: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _target(target: Any, args: tuple[Any, ...]) -> str:
    if isinstance(target, Path):
        return "store"
    return str(target.name if hasattr(target, "name") else args[0])
