"""Handing a batch over so that it is never handed over twice, whenever the process or the connection dies.

It is written down before, and again with its id. Where nobody knows whether it arrived, the account's own list tells
what it may be, by time and number of prompts; the keys in the results tell it, once these have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic

from slowwave.common.records import LOST, SUBMITTED, SUBMITTING, UNSURE, SubmittedBatch, Usage
from slowwave.common.text import as_json, row_id

from .budget import RateLimit
from .failures import Failure, Kind, failure_of, failure_of_item
from .request_batch import PendingPrompt, RequestBatch, T

# The Message Batches of one Anthropic account, as this project needs them: handed over, found, looked at, read.


PROVIDER = "anthropic"
MOST_BYTES = 200_000_000  # of 256 MB that a batch may have
CREATE_TIMEOUT_S = 600.0
GONE = 404


@dataclass(frozen=True, slots=True)
class Listed:
    """One batch of the account: when it came, how many prompts it has, and whether all of them have ended."""

    id: str
    created_at: datetime
    total: int
    has_ended: bool


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one prompt: a `message`, a `failure`, or neither (expired, canceled)."""

    message: Any = None
    failure: Failure | None = None


class BatchFailure(Exception):
    """What went wrong with a request about a batch, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class BatchApi:
    """Every method raises `BatchFailure` and nothing else, and tries once."""

    def __init__(self, sdk: Any, timeout_s: float) -> None:
        self._batches, self._timeout_s = sdk.messages.batches, timeout_s

    async def create(self, requests: Sequence[Mapping[str, Any]]) -> Listed:
        """Hand these over together; each is `custom_id` and `params`."""
        with _told_as_failures():
            timeout_s = max(self._timeout_s, CREATE_TIMEOUT_S)
            return _listed(await self._batches.create(requests=requests, timeout=timeout_s))

    async def look(self, batch_id: str) -> Listed:
        """How far it is."""
        with _told_as_failures():
            return _listed(await self._batches.retrieve(batch_id))

    async def results(self, batch_id: str) -> dict[str, BatchResult]:
        """What became of each prompt, by its custom id; the batch must have ended."""
        with _told_as_failures():
            stream = await self._batches.results(batch_id)
            return {item.custom_id: _result(item.result) async for item in stream}

    async def since(self, moment: datetime) -> list[Listed]:
        """The batches of the account that were handed over since then, oldest first."""
        found: list[Listed] = []
        with _told_as_failures():
            async for batch in self._batches.list(limit=100):
                if batch.created_at < moment:
                    break
                found.append(_listed(batch))
        return found[::-1]


def parts_of(requests: Sequence[dict[str, Any]], most: int) -> Iterator[slice]:
    """Where to cut so that no batch has more requests than `most`, or is larger than a batch may be."""
    start = size = 0
    for number, request in enumerate(requests):
        length = len(as_json(request).encode())
        if number > start and (number - start == most or size + length > MOST_BYTES):
            yield slice(start, number)
            start, size = number, 0
        size += length
    if start < len(requests):
        yield slice(start, len(requests))


def _listed(batch: Any) -> Listed:
    counts = batch.request_counts
    total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
    return Listed(batch.id, batch.created_at, total, batch.processing_status == "ended")


def _result(result: Any) -> BatchResult:
    if result.type == "succeeded":
        return BatchResult(result.message)
    if result.type == "errored":
        error = result.error.error
        return BatchResult(failure=failure_of_item(error.type, error.message))
    return BatchResult()


@contextmanager
def _told_as_failures() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise BatchFailure(failure_of(error, "", is_answered=False, is_empty=False)) from error


SKEW = timedelta(minutes=5)
"""By how much the provider's clock may differ from ours."""
ARRIVES_WITHIN = timedelta(minutes=30)
"""How long after it was begun a batch may still arrive, all tries included."""
REFUSED_BEFORE = frozenset({408, 409, 425, 429})
"""Passing trouble after which a request has surely had no effect."""


