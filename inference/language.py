"""The language seat: a prompt goes in, a validated answer comes out, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from inference.answers import ROLES, Answer, OnDone, Role, T
from inference.budget import Budget
from inference.failures import message_of
from inference.ledger import Bookkeeper, Ledger
from inference.pace import Pace, Sleep
from inference.paid import PaidBatch
from inference.providers import FREE, Choice, choose
from inference.remote import RemoteSeat
from inference.replay import Replay
from inference.rules import answer_by_rule
from slowwave.errors import Terminal, UnusableInput
from slowwave.records import Prompt, Usage
from slowwave.settings import LanguageSettings

YIELD_EVERY = 64

Free = Callable[[Prompt], dict[str, Any]]


class Language:
    """The models of one run, one per role. Belongs to one event loop; close it, or use `async with`.

    Order inside: ledger, budget, pace, call, ledger. `clock` and `sleep` count seconds, `seed` fixes the jitter.
    """

    def __init__(
        self,
        settings: LanguageSettings,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        seed: int = 0,
    ) -> None:
        self.settings = settings
        self.budget = Budget(settings.max_calls, settings.max_tokens, settings.max_usd)
        self._usage: dict[Role, Usage] = {}
        self._books = Bookkeeper(ledger)
        self._pace = Pace(settings.concurrency, settings.calls_per_minute, clock=clock, sleep=sleep, seed=seed)
        named = {
            "extract": settings.extract_model,
            "resolve": settings.resolve_model,
            "consolidate": settings.consolidate_model,
            "judge": settings.judge_model,
            "summarize": settings.summarize_model,
        }
        self._choices = {role: choose(named.get(role) or settings.model) for role in ROLES}
        self._free: dict[Choice, Free] = {c: _free(c) for c in self._choices.values() if c.provider in FREE}
        self._paid = {c: RemoteSeat(c, settings, self._pace) for c in self._choices.values() if c.provider not in FREE}
        self._check_prices()

    def is_keyless(self, role: Role) -> bool:
        """Whether rules answer in this role: no text is rendered and nothing is paid."""
        return self._choices[role].provider == "rules"

    def model(self, role: Role) -> str:
        """Who answers in this role, as provider/model."""
        return str(self._choices[role])

    @property
    def unpriced(self) -> list[str]:
        """Models in use whose price is not known: their calls count as 0 dollars."""
        return sorted(str(choice) for choice, seat in self._paid.items() if seat.price is None)

    @property
    def budget_reached(self) -> bool:
        """Whether prompts were left unasked for want of budget; commit, then `raise language.budget.error()`."""
        return self.budget.is_reached

    @property
    def usage(self) -> Usage:
        """Everything that was paid, and taken from the ledger, so far."""
        return sum(self._usage.values(), Usage())

    def usage_of(self, role: Role) -> Usage:
        """The part of `usage` that one role had."""
        return self._usage.get(role, Usage())

    async def ask(self, prompt: Prompt, response_model: type[T], role: Role = "extract") -> Answer[T]:
        """The answer to one prompt."""
        return (await self.ask_many([prompt], response_model, role))[0]

    async def ask_many(
        self,
        prompts: Sequence[Prompt],
        response_model: type[T],
        role: Role = "extract",
        on_done: OnDone | None = None,
    ) -> list[Answer[T]]:
        """The answers in the order of the prompts; `on_done(index, answer)` hears of each as soon as it is known.

        One prompt's failure is its own answer. Raises only what stops the run: a key that is not accepted, a model
        that does not exist; answers that were under way by then are in the ledger.
        """
        done: dict[int, Answer[T]] = {}

        def finish(index: int, answer: Answer[T]) -> None:
            done[index] = answer
            self._usage[role] = self.usage_of(role) + answer.usage
            if on_done is not None:
                on_done(index, answer)

        choice = self._choices[role]
        if choice in self._free:
            await _ask_free(self._free[choice], prompts, response_model, finish)
        else:
            batch = PaidBatch(self._paid[choice], self.budget, self._books, role, response_model, finish)
            await batch.run(prompts, self.settings.concurrency)
        return [done[index] for index in range(len(prompts))]

    async def close(self) -> None:
        """Write what the ledger still lacks, and close all connections."""
        await self._books.flush()
        for seat in self._paid.values():
            await seat.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_prices(self) -> None:
        if self.settings.max_usd is not None and self.unpriced:
            raise UnusableInput(
                f"No price is known for {', '.join(self.unpriced)}, so a budget of {self.settings.max_usd} dollars "
                "could not be kept.",
                "Set max_calls or max_tokens instead.",
            )


def _free(choice: Choice) -> Free:
    return answer_by_rule if choice.provider == "rules" else Replay.read(Path(choice.model)).answer


async def _ask_free(
    answer: Free, prompts: Sequence[Prompt], response_model: type[T], finish: Callable[[int, Answer[T]], None]
) -> None:
    for index, prompt in enumerate(prompts):
        finish(index, _validated(answer, prompt, response_model))
        if index % YIELD_EVERY == YIELD_EVERY - 1:
            await asyncio.sleep(0)


def _validated(answer: Free, prompt: Prompt, response_model: type[T]) -> Answer[T]:
    try:
        return Answer(response_model.model_validate(answer(prompt)))
    except Terminal as error:
        return Answer(error=str(error))
    except ValidationError as error:
        return Answer(error=f"invalid: {message_of(error)}")
