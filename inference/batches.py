"""Asking in Message Batches: handed over together at half the price, and answered within a day.

A prompt that is under way in a batch is not asked a second time: whoever comes later, in whichever mode, finds it by
its key in the ledger, which is also what the provider calls it by, and waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic

from slowwave.records import (
    ARRIVED,
    COLLECTED,
    LOST,
    OPEN_BATCH,
    SUBMITTING,
    UNSURE,
    LedgerEntry,
    Prompt,
    SubmittedBatch,
    Usage,
)
from slowwave.settings import LanguageSettings

from .batch_submission import GONE, BatchApi, BatchFailure, Result, Submission, parts_of
from .budget import Reservation
from .failures import Failure, Kind, fatal_error
from .rate_limits import Pace
from .remote import Outcome
from .request_batch import Desk, Pending, T

# Taking in what a batch brought: every answer that was paid goes to the ledger, also those that nobody waits for.


TOGETHER = 64
"""Answers that are taken in between two looks at what another run has written down meanwhile."""


@dataclass
class Round:
    """Batches that are waited for together, the prompts among theirs that somebody waits for, and what became of them.

    `again` are to be asked once more; `paid` is what the answers cost in the batches; what stops the run is raised at
    the end. `is_resumed` says that an earlier run handed them over, which may still wait for them too.
    """

    batches: list[SubmittedBatch]
    waiting: dict[str, Pending]
    again: list[Pending] = field(default_factory=list)
    paid: Usage = field(default_factory=Usage)
    stopped_by: Exception | None = None
    is_down: bool = False
    pause_s: float = 0.0
    is_resumed: bool = False

    def ask_again(self, keys: Iterable[str]) -> None:
        """Those of these that somebody waits for are asked once more."""
        self.again += [self.waiting.pop(key) for key in keys if key in self.waiting]


class Results(Generic[T]):
    """Answers of batches on their way to the ledger, and to those who wait for them.

    A malformed answer is sent back once to be corrected, live and at the full price, as in live mode: the few that are
    would otherwise hold up everything else for another day. Where the budget has no room for it, or nobody waits, it is
    written down as malformed, and a later run asks again.
    """

    def __init__(self, desk: Desk[T], workers: int) -> None:
        self._desk, self._repairs = desk, asyncio.Semaphore(workers)

    async def take_in(self, asked: Round, batch: SubmittedBatch, results: Mapping[str, Result]) -> None:
        """Write down what became of each prompt, except what another run wrote down already.

        Of two runs that wait for one batch, the one that came later begins at its end: they meet, and do not race.
        """
        books = self._desk.books
        known = await books.lookup([key for key in batch.keys if key not in asked.waiting])
        nobody = _nobody(batch, known)
        keys = batch.keys[::-1] if asked.is_resumed else batch.keys
        for start in range(0, len(keys), TOGETHER):
            some = keys[start : start + TOGETHER]
            written = await books.written_since(some, batch.begun_at)
            asked.ask_again([key for key in some if key in written])
            done = written | {key for key in some if key in known and known[key].is_final}
            ours = [asked.waiting.pop(key, nobody[key]) for key in some if key not in done]
            await asyncio.gather(
                *(self._take_in_one(asked, batch, each, results.get(each.key, Result())) for each in ours)
            )

    async def failed(self, asked: Round, pending: Pending, failure: Failure) -> None:
        """A prompt that was not answered, ended as it would have alone."""
        if failure.kind is Kind.FATAL:
            asked.stopped_by = asked.stopped_by or fatal_error(self._desk.seat.choice, failure)
        elif failure.kind is Kind.UNFORCED:
            self._desk.seat.unforce()
            asked.again.append(pending)
        else:
            is_transient = failure.kind is Kind.TRANSIENT
            await self._desk.keep(pending, Outcome(None, failure.reason, Usage(), 1, is_transient))

    async def _take_in_one(self, asked: Round, batch: SubmittedBatch, pending: Pending, result: Result) -> None:
        try:
            if result.message is not None:
                await self._take_in_answer(asked, batch, pending, result.message)
            elif result.failure is not None:
                await self.failed(asked, pending, result.failure)
            else:
                self._desk.skip(pending)
        except Exception as error:  # raised when all that was paid is written down
            asked.stopped_by = asked.stopped_by or error

    async def _take_in_answer(self, asked: Round, batch: SubmittedBatch, pending: Pending, message: Any) -> None:
        desk = self._desk
        outcome = await desk.seat.ask(pending.prompt, desk.model, message, may_repair=False)
        if not (outcome.is_malformed and pending.indexes):
            if await desk.keep(pending, outcome, unless_since=batch.begun_at):
                asked.paid += outcome.usage
            else:
                asked.again.append(pending)
            return
        async with self._repairs:
            if await desk.books.written_since([pending.key], batch.begun_at):  # another run was faster
                asked.again.append(pending)
                return
            asked.paid += outcome.usage
            reservation = await desk.budget.reserve_at_once(desk.estimate(pending))
            if reservation is not None:
                outcome = await self._repaired(pending, message, outcome, reservation)
            await desk.keep(pending, outcome)

    async def _repaired(self, pending: Pending, message: Any, malformed: Outcome, reservation: Reservation) -> Outcome:
        desk, spent = self._desk, Usage()
        try:
            outcome = await desk.seat.ask(pending.prompt, desk.model, message)
            spent = _beyond(outcome.usage, malformed.usage)
            return outcome
        finally:
            desk.budget.settle(reservation, spent)


def _beyond(whole: Usage, part: Usage) -> Usage:
    """What the whole cost without this part of it."""
    return Usage(
        whole.calls - part.calls,
        0,
        whole.tokens_in - part.tokens_in,
        whole.tokens_out - part.tokens_out,
        whole.usd - part.usd,
    )


def _nobody(batch: SubmittedBatch, known: Mapping[str, LedgerEntry]) -> dict[str, Pending]:
    """The prompts of a batch as far as they are known without their text."""
    return {
        key: Pending(
            LedgerEntry(key, batch.provider, batch.model, batch.role, name, text, batch.schema_hash),
            Prompt(name, "", "", lambda: ""),
            (),
            known.get(key),
        )
        for key, name, text in zip(batch.keys, batch.prompt_names, batch.prompt_hashes, strict=True)
    }


TOLD = 3


class BatchedPrompts(Generic[T]):
    """Prompts to one model through its batches. `now` is the time of day, the pace counts seconds."""

    def __init__(self, desk: Desk[T], settings: LanguageSettings, pace: Pace, now: Callable[[], datetime]) -> None:
        self._desk, self._settings, self._pace = desk, settings, pace
        self._api = BatchApi(desk.seat.open(), settings.timeout_s)
        self._submission = Submission(desk, self._api, settings.transient_retries, pace, now)
        self._results = Results(desk, settings.concurrency)

    async def resume(self, rest: dict[str, Pending], open_ones: Sequence[SubmittedBatch]) -> dict[str, Pending]:
        """Wait for prompts that are under way since earlier, and collect what has ended; those still to be asked.

        Batches of other prompts are collected where they have ended, so that it is known what they cost.
        """
        waiting = {key: rest[key] for batch in open_ones for key in batch.keys if key in rest}
        others = {key: each for key, each in rest.items() if key not in waiting}
        asked = Round([await self._adopted(batch, waiting) for batch in open_ones], waiting, is_resumed=True)
        expected = sum((each.expected for each in asked.batches if _is_awaited(each, waiting)), Usage())
        held = self._desk.budget.take_on(expected)
        try:
            await self._wait(asked)
        finally:
            self._desk.budget.settle(held, asked.paid)
        return others | await self._desk.unanswered({each.key: each for each in asked.again})

    async def ask(self, rest: Iterable[Pending]) -> None:
        """Hand over as many prompts as the budget admits, wait for the answers, and go on with the others."""
        desk, queue, is_down = self._desk, list(rest), False
        while queue:
            reservation, count = (None, 0) if is_down else await desk.budget.reserve_many(desk.expected(queue))
            if reservation is None:
                for each in queue:
                    desk.skip(each)
                return
            asked = Round([], {each.key: each for each in queue[:count]})
            try:
                await self._hand_over(asked, queue[:count])
                await self._wait(asked)
            finally:
                desk.budget.settle(reservation, asked.paid)
            again = await desk.unanswered({each.key: each for each in asked.again})  # another run may have been faster
            queue, is_down = [*again.values(), *queue[count:]], asked.is_down

    async def _adopted(self, batch: SubmittedBatch, waiting: dict[str, Pending]) -> SubmittedBatch:
        """The batch, taken over by this run if it waits for it and nobody is about to hand it over."""
        if batch.state == SUBMITTING:
            if not batch.is_abandoned:
                return batch
            batch = replace(batch, state=UNSURE)
        return await self._submission.kept(batch) if _is_awaited(batch, waiting) else batch

    async def _hand_over(self, asked: Round, taken: Sequence[Pending]) -> None:
        seat, model = self._desk.seat, self._desk.model
        requests = [{"custom_id": each.key, "params": await seat.request_of(each.prompt, model)} for each in taken]
        for part in parts_of(requests, self._settings.batch_requests):
            if asked.is_down or asked.stopped_by is not None:
                for each in taken[part]:
                    self._desk.skip(asked.waiting.pop(each.key))
                continue
            try:
                asked.batches.append(await self._submission.hand_over(taken[part], requests[part]))
            except BatchFailure as failed:
                asked.is_down = failed.failure.kind is Kind.TRANSIENT
                for each in taken[part]:
                    await self._results.failed(asked, asked.waiting.pop(each.key), failed.failure)

    async def _wait(self, asked: Round) -> None:
        """Look after every batch until nobody waits for any, or for as long as the settings say."""
        deadline = self._pace.clock() + self._settings.batch_wait_s
        while True:
            asked.pause_s = self._settings.batch_poll_s
            for batch in list(asked.batches):
                asked.batches.remove(batch)
                asked.batches += await self._looked_after(asked, batch)
            if asked.stopped_by is not None:
                raise asked.stopped_by
            missed = [each for each in asked.batches if _is_awaited(each, asked.waiting)]
            if not missed:
                return
            left = deadline - self._pace.clock()
            if left <= 0.0:
                self._give_up(asked, missed)
                return
            await self._pace.pause(min(left, asked.pause_s))

    async def _looked_after(self, asked: Round, batch: SubmittedBatch) -> list[SubmittedBatch]:
        """One batch, as far as it goes now; nothing when it is done. Trouble that passes leaves it as it is."""
        keys = batch.keys  # a closed row comes without them
        try:
            batch = await self._submission.settled(batch)
            if batch.state in ARRIVED:
                return await self._collected(asked, batch)
        except BatchFailure as failed:
            return await self._in_trouble(asked, batch, failed.failure)
        if batch.state in OPEN_BATCH:
            return [batch]
        asked.ask_again(keys)
        return []

    async def _collected(self, asked: Round, batch: SubmittedBatch) -> list[SubmittedBatch]:
        if not (await self._api.look(batch.batch_id)).has_ended:
            return [batch]
        results = await self._api.results(batch.batch_id)
        if not results or not results.keys() <= set(batch.keys):  # it only looked like ours
            return [await self._submission.disowned(batch, results.keys())]
        await self._results.take_in(asked, batch, results)
        await self._submission.kept(batch, COLLECTED)
        return []

    async def _in_trouble(self, asked: Round, batch: SubmittedBatch, failure: Failure) -> list[SubmittedBatch]:
        if not _is_awaited(batch, asked.waiting):
            return []
        if failure.kind is Kind.TRANSIENT:
            asked.pause_s = max(asked.pause_s, failure.wait_s)
            return [batch]
        if batch.state in ARRIVED and failure.status in (0, GONE):  # its results are no longer kept
            await self._submission.kept(batch, LOST)
            asked.ask_again(batch.keys)
        else:
            asked.stopped_by = asked.stopped_by or fatal_error(self._desk.seat.choice, failure)
        return []

    def _give_up(self, asked: Round, missed: Sequence[SubmittedBatch]) -> None:
        for each in asked.waiting.values():
            self._desk.skip(each)
        names = [each.batch_id or "one that may not have arrived" for each in missed]
        told = ", ".join(names[:TOLD] + (["…"] if len(names) > TOLD else []))
        self._desk.budget.stop(
            f"{sum(len(each.keys) for each in missed)} prompts are still in a batch after "
            f"{self._settings.batch_wait_s:g} seconds (batch_wait_s): {told}. The next run goes on with them."
        )


def _is_awaited(batch: SubmittedBatch, waiting: dict[str, Pending]) -> bool:
    return not waiting.keys().isdisjoint(batch.keys)
