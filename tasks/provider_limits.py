"""Limits on requests to providers as global concurrency limits of Prefect; imported only where it may be the engine.

All runs on one server share them, as their keys share one account.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.asyncio import rate_limit
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.utilities.asyncutils import run_coro_as_sync

log = logging.getLogger("slowwave")

LOOKS_EVERY_S = 60.0  # so soon a limit that somebody makes, or deletes, is heard of
PARTS_AT_ONCE = 30  # of the calls of a minute, one may go out at once


class PrefectLimits:
    """The limits `slowwave-calls-PROVIDER` and `slowwave-embedding-PROVIDER`, each of so many requests with a decay.

    One of calls is made from the setting `calls_per_minute` where it is not there; what people make of it stays.
    """

    def __init__(self) -> None:
        self._looked: dict[str, tuple[float, bool]] = {}

    async def wait_for_call(self, provider: str, calls_per_minute: int) -> None:
        """Take one slot of the provider's limit of calls, if it has one."""
        await self._wait(f"slowwave-calls-{provider}", calls_per_minute)

    def wait_for_embedding(self, provider: str) -> None:
        """Take one slot of the provider's limit of requests for vectors, if it has one."""
        run_coro_as_sync(self._wait(f"slowwave-embedding-{provider}", 0))

    async def _wait(self, name: str, per_minute: int) -> None:
        try:
            if await self._is_there(name, per_minute):
                await rate_limit(name)
        except Exception as error:  # the server is gone: the run's own pace holds, and what the provider refuses
            log.warning("The limit %s could not be asked: %s", name, error)
            self._looked[name] = (time.monotonic(), False)

    async def _is_there(self, name: str, per_minute: int) -> bool:
        looked, is_there = self._looked.get(name, (float("-inf"), False))
        if time.monotonic() - looked > LOOKS_EVERY_S:
            is_there = await _find_or_make(name, per_minute)
            self._looked[name] = (time.monotonic(), is_there)
        return is_there


async def _find_or_make(name: str, per_minute: int) -> bool:
    async with get_client() as client:
        try:
            found = await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            if not per_minute:
                return False
            with suppress(ObjectAlreadyExists):  # another run was faster
                await client.create_global_concurrency_limit(limit_of(name, per_minute))
            return True
        return bool(found.active and found.slot_decay_per_second)


def limit_of(name: str, per_minute: int) -> GlobalConcurrencyLimitCreate:
    """A limit that admits so many requests in any minute, spread over it."""
    at_once = max(1, per_minute // PARTS_AT_ONCE)
    decay = max(per_minute - at_once, 0.5) / 60.0
    return GlobalConcurrencyLimitCreate(name=name, limit=at_once, slot_decay_per_second=decay)
