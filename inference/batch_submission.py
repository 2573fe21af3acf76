"""Handing a batch over so that it is never handed over twice, whenever the process or the connection dies.

It is written down before, and again with its id. Where nobody knows whether it arrived, the account's own list tells:
by time and number of prompts while it is being answered, by the keys in its results when it has ended. Until then one
of the list may be waited for by several that it could be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic

from slowwave.records import (
    ARRIVED,
    FOREIGN,
    FOUND,
    LOST,
    OPEN_BATCH,
    SUBMITTED,
    SUBMITTING,
    UNSURE,
    SubmittedBatch,
    Usage,
)
from slowwave.text import as_json, row_id

from .failures import Failure, Kind, failure_of, failure_of_item
from .rate_limits import RateLimit
from .remote import LONGEST_RETRY_AFTER_S
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
        try:
            return _listed(
                await self._batches.create(requests=requests, timeout=max(self._timeout_s, CREATE_TIMEOUT_S))
            )
        except Exception as error:
            raise _failure(error) from error

    async def look(self, batch_id: str) -> Listed:
        """How far it is."""
        try:
            return _listed(await self._batches.retrieve(batch_id))
        except Exception as error:
            raise _failure(error) from error

    async def results(self, batch_id: str) -> dict[str, BatchResult]:
        """What became of each prompt, by its custom id; the batch must have ended."""
        try:
            stream = await self._batches.results(batch_id)
            return {item.custom_id: _result(item.result) async for item in stream}
        except Exception as error:
            raise _failure(error) from error

    async def since(self, moment: datetime) -> list[Listed]:
        """The batches of the account that were handed over since then, oldest first."""
        found: list[Listed] = []
        try:
            async for batch in self._batches.list(limit=100):
                if batch.created_at < moment:
                    break
                found.append(_listed(batch))
        except Exception as error:
            raise _failure(error) from error
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


def _failure(error: Exception) -> BatchFailure:
    return BatchFailure(failure_of(error, "", is_answered=False, is_empty=False))


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
        self._request_batch, self._api, self._retries, self._rate_limit, self._now = (
            request_batch,
            api,
            retries,
            rate_limit,
            now,
        )

    async def hand_over(self, taken: Sequence[PendingPrompt], requests: Sequence[Mapping[str, Any]]) -> SubmittedBatch:
        """The batch with its id; raises `BatchFailure` where it could not be handed over."""
        batch = await self.kept(self._batch_of(taken))
        try:
            return await self._created(batch, requests)
        except BatchFailure:
            raise
        except BaseException:
            await asyncio.shield(self.kept(batch, UNSURE))
            raise

    async def settled(self, batch: SubmittedBatch) -> SubmittedBatch:
        """The batch in its present state; one that may not have arrived has its id now, or is lost."""
        if batch.state in (SUBMITTING, UNSURE):
            batch = await self._as_kept(batch)
            if batch.state == SUBMITTING and batch.is_abandoned:
                batch = replace(batch, state=UNSURE)
        if batch.state != UNSURE:
            return batch
        return await self._found(batch) or await self.kept(batch, LOST)

    async def disowned(self, batch: SubmittedBatch, keys: Set[str]) -> SubmittedBatch:
        """A batch whose id turned out to be another's, by the keys in its results: without it, or with its right one.

        The id goes to the batch that it belongs to; if there is none, it is written down as somebody else's.
        """
        others = [each for each in await self._request_batch.books.batches() if each.id != batch.id]
        if not any(each.batch_id == batch.batch_id and each.state != FOUND for each in others):
            fitting = [each for each in others if each.state in OPEN_BATCH and each.state != SUBMITTED]
            right = next((each for each in fitting if keys and keys <= set(each.keys)), None)
            if right is not None:
                await self.kept(right, SUBMITTED, batch.batch_id)
            else:
                await self.kept(_foreign(batch))
        now = await self._as_kept(batch)
        if now.batch_id != batch.batch_id and now.state in ARRIVED:  # somebody handed it the right one
            return now
        return await self.kept(replace(batch, batch_id="", state=UNSURE))

    async def kept(self, batch: SubmittedBatch, state: str = "", batch_id: str = "") -> SubmittedBatch:
        """The batch, written down in this state and with this id."""
        changed = replace(batch, state=state or batch.state, batch_id=batch_id or batch.batch_id)
        await self._request_batch.books.keep_batch(changed)
        return changed

    async def _as_kept(self, batch: SubmittedBatch) -> SubmittedBatch:
        """The last stored row of the batch, from any run."""
        newest = {each.id: each for each in await self._request_batch.books.batches()}
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
        may_be_there = False
        while True:
            await self._rate_limit.resumed()
            now = await self._as_kept(batch)
            if now.state != SUBMITTING:  # somebody took this process for dead while it waited
                return _taken_over(now)
            try:
                return await self.kept(batch, SUBMITTED, (await self._api.create(requests)).id)
            except BatchFailure as failed:
                failures += 1
                may_be_there |= _may_have_arrived(failed.failure)
                found = await self._looked_for(batch) if may_be_there else None
                if found is not None:
                    return found
                if not self._may_try_again(failed.failure, failures):
                    await self.kept(batch, LOST)
                    raise
                await self._back_off(failed.failure, failures)

    async def _looked_for(self, batch: SubmittedBatch) -> SubmittedBatch | None:
        """The batch if it arrived; where the list cannot be had either, it is left to a later run to find out."""
        failures = 0
        while True:
            try:
                return await self._found(batch)
            except BatchFailure as failed:
                failures += 1
                if not self._may_try_again(failed.failure, failures):
                    await self.kept(batch, UNSURE)
                    raise
                await self._back_off(failed.failure, failures)

    def _may_try_again(self, failure: Failure, failures: int) -> bool:
        """As in live mode: a server that asks for a longer pause is left to a later run."""
        is_due = failures <= self._retries and failure.wait_s <= LONGEST_RETRY_AFTER_S
        return failure.kind is Kind.TRANSIENT and is_due

    async def _back_off(self, failure: Failure, failures: int) -> None:
        if failure.wait_s:
            self._rate_limit.hold(failure.wait_s)
            await self._rate_limit.resumed()
        else:
            await self._rate_limit.back_off(failures)

    async def _found(self, batch: SubmittedBatch) -> SubmittedBatch | None:
        """The batch with its id, if the account has one that can be it; none if it never arrived."""
        others = [each for each in await self._request_batch.books.batches() if each.id != batch.id]
        known = {each.batch_id for each in others if each.state != FOUND}
        guessed = {each.batch_id for each in others if each.state == FOUND}
        latest = batch.begun_at + ARRIVES_WITHIN
        fitting = [
            listed.id
            for listed in await self._api.since(batch.begun_at - SKEW)
            if listed.total == len(batch.keys) and listed.created_at <= latest and listed.id not in known
        ]
        if not fitting:
            return None
        return await self.kept(batch, FOUND, min(fitting, key=lambda id: id in guessed))


def _foreign(batch: SubmittedBatch) -> SubmittedBatch:
    """The row that marks the id of this batch as one of another store."""
    id = row_id("batch", FOREIGN, batch.batch_id)
    nothing = replace(batch, id=id, keys=(), prompt_names=(), prompt_hashes=(), tokens_in=0, tokens_out=0, usd=0.0)
    return replace(nothing, state=FOREIGN)


def _taken_over(batch: SubmittedBatch) -> SubmittedBatch:
    """The batch, for which this run waits from now on; if it never arrived, the other run sends its prompts again."""
    if batch.state in OPEN_BATCH:
        return batch
    raise BatchFailure(Failure(Kind.TRANSIENT, "another run took over the batch before it was handed over"))


def _may_have_arrived(failure: Failure) -> bool:
    """Whether the request may have succeeded without an answer."""
    return failure.kind is Kind.TRANSIENT and failure.status not in REFUSED_BEFORE
