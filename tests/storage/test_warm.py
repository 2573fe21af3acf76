"""Several reads of a question are made together; where one fails, none of the others is left behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest

from storage.residents import Resident
from storage.warm import Tables


async def nothing(name: str, version: int) -> Any:
    raise AssertionError(name)


QUERIES = Tables({}, {}, nothing)
IN_MEMORY = Tables({}, {}, nothing, residents={"facts": cast(Resident, None)})


class Failed(Exception):
    """What a read ends with here."""


async def fails() -> None:
    await asyncio.sleep(0)
    raise Failed


async def nothing_found() -> None:
    await asyncio.sleep(0)


@pytest.fixture(params=[QUERIES, IN_MEMORY], ids=["queries", "in memory"])
def tables(request: pytest.FixtureRequest) -> Tables:
    return cast(Tables, request.param)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """What it gives, if nothing warns of work that nobody waited for."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            return asyncio.run(work)
        finally:
            gc.collect()
            warned = [str(each.message) for each in found]  # what other tests left behind may warn, too
            assert [each for each in warned if "never awaited" in each or "was destroyed" in each] == []


def test_no_read_goes_on_after_another_failed(tables: Tables) -> None:
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("never")

    async def ask() -> None:
        with suppress(Failed):
            await tables.together(fails(), never(), never())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(ask())
    assert ended == ([] if tables.residents else ["never", "never"])


def test_who_is_no_longer_waited_for_leaves_nothing_behind(tables: Tables) -> None:
    async def ask() -> None:
        asked = asyncio.create_task(tables.together(asyncio.Event().wait(), nothing_found(), nothing_found()))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(ask())
