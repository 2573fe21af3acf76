"""Phases: the parts of a maintenance run, each on its own feet, and the gate that watches over how the run ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from slowwave.errors import NoRoom, RecallFell, SlowwaveError
from slowwave.settings import GateSettings, StewardSettings
from storage.size import stored_bytes

from .gate import Frozen, check_recall, freeze_probes
from .runs import Run, store_of
from .summaries import publish_charts, publish_summary
from .tallies import Tally

T = TypeVar("T")

log = logging.getLogger("slowwave")


class Gate:
    """The questions of one run: frozen before what it watches over, and asked again however the run ends."""

    def __init__(self, run: Run, settings: GateSettings, is_open: bool) -> None:
        self._run, self._settings, self._is_open = run, settings, is_open
        self._frozen: Frozen | None = None

    def freeze(self, steward: StewardSettings = StewardSettings()) -> None:  # noqa: B008 (frozen)
        """Draw and ask the questions now; what fades by these settings is not asked about."""
        if not self._is_open:
            self._frozen = freeze_probes(self._run, self._settings, steward=steward)

    def check(self, tally: Tally) -> None:
        """Ask again, and take the run back if recall fell."""
        tally.gated(check_recall(self._run, self._frozen, self._settings, [self._run.id]))


@asynccontextmanager
async def gated(run: Run, tally: Tally, settings: GateSettings, *, dry_run: bool = False) -> AsyncIterator[Gate]:
    """Watch over a run, which must be recorded inside: one that is still going on cannot be undone.

    A run that failed is checked as well, for what it had committed by then.
    """
    gate = Gate(run, settings, is_open=dry_run)
    try:
        yield gate
    except Exception as error:
        gate.check(tally)
        if tally.verdict is not None:
            error.add_note(tally.verdict.reason())
        raise
    gate.check(tally)


async def attempt(tally: Tally, phase: str, work: Callable[[], T | Awaitable[T]]) -> T | None:
    """What a phase returns, or None where it failed: the others go on, and the run ends as incomplete (S4-04)."""
    try:
        done = work()
        return await done if inspect.isawaitable(done) else done
    except (RecallFell, NoRoom):  # on a full disk the others would only fail as well
        raise
    except Exception as error:
        log.exception("The phase %r failed.", phase)
        told = error.message if isinstance(error, SlowwaveError) else f"{type(error).__name__}: {error}"
        tally.failed(phase, " ".join([told, *getattr(error, "__notes__", [])]))
        return None


@contextmanager
def weighed(run: Run, tally: Tally) -> Iterator[None]:
    """Tell how much room the store took before and after."""
    before = _bytes(run)
    yield
    tally.sized(before, _bytes(run))


def _bytes(run: Run) -> int | None:
    try:
        return stored_bytes(store_of(run))
    except OSError as error:  # a figure for the reader is no reason to fail
        log.warning("How large the store is could not be told: %s", error)
        return None


async def conclude(run: Run, tally: Tally) -> dict[str, Any]:
    """Show what the run did, and fail with `RecallFell` where its gate took it back."""
    await publish_summary(run, tally)
    await publish_charts(run)
    if tally.verdict is not None:
        tally.verdict.enforce()
    return tally.summary()
