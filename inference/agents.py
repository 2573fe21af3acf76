"""Command-line agents that a person already pays for, as language models: Claude Code, Codex, Gemini CLI.

Each answers one prompt as a process of its own: without tools, MCP servers, files of a project or a session, in an
empty folder, with a system text of slowwave alone. An adapter knows the command line and the form of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowwave.common.errors import MissingDependency, SlowwaveError
from slowwave.common.text import as_json
from slowwave.reading.ingestion.transcripts import READER


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the texts, the JSON schema of the answer, the model (empty: the agent's own), and an empty folder."""

    system: str
    text: str
    schema: dict[str, Any]
    model: str
    folder: Path


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What an agent answered: `answer` is an object, or a text that should be one. Tokens and dollars as it counts.

    `stop` is the reason of its last message, as far as it tells one; `usd` is 0 under a subscription that names none.
    """

    answer: Any
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    stop: str = ""


class AgentError(SlowwaveError):
    """A call of an agent without an answer; `status_code` is the HTTP status that means the same to the retries."""

    def __init__(self, message: str, status_code: int | None = None) -> None:
        self.status_code = status_code
        super().__init__(message)


class LimitReached(AgentError):
    """The subscription's limit is reached: nothing can be asked until it is reset."""


class NoReply(AgentError):
    """The agent ended without a whole answer, but may have been paid: it is asked again as a malformed answer is."""


class AnswerTooLong(AgentError):
    """The agent wrote more than any answer has."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its provider name, its program on the PATH, its name for people, and how one logs in to it.

    `login_codes`: the exit codes that mean that nobody is.
    """

    provider: str
    program: str
    label: str
    login: str
    login_codes: tuple[int, ...] = ()

    def command(self, request: Request) -> list[str]:
        """The arguments after the program; files that they name are written to the request's folder."""
        raise NotImplementedError

    def environment(self, request: Request) -> dict[str, str]:
        """Variables of this call beside those of the login."""
        return {}

    def input(self, request: Request) -> str:
        """The text on standard input."""
        return request.text

    def reply(self, output: str) -> AgentReply:
        """The answer in the output of a process that ended well; `ValueError` or `KeyError` where it has no form."""
        raise NotImplementedError

    def missing(self) -> MissingDependency:
        """The error where the program is not on the PATH."""
        return MissingDependency(
            f"{self.label} is not installed: there is no command {self.program} on the PATH.",
            f"Install it and log in ({self.login}), or write --llm quotes.",
        )

    def failure(self, output: str, code: int = 0) -> AgentError:
        """Why there is no answer, by what the agent wrote."""
        said = " ".join(_said(output).split())[:300]
        if _LOGIN.search(said) or code in self.login_codes:
            return AgentError(f"{self.label} is not logged in.", 401)
        if _LIMIT.search(said):
            return LimitReached(f"The limit of {self.label} is reached: {said.rstrip('.')}.")
        if _BUSY.search(said):
            return AgentError(f"{self.label}: {said}", 503)
        return NoReply(f"{self.label} gave no answer" + (f" (exit code {code})" if code else "") + f": {said or '-'}")


class _ClaudeCode(Agent):
    """`claude -p`: https://code.claude.com/docs/en/cli-reference and …/headless."""

    def command(self, request: Request) -> list[str]:
        model = ["--model", request.model] if request.model else []
        return [
            "-p", "--output-format", "json", "--json-schema", as_json(request.schema),
            "--system-prompt", request.system, "--tools", "", "--strict-mcp-config", "--setting-sources", "",
            "--disable-slash-commands", "--no-session-persistence", *model,
        ]  # fmt: skip

    def reply(self, output: str) -> AgentReply:
        envelope = json.loads(output)
        if envelope.get("is_error") or envelope.get("subtype", "success") != "success":
            raise self.failure(str(envelope.get("result") or envelope.get("errors") or envelope.get("subtype")))
        used = envelope.get("usage") or {}
        read = sum(int(used.get(f"{kind}input_tokens") or 0) for kind in ("", "cache_creation_", "cache_read_"))
        answer = envelope.get("structured_output")
        return AgentReply(
            envelope["result"] if answer is None else answer,
            read,
            int(used.get("output_tokens") or 0),
            float(envelope.get("total_cost_usd") or 0.0),
            str(envelope.get("stop_reason") or ""),
        )


