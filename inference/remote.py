"""One client for one paid model: prompts to validated answers through instructor, with typed retries."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from slowwave.common.errors import SlowwaveError
from slowwave.common.records import Prompt, Usage
from slowwave.common.settings import LanguageSettings
from slowwave.reading.filters.redaction import redact_values

from .budget import ANSWER_TOKENS, Price, price_of, tokens_read
from .failures import CUT_STOPS, REFUSED_STOPS, Failure, Kind, failure_of, fatal_error
from .providers import Choice, NotSent, StandIn, on_stage, open_client
from .rate_limits import RateLimit

LONGEST_RETRY_AFTER_S = 120.0
BATCH_SHARE = 0.5  # of the price, in a batch
_LENGTH_KEYWORD = {"anthropic": "max_tokens", "ollama": "max_tokens", "openai": "max_completion_tokens"}
_CALL_THE_TOOL = "\nAnswer only by calling the given tool, exactly once."


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How an ask ended: a value, or the reason why there is none. `attempts` counts requests sent.

    `fatal` is what would meet every other prompt too: to be raised when what was paid until then is written down.
    `limit` says that a subscription is used up for now: the run ends as with a budget that is reached.
    """

    value: BaseModel | None
    error: str
    usage: Usage
    attempts: int
    is_transient: bool = False
    fatal: SlowwaveError | None = None
    limit: str = ""

    @property
    def is_malformed(self) -> bool:
        """Whether there was a malformed answer that the model may repair."""
        return self.error.startswith("invalid")


@dataclass
class Exchange:
    """What is seen of one ask, over all its requests: by instructor's hooks, or by an agent's client."""

    price: Price
    timeout_s: float
    clock: Any
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    stop: str = ""
    is_answered: bool = False
    is_empty: bool = False
    deadline: asyncio.Timeout | None = None
    share: float = 1.0
    _began: float = 0.0

    def on_request(self, *_: Any, **__: Any) -> None:
        """A request goes out: the time-out starts again for each, also for a repair."""
        self.attempts += 1
        self.stop, self.is_answered, self.is_empty = "", False, False
        self._began = self.clock()
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + self.timeout_s)

    def on_response(self, response: Any) -> None:
        """An answer came, good or bad: it is paid for."""
        self.is_answered = True
        choice = next(iter(getattr(response, "choices", None) or ()), None)
        message = getattr(choice, "message", None)
        self.stop = str(getattr(response, "stop_reason", None) or getattr(choice, "finish_reason", None) or "")
        if getattr(message, "refusal", None):
            self.stop = "refusal"
        self.is_empty = getattr(response, "content", None) == []
        paid = getattr(response, "usage", None)
        read = sum(_number(paid, name) for name in ("input_tokens", "prompt_tokens", *_CACHE_TOKENS))
        written = _number(paid, "output_tokens") + _number(paid, "completion_tokens")
        seconds = self.clock() - self._began
        usd = self.share * self.price.usd(read, written)
        self.usage = self.usage + Usage(1, 0, read, written, usd, seconds)

    def may_repair(self, error: BaseException) -> bool:
        """Whether the answer is malformed in a way that the model can repair."""
        hopeless = self.is_empty or self.stop in CUT_STOPS | REFUSED_STOPS
        return self.is_answered and not hopeless and isinstance(error, (ValidationError, ValueError))


def _is_caused_by(error: BaseException | None, kind: type[Exception]) -> bool:
    return error is not None and (isinstance(error, kind) or _is_caused_by(error.__cause__, kind))


_CACHE_TOKENS = ("cache_creation_input_tokens", "cache_read_input_tokens")


