"""Asking in Message Batches: handed over together at half the price, and answered within a day.

A prompt that is under way in a batch is not asked a second time: whoever comes later, in whichever mode, finds it by
its key in the ledger, which is also what the provider calls it by, and waits for it. A batch is never handed over
twice, whenever the process or the connection dies: it is written down before, and again with its id. Where nobody knows
whether it arrived, the account's own list tells what it may be, by time and number of prompts; the keys in the results
tell it, once these have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic

from slowwave.common.records import (
    COLLECTED,
    LOST,
    OPEN_BATCH,
    SUBMITTED,
    SUBMITTING,
    UNSURE,
    LedgerEntry,
    Prompt,
    SubmittedBatch,
    Usage,
)
from slowwave.common.settings import LanguageSettings
from slowwave.common.text import row_id

from .budget import RateLimit
from .failures import Failure, Kind, failure_of, failure_of_item, fatal_error
from .remote import CallOutcome
from .request_batch import PendingPrompt, RequestBatch, T

if TYPE_CHECKING:
    from anthropic.types.messages import MessageBatch

PROVIDER = "anthropic"
CREATE_TIMEOUT_S = 600.0
NOT_FOUND = 404


class BatchFailure(Exception):
    """What went wrong with a request about a batch, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@contextmanager
def _as_failures() -> Iterator[None]:
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


# Asking.


REQUESTS_PER_BATCH = 1000
POLL_S = 30.0
"""Seconds between two looks at a batch."""
LONGEST_WAIT_S = 25 * 3600.0
"""After it the run stops and leaves the batch to the next run; the provider promises an answer within a day."""


@dataclass
class Round:
    """Batches that are waited for together, their prompts that wait, and the results.

    `again` are to be asked once more; `paid` is what the answers cost in the batches; what stops the run is raised at
    the end.
    """

    batches: list[SubmittedBatch]
    waiting: dict[str, PendingPrompt]
    again: list[PendingPrompt] = field(default_factory=list)
    paid: Usage = field(default_factory=Usage)
    stopped_by: Exception | None = None
    is_down: bool = False
    pause_s: float = 0.0

    def ask_again(self, keys: Iterable[str]) -> None:
        """Send again those of these prompts that a caller waits for."""
        self.again += [self.waiting.pop(key) for key in keys if key in self.waiting]


