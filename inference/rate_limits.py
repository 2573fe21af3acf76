"""Rate limits of calls: at once, a minute, and none while the server asks for a pause."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0

Sleep = Callable[[float], Awaitable[object]]


class RateLimit:
    """One clock for all calls of a run. `clock` and `sleep` are in seconds, `seed` fixes the jitter."""

    def __init__(
        self, concurrency: int, calls_per_minute: int, *, clock: Callable[[], float], sleep: Sleep, seed: int = 0
    ) -> None:
        self.clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._interval = 60.0 / calls_per_minute if calls_per_minute else 0.0
        self._sleep = sleep
        self._chance = random.Random(seed)
        self._next_start = 0.0
        self._resume_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One of the places for a call, from its start to its end."""
        async with self._slots:
            await self.start()
            yield

    async def start(self) -> None:
        """Wait until the next call may start; starts are spread evenly over the minute."""
        await self.resumed()
        if not self._interval:
            return
        now = self.clock()
        begin = max(now, self._next_start)
        self._next_start = begin + self._interval
        if begin > now:
            await self._sleep(begin - now)

    async def pause(self, seconds: float) -> None:
        """Let so much time pass."""
        await self._sleep(seconds)

    def hold(self, seconds: float) -> None:
        """Let no call start for these seconds: the server demands it."""
        self._resume_at = max(self._resume_at, self.clock() + seconds)

    async def resumed(self) -> None:
        """Wait until the server no longer asks for a pause."""
        while self._resume_at > self.clock():
            await self._sleep(self._resume_at - self.clock())

    async def back_off(self, failures: int) -> None:
        """Wait longer after each failure in a row, from 0.5 s doubling to 30 s, shortened by up to half at random."""
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failures - 1))
        await self._sleep(longest * self._chance.uniform(0.5, 1.0))
