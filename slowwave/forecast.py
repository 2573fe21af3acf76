"""Forecasts: what reading so many messages will cost, from prompts that were rendered and from calls so far.

What a model reads is counted on a sample of prompts. What it writes is a share of that, and the calls that follow
(names, reconciliation, summaries) are so many for each extraction: as the newest calls of the ledger show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from slowwave.records import Usage

EXTRACTION = "extract_facts"
WRITTEN = 0.35
"""Tokens written for each token read by an extraction, unless the ledger tells."""
TRUSTED_CALLS = 5
RECENT_CALLS = 50
CALLS = pl.Schema(
    {"prompt_name": pl.String, "role": pl.String, "run_id": pl.String, "tokens_in": pl.Int64, "tokens_out": pl.Int64}
)
Price = Callable[[str, Any], tuple[float, float] | None]
"""Dollars per token read and written of a prompt in a role; nothing where rules answer."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A prompt that follows extraction: calls and tokens for each extraction, in the run itself or in the night."""

    prompt: str
    role: str
    calls: float
    tokens_in: float
    tokens_out: float
    in_the_night: bool = False


ASSUMED = (
    Follower("reconcile_facts", "consolidate", 0.3, 600.0, 80.0),
    Follower("summarize_communities", "summarize", 0.1, 200.0, 30.0, in_the_night=True),
)


@dataclass(frozen=True, slots=True)
class Habits:
    """What calls were like so far: the share that extractions write, and what follows each; `calls` tell it."""

    written: float = WRITTEN
    followers: tuple[Follower, ...] = ASSUMED
    calls: int = 0

    def after(self, extractions: int, price: Price, *, in_the_night: bool = False) -> Usage:
        """What the calls after so many extractions will take."""
        total = Usage()
        for each in self.followers if extractions else ():
            dollars = price(each.prompt, each.role)
            if each.in_the_night is in_the_night and dollars is not None:
                read, written = each.tokens_in * extractions, each.tokens_out * extractions
                usd = read * dollars[0] + written * dollars[1]
                total += Usage(max(round(each.calls * extractions), 1), 0, round(read), round(written), usd)
        return total


def habits_of(calls: pl.DataFrame) -> Habits:
    """The habits that the calls of a ledger (CALLS) show; the flow that paid is the first word of `run_id`."""
    extractions = calls.filter(pl.col("prompt_name") == EXTRACTION).sort("run_id")
    if len(extractions) < TRUSTED_CALLS:
        return Habits()
    newest, count = extractions.tail(RECENT_CALLS), len(extractions)
    in_the_night = ~pl.col("run_id").str.starts_with("ingest-")
    others = calls.filter(pl.col("prompt_name") != EXTRACTION).group_by("prompt_name", "role", night=in_the_night)
    sums = others.agg(pl.len(), pl.col("tokens_in").sum(), pl.col("tokens_out").sum()).sort("prompt_name", "night")
    followers = [
        Follower(name, role, asks / count, read / count, written / count, night)
        for name, role, night, asks, read, written in sums.iter_rows()
    ]
    share = float(newest["tokens_out"].sum()) / max(float(newest["tokens_in"].sum()), 1.0)
    return Habits(share, tuple(followers), len(calls))


def tokens_of_all(chars: Sequence[int], sampled: Sequence[int], counted: Sequence[int], fixed: int) -> list[float]:
    """Tokens of every prompt: `fixed` ones, and more for each character, as the `counted` ones of the sample show."""
    share = sum(each - fixed for each in counted) / max(sum(chars[n] for n in sampled), 1)
    return [fixed + each * share for each in chars]


def evenly(count: int, sample: int) -> list[int]:
    """Positions of a sample, spread evenly over so many things, first and last among them."""
    if count <= sample:
        return list(range(count))
    return sorted({round(n * (count - 1) / max(sample - 1, 1)) for n in range(sample)})
