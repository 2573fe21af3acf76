"""Phases: the parts of a maintenance run, each on its own feet, and how the run as a whole ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from slowwave.errors import SlowwaveError
from slowwave.settings import GateSettings
from storage.size import stored_bytes

from .charts import publish_charts
from .gate import Frozen, check_recall
from .runs import Run, store_of
from .summaries import publish_summary
from .tallies import Tally

T = TypeVar("T")

log = logging.getLogger("slowwave")


async def attempt(tally: Tally, phase: str, work: Callable[[], T | Awaitable[T]]) -> T | None:
    """What a phase returns, or None where it failed: the others go on, and the run ends as incomplete (S4-04)."""
    try:
        done = work()
        return await done if inspect.isawaitable(done) else done
    except Exception as error:
        log.exception("The phase %r failed.", phase)
        told = error.message if isinstance(error, SlowwaveError) else f"{type(error).__name__}: {error}"
        tally.failed(phase, told)
        return None


@contextmanager
def weighed(run: Run, tally: Tally) -> Iterator[None]:
    """Tell how much room the store took before and after."""
    before = stored_bytes(store_of(run))
    yield
    tally.sized(before, stored_bytes(store_of(run)))


async def conclude(run: Run, tally: Tally, frozen: Frozen | None, gate: GateSettings) -> dict[str, Any]:
    """Ask the frozen questions again, show what the run did, and fail with `RecallFell` if it was taken back for that.

    Only once the run is recorded: one that is still going on cannot be undone.
    """
    verdict = check_recall(run, frozen, gate, [run.id])
    tally.gated(verdict)
    await publish_summary(run, tally)
    await publish_charts(run)
    if verdict is not None:
        verdict.enforce()
    return tally.summary()
