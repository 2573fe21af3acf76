"""One body, two engines: flows and tasks run under Prefect when an API is configured, else inline in this process.

This is the only seam. Without a Prefect API a call would start an ephemeral server, wait ten seconds for it and lose
the history; inline, a flow is just its function, and the run is recorded in the store as always. Importing Prefect
takes two seconds of processor time; a process that cannot use it does not import it.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from inference.secrets import clean_error

from .retrying import FLOW_TRIES, LONGEST_TASK_S, TASK_TRIES, Tries, tried_flow, tried_task, within

if TYPE_CHECKING:
    from .runs import Run


# Whether Prefect can be the engine of this process, found out without importing it. The answer may be yes where
# Prefect then finds no API after all; it is never no where Prefect would find one.


API = "PREFECT_API"  # begins the names of settings that tell of an API
PROFILE = "PREFECT_PROFILE"  # names a profile: one of the file of profiles, or where there is none, of Prefect's own
ELSEWHERE = "PROFILES_PATH"  # the setting that says where the file of profiles lies


def may_be_prefect() -> bool:
    """True where Prefect is imported already, as in a run that it started, or where its settings may name an API."""
    home = Path(os.environ.get("PREFECT_HOME") or os.path.expanduser("~/.prefect"))  # stays as it is without a home
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    return (
        "prefect" in sys.modules
        or any(name.upper().startswith(API) for name in os.environ)
        or bool(os.environ.get(PROFILE))
        or API in _text(profiles).upper()
        or any(name in _text(Path(".env")).upper() for name in (API, ELSEWHERE))
        or _may_name_api(Path("prefect.toml"))
        or _may_name_api(Path("pyproject.toml"), "tool", "prefect")
    )


def _text(path: Path) -> str:
    """What a file says; nothing where it cannot be read, by Prefect either."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _may_name_api(path: Path, *tables: str) -> bool:
    """Whether a table of a TOML file may name an API, or a file of profiles; yes where the file cannot be parsed."""
    try:
        settings = tomllib.loads(_text(path))
        for name in tables:
            settings = settings.get(name, {})
        return "api" in settings or "profiles_path" in settings
    except (ValueError, TypeError, AttributeError, RecursionError):
        return True


P = ParamSpec("P")
R = TypeVar("R")
AsyncBody = Callable[..., Awaitable[Any]]

log = logging.getLogger("slowwave")
log.setLevel(logging.INFO)  # what it says reaches the log of a Prefect run


HAS_PREFECT = may_be_prefect()
"""Whether flows and tasks are Prefect's in this process; settled when they are declared."""


def is_inline() -> bool:
    """True when neither a Prefect API is configured nor a Prefect run is under way."""
    if not HAS_PREFECT:
        return True
    from .prefect_engine import is_under_way

    return not is_under_way()


class Inline(Generic[P, R]):
    """A flow or task where there is no other engine: its function."""

    def __init__(self, fn: Callable[P, R]) -> None:
        self.fn = fn
        update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it."""
        return self.fn(*args, **kwargs)


SHARED_PARAMETERS = {
    "namespace": "Which memory inside the store; tenants are kept apart by it.",
    "store": "Folder or address of the store.",
    "now": "The time that counts as now; empty for the real time.",
    "require_approval": "What would change waits for a person; see the flow `review`.",
    "dry_run": "Show what would change; nothing is changed and no model is asked.",
}
"""What the form of a flow says of its parameters that its docstring does not describe."""


def _described(body: Callable[P, R]) -> Callable[P, R]:
    """The flow, whose docstring describes the shared parameters, too."""
    text = inspect.getdoc(body) or ""
    missing = [each for each in inspect.signature(body).parameters if f"    {each}:" not in text]
    lines = [f"    {each}: {SHARED_PARAMETERS[each]}" for each in missing if each in SHARED_PARAMETERS]
    body.__doc__ = "\n".join([text, *([] if "Args:" in text else ["", "Args:"]), *lines])
    return body


def flow(
    name: str, *, takes_turns: bool = False, tries: Tries = FLOW_TRIES, **options: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a flow; its name is the verb that people call it by. Those that take turns maintain a memory alone.

    After an error that passes it is run again (`tries`), for which a second run must go on where the first one ended.
    """

    def declare(body: Callable[P, R]) -> Callable[P, R]:
        if not HAS_PREFECT:
            guarded = within(_without_secrets, cast(AsyncBody, body))
            return Inline(cast(Callable[P, R], tried_flow(name, guarded, tries)))
        from .prefect_engine import Flow, as_deployed, run_name

        described = cast(AsyncBody, _described(body))
        guarded = within(_without_secrets, as_deployed(described, takes_turns))
        options.update(name=name, flow_run_name=run_name, retries=0)
        return cast(Callable[P, R], Flow(tried_flow(name, guarded, tries), **options))

    return declare


