"""Who on this machine could read: agents that are logged in, Ollama, keys; what each costs, and what is missing."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slowwave.common.settings import DEFAULT_MODEL

from .agents import AGENTS, Agent
from .providers import KEYS, ollama_url

QUOTES = "quotes"
KEPT = "nobody: words are kept as they were said, and can be read later"
_WAIT_S = 0.3
_CREDENTIALS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", (".credentials.json",)),
    "codex": ("CODEX_HOME", ".codex", ("auth.json",)),
    "gemini-cli": ("GEMINI_CLI_HOME", ".gemini", ("oauth_creds.json",)),
}
"""By agent: the variable that names its folder, its folder at home, and the files in which a login is."""
_TOKENS = {"claude-code": "CLAUDE_CODE_OAUTH_TOKEN"}


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who could read: its model as settings name it, its name for people, its cost, and what is missing."""

    model: str
    label: str
    cost: str
    missing: str = ""


def find_readers(environ: Mapping[str, str] = os.environ, home: Path | None = None) -> list[Reader]:
    """All readers of this machine, those that are ready first. No model is called, and no key is looked at."""
    place = home or Path.home()
    found = [*_agents(environ, place), *_local(environ), *_keys(environ)]
    return sorted(found, key=lambda reader: bool(reader.missing))


def _agents(environ: Mapping[str, str], home: Path) -> Iterator[Reader]:
    for agent in AGENTS.values():
        if shutil.which(agent.program, path=environ.get("PATH")):
            missing = "" if _is_logged_in(agent, environ, home) else f"not logged in: {agent.login}"
            cost = "counts against the limits of your subscription; some fifty messages a call"
            yield Reader(agent.provider, agent.label, cost, missing)


def _is_logged_in(agent: Agent, environ: Mapping[str, str], home: Path) -> bool:
    variable, folder, files = _CREDENTIALS[agent.provider]
    own = Path(environ[variable]) if environ.get(variable) else home / folder
    if environ.get(_TOKENS.get(agent.provider, "")) or any((own / name).is_file() for name in files):
        return True
    return agent.provider == "claude-code" and _has_account(home / ".claude.json")  # macOS keeps the login elsewhere


def _has_account(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")).get("oauthAccount"))
    except (OSError, ValueError, AttributeError):
        return False


def _local(environ: Mapping[str, str]) -> Iterator[Reader]:
    if not (environ.get("OLLAMA_HOST") or shutil.which("ollama", path=environ.get("PATH"))):
        return
    try:
        with urllib.request.urlopen(f"{ollama_url(environ).removesuffix('/v1')}/api/tags", timeout=_WAIT_S) as answer:
            models = [str(each["name"]) for each in json.load(answer)["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        yield Reader("ollama/MODEL", "Ollama", "free, on this machine", "it does not answer: ollama serve")
        return
    for model in models[:3]:
        yield Reader(f"ollama/{model}", f"Ollama with {model}", "free, on this machine")
    if not models:
        yield Reader("ollama/MODEL", "Ollama", "free, on this machine", "it has no model: ollama pull qwen3")


def _keys(environ: Mapping[str, str]) -> Iterator[Reader]:
    for provider, variable in KEYS.items():
        if not environ.get(variable):
            continue
        if provider == "anthropic":
            yield Reader(DEFAULT_MODEL, f"Claude by {variable}", "some 2 cents for a hundred messages")
        else:
            yield Reader(f"{provider}/MODEL", f"{provider} by {variable}", "its price", f"--model {provider}/MODEL")
