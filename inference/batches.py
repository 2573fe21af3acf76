"""Asking in Message Batches: handed over together at half the price, and answered within a day.

A prompt that is under way in a batch is not asked a second time: whoever comes later, in whichever mode, finds it by
its key in the ledger, which is also what the provider calls it by, and waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Generic

from inference.answers import T
from inference.batch_api import GONE, BatchApi, BatchFailure, parts_of
from inference.batch_results import Results, Round
from inference.batch_submission import Submission
from inference.desk import Desk, Pending
from inference.failures import Failure, Kind, fatal_error
from inference.pace import Pace
from slowwave.records import ARRIVED, COLLECTED, LOST, OPEN_BATCH, SUBMITTING, UNSURE, SubmittedBatch, Usage
from slowwave.settings import LanguageSettings

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
