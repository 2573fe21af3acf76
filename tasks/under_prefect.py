"""Flows and tasks as Prefect has them; imported only by `engine`, where Prefect may be the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from prefect import Flow as PrefectFlow
from prefect import Task as PrefectTask
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL

from .deployed import as_deployed
from .retrying import Tries, may_try_again

__all__ = [
    "NO_CACHE",
    "Flow",
    "Task",
    "as_deployed",
    "is_under_way",
    "retries_after",
    "retry_options",
    "run_name",
    "show_progress",
]

P = ParamSpec("P")
R = TypeVar("R")

_shown: ContextVar[Mapping[str, UUID]] = ContextVar("shown", default=MappingProxyType({}))


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


async def show_progress(stage: str, percent: float) -> None:
    """Show on the page of the run how far a stage is."""
    from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

    shown = _shown.get()
    if stage not in shown:
        _shown.set(
            {**shown, stage: await acreate_progress_artifact(percent, key=stage.replace(" ", "-"), description=stage)}
        )
    else:
        await aupdate_progress_artifact(shown[stage], progress=percent)