class Submission(Generic[T]):
    """Batches on their way to the provider. `now` is the time of day, the rate limit counts seconds."""

    def __init__(
        self,
        request_batch: RequestBatch[T],
        api: BatchApi,
        retries: int,
        rate_limit: RateLimit,
        now: Callable[[], datetime],
    ) -> None:
        self._request_batch, self._api, self._retries = request_batch, api, retries
        self._rate_limit, self._now = rate_limit, now
        self._call, self._ledger = request_batch.books.call, request_batch.books.ledger

    async def hand_over(self, taken: Sequence[PendingPrompt], requests: Sequence[Mapping[str, Any]]) -> SubmittedBatch:
        """The batch with its id, or unsure; raises `BatchFailure` where it could not be handed over."""
        batch = await self.kept(self._batch_of(taken))
        try:
            return await self._created(batch, requests)
        except BatchFailure:
            raise
        except BaseException:
            await asyncio.shield(self.kept(batch, UNSURE))
            raise

    async def settled(self, batch: SubmittedBatch) -> SubmittedBatch:
        """The batch in its present state; one that may not have arrived has its id now, is lost, or is waited for."""
        if batch.state in (SUBMITTING, UNSURE):
            batch = await self._as_kept(batch)
            if batch.state == SUBMITTING and batch.is_abandoned:
                batch = replace(batch, state=UNSURE)
        if batch.state != UNSURE:
            return batch
        fitting = await self._fitting(batch)
        for listed in fitting:
            if listed.has_ended and await self._is_of(listed.id, batch):
                return await self.kept(batch, SUBMITTED, listed.id)
        return batch if not all(listed.has_ended for listed in fitting) else await self.kept(batch, LOST)

    async def _is_of(self, batch_id: str, batch: SubmittedBatch) -> bool:
        try:
            keys = (await self._api.results(batch_id)).keys()
        except BatchFailure as failed:
            if failed.failure.status != GONE:
                raise
            return False
        return bool(keys) and keys <= set(batch.keys)

    async def kept(self, batch: SubmittedBatch, state: str = "", batch_id: str = "") -> SubmittedBatch:
        """The batch, written down in this state and with this id."""
        changed = replace(batch, state=state or batch.state, batch_id=batch_id or batch.batch_id)
        await self._call(self._ledger.keep_batch, changed)
        return changed

    async def _as_kept(self, batch: SubmittedBatch) -> SubmittedBatch:
        """The last stored row of the batch, from any run."""
        newest = {each.id: each for each in await self._call(self._ledger.batches)}
        return newest.get(batch.id, batch)

    def _batch_of(self, taken: Sequence[PendingPrompt]) -> SubmittedBatch:
        request_batch, now = self._request_batch, self._now()
        expected = sum(request_batch.expected(taken), Usage())
        keys = tuple(each.key for each in taken)
        return SubmittedBatch(
            id=row_id("batch", keys, now.isoformat()),
            provider=request_batch.client.choice.provider,
            model=request_batch.client.choice.model,
            role=request_batch.role,
            schema_hash=request_batch.schema_hash,
            state=SUBMITTING,
            keys=keys,
            prompt_names=tuple(each.blank.prompt_name for each in taken),
            prompt_hashes=tuple(each.blank.prompt_hash for each in taken),
            begun_at=now,
            tokens_in=expected.tokens_in,
            tokens_out=expected.tokens_out,
            usd=expected.usd,
        )

    async def _created(self, batch: SubmittedBatch, requests: Sequence[Mapping[str, Any]]) -> SubmittedBatch:
        failures = 0
        while True:
            await self._rate_limit.resumed()
            try:
                return await self.kept(batch, SUBMITTED, (await self._api.create(requests)).id)
            except BatchFailure as failed:
                if _may_have_arrived(failed.failure) and await self._may_be_there(batch):
                    return await self.kept(batch, UNSURE)
                if not failed.failure.may_pass(failures, self._retries):
                    await self.kept(batch, LOST)
                    raise
                failures += 1
                await self._rate_limit.recover(failed.failure.wait_s, failures)

    async def _may_be_there(self, batch: SubmittedBatch) -> bool:
        """Whether it can have arrived; where the list cannot be had, it is left to a later run to find out."""
        try:
            return bool(await self._fitting(batch))
        except BatchFailure:
            await self.kept(batch, UNSURE)
            raise

    async def _fitting(self, batch: SubmittedBatch) -> list[Listed]:
        """The batches of the account that it can be, by their times and sizes."""
        known = {each.batch_id for each in await self._call(self._ledger.batches) if each.id != batch.id}
        latest = batch.begun_at + ARRIVES_WITHIN
        return [
            listed
            for listed in await self._api.since(batch.begun_at - SKEW)
            if listed.total == len(batch.keys) and listed.created_at <= latest and listed.id not in known
        ]


def _may_have_arrived(failure: Failure) -> bool:
    """Whether the request may have succeeded without an answer."""
    return failure.kind is Kind.TRANSIENT and failure.status not in REFUSED_BEFORE
