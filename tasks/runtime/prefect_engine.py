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
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed

from slowwave.common.errors import NoStoreYet, NothingYet, SlowwaveError, UnknownName
from slowwave.common.text import digest
from storage.connection import address_of

from .retrying import Tries, as_flow, may_try_again

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

    Prefect has no condition for the retries of a flow. One that failed for a reason that does not pass gives them up.
    """

    @as_flow
    @wraps(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if FlowRunContext.get() is None:
                return await body(*args, **kwargs)
            async with turn(*_place(body, args, kwargs)) if takes_turns else nullcontext():
                return await body(*args, **kwargs)
        except (NothingYet, UnknownName) as error:
            if not is_deployed() or not _is_yet_to_come(error):
                await _give_up_retries()
                raise
            return Completed(name=NOTHING, message=f"{getattr(error, 'brief', NoStoreYet.brief)}: {error}")
        except Exception as error:
            if not may_try_again(error):
                await _give_up_retries()
            raise

    # Prefect reads types as if they were written here, where their names mean nothing.
    run.__annotations__ = get_type_hints(body, include_extras=True)
    run.__dict__["__signature__"] = inspect.signature(body, eval_str=True)
    return run


async def _give_up_retries() -> None:
    """Let the run that is under way here end as failed: another try would fail in the same way."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow is None or not context.flow.retries:
        return
    async with get_client() as client:
        policy = context.flow_run.empirical_policy.model_copy(update={"retries": 0})
        await client.update_flow_run(context.flow_run.id, empirical_policy=policy)


def _is_yet_to_come(error: SlowwaveError) -> bool:
    return isinstance(error, NothingYet) or (
        isinstance(error, UnknownName) and error.kind == "namespace" and not error.near
    )


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
    await _make_turn(name)
    async with concurrency(name, lease_duration=TURN_LEASE_S):
        token = _turns.set(_turns.get() | {name})
        try:
            yield
        finally:
            _turns.reset(token)


def turn_name(store: str, namespace: str) -> str:
    """The global concurrency limit that runs of this namespace of this store take turns by."""
    return f"slowwave-maintenance-{namespace}-{digest(address_of(store), size=4)}"


async def _make_turn(name: str) -> None:

    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            with suppress(ObjectAlreadyExists):  # another run was faster
                await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))


P = ParamSpec("P")
R = TypeVar("R")


def is_under_way() -> bool:
    """Whether a Prefect API is configured, or a Prefect run is under way."""
    return FlowRunContext.get() is not None or bool(PREFECT_API_URL.value())


class _EitherWay:
    """What has its own way to run where there is no engine: the function itself, or `inline` in its place."""

    def __init__(self, fn: Callable[..., Any], *, inline: Callable[..., Any] | None = None, **options: Any) -> None:
        super().__init__(fn, **options)  # type: ignore[call-arg]  # that of the Prefect class after this one
        self._inline = inline or fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        run = super().__call__ if is_under_way() else self._inline  # type: ignore[misc]
        return run(*args, **kwargs)


class Flow(_EitherWay, PrefectFlow[P, R]):
    """A Prefect flow that runs inline when there is no engine."""


class Task(_EitherWay, PrefectTask[P, R]):
    """A Prefect task that runs inline when there is no engine."""


def retry_options(tries: Tries, *, jitters: bool = False) -> dict[str, Any]:
    """The tries as Prefect's options, for a flow with the same wait before each and no jitter."""
    if not tries.retries:
        return {"retries": 0}  # whatever Prefect's settings say of those that do not say it
    if jitters:
        waits = list(tries.waits_s)
        return {"retries": tries.retries, "retry_delay_seconds": waits, "retry_jitter_factor": tries.jitter}
    return {"retries": tries.retries, "retry_delay_seconds": round(tries.waits_s[0])}


def retries_after(_: Any, __: Any, state: State[Any]) -> bool:
    """Whether a task that failed so is tried again."""
    return may_try_again(state.data)


def run_name() -> str:
    """What a run is called in the UI: the flow, the namespace, and the time it was due."""
    from prefect import runtime

    at = runtime.flow_run.scheduled_start_time
    return f"{runtime.flow_run.flow_name} {runtime.flow_run.parameters.get('namespace', '')} {at:%Y-%m-%d %H:%M:%S}"
