"""Asking prompt by prompt: budget, then the call, then the ledger, a few at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Generic

from inference.answers import T
from inference.desk import Desk, Pending
from slowwave.records import Usage

UNAVAILABLE_AFTER = 5


class LivePrompts(Generic[T]):
    """A fixed number of workers takes the prompts in order.

    After five prompts in a row whose retries were in vain, the provider counts as down and the rest is skipped; later
    questions of the run try one prompt before they give up, too.
    """

    def __init__(self, desk: Desk[T]) -> None:
        self._desk, self._seat = desk, desk.seat
        self._stopped_by: Exception | None = None

    async def ask(self, pending: Iterable[Pending], workers: int) -> None:
        """Answer all; what stops the run is raised after the calls in flight ended."""
        self._seat.failures_in_a_row = min(self._seat.failures_in_a_row, UNAVAILABLE_AFTER - 1)
        queue = list(pending)
        prompts = iter(queue)
        await asyncio.gather(*(self._work(prompts) for _ in range(min(len(queue), workers))))
        if self._stopped_by is not None:
            raise self._stopped_by

    async def _work(self, prompts: Iterable[Pending]) -> None:
        for each in prompts:
            if self._stopped_by is not None:
                return
            try:
                await self._ask_one(each)
            except Exception as error:  # raised above, when no paid answer is under way any more
                self._stopped_by = self._stopped_by or error

    async def _ask_one(self, pending: Pending) -> None:
        desk, seat = self._desk, self._seat
        is_down = seat.failures_in_a_row >= UNAVAILABLE_AFTER
        reservation = None if is_down else await desk.budget.reserve(desk.estimate(pending))
        if reservation is None:
            desk.skip(pending)
            return
        spent = Usage()
        try:
            outcome = await seat.ask(pending.prompt, desk.model)
            spent = outcome.usage
        finally:
            desk.budget.settle(reservation, spent)
        seat.failures_in_a_row = seat.failures_in_a_row + 1 if outcome.is_transient else 0
        await desk.keep(pending, outcome)
