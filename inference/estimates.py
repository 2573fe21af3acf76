"""The expected tokens and price of a prompt, before a model is called; budgets use the same figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from slowwave.records import Prompt
from slowwave.text import as_json

from .budget import CHARS_PER_TOKEN, TOOL_TOKENS
from .language import Language
from .prices import price_of
from .providers import FREE, choose
from .remote import BATCH_SHARE
from .request_batch import ROLES, Role


def tokens_read(prompt: Prompt, response_model: type[BaseModel]) -> int:
    """Tokens that a model will read: the prompt, and the schema of the tool that it is to fill in."""
    schema_chars = len(as_json(response_model.model_json_schema()))
    return TOOL_TOKENS + int((len(prompt.system) + len(prompt.text) + schema_chars) / CHARS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per input token and per output token of each paid role; 0 if no price is known.

    In batches half of it, except for prompts that are sent live there, too.
    """

    live: Mapping[Role, tuple[float, float]]
    is_batched: bool
    urgent: Collection[str]

    def of(self, prompt: str, role: Role) -> tuple[float, float] | None:
        """The price of a token of such a prompt, read and written; None where rules answer."""
        if role not in self.live:
            return None
        share = BATCH_SHARE if self.is_batched and prompt not in self.urgent else 1.0
        read, written = self.live[role]
        return share * read, share * written


def prices_of(language: Language, urgent: Collection[str]) -> Prices:
    """The prices of everyone whom this asks; `urgent` are names of prompts that do not wait for a batch."""
    found: dict[Role, tuple[float, float]] = {}
    for role in ROLES:
        choice = choose(language.model(role))
        if choice.provider not in FREE:
            price = price_of(choice.provider, choice.model)
            found[role] = (price.usd(1, 0), price.usd(0, 1)) if price else (0.0, 0.0)
    return Prices(found, language.settings.mode == "batch", urgent)
