"""Taking in what a batch brought: every answer that was paid goes to the ledger, also those that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from inference.answers import T
from inference.batch_api import Result
from inference.budget import Reservation
from inference.desk import Desk, Pending
from inference.failures import Failure, Kind, fatal_error
from inference.remote import Outcome
from slowwave.records import LedgerEntry, Prompt, SubmittedBatch, Usage

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