def _number(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return int(value) if isinstance(value, (int, float)) else 0


class ModelClient:
    """One model of one provider. Belongs to one event loop; opened at the first ask."""

    def __init__(self, choice: Choice, settings: LanguageSettings, rate_limit: RateLimit) -> None:
        self.choice = choice
        self.price = price_of(choice.provider, choice.model)
        self._settings, self._rate_limit = settings, rate_limit
        self._client: Any = None
        self._forces_tool = True
        self.failures_in_a_row = 0

    def open(self) -> Any:
        """The SDK's own client; made now if it is not there yet."""
        if self._client is None:
            self._client = open_client(self.choice, self._settings)
        return self._client.client

    def estimate(self, prompt: Prompt, schema_chars: int, share: float = 1.0) -> Usage:
        """What asking this will probably cost, at this share of the price."""
        read = tokens_read(prompt, schema_chars)
        usd = share * self.price.usd(read, ANSWER_TOKENS) if self.price else 0.0
        return Usage(calls=1, tokens_in=read, tokens_out=ANSWER_TOKENS, usd=usd)

    async def request_of(self, prompt: Prompt, response_model: type[BaseModel]) -> dict[str, Any]:
        """What `ask` would send first, as arguments of the Messages API; nothing is sent."""
        self.open()
        wanted = StandIn()
        try:
            with on_stage(wanted):
                await self._create(prompt, response_model, max_retries=0)
        except Exception as error:
            if not wanted.request or not _is_caused_by(error, NotSent):
                raise
        return wanted.request

    def unforce(self) -> bool:
        """Ask without demanding the tool from now on; False if that is so already."""
        was_forced, self._forces_tool = self._forces_tool, False
        return was_forced

    async def ask(self, prompt: Prompt, response_model: type[BaseModel], given: Any = None) -> CallOutcome:
        """The validated answer, or why there is none; of `given`, a message that a batch brought, nothing is asked."""
        self.open()
        exchange = Exchange(self.price or Price(0.0, 0.0), self._settings.timeout_s, self._rate_limit.clock)
        stand_in, repairs = None, self._settings.validation_retries
        if given is not None:
            exchange.share, stand_in, repairs = BATCH_SHARE, StandIn(given), 0
        failures = empties = 0
        while True:
            result = await self._try(prompt, response_model, exchange, repairs, stand_in)
            if isinstance(result, BaseModel):
                return CallOutcome(result, "", exchange.usage, exchange.attempts)
            if result.kind is Kind.FATAL:
                fatal = fatal_error(self.choice, result)
                return CallOutcome(None, result.reason, exchange.usage, exchange.attempts, fatal=fatal)
            if result.kind is Kind.LIMIT:
                return CallOutcome(None, result.reason, exchange.usage, exchange.attempts, True, limit=result.reason)
            if result.kind is Kind.UNFORCED and self.unforce():
                continue
            if result.kind is Kind.EMPTY and empties < repairs:
                empties += 1
            elif self._may_try_again(result, failures):
                failures += 1
                await self._wait(result, failures)
            else:
                is_transient = result.kind is Kind.TRANSIENT
                tries = f" (after {exchange.attempts} requests)" if exchange.attempts > 1 else ""
                return CallOutcome(None, result.reason + tries, exchange.usage, exchange.attempts, is_transient)

    async def close(self) -> None:
        """Give the connections back."""
        client, self._client = self._client, None
        close = getattr(getattr(client, "client", None), "close", None)
        if close is not None:
            await close()

    def _may_try_again(self, failure: Failure, failures: int) -> bool:
        is_due = failures < self._settings.transient_retries and failure.wait_s <= LONGEST_RETRY_AFTER_S
        return failure.kind is Kind.TRANSIENT and is_due

    async def _wait(self, failure: Failure, failures: int) -> None:
        if failure.wait_s:
            self._rate_limit.hold(failure.wait_s)
        else:
            await self._rate_limit.back_off(failures)

    async def _try(
        self,
        prompt: Prompt,
        response_model: type[BaseModel],
        exchange: Exchange,
        repairs: int,
        stand_in: StandIn | None,
    ) -> BaseModel | Failure:
        try:
            async with nullcontext() if stand_in else self._rate_limit.turn():
                async with asyncio.timeout(self._settings.timeout_s) as exchange.deadline:
                    with on_stage(stand_in):
                        return await self._send(prompt, response_model, exchange, repairs)
        except Exception as error:
            return failure_of(error, exchange.stop, exchange.is_answered, exchange.is_empty)

    async def _send(
        self, prompt: Prompt, response_model: type[BaseModel], exchange: Exchange, repairs: int
    ) -> BaseModel:
        from instructor.core.hooks import Hooks

        hooks = Hooks()
        hooks.on("completion:kwargs", exchange.on_request)
        hooks.on("completion:response", exchange.on_response)
        tries = self._tries(exchange, 1 + repairs)
        answer: BaseModel = await self._create(prompt, response_model, max_retries=tries, hooks=hooks)
        return response_model.model_validate(redact_values(answer.model_dump()))  # a model may make up a secret

    async def _create(self, prompt: Prompt, response_model: type[BaseModel], **how: Any) -> Any:
        return await self._client.create(
            response_model=response_model,
            messages=[
                {"role": "system", "content": prompt.system + ("" if self._forces_tool else _CALL_THE_TOOL)},
                {"role": "user", "content": prompt.text},
            ],
            strict=False,
            **self._options(),
            **how,
        )

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        keyword = _LENGTH_KEYWORD.get(self.choice.provider)
        if keyword:
            options[keyword] = self._settings.max_output_tokens
        if not self._forces_tool:
            options["tool_choice"] = {"type": "auto"} if self.choice.provider == "anthropic" else "auto"
        return options

    def _tries(self, exchange: Exchange, most: int) -> Any:
        """Instructor's own loop sends a malformed answer back with what is wrong; nothing else is retried there."""
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        async def between(_: float) -> None:
            if exchange.deadline is not None:
                exchange.deadline.reschedule(None)
            await self._rate_limit.start()

        return AsyncRetrying(
            stop=stop_after_attempt(most),
            retry=retry_if_exception(exchange.may_repair),
            sleep=between,
            reraise=True,
        )
