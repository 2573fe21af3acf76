"""Flows and tasks as Prefect has them; imported only by `engine`, where Prefect may be the engine."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

from prefect import Flow as PrefectFlow
from prefect import Task as PrefectTask
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed

from slowwave.common.errors import NoStoreYet, NothingYet, UnknownName
from slowwave.common.text import digest
from storage.connection import address_of

# What runs do under an engine: they wait for their turn, and a schedule has nothing to do where no store is yet.


TURN_LEASE_S = 60.0  # a run that was killed gives up its turn after this time
NOTHING = "Nothing to do"  # the name of the completed state

Body = Callable[..., Awaitable[Any]]


_turns: ContextVar[frozenset[str]] = ContextVar("turns", default=frozenset())


def is_deployed() -> bool:
    """True in the run of a deployment; what a command or another flow calls is none."""
    context = FlowRunContext.get()
    return context is not None and context.flow_run is not None and context.flow_run.deployment_id is not None


def as_deployed(body: Body, takes_turns: bool) -> Body:
    """The body of a flow as an engine runs it.

    One that takes turns maintains a namespace alone: an hourly sweep in the middle of a night would change what the
    night's gate compares. For the run of a deployment it is no failure that there is no store or no such namespace
    yet: a schedule then has nothing to do. A name that is nearly one that exists is a failure all the same.
    """

    @wraps(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if FlowRunContext.get() is None:
                return await body(*args, **kwargs)
            async with turn(*_place(body, args, kwargs)) if takes_turns else nullcontext():
                return await body(*args, **kwargs)
        except (NothingYet, UnknownName) as error:
            may_come = isinstance(error, NothingYet) or (error.kind == "namespace" and not error.near)
            if not is_deployed() or not may_come:
                raise
            return Completed(name=NOTHING, message=f"{getattr(error, 'brief', NoStoreYet.brief)}: {error}")

    # Prefect reads types as if they were written here, where their names mean nothing.
    run.__annotations__ = get_type_hints(body, include_extras=True)
    run.__dict__["__signature__"] = inspect.signature(body, eval_str=True)
    return run


def _place(body: Body, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """The store and the namespace that a call of the flow maintains."""
    bound = inspect.signature(body).bind(*args, **kwargs)
    bound.apply_defaults()
    return str(bound.arguments["store"]), str(bound.arguments["namespace"])


@asynccontextmanager
async def turn(store: str, namespace: str) -> AsyncIterator[None]:
    """Inside, no other run maintains this namespace: a global concurrency limit of one, made where it is not."""
    from prefect.concurrency.asyncio import concurrency

    name = turn_name(store, namespace)
    if name in _turns.get():
        yield
        return
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run was faster
                await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
    async with concurrency(name, lease_duration=TURN_LEASE_S):
        token = _turns.set(_turns.get() | {name})
        try:
            yield
        finally:
            _turns.reset(token)


def turn_name(store: str, namespace: str) -> str:
    """The global concurrency limit that runs of this namespace of this store take turns by."""
    return f"slowwave-maintenance-{namespace}-{digest(address_of(store), size=4)}"


P = ParamSpec("P")
R = TypeVar("R")


def is_under_way() -> bool:
    """Whether a Prefect API is configured, or a Prefect run is under way."""
    return FlowRunContext.get() is not None or bool(PREFECT_API_URL.value())


class _EitherWay:
    """What is just its function where there is no engine."""

    fn: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        run = super().__call__ if is_under_way() else self.fn  # type: ignore[misc]
        return run(*args, **kwargs)


class Flow(_EitherWay, PrefectFlow[P, R]):
    """A Prefect flow that runs inline when there is no engine."""


class Task(_EitherWay, PrefectTask[P, R]):
    """A Prefect task that runs inline when there is no engine."""


def run_name() -> str:
    """What a run is called in the UI: the flow, the namespace, and the time it was due."""
    from prefect import runtime

    at = runtime.flow_run.scheduled_start_time
    return f"{runtime.flow_run.flow_name} {runtime.flow_run.parameters.get('namespace', '')} {at:%Y-%m-%d %H:%M:%S}"
