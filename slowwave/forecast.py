"""Forecasts: what reading so many messages will cost, from prompts that were really rendered and from calls so far.

Tokens that a model reads are counted on a sample of prompts. What it writes, and the calls that come after extraction
(names, conflicts, consolidation, summaries), follow from the calls of the ledger; where there are too few of them, from
the figures below, which were measured on the bundled conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from slowwave.records import Usage

EXTRACTION = "extract_facts"
TRUSTED_CALLS = 5
"""So many extractions of this model must be in the ledger before it is asked."""
RECENT_CALLS = 10
"""The newest runs with so many tell what is usual: the more is known, the more there is to compare."""
LEAST_RUNS = 3
"""A line through fewer tells nothing."""
MOST_GROWTH = 1.5
ALIKE = 0.2
"""Calls that judge as many messages as those before, give or take this share, read as much."""
WRITTEN_PER_MESSAGE = 25.0
WRITTEN_PER_CHAR = 0.86
"""What an extraction writes of a message, unless learned: a judgement, and facts, of which a longer text holds more."""
CALLS: pl.Schema = pl.Schema(
    {"prompt_name": pl.String, "role": pl.String, "run_id": pl.String, "tokens_in": pl.Int64, "tokens_out": pl.Int64,
     "judged": pl.Int64}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Follower:
    """A prompt that is asked after extraction: calls in each run and for each extraction, and tokens of a call.

    The more is known, the more there is to compare: calls for each extraction follow `line`, a + b times the
    extractions so far, from what was usual lately (`per_extraction`) up to half as many again.
    """

    role: str
    per_run: float
    per_extraction: float
    tokens_in: float
    tokens_out: float
    line: tuple[float, float] = (0.0, 0.0)

    def calls(self, extractions: int, before: int) -> float:
        """Calls of a run with so many extractions, after so many earlier ones."""
        base, growth = self.line
        rate = max(self.per_extraction, base + growth * (before + extractions / 2))
        return self.per_run + min(rate, MOST_GROWTH * self.per_extraction) * extractions if extractions else 0.0


Followers = Mapping[str, Follower]
AFTER_A_BATCH: Followers = MappingProxyType({"consolidate_facts": Follower("consolidate", 1.0, 0.2, 2700.0, 200.0)})
IN_THE_NIGHT: Followers = MappingProxyType({"summarize_communities": Follower("summarize", 1.0, 0.0, 2000.0, 300.0)})


@dataclass(frozen=True, slots=True)
class Habits:
    """What calls were like so far: tokens written per message judged, and what follows an extraction, and when.

    `written_per_char` is of the judged text, where no call has told how much is written of a message.

    `usual_reading` are tokens that an extraction read and messages that it judged, on average.
    """

    written_per_message: float = WRITTEN_PER_MESSAGE
    written_per_char: float = WRITTEN_PER_CHAR
    after_a_batch: Followers = field(default_factory=lambda: AFTER_A_BATCH)
    in_the_night: Followers = field(default_factory=lambda: IN_THE_NIGHT)
    calls: int = 0
    extractions: int = 0
    usual_reading: tuple[float, float] = (0.0, 0.0)

    def written(self, messages: int, chars: int) -> float:
        """Tokens written of so many judged messages with so many characters of text."""
        return self.written_per_message * messages + self.written_per_char * chars

    @property
    def is_assumed(self) -> bool:
        """Whether the ledger knew too little."""
        return not self.calls

    def corrected(self, read: Sequence[float], judged: Sequence[int]) -> list[float]:
        """Tokens that extractions read, as a provider counts: as much longer or shorter as those before were.

        Only where they judge about as many messages each; tokenizers differ by a fifth at most.
        """
        tokens, messages = self.usual_reading
        if not read or not tokens or abs(sum(judged) / len(judged) / messages - 1.0) > ALIKE:
            return list(read)
        factor = min(max(tokens * len(read) / sum(read), 1.0 - ALIKE), 1.0 + ALIKE)
        return [each * factor for each in read]

    def within(self, consolidates: bool) -> Habits:
        """The habits of runs that leave consolidation to the night, unless they do not."""
        kept = {name: each for name, each in self.after_a_batch.items() if consolidates or each.role != "consolidate"}
        return replace(self, after_a_batch=kept)


def habits_of(calls: pl.DataFrame) -> Habits:
    """The habits that the calls of a ledger (CALLS) show.

    `judged` is the number of messages that an extraction judged. The flow that paid is the first word of `run_id`.
    """
    extractions = calls.filter(pl.col("prompt_name") == EXTRACTION, pl.col("judged") > 0)
    if len(extractions) < TRUSTED_CALLS:
        return Habits()
    runs = extractions.group_by("run_id").len("calls").sort("run_id", descending=True)
    recent = runs.filter(pl.col("calls").cum_sum().shift(1, fill_value=0) < RECENT_CALLS)["run_id"]
    lately = extractions.filter(pl.col("run_id").is_in(recent.implode()))
    others = calls.filter(pl.col("prompt_name") != EXTRACTION)
    after = _followers(others.filter(pl.col("run_id").is_in(recent.implode())), len(lately))
    return Habits(
        float(lately["tokens_out"].sum()) / float(lately["judged"].sum()),
        0.0,
        {name: replace(each, line=_line(runs, others, name)) for name, each in after.items()},
        _followers(others.filter(~pl.col("run_id").str.starts_with("ingest-")), 0),
        len(calls),
        len(extractions),
        (float(lately["tokens_in"].sum()) / len(lately), float(lately["judged"].sum()) / len(lately)),
    )


def _line(runs: pl.DataFrame, calls: pl.DataFrame, name: str) -> tuple[float, float]:
    """How calls for each extraction grow with what is known, run by run: a and b; nothing where they do not."""
    theirs = calls.filter(pl.col("prompt_name") == name).group_by("run_id").len("followers")
    grown = runs.sort("run_id").join(theirs, on="run_id", how="left", maintain_order="left")
    weight = grown["calls"].cast(pl.Float64).to_numpy()
    rate = grown["followers"].fill_null(0).to_numpy() / weight
    known = np.cumsum(weight) - weight / 2
    if len(grown) < LEAST_RUNS or not np.ptp(known):
        return 0.0, 0.0
    growth, base = np.polyfit(known, rate, 1, w=np.sqrt(weight))
    return (float(base), float(growth)) if growth > 0.0 else (0.0, 0.0)


def _followers(calls: pl.DataFrame, extractions: int) -> dict[str, Follower]:
    """For each extraction, or where there is none, for each run that asked anything."""
    means = calls.group_by("prompt_name", "role").agg(
        pl.len(), pl.col("run_id").n_unique(), pl.col("tokens_in", "tokens_out").mean()
    )
    return {
        name: Follower(role, 0.0, count / extractions, *tokens)
        if extractions
        else Follower(role, count / runs, 0.0, *tokens)
        for name, role, count, runs, *tokens in means.sort("prompt_name").iter_rows()
    }


def tokens_by_length(lengths: Sequence[int], sampled: Sequence[int], counted: Sequence[int]) -> list[float]:
    """Tokens of every prompt from its characters: a line through those of the sample, which were counted.

    `lengths` are characters of each prompt's messages, `sampled` positions among them, `counted` their tokens.
    """
    known = np.asarray([lengths[n] for n in sampled], float)
    tokens = np.asarray(counted, float)
    spread = known - known.mean()
    slope = float(spread @ tokens) / float(spread @ spread) if spread.any() else 0.0
    line = tokens.mean() + slope * (np.asarray(lengths, float) - known.mean())
    return [float(each) for each in np.maximum(line, 0.0)]


def evenly(count: int, sample: int) -> list[int]:
    """Positions of a sample, spread evenly over so many things, first and last among them."""
    if count <= sample:
        return list(range(count))
    return sorted({int(n) for n in np.linspace(0, count - 1, max(sample, 1)).round()})


def followers_cost(
    followers: Followers,
    extractions: int,
    price: Callable[[str, Any], tuple[float, float] | None],
    before: int = 0,
) -> Usage:
    """What the calls after so many extractions of one run will cost; `before` it there were so many.

    `price(prompt, role)` is dollars per token read and per token written; nothing for roles in which rules answer.
    """
    total = Usage()
    for prompt, each in followers.items():
        if (dollars := price(prompt, each.role)) is not None:
            calls = each.calls(extractions, before)
            read, written = calls * each.tokens_in, calls * each.tokens_out
            usd = read * dollars[0] + written * dollars[1]
            total += Usage(round(calls), 0, round(read), round(written), usd)
    return total
