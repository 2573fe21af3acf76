"""Language models: a prompt goes in, a validated answer comes out, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import ValidationError

from slowwave.common.errors import Terminal, UnusableInput
from slowwave.common.records import OPEN_BATCH, Prompt, SubmittedBatch, Usage
from slowwave.common.settings import LanguageSettings

from .agents import AGENTS
from .batches import PROVIDER as BATCHING
from .batches import BatchedPrompts
from .budget import Budget, Caps, RateLimit, Sleep
from .failures import message_of
from .providers import FREE, Choice, choose
from .remote import AgentClient, ModelClient
from .request_batch import (
    ROLES,
    Bookkeeper,
    Ledger,
    LivePrompts,
    ModelAnswer,
    PendingPrompt,
    RecordedAnswers,
    RequestBatch,
    Role,
    T,
)

# Without a key: each prompt has a deterministic rule that reads its context and answers it.


Rule = Callable[[Mapping[str, Any]], dict[str, Any]]


def extract_facts(context: Mapping[str, Any]) -> dict[str, Any]:
    """What is found in the window without a model."""
    from slowwave.reading.extraction.quotes import extract_window

    return extract_window(context["window"])


RULES: Mapping[str, Rule] = MappingProxyType({"extract_facts": extract_facts})


def answer_by_rule(prompt: Prompt) -> dict[str, Any]:
    """The rule's answer to a prompt; `Terminal` if no rule answers it."""
    rule = RULES.get(prompt.name)
    if rule is None:
        raise Terminal(f"No rule answers the prompt {prompt.name!r}.", "Choose a model with --llm provider/model.")
    return rule(prompt.context)


def has_reader(settings: LanguageSettings) -> bool:
    """Whether a model reads messages by these settings; without one they are kept as quotations."""
    return choose(settings.extract_model or settings.model).provider != "quotes"


YIELD_EVERY = 64
AGENT_PROCESSES = 1  # of Claude Code, Codex or Gemini CLI; each takes 500 MB

Free = Callable[[Prompt], dict[str, Any]]


