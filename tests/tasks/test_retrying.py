"""What passes does not end a run: the same tries, waits and time limits under Prefect and inline."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import string
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from conftest import ON_A_SERVER
from messages_api import MessagesApi
from prefect import Task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings
from talk import CLAUDE, learn, said, written

import flows
import tasks
from slowwave.common.errors import LeaseBusy, Terminal, Transient, UnusableInput
from tasks.runtime.engine import flow, is_inline, side_by_side, task
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


def test_shares_of_work_go_on_side_by_side_and_none_begins_after_an_error(either: str) -> None:
    steps: list[str] = []

    @task("share", about="{number}", tries=ONCE)
    async def share(number: int) -> int:
        steps.append(f"{number} begins")
        if number == 1:
            raise Terminal("one")
        await asyncio.sleep(0.3)
        steps.append(f"{number} ends")
        return number * number

    @flow("shares", tries=ONCE)
    async def shares(numbers: list[int]) -> list[int]:
        return await side_by_side(share, ({"number": number} for number in numbers), at_once=2)

    assert asyncio.run(shares([2, 3, 4])) == [4, 9, 16]
    assert set(steps[:2]) == {"2 begins", "3 begins"}
    assert steps.index("4 begins") > min(steps.index("2 ends"), steps.index("3 ends"))
    steps.clear()
    with pytest.raises(Terminal):
        asyncio.run(shares([0, 1, 2]))
    assert sorted(steps) == ["0 begins", "0 ends", "1 begins"]


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


# Real work


async def _task_names(prefix: str, at_least: int) -> Counter[str]:
    """The names of task runs that begin so, when the server has written down so many."""
    end = time.monotonic() + 20
    while True:
        async with get_client() as client:
            found = Counter(run.name for run in await client.read_task_runs() if run.name.startswith(prefix))
        if sum(found.values()) >= at_least or time.monotonic() > end:
            return found
        await asyncio.sleep(0.5)


def _talk_of_strangers(path: Path, people: int) -> Path:
    """So many conversations that share nobody, of one message each."""
    names = [f"Person{chr(65 + number // 26)}{chr(97 + number % 26)}" for number in range(people)]
    turns = [(who, f"I live in Town{number} and work at Firm{number}.") for number, who in enumerate(names)]
    return written(path, [line for n, turn in enumerate(turns) for line in said([turn], f"c{n:02d}")])


@pytest.mark.proof
def test_windows_that_share_nobody_are_read_by_tasks_of_eight_and_the_graph_shows_them(
    either: str, tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    api = serve()
    namespace = f"n{uuid4().hex[:8]}"
    talk = _talk_of_strangers(tmp_path / "talk.jsonl", 20)
    told = learn(talk, tmp_path / "m", namespace=namespace, llm={"model": CLAUDE}, consolidate={"ask_model": False})
    assert told["counts"]["messages extracted"] == 20
    reading = [each for each in api.requests if each["tools"][0]["name"] == "WindowExtraction"]
    assert len(reading) == 20
    if either == "prefect":
        names = asyncio.run(_task_names(f"read windows: {namespace}", 3))
        assert names == {f"read windows: {namespace}, from {first} of 20": 1 for first in (1, 9, 17)}


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
    assert len(declared) > 40
    for each in declared:
        asked = {field.split(".")[0] for _, field, _, _ in string.Formatter().parse(str(each.task_run_name)) if field}
        assert asked
        assert asked <= set(inspect.signature(each.fn).parameters), each.name
        assert (each.timeout_seconds is None) == (each.name == "night of a namespace")
