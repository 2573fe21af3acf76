"""One event loop in a thread of its own, so that a plain call can run several reads at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from .deadline import Deadline, OutOfTime

T = TypeVar("T")


_making = threading.Lock()  # a cache alone lets several threads make a loop each


def _loop() -> asyncio.AbstractEventLoop:
    with _making:
        return _made()


@cache
def _made() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="slowwave-recall", daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, T], deadline: Deadline | None = None) -> T:
    """The result of the coroutine, awaited on the shared loop; to be called from any other thread.

    Raises `OutOfTime` at the deadline, also where a read holds up the loop itself; the work is cancelled.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
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