class Language:
    """The models of one run, one per role. Belongs to one event loop; close it, or use `async with`.

    The order of work: ledger, batches under way, budget, rate limit, call, ledger. `clock` and `sleep` count seconds,
    `today` is the time of day in UTC, `seed` fixes the jitter.
    """

    def __init__(
        self,
        settings: LanguageSettings,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        seed: int = 0,
    ) -> None:
        self.settings = settings
        self.usage = Usage()
        """Everything that was paid, and taken from the ledger, so far."""
        self._books = Bookkeeper(ledger)
        self._today = today
        self.budget = Budget(
            Caps(settings.max_calls, settings.max_tokens, settings.max_usd),
            Caps(settings.max_calls_per_day, settings.max_tokens_per_day, settings.max_usd_per_day, "_per_day"),
            others=self._books.spent_by_others,
            today=lambda: today().date(),
        )
        self._has_batches = True  # until a look says otherwise
        self.skipped = 0
        """The number of prompts that were skipped so far."""
        self._rate_limit = RateLimit(
            settings.concurrency, settings.calls_per_minute, clock=clock, sleep=sleep, seed=seed
        )
        self._choices = {role: choose(getattr(settings, f"{role}_model", "") or settings.model) for role in ROLES}
        self._free: dict[Choice, Free] = {c: _free(c) for c in self._choices.values() if c.provider in FREE}
        self._processes = asyncio.Semaphore(AGENT_PROCESSES)
        self._paid = {c: self._client(c) for c in self._choices.values() if c.provider not in FREE}
        dollars = {"max_usd": settings.max_usd, "max_usd_per_day": settings.max_usd_per_day}
        limits = [f"{name} = {limit}" for name, limit in dollars.items() if limit is not None]
        if limits and self.unpriced:
            raise UnusableInput(
                f"No price is known for {', '.join(self.unpriced)}, so {' and '.join(limits)} (dollars) could not be "
                "kept.",
                "Limit calls or tokens instead.",
            )
        others = sorted({str(choice) for choice in self._paid if choice.provider != BATCHING})
        if settings.mode == "batch" and others:
            raise UnusableInput(
                f"There are no Message Batches for {', '.join(others)}.",
                'Set mode = "live", or name a model of Anthropic: anthropic/….',
            )

    def is_keyless(self, role: Role) -> bool:
        """Whether rules answer in this role: no text is rendered and nothing is paid."""
        return self._choices[role].provider == "quotes"

    def model(self, role: Role) -> str:
        """Who answers in this role, as provider/model."""
        return str(self._choices[role])

    @property
    def unpriced(self) -> list[str]:
        """Models in use whose price is not known: their calls count as 0 dollars."""
        return sorted(str(choice) for choice, client in self._paid.items() if client.price is None)

    @property
    def budget_reached(self) -> bool:
        """Whether prompts were left for want of budget, or of time to wait for a batch; commit, then stop."""
        return self.budget.is_reached

    @property
    def stopped_by(self) -> str:
        """The limit that was reached, and how much of it is spent; empty if none was."""
        return self.budget.stopped_by

    async def ask(self, prompt: Prompt, response_model: type[T], role: Role = "extract") -> ModelAnswer[T]:
        """The answer to one prompt."""
        return (await self.ask_many([prompt], response_model, role))[0]

    async def ask_many(
        self, prompts: Sequence[Prompt], response_model: type[T], role: Role = "extract"
    ) -> list[ModelAnswer[T]]:
        """The answers in the order of the prompts.

        An urgent prompt is sent live in batch mode, too. One prompt's failure is its own answer. Raises only
        what stops the run: a key that is not accepted, a model that does not exist; answers that were under way by
        then are in the ledger.
        """
        done: dict[int, ModelAnswer[T]] = {}

        def finish(index: int, answer: ModelAnswer[T]) -> None:
            done[index] = answer
            self.usage += answer.usage
            self.skipped += answer.skipped

        choice = self._choices[role]
        if choice in self._free:
            for index, prompt in enumerate(prompts):
                finish(index, _validated(self._free[choice], prompt, response_model))
                if index % YIELD_EVERY == YIELD_EVERY - 1:
                    await asyncio.sleep(0)
        else:
            request_batch = RequestBatch(self._paid[choice], self.budget, self._books, role, response_model, finish)
            await self._ask_paid(request_batch, await request_batch.open(prompts))
        return [done[index] for index in range(len(prompts))]

    async def close(self) -> None:
        """Write what the ledger still lacks, and close all connections."""
        await self._books.flush()
        for client in self._paid.values():
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask_paid(self, request_batch: RequestBatch[T], rest: dict[str, PendingPrompt]) -> None:
        """Prompts without an entry in the ledger: first those in open batches, then the others by the mode."""
        open_ones = await self._open_batches(request_batch)
        if open_ones:
            rest = await self._batched(request_batch).resume(rest, open_ones)
        is_batched = self.settings.mode == "batch"
        waiting = [each for each in rest.values() if is_batched and not each.prompt.is_urgent]
        live = [each for each in rest.values() if not is_batched or each.prompt.is_urgent]
        if live:
            await LivePrompts(request_batch).ask(live, self.settings.concurrency)
        if waiting:
            await self._batched(request_batch).ask(waiting)

    def _client(self, choice: Choice) -> ModelClient:
        if choice.provider in AGENTS:
            return AgentClient(choice, self.settings, self._rate_limit, self._processes)
        return ModelClient(choice, self.settings, self._rate_limit)

    def _batched(self, request_batch: RequestBatch[T]) -> BatchedPrompts[T]:
        return BatchedPrompts(request_batch, self.settings, self._rate_limit, self._today)

    async def _open_batches(self, request_batch: RequestBatch[T]) -> list[SubmittedBatch]:
        """Batches of such prompts that are under way; a run that makes none looks only until it knows of none."""
        choice = request_batch.client.choice
        if choice.provider != BATCHING or not self._has_batches:
            return []
        under_way = [each for each in await self._books.call(self._books.ledger.batches) if each.state in OPEN_BATCH]
        self._has_batches = self.settings.mode == "batch" or bool(under_way)
        wanted = (choice.provider, choice.model, request_batch.schema_hash)
        return [each for each in under_way if (each.provider, each.model, each.schema_hash) == wanted]


def _free(choice: Choice) -> Free:
    return answer_by_rule if choice.provider == "quotes" else RecordedAnswers.read(Path(choice.model)).answer


def _validated(answer: Free, prompt: Prompt, response_model: type[T]) -> ModelAnswer[T]:
    try:
        return ModelAnswer(response_model.model_validate(answer(prompt)))
    except Terminal as error:
        return ModelAnswer(error=str(error))
    except ValidationError as error:
        return ModelAnswer(error=f"invalid: {message_of(error)}")
