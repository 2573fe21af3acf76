"""One body, two engines: flows and tasks run under Prefect when an API is configured, else inline in this process.

This is the only seam. Without a Prefect API a call would start an ephemeral server, wait ten seconds for it and lose
the history; inline, a flow is just its function, and the run is recorded in the store as always.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import MappingProxyType
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar, cast
from uuid import UUID

from prefect import Flow as PrefectFlow
from prefect import Task as PrefectTask
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL

from inference.secrets import clean_error

from .deployed import Body, as_deployed
from .telemetry import traced

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("slowwave")
log.setLevel(logging.INFO)  # what it says reaches the log of a Prefect run


def is_inline() -> bool:
    """True when neither a Prefect API is configured nor a Prefect run is under way."""
    return FlowRunContext.get() is None and not PREFECT_API_URL.value()


class Flow(PrefectFlow[P, R]):
    """A Prefect flow that runs inline when there is no engine."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the flow."""
        return self.fn(*args, **kwargs) if is_inline() else super().__call__(*args, **kwargs)


class Task(PrefectTask[P, R]):
    """A Prefect task that runs inline when there is no engine."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task."""
        return self.fn(*args, **kwargs) if is_inline() else super().__call__(*args, **kwargs)


def _run_name() -> str:
    """What a run is called in the UI: the flow, the namespace, and the time it was due."""
    from prefect import runtime

    at = runtime.flow_run.scheduled_start_time
    return f"{runtime.flow_run.flow_name} {runtime.flow_run.parameters.get('namespace', '')} {at:%Y-%m-%d %H:%M:%S}"


def flow(name: str, *, takes_turns: bool = False, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a flow; its name is the verb that people call it by. Those that take turns maintain a memory alone."""

    def declare(body: Callable[P, R]) -> Callable[P, R]:
        deployed = as_deployed(cast(Body, body), takes_turns)
        told = _without_secrets(traced("flow", name, deployed))
        return cast(Callable[P, R], Flow(told, name=name, flow_run_name=_run_name, **options))

    return declare


def task(name: str, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a task: one batch of work, not cached by Prefect because the store itself knows what is done."""

    def declare(body: Callable[P, R]) -> Callable[P, R]:
        told = _without_secrets(traced("task", name, body))
        return cast(Callable[P, R], Task(told, name=name, cache_policy=NO_CACHE, **options))

    return declare


def _without_secrets(body: Callable[..., Any]) -> Callable[..., Any]:
    """The body, whose errors hold no secret: Prefect keeps the text of every error, and of what led to it."""
    if inspect.iscoroutinefunction(body):

        @wraps(body)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await body(*args, **kwargs)
            except Exception as error:
                _raise_clean(error)

        return run_async

    @wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except Exception as error:
            _raise_clean(error)

    return run


def _raise_clean(error: Exception) -> NoReturn:
    told = clean_error(error)
    if told is error:
        raise error
    raise told from None


class Watcher(Protocol):
    """Whoever wants to see how far a run has come."""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Called after each batch with counts of the stage."""


Listener = Callable[[str], None]
"""Whoever wants to read, line by line, which parts of a long run have ended."""
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_shown: ContextVar[Mapping[str, UUID]] = ContextVar("shown", default=MappingProxyType({}))


@contextmanager
def watched_by(watcher: Watcher, listener: Listener | None = None) -> Iterator[None]:
    """Tell this watcher about the progress of inline runs, and this listener which parts have ended."""
    token, heard = _watcher.set(watcher), _listener.set(listener)
    try:
        yield
    finally:
        _watcher.reset(token)
        _listener.reset(heard)


def tell(line: str) -> None:
    """Say that a part of a long run has ended: to the terminal that listens, or in the log of the Prefect run."""
    listener = _listener.get()
    if listener is not None:
        listener(line)
    elif not is_inline():
        log.info("%s", line)


async def report_progress(stage: str, done: int, total: int | None = None) -> None:
    """Say how far a stage is: to the terminal, or as a progress artifact and a log line of the Prefect run."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(stage, done, total)
    elif not is_inline():
        log.info("%s: %d%s", stage, done, f" of {total}" if total else "")
        if total:
            await _show_progress(stage, 100.0 * done / total)


async def _show_progress(stage: str, percent: float) -> None:
    from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

    shown = _shown.get()
    if stage not in shown:
        _shown.set(
            {**shown, stage: await acreate_progress_artifact(percent, key=stage.replace(" ", "-"), description=stage)}
        )
    else:
        await aupdate_progress_artifact(shown[stage], progress=percent)
