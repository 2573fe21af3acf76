"""Provider strings to clients: one string says who answers, and every mistake in it is named before work begins.

And who on this machine could read.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from slowwave.common.errors import MissingDependency, MissingKey, SlowwaveError, UnknownName, UnusableInput
from slowwave.common.settings import DEFAULT_MODEL, LanguageSettings

from .agents import AGENTS
from .secrets import without_secrets

WITHOUT_KEY = "--llm quotes works without any key."
FREE = frozenset({"quotes", "replay"})
KEYS: Mapping[str, str] = MappingProxyType(
    {
        "anthropic": "ANTHROPIC_API_KEY",
        "anyscale": "ANYSCALE_API_KEY",
        "azure_openai": "AZURE_OPENAI_API_KEY",
        "cerebras": "CEREBRAS_API_KEY",
        "cohere": "CO_API_KEY",
        "deepseek": "DEEPSEEK_API_KEY",
        "fireworks": "FIREWORKS_API_KEY",
        "google": "GOOGLE_API_KEY",
        "groq": "GROQ_API_KEY",
        "mistral": "MISTRAL_API_KEY",
        "openai": "OPENAI_API_KEY",
        "openrouter": "OPENROUTER_API_KEY",
        "perplexity": "PERPLEXITY_API_KEY",
        "together": "TOGETHER_API_KEY",
        "writer": "WRITER_API_KEY",
        "xai": "XAI_API_KEY",
    }
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Who answers: a provider and its model; for `replay` the model is the file."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}" if self.model else self.provider


def choose(name: str) -> Choice:
    """The provider and model that a setting names; names and keys are checked, nothing is opened."""
    if name in ("auto", "quotes"):  # nobody chose a reader: no key and no subscription is used without a yes
        return Choice("quotes", "")
    provider, _, model = name.partition("/")
    if agent := AGENTS.get(provider):
        if not shutil.which(agent.program):
            raise agent.missing()
        return Choice(provider, model)
    if provider not in {"replay", "anthropic"}:
        try:
            from instructor.auto_client import supported_providers
        except ImportError:
            raise MissingDependency("Language models need the package instructor.", "pip install instructor") from None
        if provider not in supported_providers:
            known = {*supported_providers, *AGENTS, "auto", "quotes", "replay"}
            raise UnknownName("language model provider", provider, known)
    if not model:
        raise UnusableInput(f"The language model {name!r} names no model.", "Write provider/model, or quotes, or auto.")
    variable = KEYS.get(provider)
    if variable and not os.environ.get(variable):
        raise MissingKey(f"{name} needs the environment variable {variable}.", WITHOUT_KEY)
    return Choice(provider, model)


def open_client(choice: Choice, settings: LanguageSettings) -> Any:
    """An instructor client whose own retries are off; `MissingDependency` or `MissingKey` where it cannot be made."""
    logging.getLogger("instructor").setLevel(logging.CRITICAL)  # failures are reported here, once and without secrets
    try:
        if choice.provider == "anthropic":
            client = _anthropic(choice, settings)
        else:
            import instructor

            place: dict[str, Any] = {"base_url": ollama_url()} if choice.provider == "ollama" else {}
            client = instructor.from_provider(str(choice), async_client=True, **place)
    except SlowwaveError:
        raise
    except Exception as error:
        raise _opening_error(choice, error) from None
    sdk = client.client
    for name, value in (("max_retries", 0), ("timeout", settings.timeout_s)):
        if hasattr(sdk, name):
            setattr(sdk, name, value)
    return client


def _anthropic(choice: Choice, settings: LanguageSettings) -> Any:
    import anthropic
    import instructor

    http = anthropic.DefaultAsyncHttpxClient(verify=_trusted())
    key = os.environ[KEYS["anthropic"]]
    sdk = anthropic.AsyncAnthropic(api_key=key, max_retries=0, timeout=settings.timeout_s, http_client=http)
    return instructor.from_anthropic(sdk, model=choice.model)


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted, read once: a client for each run would read them again, in 20 ms."""
    import httpx2

    return httpx2.create_ssl_context()


def ollama_url() -> str:
    """Where Ollama answers, as OLLAMA_HOST names it."""
    host = os.environ.get("OLLAMA_HOST") or "127.0.0.1:11434"
    return f"{host if '://' in host else f'http://{host}'}/v1"


def _opening_error(choice: Choice, error: Exception) -> SlowwaveError:
    text = without_secrets(str(error))
    if isinstance(error, ImportError) or "package is required" in text or "pip install" in text:
        return MissingDependency(f"{choice} needs a package that is not installed: {text}", WITHOUT_KEY)
    if "api_key" in text.lower() or "credentials" in text.lower() or "is not set" in text:
        return MissingKey(f"{choice} needs a key: {text}", WITHOUT_KEY)
    return UnusableInput(f"{choice} cannot be opened: {text}", WITHOUT_KEY)


# Who on this machine could read: agents that are installed, Ollama, keys; what each costs, and what is missing.


QUOTES = "quotes"
KEPT = "nobody: words are kept as they were said, and can be read later"
_WAIT_S = 0.3


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who could read: its model as settings name it, its name for people, its cost, and what is missing."""

    model: str
    label: str
    cost: str
    missing: str = ""


def find_readers() -> list[Reader]:
    """All readers of this machine, those that are ready first. No model is called, and no key is looked at."""
    cost = "counts against the limits of your subscription; some fifty messages a call"
    agents = [Reader(each.provider, each.label, cost) for each in AGENTS.values() if shutil.which(each.program)]
    return sorted([*agents, *_local(), *_keys()], key=lambda reader: bool(reader.missing))


def _local() -> Iterator[Reader]:
    if not (os.environ.get("OLLAMA_HOST") or shutil.which("ollama")):
        return
    try:
        with urllib.request.urlopen(f"{ollama_url().removesuffix('/v1')}/api/tags", timeout=_WAIT_S) as answer:
            models = [str(each["name"]) for each in json.load(answer)["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        yield Reader("ollama/MODEL", "Ollama", "free, on this machine", "it does not answer: ollama serve")
        return
    for model in models[:3]:
        yield Reader(f"ollama/{model}", f"Ollama with {model}", "free, on this machine")
    if not models:
        yield Reader("ollama/MODEL", "Ollama", "free, on this machine", "it has no model: ollama pull qwen3")


def _keys() -> Iterator[Reader]:
    for provider, variable in KEYS.items():
        if not os.environ.get(variable):
            continue
        if provider == "anthropic":
            yield Reader(DEFAULT_MODEL, f"Claude by {variable}", "some 2 cents for a hundred messages")
        else:
            yield Reader(f"{provider}/MODEL", f"{provider} by {variable}", "its price", f"--model {provider}/MODEL")