class BatchedPrompts(Generic[T]):
    """Prompts to one model through its batches. `now` is the time of day, the rate limit counts seconds.

    Every paid answer goes to the ledger, also if no prompt waits for it. A malformed one is written down as malformed,
    and a later run asks again.
    """

    def __init__(
        self,
        request_batch: RequestBatch[T],
        settings: LanguageSettings,
        rate_limit: RateLimit,
        now: Callable[[], datetime],
    ) -> None:
        self._request_batch, self._settings, self._rate_limit = request_batch, settings, rate_limit
        self._api, self._now = request_batch.client.open().messages.batches, now
        self._call, self._ledger = request_batch.books.call, request_batch.books.ledger
        self._create_timeout_s = max(settings.timeout_s, CREATE_TIMEOUT_S)

    async def resume(
        self, rest: dict[str, PendingPrompt], open_ones: Sequence[SubmittedBatch]
    ) -> dict[str, PendingPrompt]:
        """Wait for prompts that are under way since earlier, and collect what has ended; those still to be asked.

        Batches of other prompts are collected where they have ended, so that it is known what they cost.
        """
        waiting = {key: rest[key] for batch in open_ones for key in batch.keys if key in rest}
        others = {key: each for key, each in rest.items() if key not in waiting}
        this_round = Round([await self._adopted(batch, waiting) for batch in open_ones], waiting)
        expected = sum((each.expected for each in this_round.batches if _is_awaited(each, waiting)), Usage())
        reserved = self._request_batch.budget.take_on(expected)
        try:
            await self._wait(this_round)
        finally:
            self._request_batch.budget.settle(reserved, this_round.paid)
        return others | await self._request_batch.unanswered({each.key: each for each in this_round.again})

    async def ask(self, rest: Iterable[PendingPrompt]) -> None:
        """Hand over as many prompts as the budget admits, wait for the answers, and go on with the others."""
        request_batch, queue, is_down = self._request_batch, list(rest), False
        while queue:
            reservation, count = (
                (None, 0) if is_down else await request_batch.budget.reserve_many(request_batch.expected(queue))
            )
            if reservation is None:
                for each in queue:
                    request_batch.skip(each)
                return
            this_round = Round([], {each.key: each for each in queue[:count]})
            try:
                await self._hand_over(this_round, queue[:count])
                await self._wait(this_round)
            finally:
                request_batch.budget.settle(reservation, this_round.paid)
            again = await request_batch.unanswered(
                {each.key: each for each in this_round.again}
            )  # another run may have been faster
            queue, is_down = [*again.values(), *queue[count:]], this_round.is_down

    async def _adopted(self, batch: SubmittedBatch, waiting: dict[str, PendingPrompt]) -> SubmittedBatch:
        """The batch, taken over by this run if the run waits for it and no other run is submitting it."""
        if batch.state == SUBMITTING:
            if not batch.is_abandoned:
                return batch
            batch = replace(batch, state=UNSURE)
        return await self._kept(batch) if _is_awaited(batch, waiting) else batch

    async def _hand_over(self, this_round: Round, taken: Sequence[PendingPrompt]) -> None:
        for start in range(0, len(taken), REQUESTS_PER_BATCH):
            part = taken[start : start + REQUESTS_PER_BATCH]
            if this_round.is_down or this_round.stopped_by is not None:
                for each in part:
                    self._request_batch.skip(this_round.waiting.pop(each.key))
                continue
            try:
                this_round.batches.append(await self._submitted(part))
            except BatchFailure as failed:
                this_round.is_down = failed.failure.kind is Kind.TRANSIENT
                for each in part:
                    await self._failed(this_round, this_round.waiting.pop(each.key), failed.failure)

    async def _wait(self, this_round: Round) -> None:
        """Collect batches until no prompt waits, or the longest wait is over."""
        deadline = self._rate_limit.clock() + LONGEST_WAIT_S
        while True:
            this_round.pause_s = POLL_S
            for batch in list(this_round.batches):
                this_round.batches.remove(batch)
                this_round.batches += await self._looked_after(this_round, batch)
            if this_round.stopped_by is not None:
                raise this_round.stopped_by
            missed = [each for each in this_round.batches if _is_awaited(each, this_round.waiting)]
            if not missed:
                return
            left = deadline - self._rate_limit.clock()
            if left <= 0.0:
                for each in this_round.waiting.values():
                    self._request_batch.skip(each)
                listed = ", ".join(batch.batch_id or "one that may not have arrived" for batch in missed)
                self._request_batch.budget.stop(
                    f"{sum(len(batch.keys) for batch in missed)} prompts are still in a batch after "
                    f"{LONGEST_WAIT_S / 3600:g} hours: {listed}. The next run goes on with them."
                )
                return
            await self._rate_limit.pause(min(left, this_round.pause_s))

    async def _looked_after(self, this_round: Round, batch: SubmittedBatch) -> list[SubmittedBatch]:
        """One batch, as far as it goes now; nothing when it is done. Trouble that passes leaves it as it is."""
        keys = batch.keys  # a closed row comes without them
        try:
            batch = await self._settled(batch)
            if batch.state == SUBMITTED:
                with _as_failures():
                    listed = await self._api.retrieve(batch.batch_id)
                if not _has_ended(listed):
                    return [batch]
                await self._take_in(this_round, batch, await self._results(batch.batch_id))
                await self._kept(batch, COLLECTED)
                return []
        except BatchFailure as failed:
            return await self._in_trouble(this_round, batch, failed.failure)
        if batch.state in OPEN_BATCH:
            return [batch]
        this_round.ask_again(keys)
        return []

    async def _take_in(self, this_round: Round, batch: SubmittedBatch, results: Mapping[str, Any]) -> None:
        """Write down what became of each prompt, except what another run wrote down already."""
        known = await self._call(self._ledger.lookup, batch.keys)
        written = {key for key, entry in known.items() if entry.is_final}
        this_round.ask_again(written)
        nobody = {  # the prompts as far as they are known without their text
            key: PendingPrompt(
                LedgerEntry(key, batch.provider, batch.model, batch.role, name, text, batch.schema_hash),
                Prompt(name, str, str),
                (),
                known.get(key),
            )
            for key, name, text in zip(batch.keys, batch.prompt_names, batch.prompt_hashes, strict=True)
        }
        ours = [this_round.waiting.pop(key, nobody[key]) for key in batch.keys if key not in written]
        await asyncio.gather(*(self._take_in_one(this_round, each, results.get(each.key)) for each in ours))

    async def _failed(self, this_round: Round, pending: PendingPrompt, failure: Failure) -> None:
        """A prompt that was not answered, ended as it would have alone."""
        if failure.kind is Kind.FATAL:
            this_round.stopped_by = this_round.stopped_by or fatal_error(self._request_batch.client.choice, failure)
        elif failure.kind is Kind.UNFORCED:
            self._request_batch.client.unforce()
            this_round.again.append(pending)
        else:
            is_transient = failure.kind is Kind.TRANSIENT
            await self._request_batch.keep(pending, CallOutcome(None, failure.reason, Usage(), 1, is_transient))

    async def _take_in_one(self, this_round: Round, pending: PendingPrompt, result: Any) -> None:
        request_batch, kind = self._request_batch, getattr(result, "type", "expired")
        try:
            if kind == "succeeded":
                outcome = request_batch.client.read(result.message, request_batch.model)
                this_round.paid += outcome.usage
                await request_batch.keep(pending, outcome)
            elif kind == "errored":
                error = result.error.error
                await self._failed(this_round, pending, failure_of_item(error.type, error.message))
            else:  # expired or canceled
                request_batch.skip(pending)
        except Exception as error:  # raised when all that was paid is written down
            this_round.stopped_by = this_round.stopped_by or error

    async def _in_trouble(self, this_round: Round, batch: SubmittedBatch, failure: Failure) -> list[SubmittedBatch]:
        if not _is_awaited(batch, this_round.waiting):
            return []
        if failure.kind is Kind.TRANSIENT:
            this_round.pause_s = max(this_round.pause_s, failure.wait_s)
            return [batch]
        if batch.state == SUBMITTED and failure.status in (0, NOT_FOUND):  # its results are no longer kept
            await self._kept(batch, LOST)
            this_round.ask_again(batch.keys)
        else:
            this_round.stopped_by = this_round.stopped_by or fatal_error(self._request_batch.client.choice, failure)
        return []

    # Handing over.

    async def _submitted(self, taken: Sequence[PendingPrompt]) -> SubmittedBatch:
        """The batch with its id, or unsure; raises `BatchFailure` where it could not be handed over."""
        client, model = self._request_batch.client, self._request_batch.model
        requests = [{"custom_id": each.key, "params": client.request_of(each.prompt, model)} for each in taken]
        batch, failures = await self._kept(self._batch_of(taken)), 0
        try:
            while True:
                await self._rate_limit.resumed()
                try:
                    with _as_failures():
                        created = await self._api.create(requests=requests, timeout=self._create_timeout_s)
                    return await self._kept(batch, SUBMITTED, created.id)
                except BatchFailure as failed:
                    failure = failed.failure
                    may_have_arrived = failure.kind is Kind.TRANSIENT and failure.status not in REFUSED_BEFORE
                    if may_have_arrived and await self._may_be_there(batch):
                        return await self._kept(batch, UNSURE)
                    if not failure.may_pass(failures, self._settings.transient_retries):
                        await self._kept(batch, LOST)
                        raise
                    failures += 1
                    await self._rate_limit.recover(failure.wait_s, failures)
        except BatchFailure:
            raise
        except BaseException:
            await asyncio.shield(self._kept(batch, UNSURE))
            raise

    async def _settled(self, batch: SubmittedBatch) -> SubmittedBatch:
        """The batch in its present state; one that may not have arrived has its id now, is lost, or is waited for."""
        if batch.state in (SUBMITTING, UNSURE):
            newest = {each.id: each for each in await self._call(self._ledger.batches)}  # from any run
            batch = newest.get(batch.id, batch)
            if batch.state == SUBMITTING and batch.is_abandoned:
                batch = replace(batch, state=UNSURE)
        if batch.state != UNSURE:
            return batch
        fitting = await self._fitting(batch)
        for listed in fitting:
            if _has_ended(listed) and await self._is_of(listed.id, batch):
                return await self._kept(batch, SUBMITTED, listed.id)
        return batch if not all(map(_has_ended, fitting)) else await self._kept(batch, LOST)

    async def _is_of(self, batch_id: str, batch: SubmittedBatch) -> bool:
        try:
            keys = (await self._results(batch_id)).keys()
        except BatchFailure as failed:
            if failed.failure.status != NOT_FOUND:
                raise
            return False
        return bool(keys) and keys <= set(batch.keys)

    async def _kept(self, batch: SubmittedBatch, state: str = "", batch_id: str = "") -> SubmittedBatch:
        """The batch, written down in this state and with this id."""
        changed = replace(batch, state=state or batch.state, batch_id=batch_id or batch.batch_id)
        await self._call(self._ledger.keep_batch, changed)
        return changed

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

    async def _may_be_there(self, batch: SubmittedBatch) -> bool:
        """Whether it can have arrived; where the list cannot be had, that is found out later."""
        try:
            return bool(await self._fitting(batch))
        except BatchFailure:
            return True

    async def _fitting(self, batch: SubmittedBatch) -> list[MessageBatch]:
        """The batches of the account that it can be, by their times and sizes, oldest first."""
        known = {each.batch_id for each in await self._call(self._ledger.batches) if each.id != batch.id}
        earliest, latest = batch.begun_at - SKEW, batch.begun_at + ARRIVES_WITHIN
        found: list[MessageBatch] = []
        with _as_failures():
            async for listed in self._api.list(limit=100):  # the newest come first
                if listed.created_at < earliest:
                    break
                counts = listed.request_counts
                size = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
                is_as_large = size == len(batch.keys)
                if is_as_large and listed.created_at <= latest and listed.id not in known:
                    found.insert(0, listed)
        return found

    async def _results(self, batch_id: str) -> dict[str, Any]:
        """What became of each prompt of a batch that has ended, by its key."""
        with _as_failures():
            return {item.custom_id: item.result async for item in await self._api.results(batch_id)}


def _has_ended(listed: MessageBatch) -> bool:
    return listed.processing_status == "ended"


def _is_awaited(batch: SubmittedBatch, waiting: dict[str, PendingPrompt]) -> bool:
    return not waiting.keys().isdisjoint(batch.keys)
