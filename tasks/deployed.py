"""What runs do under an engine: they wait for their turn, and a schedule has nothing to do where no store is yet."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, get_type_hints

from prefect.context import FlowRunContext
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.states import Completed

from slowwave.errors import NoStoreYet, NothingYet, SlowwaveError, UnknownName

TURN_LEASE_S = 60.0  # a run that was killed gives up its turn after this time
NOTHING = "Nothing to do"  # the name of the completed state

Body = Callable[..., Awaitable[Any]]


_held: ContextVar[frozenset[str]] = ContextVar("held", default=frozenset())


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
            if not takes_turns or FlowRunContext.get() is None:
                return await body(*args, **kwargs)
            async with turn(_namespace(body, args, kwargs)):
                return await body(*args, **kwargs)
        except (NothingYet, UnknownName) as error:
            if not is_deployed() or not _is_yet_to_come(error):
                raise
            return Completed(name=NOTHING, message=f"{getattr(error, 'brief', NoStoreYet.brief)}: {error}")

    # Prefect reads types as if they were written here, where their names mean nothing.
    run.__annotations__ = get_type_hints(body, include_extras=True)
    run.__dict__["__signature__"] = inspect.signature(body, eval_str=True)
    return run


def _is_yet_to_come(error: SlowwaveError) -> bool:
    return isinstance(error, NothingYet) or (
        isinstance(error, UnknownName) and error.kind == "namespace" and not error.near
    )


def _namespace(body: Body, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    bound = inspect.signature(body).bind(*args, **kwargs)
    bound.apply_defaults()
    return str(bound.arguments["namespace"])


@asynccontextmanager
async def turn(namespace: str) -> AsyncIterator[None]:
    """Inside, no other run maintains this namespace: a global concurrency limit of one, made where it is not.

    What a run that has its turn calls itself needs no other.
    """
    from prefect.concurrency.asyncio import concurrency

    if namespace in _held.get():
        yield
        return
    await make_turn(namespace)
    async with concurrency(turn_name(namespace), lease_duration=TURN_LEASE_S):
        token = _held.set(_held.get() | {namespace})
        try:
            yield
        finally:
            _held.reset(token)


def turn_name(namespace: str) -> str:
    """The global concurrency limit that runs of this namespace take turns by."""
    return f"slowwave-maintenance-{namespace}"


async def make_turn(namespace: str) -> bool:
    """Make the limit; false if it is there, with whatever limit people gave it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

    name = turn_name(namespace)
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run was faster
                await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
            return True
    return False
