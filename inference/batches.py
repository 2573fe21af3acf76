"""Asking in Message Batches: handed over together at half the price, and answered within a day.

A prompt that is under way in a batch is not asked a second time: whoever comes later, in whichever mode, finds it by
its key in the ledger, which is also what the provider calls it by, and waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic

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

from .batch_submission import GONE, BatchApi, BatchFailure, BatchResult, Submission, parts_of
from .budget import RateLimit
from .failures import Failure, Kind, fatal_error
from .remote import CallOutcome
from .request_batch import PendingPrompt, RequestBatch, T

REQUESTS_PER_BATCH = 1000
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


def _nobody(batch: SubmittedBatch, known: Mapping[str, LedgerEntry]) -> dict[str, PendingPrompt]:
    """The prompts of a batch as far as they are known without their text."""
    return {
        key: PendingPrompt(
            LedgerEntry(key, batch.provider, batch.model, batch.role, name, text, batch.schema_hash),
            Prompt(name, str, str),
            (),
            known.get(key),
        )
        for key, name, text in zip(batch.keys, batch.prompt_names, batch.prompt_hashes, strict=True)
    }


MOST_LISTED = 3


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
        self._api = BatchApi(request_batch.client.open(), settings.timeout_s)
        self._submission = Submission(request_batch, self._api, settings.transient_retries, rate_limit, now)

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
        return await self._submission.kept(batch) if _is_awaited(batch, waiting) else batch

    async def _hand_over(self, this_round: Round, taken: Sequence[PendingPrompt]) -> None:
        client, model = self._request_batch.client, self._request_batch.model
        requests = [{"custom_id": each.key, "params": await client.request_of(each.prompt, model)} for each in taken]
        for part in parts_of(requests, REQUESTS_PER_BATCH):
            if this_round.is_down or this_round.stopped_by is not None:
                for each in taken[part]:
                    self._request_batch.skip(this_round.waiting.pop(each.key))
                continue
            try:
                this_round.batches.append(await self._submission.hand_over(taken[part], requests[part]))
            except BatchFailure as failed:
                this_round.is_down = failed.failure.kind is Kind.TRANSIENT
                for each in taken[part]:
                    await self._failed(this_round, this_round.waiting.pop(each.key), failed.failure)

    async def _wait(self, this_round: Round) -> None:
        """Collect batches until no prompt waits, or the longest wait is over."""
        deadline = self._rate_limit.clock() + LONGEST_WAIT_S
        while True:
            this_round.pause_s = self._settings.batch_poll_s
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
                self._give_up(this_round, missed)
                return
            await self._rate_limit.pause(min(left, this_round.pause_s))

    async def _looked_after(self, this_round: Round, batch: SubmittedBatch) -> list[SubmittedBatch]:
        """One batch, as far as it goes now; nothing when it is done. Trouble that passes leaves it as it is."""
        keys = batch.keys  # a closed row comes without them
        try:
            batch = await self._submission.settled(batch)
            if batch.state == SUBMITTED:
                return await self._collected(this_round, batch)
        except BatchFailure as failed:
            return await self._in_trouble(this_round, batch, failed.failure)
        if batch.state in OPEN_BATCH:
            return [batch]
        this_round.ask_again(keys)
        return []

    async def _collected(self, this_round: Round, batch: SubmittedBatch) -> list[SubmittedBatch]:
        if not (await self._api.look(batch.batch_id)).has_ended:
            return [batch]
        await self._take_in(this_round, batch, await self._api.results(batch.batch_id))
        await self._submission.kept(batch, COLLECTED)
        return []

    async def _take_in(self, this_round: Round, batch: SubmittedBatch, results: Mapping[str, BatchResult]) -> None:
        """Write down what became of each prompt, except what another run wrote down already."""
        books = self._request_batch.books
        written = await books.call(books.ledger.written_since, batch.keys, batch.begun_at)
        this_round.ask_again(written)
        asked_by_nobody = [key for key in batch.keys if key not in this_round.waiting]
        nobody = _nobody(batch, await books.call(books.ledger.lookup, asked_by_nobody))
        ours = [this_round.waiting.pop(key, nobody[key]) for key in batch.keys if key not in written]
        await asyncio.gather(
            *(self._take_in_one(this_round, each, results.get(each.key, BatchResult())) for each in ours)
        )

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

    async def _take_in_one(self, this_round: Round, pending: PendingPrompt, result: BatchResult) -> None:
        request_batch = self._request_batch
        try:
            if result.message is not None:
                outcome = await request_batch.client.ask(pending.prompt, request_batch.model, result.message)
                this_round.paid += outcome.usage
                await request_batch.keep(pending, outcome)
            elif result.failure is not None:
                await self._failed(this_round, pending, result.failure)
            else:
                request_batch.skip(pending)
        except Exception as error:  # raised when all that was paid is written down
            this_round.stopped_by = this_round.stopped_by or error

    async def _in_trouble(self, this_round: Round, batch: SubmittedBatch, failure: Failure) -> list[SubmittedBatch]:
        if not _is_awaited(batch, this_round.waiting):
            return []
        if failure.kind is Kind.TRANSIENT:
            this_round.pause_s = max(this_round.pause_s, failure.wait_s)
            return [batch]
        if batch.state == SUBMITTED and failure.status in (0, GONE):  # its results are no longer kept
            await self._submission.kept(batch, LOST)
            this_round.ask_again(batch.keys)
        else:
            this_round.stopped_by = this_round.stopped_by or fatal_error(self._request_batch.client.choice, failure)
        return []

    def _give_up(self, this_round: Round, missed: Sequence[SubmittedBatch]) -> None:
        for each in this_round.waiting.values():
            self._request_batch.skip(each)
        names = [each.batch_id or "one that may not have arrived" for each in missed]
        listed = ", ".join(names[:MOST_LISTED] + (["…"] if len(names) > MOST_LISTED else []))
        self._request_batch.budget.stop(
            f"{sum(len(each.keys) for each in missed)} prompts are still in a batch after "
            f"{LONGEST_WAIT_S / 3600:g} hours: {listed}. The next run goes on with them."
        )


def _is_awaited(batch: SubmittedBatch, waiting: dict[str, PendingPrompt]) -> bool:
    return not waiting.keys().isdisjoint(batch.keys)