def task(
    name: str,
    *,
    about: str = "",
    tries: Tries = TASK_TRIES,
    longest_s: float | None = LONGEST_TASK_S,
    tags: Collection[str] = (),
    **options: Any,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a task: one batch of work, not cached by Prefect because the store itself knows what is done.

    In a flow it is tried again after an error that passes (`tries`), and ends where it takes longer than `longest_s`
    seconds. `about` says what a run of it works on, with its parameters in braces, and is by default the namespace of
    its parameter `run`; a limit on one of the `tags` (see `limits`) holds for all tasks with it on all machines.
    """

    def declare(body: Callable[P, R]) -> Callable[P, R]:
        tried = tried_task(name, within(_without_secrets, body), tries, longest_s)
        if not HAS_PREFECT:
            return Inline(tried)
        from prefect.cache_policies import NO_CACHE

        from .prefect_engine import Task

        works_on = about or ("{run.namespace}" if "run" in inspect.signature(body).parameters else "")
        options.update(
            name=name,
            task_run_name=f"{name}: {works_on}".rstrip(": "),
            timeout_seconds=longest_s,  # of all tries, for those that are synchronous
            tags=tags,
            cache_policy=NO_CACHE,
            retries=0,
        )
        return cast(Callable[P, R], Task(tried, **options))

    return declare


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Inside, errors hold no secret: Prefect keeps the text of every error, and of what led to it."""
    try:
        yield
    except Exception as error:
        if (clean := clean_error(error)) is not error:
            raise clean from None
        raise


Watcher = Callable[[str, int, int | None], None]
"""Called after each batch with the name of the stage, how much is done, and of how much."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell this watcher about the progress of inline runs."""
    watching = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(watching)


async def report_progress(stage: str, done: int, total: int | None = None) -> None:
    """Say how far a stage is: to the terminal, or in the log of the Prefect run."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(stage, done, total)
    elif not is_inline():
        log.info("%s: %d%s", stage, done, f" of {total}" if total else "")


# What a run asks of the Prefect API: events for its listeners, and its turn in a namespace.


class Event(StrEnum):
    """What a run tells the listeners of the Prefect API."""

    INGESTED = "slowwave.messages.ingested"
    REFRESH_DUE = "slowwave.community.refresh_due"
    NIGHT_FINISHED = "slowwave.night.finished"
    GATE_FAILED = "slowwave.gate.failed"


def announce(event: Event, run: Run, **counts: Any) -> None:
    """Say that something happened in the run's namespace; without an engine nobody listens, and nothing is said."""
    if not is_inline():
        from prefect.events import emit_event

        log.info("%s in %s: %s", event, run.namespace, ", ".join(f"{what} {n}" for what, n in counts.items()))
        emit_event(**event_of(event, run, **counts))


def event_of(event: Event, run: Run, **counts: Any) -> dict[str, Any]:
    """The event: its resource is the namespace, and its payload tells namespace, store, run, flow and the counts."""
    return {
        "event": str(event),
        "resource": {
            "prefect.resource.id": f"slowwave.namespace.{run.namespace}",
            "prefect.resource.name": run.namespace,
        },
        "payload": {
            "namespace": run.namespace,
            "store": run.store,
            "run": run.id,
            "flow": run.flow,
            "counts": counts,
        },
    }


@asynccontextmanager
async def turn_of(store: str, namespace: str) -> AsyncIterator[None]:
    """Inside, no deployment maintains this namespace, if this run is one of a deployment itself."""
    if is_inline():
        yield
        return
    from .prefect_engine import is_deployed, turn

    if not is_deployed():
        yield
        return
    async with turn(store, namespace):
        yield
