"""Rate limits of calls: at once, a minute, and none while the server asks for a pause."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Protocol

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


# Limits on requests that several processes share: each request to a provider waits for them.


class SharedLimits(Protocol):
    """Keeps the limits of providers; a provider without one is never waited for."""

    async def wait_for_call(self, provider: str, calls_per_minute: int) -> None:
        """Return when a language model of the provider may be called; 0 calls a minute are no wish for a limit."""

    def wait_for_embedding(self, provider: str) -> None:
        """Return when texts may be sent to the provider to be embedded."""


_limits: ContextVar[SharedLimits | None] = ContextVar("limits", default=None)


@contextmanager
def limited_by(limits: SharedLimits) -> Iterator[None]:
    """Inside, requests wait for these limits."""
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


async def wait_for_call(provider: str, calls_per_minute: int) -> None:
    """Wait until a language model of the provider may be called."""
    if (limits := _limits.get()) is not None:
        await limits.wait_for_call(provider, calls_per_minute)


def wait_for_embedding(provider: str) -> None:
    """Wait until texts may be sent to the provider to be embedded."""
    if (limits := _limits.get()) is not None:
        limits.wait_for_embedding(provider)
