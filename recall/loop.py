"""One event loop in a thread of its own, so that a plain call can run several reads at once; and what is read once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

import polars as pl

from slowwave.common.frames import of_arrow
from slowwave.common.telemetry import ended_span
from slowwave.common.types import Recollection
from storage.warm import Tables

# The time that a recall may take at most, all its reads and its walk together (S2-44).


FIRST = 10
"""Times as long that the first recall of a state may take: it opens tables, and reads into memory what is kept there.
So may one about the past, of which nothing is kept."""


class OutOfTime(Exception):
    """The time of a recall was over before it had its answer."""


class Deadline:
    """When a recall ends, whether or not it has its answer; 0 milliseconds: never.

    Counts from when it is made. Belongs to one call; may be extended by one thread while another waits.
    """

    def __init__(self, milliseconds: float, *, is_first: bool = False) -> None:
        self._start, self._seconds = time.monotonic(), milliseconds / 1000
        self._times = FIRST if is_first else 1

    @property
    def left(self) -> float | None:
        """Seconds, 0 where it is over; None without end."""
        return max(self._start + self._seconds * self._times - time.monotonic(), 0.0) if self._seconds else None

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._start

    @property
    def walk_ends(self) -> float | None:
        """When half of the time is over, by the monotonic clock: then a walk ends, and answers go on without it."""
        return self._start + self._seconds * self._times / 2 if self._seconds else None

    def extend(self) -> None:
        """Take as long as the first recall of a state may."""
        self._times = FIRST

    def leave_out(self, seconds: float) -> None:
        """Do not count what took so long: the embedding of a question, which is no read."""
        self._start += seconds


T = TypeVar("T")


_making = threading.Lock()  # a cache alone lets several threads make a loop each


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="slowwave-recall", daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, T], deadline: Deadline | None = None) -> T:
    """The result of the coroutine, awaited on the shared loop; to be called from any other thread.

    Raises `OutOfTime` at the deadline, also where a read holds up the loop itself; the work is cancelled.
    """
    with _making:
        loop = _loop()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    while True:
        try:
            return future.result(deadline.left if deadline else None)
        except TimeoutError:
            if future.done():
                return future.result()  # its own error, or what came at the last moment
            if deadline is None or deadline.left:  # extended meanwhile
                continue
            future.cancel()
            raise OutOfTime from None


# The span of a recall: how long it took and how much it found, never the query.


def note_recall(found: Recollection, k: int) -> None:
    """Record a recall that ended now; `k` is the requested number of facts."""
    size = {"slowwave.recall.k": k, "slowwave.recall.found": len(found.facts)}
    ended_span("recall", found.took_ms / 1000, {**size, "slowwave.recall.took_ms": found.took_ms})


# What the query path reads once, and keeps as long as no commit changes the tables that it was read from.


class Kept(Generic[T]):
    """The result of a read of some tables; read again where one of them has another version."""

    def __init__(self, names: Sequence[str], read: Callable[[Tables], Awaitable[T]]) -> None:
        self._names, self._read = names, read
        self._kept: tuple[tuple[int, ...], T] | None = None

    async def of(self, tables: Tables) -> T:
        """As these tables have it."""
        versions = tuple(tables.versions[name] for name in self._names)
        if self._kept is None or self._kept[0] != versions:
            self._kept = versions, await self._read(tables)
        return self._kept[1]


async def rows_where(tables: Tables, name: str, columns: Sequence[str], where: str | None = None) -> pl.DataFrame:
    """These columns of all rows of a table, or of those that pass a filter; always by query."""
    query = (await tables.table(name)).query().select(list(columns))
    return of_arrow(await (query.where(where) if where else query).to_arrow())
