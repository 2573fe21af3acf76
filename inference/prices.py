"""What a model's tokens cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MILLION = 1_000_000
_DATED = re.compile(r"-(?:\d{8}|latest)$")
LOCAL = frozenset({"ollama"})


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens; prompts longer than `long_from` tokens cost `long_factor` times as much."""

    tokens_in: float
    tokens_out: float
    long_from: int = 0
    long_factor: float = 1.0

    def usd(self, tokens_in: int, tokens_out: int) -> float:
        """Dollars for one call."""
        factor = self.long_factor if self.long_from and tokens_in > self.long_from else 1.0
        return factor * (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / MILLION


# https://platform.claude.com/docs/en/about-claude/pricing as of November 2026; prompt caching is not used here.
CLAUDE: Mapping[str, Price] = MappingProxyType(
    {
        "claude-fable-5-1": Price(10.0, 50.0),
        "claude-fable-5": Price(10.0, 50.0),
        "claude-opus-5-5": Price(4.0, 20.0),
        "claude-opus-5": Price(5.0, 25.0),
        "claude-opus-4-8": Price(5.0, 25.0),
        "claude-opus-4-7": Price(5.0, 25.0),
        "claude-opus-4-6": Price(5.0, 25.0),
        "claude-opus-4-5": Price(5.0, 25.0),
        "claude-sonnet-5-5": Price(2.0, 10.0),
        "claude-sonnet-5": Price(2.0, 10.0),
        "claude-sonnet-4-6": Price(3.0, 15.0),
        "claude-sonnet-4-5": Price(3.0, 15.0),
        "claude-haiku-5-5": Price(0.10, 0.50, long_from=100_000, long_factor=5.0),
        "claude-haiku-4-5": Price(1.0, 5.0),
    }
)


def price_of(provider: str, model: str) -> Price | None:
    """The price of a model; free where it runs on one's own machine, none where it is not known."""
    if provider in LOCAL:
        return Price(0.0, 0.0)
    return CLAUDE.get(_DATED.sub("", model)) if provider == "anthropic" else None
