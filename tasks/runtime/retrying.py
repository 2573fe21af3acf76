"""When a task or a flow is tried again, under any engine: after an error that passes, so many times, after these waits.

A second try begins with what the store holds by then: what was committed is not done again, what was not is nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, cast

from tenacity import RetryCallState, retry, retry_if_exception, stop_after_attempt, wait_chain, wait_random

from slowwave.common.errors import Fenced, LeaseBusy, TookTooLong, Transient

P = ParamSpec("P")
R = TypeVar("R")
AsyncBody = Callable[..., Awaitable[Any]]

RETRIES = "SLOWWAVE_RETRIES"
OFF = "off"
PASSING = (Transient, LeaseBusy, Fenced)
"""A provider that does not answer now, a writer that holds the namespace, a lease that was lost: all of them pass."""

log = logging.getLogger("slowwave")


Tries = tuple[float, ...]
"""How often something is tried again: the seconds before each, more or less by a third."""
ONCE: Tries = ()
TASK_TRIES: Tries = (2.0, 4.0, 8.0, 16.0, 32.0)  # a minute in all, by which providers count their limits
FLOW_TRIES: Tries = (60.0, 60.0)

LONGEST_TASK_S = 6 * 3600.0
LONGEST_WAIT_FOR_A_MODEL_S = 60 * 3600.0  # of which a batch may take 200,000 s

_in_flow: ContextVar[bool] = ContextVar("in_flow", default=False)


def may_try_again(error: object) -> bool:
    """Whether trying again can help here: in a flow, after an error that passes, unless somebody switched it off."""
    return _in_flow.get() and isinstance(error, PASSING) and os.environ.get(RETRIES, "").lower() != OFF


def within(context: Callable[[], AbstractContextManager[Any]], body: Callable[P, R]) -> Callable[P, R]:
    """The body, asynchronous or not, each call of which is inside such a context."""

    @wraps(body)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        with context():
            return await cast(AsyncBody, body)(*args, **kwargs)

    @wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        with context():
            return body(*args, **kwargs)

    return cast(Callable[P, R], wait if iscoroutinefunction(body) else run)


@contextmanager
def _inside_flow() -> Iterator[None]:
    token = _in_flow.set(True)
    try:
        yield
    finally:
        _in_flow.reset(token)


def tried_flow(name: str, body: AsyncBody, tries: Tries) -> AsyncBody:
    """The body of a flow, in which tasks are tried again."""
    return within(_inside_flow, _again(name, body, tries))


def tried_task(name: str, body: Callable[P, R], tries: Tries, longest_s: float | None) -> Callable[P, R]:
    """The body of a task; asynchronous if the body is.

    An asynchronous one that takes longer than `longest_s` seconds ends with `TookTooLong`; one that is synchronous
    cannot be interrupted from within its thread, and goes on.
    """
    return _again(name, _limited(name, body, longest_s) if iscoroutinefunction(body) else body, tries)


def patiently(name: str, step: Callable[P, R]) -> Callable[P, R]:
    """A step of a flow that is no task, as it must not need the engine, but is tried as often as one."""
    return tried_task(name, step, TASK_TRIES, None)


def _limited(name: str, body: Callable[P, Any], longest_s: float | None) -> Callable[P, Any]:
    @wraps(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        try:
            async with asyncio.timeout(longest_s) as limit:
                return await body(*args, **kwargs)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TookTooLong(f"The task {name!r} took longer than {longest_s:g} s.", "Run it again.") from error

    return run


def _again(name: str, body: Callable[P, R], tries: Tries) -> Callable[P, R]:
    """The body, asynchronous or not, which is run again after an error that passes."""

    def announce(state: RetryCallState) -> None:
        error, wait_s = state.outcome and state.outcome.exception(), state.next_action and state.next_action.sleep
        details = (name, error, wait_s, state.attempt_number, len(tries))
        log.warning("%s: %s It is tried again in %.0f s (%d of %d).", *details)

    if not tries:
        return body
    return retry(
        retry=retry_if_exception(may_try_again),
        stop=stop_after_attempt(1 + len(tries)),
        wait=wait_chain(*(wait_random(0.7 * seconds, 1.3 * seconds) for seconds in tries)),
        before_sleep=announce,
        reraise=True,
    )(body)


# Limits of tasks at once, by their tags, which all runs on one Prefect server share and people change in its UI. A tag
# that nobody limited (`prefect concurrency-limit create slowwave-model 4`) limits nothing.


# No task with one of these calls another one with the same: it would wait for its own place.
ASKS_MODEL = "slowwave-model"
EMBEDS = "slowwave-embedding"
WHOLE_MEMORY = "slowwave-whole-memory"
