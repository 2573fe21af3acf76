"""Who answers in place of the Messages API: the message that a batch brought, or nobody if only the request is wanted.

Instructor makes the request and reads the answer as ever, so that a prompt in a batch is the same prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from slowwave.errors import SlowwaveError

Create = Callable[..., Awaitable[Any]]


class NotSent(SlowwaveError):
    """What a request ends with that was only to be looked at."""


class StandIn:
    """Takes the place of the API for one request; `message` is what it says, nothing ends the request."""

    def __init__(self, message: Any = None) -> None:
        self._message = message
        self.request: dict[str, Any] = {}

    def answer(self, request: dict[str, Any]) -> Any:
        """The message, once: a repair of it goes to the API itself."""
        self.request = request
        _on_stage.set(None)
        if self._message is None:
            raise NotSent("This request is not sent.")
        return self._message


_on_stage: ContextVar[StandIn | None] = ContextVar("stand_in", default=None)


def replaceable(create: Create) -> Create:
    """The same as `create`, but a stand-in that is on stage answers in its place."""

    async def answered(*arguments: Any, **request: Any) -> Any:
        stand_in = _on_stage.get()
        return await create(*arguments, **request) if stand_in is None else stand_in.answer(request)

    return answered


@contextmanager
def on_stage(stand_in: StandIn | None) -> Iterator[None]:
    """Inside, the next request of this task goes to the stand-in."""
    token = _on_stage.set(stand_in)
    try:
        yield
    finally:
        _on_stage.reset(token)
