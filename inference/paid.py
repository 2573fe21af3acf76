"""Many prompts to one paid seat: ledger first, then budget, then the call, then the ledger again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, cast

from pydantic import ValidationError

from inference.answers import Answer, Role, T
from inference.budget import Budget
from inference.ledger import Bookkeeper, ledger_key, prompt_hash, schema_hash
from inference.remote import Outcome, RemoteSeat
from slowwave.records import LedgerEntry, Prompt, Usage
from slowwave.text import as_json

UNAVAILABLE_AFTER = 5


class PaidBatch(Generic[T]):
    """One batch: equal prompts are asked once, and a fixed number of workers takes the rest in order.

    After five prompts in a row whose retries were in vain, the provider counts as down and the rest is skipped.
    """

    def __init__(
        self,
        seat: RemoteSeat,
        budget: Budget,
        books: Bookkeeper,
        role: Role,
        response_model: type[T],
        on_answer: Callable[[int, Answer[T]], None],
    ) -> None:
        self._seat, self._budget, self._books = seat, budget, books
        self._role: Role = role
        self._model = response_model
        self._on_answer = on_answer
        self._stopped_by: Exception | None = None
        self._failures_in_a_row = 0
        schema = response_model.model_json_schema()
        self._schema_hash, self._schema_chars = schema_hash(schema), len(as_json(schema))

    async def run(self, prompts: Sequence[Prompt], workers: int) -> None:
        """Answer all prompts through `on_answer`; what stops the run is raised after the calls in flight ended."""
        asked: dict[str, tuple[LedgerEntry, Prompt, list[int]]] = {}
        for index, prompt in enumerate(prompts):
            blank = self._blank(prompt)
            asked.setdefault(blank.id, (blank, prompt, []))[2].append(index)
        known = await self._books.lookup(list(asked))
        for key, entry in known.items():
            replayed = _replayed(entry, self._model)
            if replayed is not None:
                self._finish(asked.pop(key)[2], replayed)
        queue = iter(asked.items())

        async def work() -> None:
            for key, (blank, prompt, indexes) in queue:
                if self._stopped_by is not None:
                    return
                try:
                    await self._ask_one(prompt, indexes, blank, known.get(key))
                except Exception as error:  # raised below, when no paid answer is under way any more
                    self._stopped_by = self._stopped_by or error

        await asyncio.gather(*(work() for _ in range(min(len(asked), workers))))
        if self._stopped_by is not None:
            raise self._stopped_by

    async def _ask_one(
        self, prompt: Prompt, indexes: list[int], blank: LedgerEntry, earlier: LedgerEntry | None
    ) -> None:
        is_down = self._failures_in_a_row >= UNAVAILABLE_AFTER
        estimate = self._seat.estimate(prompt, self._schema_chars)
        reservation = None if is_down else await self._budget.reserve(estimate)
        if reservation is None:
            self._finish(indexes, Answer(skipped=True, may_retry=True))
            return
        spent = Usage()
        try:
            outcome = await self._seat.ask(prompt, self._model)
            spent = outcome.usage
        finally:
            self._budget.settle(reservation, spent)
        self._failures_in_a_row = self._failures_in_a_row + 1 if outcome.is_transient else 0
        entry = _filled(blank, outcome)
        if outcome.usage.calls or not outcome.is_transient:
            await self._books.record(entry.after(earlier))
        value = cast("T | None", outcome.value)
        self._finish(indexes, Answer(value, outcome.error or None, spent, may_retry=not entry.is_final))

    def _blank(self, prompt: Prompt) -> LedgerEntry:
        choice, text = self._seat.choice, prompt_hash(prompt)
        key = ledger_key(choice.provider, choice.model, text, self._schema_hash)
        return LedgerEntry(
            id=key,
            provider=choice.provider,
            model=choice.model,
            role=self._role,
            prompt_name=prompt.name,
            prompt_hash=text,
            schema_hash=self._schema_hash,
        )

    def _finish(self, indexes: list[int], answer: Answer[T]) -> None:
        """The first of equal prompts bears the cost, the others are repetitions."""
        repeated = answer if answer.skipped else replace(answer, usage=Usage(cached=1), cached=True)
        for index in indexes:
            self._on_answer(index, answer if index == indexes[0] else repeated)


def _filled(blank: LedgerEntry, outcome: Outcome) -> LedgerEntry:
    usage, value = outcome.usage, outcome.value
    return replace(
        blank,
        response=as_json(value.model_dump(mode="json")) if value is not None else "",
        error=outcome.error,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        usd=usage.usd,
        latency_s=usage.seconds,
        attempts=outcome.attempts,
    )


def _replayed(entry: LedgerEntry, model: type[T]) -> Answer[T] | None:
    """The answer that an entry holds; none if it should be asked again."""
    if not entry.is_final:
        return None
    if not entry.response:
        return Answer(error=entry.error, usage=Usage(cached=1), cached=True)
    try:
        return Answer(model.model_validate_json(entry.response), usage=Usage(cached=1), cached=True)
    except ValidationError:
        return None
