"""Calls of command-line agents: one process for each, ended with all its children, and its answer checked."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

from pydantic import BaseModel, ValidationError

from slowwave.common.records import Prompt, Usage
from slowwave.common.settings import LanguageSettings
from slowwave.reading.filters.redaction import redact_values
from slowwave.reading.ingestion.transcripts import READER

from .agents import AGENTS, Agent, AgentReply, AnswerTooLong, NoReply, Request, object_in
from .failures import message_of
from .providers import Choice
from .rate_limits import RateLimit
from .remote import Exchange, ModelClient

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

    async def close(self) -> None:
        """Nothing is kept open."""

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
    environment = _environment(os.environ) | agent.environment(request)
    program = shutil.which(agent.program)
    if program is None:
        raise agent.missing()
    async with _started(program, command, environment, request.folder) as process:
        code, output, errors = await _talk(process, agent.input(request).encode())
    if len(output) >= MOST_BYTES:
        raise AnswerTooLong(f"{agent.label} wrote more than {MOST_BYTES >> 20} MB.")
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


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _LOGIN_VARIABLES if name in environ} | {SILENCE: "1"}
