"""Limits on requests that several processes share: whoever keeps them is asked before each request to a provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


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
