"""What passes does not end a run: the same tries, waits and time limits under Prefect and inline."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import string
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from conftest import ON_A_SERVER
from prefect import Task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

import flows
import tasks
from slowwave.common.errors import LeaseBusy, Terminal, Transient, UnusableInput
from tasks.runtime.engine import flow, is_inline, task
from tasks.runtime.retrying import ONCE, RETRIES, Tries

QUICK = (0.05, 0.1)


@pytest.fixture(autouse=True)
def tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again here, unlike in other tests."""
    monkeypatch.delenv(RETRIES, raising=False)


@pytest.fixture(params=["inline", pytest.param("prefect", marks=ON_A_SERVER)])
def either(request: pytest.FixtureRequest) -> Iterator[str]:
    """Inside, one of the two engines runs what is called."""
    if request.param == "prefect":
        request.getfixturevalue("engine")
        assert not is_inline()
        yield request.param
        return
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert is_inline()
        yield request.param


class Failing:
    """Raises the errors one after the other, then returns how often it was called."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


def _work(failing: Failing, *, is_async: bool, tries: Tries = QUICK) -> Callable[[], Any]:
    """A task of either kind that calls it."""
    if is_async:

        @task("work", about="tests", tries=tries)
        async def work() -> int:
            await asyncio.sleep(0)
            return failing()

        return work

    @task("work", about="tests", tries=tries)
    def wait() -> int:
        return failing()

    return wait


def _in_flow(work: Callable[[], Any]) -> Any:
    @flow("around", tries=ONCE)
    async def around() -> Any:
        done = work()
        return await done if asyncio.iscoroutine(done) else done

    return asyncio.run(around())


@pytest.mark.parametrize("is_async", [True, False])
def test_a_task_that_fails_twice_with_what_passes_completes_in_its_third_try(either: str, is_async: bool) -> None:
    failing = Failing(Transient("HTTP 429: slow down."), Transient("HTTP 429: slow down."))
    began = time.monotonic()
    assert _in_flow(_work(failing, is_async=is_async)) == 3
    assert time.monotonic() - began >= 0.7 * 0.15  # it waited, not less than the jitter allows


@pytest.mark.parametrize("is_async", [True, False])
def test_what_does_not_pass_ends_a_task_at_once_and_what_passes_after_the_last_try(either: str, is_async: bool) -> None:
    wrong = Failing(Terminal("bad request"))
    with pytest.raises(Terminal):
        _in_flow(_work(wrong, is_async=is_async))
    down = Failing(*(Transient("down") for _ in range(9)))
    with pytest.raises(Transient):
        _in_flow(_work(down, is_async=is_async))
    assert (wrong.calls, down.calls) == (1, 3)


def test_a_task_that_takes_too_long_ends_and_is_not_tried_again(either: str) -> None:
    calls = []

    @task("slow", about="tests", longest_s=0.1)
    async def slow() -> None:
        calls.append(1)
        await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        _in_flow(slow)
    assert len(calls) == 1


async def _runs(name: str) -> list[FlowRun]:
    async with get_client() as client:
        return await client.read_flow_runs(flow_filter=FlowFilter(name=FlowFilterName(any_=[name])))


@pytest.mark.proof
@pytest.mark.parametrize(
    ("error", "tried"), [(LeaseBusy("held"), 2), (Transient("down"), 2), (UnusableInput("no file"), 1)]
)
def test_a_flow_is_run_again_after_what_passes_and_only_then(either: str, error: Exception, tried: int) -> None:
    name, failing = f"goes-on-{uuid4().hex[:8]}", Failing(error)

    @flow(name, tries=(1.0, 1.0))
    async def goes_on() -> int:
        return failing()

    if tried == 1:
        with pytest.raises(UnusableInput):
            asyncio.run(goes_on())
    else:
        assert asyncio.run(goes_on()) == tried
    assert failing.calls == tried
    if either == "prefect":
        [run] = asyncio.run(_runs(name))
        assert run.state_name == ("Completed" if tried == 2 else "Failed")


# All tasks and flows


def _declared(kind: type) -> list[Any]:
    found = {}
    for package in (tasks, flows):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for each in vars(importlib.import_module(module.name)).values():
                if isinstance(each, kind):
                    found[each.name] = each
    return list(found.values())


def test_every_task_is_named_by_its_parameters_and_limited_in_time() -> None:
    import inspect

    declared: list[Task[..., Any]] = _declared(Task)
    assert len(declared) > 30
    for each in declared:
        asked = {field.split(".")[0] for _, field, _, _ in string.Formatter().parse(str(each.task_run_name)) if field}
        assert asked
        assert asked <= set(inspect.signature(each.fn).parameters), each.name
        assert (each.timeout_seconds is None) == (each.name == "night of a namespace")