class _Codex(Agent):
    """`codex exec`: https://developers.openai.com/codex/noninteractive; the answer is the last message it tells of."""

    def command(self, request: Request) -> list[str]:
        schema, system = request.folder / "schema.json", request.folder / "system.md"
        schema.write_text(as_json(strict(request.schema)), encoding="utf-8")
        system.write_text(request.system, encoding="utf-8")
        model = ["--model", request.model] if request.model else []
        return [
            "exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only",
            "--ignore-user-config", "--ignore-rules", "--output-schema", str(schema),
            "--config", f"model_instructions_file={json.dumps(str(system))}",
            "--config", "features.shell_tool=false", "--config", 'web_search="disabled"', *model, "-",
        ]  # fmt: skip

    def reply(self, output: str) -> AgentReply:
        events = [json.loads(line) for line in output.splitlines() if line.strip()]
        for event in events:
            if event["type"] in ("turn.failed", "error"):
                raise self.failure(str((event.get("error") or event).get("message")))
        used = [event.get("usage") or {} for event in events if event["type"] == "turn.completed"][-1]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        answer = [item["text"] for item in items if item.get("type") == "agent_message"][-1]
        return AgentReply(answer, int(used.get("input_tokens") or 0), int(used.get("output_tokens") or 0))


class _GeminiCli(Agent):
    """`gemini`: https://geminicli.com/docs/cli/headless; it binds no schema, so the prompt has it."""

    def command(self, request: Request) -> list[str]:
        return ["--output-format", "json", "--extensions", "none", *(["--model", request.model] * bool(request.model))]

    def environment(self, request: Request) -> dict[str, str]:
        system, settings = request.folder / "system.md", request.folder / "settings.json"
        system.write_text(request.system, encoding="utf-8")
        nothing = ["none"]  # an empty list would mean all
        settings.write_text(
            as_json({"tools": {"core": nothing}, "mcp": {"allowed": nothing}, "context": {"fileName": "none.md"}}),
            encoding="utf-8",
        )
        return {"GEMINI_SYSTEM_MD": str(system), "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(settings)}

    def input(self, request: Request) -> str:
        bound = f"Answer with one JSON object of this schema and nothing else:\n{as_json(request.schema)}"
        return f"{READER}prompt\n\n{request.text}\n\n{bound}"

    def reply(self, output: str) -> AgentReply:
        envelope = json.loads(output[output.index("{") :])  # warnings may stand before it
        if envelope.get("error"):
            raise self.failure(str(envelope["error"].get("message")), int(envelope["error"].get("code") or 0))
        models = ((envelope.get("stats") or {}).get("models") or {}).values()
        tokens = [each.get("tokens") or {} for each in models]
        read, written = (sum(int(each.get(name) or 0) for each in tokens) for name in ("prompt", "candidates"))
        return AgentReply(envelope["response"], read, written)


_LOGIN = re.compile(
    r"/login|not logged in|log ?in (?:again|first|with)|invalid api key|authenticat|unauthori[sz]ed|\b401\b|auth method"
    r"|OAuth token (?:has )?expired",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"limit (?:is )?reached|hit your (?:\w+ )?limit|(?:usage|rate|session|weekly) limit|quota|exhausted|\b429\b",
    re.IGNORECASE,
)
_BUSY = re.compile(r"overloaded|connection|network|timed? ?out|unavailable|ECONN|ENOTFOUND|\b5\d\d\b", re.IGNORECASE)


def _said(output: str) -> str:
    """The message of an output that may be an envelope of JSON."""
    try:
        value = json.loads(output)
    except ValueError:
        return output
    for name in ("result", "error", "message"):
        if isinstance(value, dict) and value.get(name):
            inner = value[name]
            return str(inner.get("message") or inner) if isinstance(inner, dict) else str(inner)
    return output


AGENTS: Mapping[str, Agent] = {
    agent.provider: agent
    for agent in (
        _ClaudeCode("claude-code", "claude", "Claude Code", "run claude, then /login"),
        _Codex("codex", "codex", "Codex", "codex login"),
        _GeminiCli("gemini-cli", "gemini", "Gemini CLI", "run gemini, then /auth", (41, 401)),
    )
}


def object_in(answer: Any) -> Any:
    """The object that an answer is, or that stands in its text, perhaps in a block of code; `ValueError` without.

    What is null was left out: `strict` lets no property be absent.
    """
    if not isinstance(answer, str):
        return _without_nulls(answer)
    text = answer.strip()
    return _without_nulls(json.loads(text[text.find("{") : text.rfind("}") + 1] or text))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def strict(schema: Any) -> Any:
    """A JSON schema as OpenAI's structured outputs want it: no further properties, all required, optional ones null."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: strict(value) for name, value in schema.items() if name != "default"}
    if isinstance(schema.get("properties"), dict):
        needed = schema.get("required", ())
        plain["properties"] = {
            name: strict(value) if name in needed else {"anyOf": [strict(value), {"type": "null"}]}
            for name, value in schema["properties"].items()
        }
        plain |= {"additionalProperties": False, "required": list(schema["properties"])}
    return plain
