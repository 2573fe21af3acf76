"""One client for one paid model, by instructor or as a process: prompts to validated answers, with typed retries."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel, ValidationError

from slowwave.common.errors import SlowwaveError
from slowwave.common.records import Prompt, Usage
from slowwave.common.settings import LanguageSettings
from slowwave.reading.filters.redaction import redact_values
from slowwave.reading.ingestion.transcripts import READER

from .agents import AGENTS, Agent, AgentReply, AnswerTooLong, NoReply, Request, object_in
from .budget import ANSWER_TOKENS, Price, RateLimit, price_of, tokens_read
from .failures import CUT_STOPS, REFUSED_STOPS, Failure, Kind, failure_of, fatal_error, message_of
from .providers import Choice, open_client

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

    def request_of(self, prompt: Prompt, response_model: type[BaseModel]) -> dict[str, Any]:
        """What `ask` would send first to Anthropic, as arguments of the Messages API; nothing is sent."""
        from instructor.processing.response import handle_response_model

        self.open()
        sent = {"model": self.choice.model, "messages": self._messages(prompt), **self._options()}
        return handle_response_model(response_model, self._client.mode, self._client.provider, **sent)[1]

    def read(self, message: Any, response_model: type[BaseModel]) -> CallOutcome:
        """The validated answer in a message that a batch of Anthropic brought, or why there is none."""
        from instructor.processing.response import process_response

        self.open()
        exchange = self._exchange(BATCH_SHARE)
        exchange.on_request()
        exchange.on_response(message)
        how: dict[str, Any] = {"mode": self._client.mode, "provider": self._client.provider, "strict": False}
        try:
            answer = process_response(message, response_model=response_model, stream=False, **how)
            return CallOutcome(_without_secrets(answer, response_model), "", exchange.usage, 1)
        except Exception as error:
            failure = failure_of(error, exchange.stop, exchange.is_answered, exchange.is_empty)
            return CallOutcome(None, failure.reason, exchange.usage, 1)

    def unforce(self) -> bool:
        """Ask without demanding the tool from now on; False if that is so already."""
        was_forced, self._forces_tool = self._forces_tool, False
        return was_forced

    async def ask(self, prompt: Prompt, response_model: type[BaseModel]) -> CallOutcome:
        """The validated answer, or why there is none."""
        self.open()
        exchange, repairs = self._exchange(), self._settings.validation_retries
        failures = empties = 0
        while True:
            result = await self._try(prompt, response_model, exchange, repairs)
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
            elif result.may_pass(failures, self._settings.transient_retries):
                failures += 1
                await self._rate_limit.recover(result.wait_s, failures)
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

    def _exchange(self, share: float = 1.0) -> Exchange:
        price = self.price or Price(0.0, 0.0)
        return Exchange(price, self._settings.timeout_s, self._rate_limit.clock, share=share)

    async def _try(
        self, prompt: Prompt, response_model: type[BaseModel], exchange: Exchange, repairs: int
    ) -> BaseModel | Failure:
        try:
            async with self._rate_limit.turn():
                async with asyncio.timeout(self._settings.timeout_s) as exchange.deadline:
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
        answer = await self._client.create(
            response_model=_prepared(response_model),
            messages=self._messages(prompt),
            strict=False,
            max_retries=self._tries(exchange, 1 + repairs),
            hooks=hooks,
            **self._options(),
        )
        return _without_secrets(answer, response_model)

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        return [
            {"role": "system", "content": prompt.system + ("" if self._forces_tool else _CALL_THE_TOOL)},
            {"role": "user", "content": prompt.text},
        ]

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
            stop=stop_after_attempt(most), retry=retry_if_exception(exchange.may_repair), sleep=between, reraise=True
        )


@cache
def _prepared(response_model: type[BaseModel]) -> type[BaseModel]:
    """The model as instructor would make it anew for each call, and its schema with it."""
    import instructor

    return instructor.response_schema(response_model)


def _without_secrets(answer: BaseModel, response_model: type[BaseModel]) -> BaseModel:
    """The answer again: a model may make up a secret."""
    return response_model.model_validate(redact_values(answer.model_dump()))


# Calls of command-line agents: one process for each, ended with all its children, and its answer checked.


SHORTEST_TIMEOUT_S = 300.0
"""Agents start slowly, and may wait for their own server: a shorter time-out of the settings is not meant for them."""
MOST_RETRIES = 1
"""A process that hangs or meets a busy server may have used up a part of the limit."""
MOST_BYTES = 8 << 20
SILENCE = "SLOWWAVE_READER"
"""Set in the environment of such a process: hooks of slowwave do nothing in it."""
_LOGIN_VARIABLES = """
    APPDATA CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CONFIG_DIR CODEX_HOME GOOGLE_CLOUD_PROJECT HOME LANG LC_ALL LC_CTYPE
    LOCALAPPDATA LOGNAME NODE_EXTRA_CA_CERTS PATH SHELL SSL_CERT_DIR SSL_CERT_FILE SYSTEMROOT TMPDIR USER USERPROFILE
    XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy
    """.split()
"""What a login needs. Keys are left out: who says yes to a subscription has not said yes to a bill."""


class AgentClient(ModelClient):
    """One agent as a model. `turn` is shared by the agents of a run: each process takes some 500 MB."""

    def __init__(
        self, choice: Choice, settings: LanguageSettings, rate_limit: RateLimit, turn: asyncio.Semaphore
    ) -> None:
        patience = {
            "timeout_s": max(settings.timeout_s, SHORTEST_TIMEOUT_S),
            "transient_retries": min(settings.transient_retries, MOST_RETRIES),
        }
        super().__init__(choice, settings.model_copy(update=patience), rate_limit)
        self._agent, self._turn = AGENTS[choice.provider], turn

    def open(self) -> Agent:
        """The agent; `MissingDependency` where its program is not on the PATH."""
        if shutil.which(self._agent.program) is None:
            raise self._agent.missing()
        return self._agent

    async def _send(
        self, prompt: Prompt, response_model: type[BaseModel], exchange: Exchange, repairs: int
    ) -> BaseModel:
        text = prompt.text
        while True:
            answer = None
            try:
                answer = await self._reply(prompt.system, text, response_model, exchange)
                return response_model.model_validate(redact_values(object_in(answer)), strict=False)
            except (NoReply, ValidationError, ValueError) as error:
                if not repairs or not exchange.may_repair(error):
                    raise
                repairs -= 1
                wrong = "no JSON" if not isinstance(error, ValidationError) else message_of(error)
                text = prompt.text + f"\n\nYour last answer could not be used ({wrong}). Answer with the JSON object."

    async def _reply(self, system: str, text: str, response_model: type[BaseModel], exchange: Exchange) -> object:
        """One process; what it may have used up counts, also where no answer came."""
        if exchange.deadline is not None:
            exchange.deadline.reschedule(None)
        async with self._turn:
            exchange.on_request()
            with tempfile.TemporaryDirectory(prefix=READER, ignore_cleanup_errors=True) as folder:
                request = Request(system, text, response_model.model_json_schema(), self.choice.model, Path(folder))
                try:
                    reply = await _run(self._agent, request)
                except (NoReply, AnswerTooLong, TimeoutError, asyncio.CancelledError):
                    exchange.usage = exchange.usage + Usage(calls=1)
                    raise
        paid = SimpleNamespace(input_tokens=reply.tokens_in, output_tokens=reply.tokens_out)
        exchange.on_response(SimpleNamespace(stop_reason=reply.stop, usage=paid))
        exchange.usage = exchange.usage + Usage(usd=reply.usd)
        return reply.answer


async def _run(agent: Agent, request: Request) -> AgentReply:
    """The reply of one process, or an `AgentError`."""
    command = agent.command(request)
    login = {name: os.environ[name] for name in _LOGIN_VARIABLES if name in os.environ}
    environment = login | {SILENCE: "1"} | agent.environment(request)
    program = shutil.which(agent.program)
    if program is None:
        raise agent.missing()
    async with _started(program, command, environment, request.folder) as process:
        code, output, errors = await _talk(process, agent.input(request).encode())
    if len(output) >= MOST_BYTES:
        raise AnswerTooLong(f"{agent.label} wrote more than {MOST_BYTES >> 20} MB.", 413)
    shown = output.decode(errors="replace").strip()
    try:
        return agent.reply(shown)
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        noticed = errors.decode(errors="replace").strip()
        raise agent.failure(noticed if code and noticed else shown or noticed, code) from None


async def _talk(process: asyncio.subprocess.Process, words: bytes) -> tuple[int, bytes, bytes]:
    """Exit code and both outputs; each up to the most bytes, and a process that writes more is ended."""

    async def written() -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(words)
            await process.stdin.drain()
        process.stdin.close()

    async def read(stream: asyncio.StreamReader | None) -> bytes:
        assert stream is not None
        found = bytearray()
        while part := await stream.read(1 << 16):  # to the end: a process has not ended for asyncio before its pipes
            if len(found) < MOST_BYTES:
                found += part
            else:
                end(process.pid)
        return bytes(found)

    _, output, errors = await asyncio.gather(written(), read(process.stdout), read(process.stderr))
    return await process.wait(), output, errors


@asynccontextmanager
async def _started(
    program: str, arguments: list[str], environment: Mapping[str, str], folder: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in a group of its own; whatever is left of the group is ended with the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe,
        cwd=folder, env=dict(environment), start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        end(process.pid)
        with suppress(ProcessLookupError):
            await asyncio.shield(process.wait())


def end(group: int) -> None:
    """End all processes of a group that are left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
