"""Which language model does what, and how much it may cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Group


class SpendingLimits(Group):
    """What a run may cost, all its parts together."""

    max_calls: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000,
        title="Budget: calls",
        description="Stop cleanly after this many paid calls; none: no limit.",
    )
    max_tokens: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000_000,
        title="Budget: tokens",
        description="Stop cleanly after this many tokens, in and out.",
    )
    max_usd: float | None = Field(
        None, ge=0.0, le=1_000_000.0, title="Budget: dollars", description="Stop cleanly when this much has been spent."
    )


class LanguageSettings(SpendingLimits):
    """Which language model does what, and how much it may cost."""

    model: str = Field(
        "auto",
        title="Model",
        description="provider/model, for example anthropic/claude-haiku-4-5 or ollama/llama3.2. 'claude-code', 'codex' "
        "and 'gemini-cli' (also with /model) are agents on this machine. 'quotes' keeps words as they were said, "
        "'replay/FILE' plays recorded answers. 'auto': nobody was asked yet, as 'quotes'.",
    )
    extract_model: str = Field(
        "", title="Model for extraction", description="Overrides the model for extraction only; empty means the same."
    )
    resolve_model: str = Field(
        "", title="Model for name resolution", description="Overrides the model for ambiguous names only."
    )
    consolidate_model: str = Field(
        "",
        title="Model for consolidation",
        description="Overrides the model that judges pairs of facts: the same, an update, a clash.",
    )
    summarize_model: str = Field(
        "", title="Model for summaries", description="Overrides the model that summarises communities only."
    )
    judge_model: str = Field(
        "", title="Model for judgement", description="Overrides the model that names new relations and links documents."
    )
    answer_model: str = Field(
        "", title="Model for answers", description="Overrides the model that answers questions: slowwave ask."
    )
    max_calls_per_day: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000,
        title="Daily budget: calls",
        description="Paid calls of all runs of this namespace since midnight UTC; none: no limit.",
    )
    max_tokens_per_day: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000_000,
        title="Daily budget: tokens",
        description="Tokens, in and out, of all runs since midnight UTC.",
    )
    max_usd_per_day: float | None = Field(
        None,
        ge=0.0,
        le=1_000_000.0,
        title="Daily budget: dollars",
        description="Dollars of all runs since midnight UTC.",
    )
    mode: Literal["live", "batch"] = Field(
        "live",
        title="Way of asking",
        description="batch: through Anthropic's Message Batches, at half the price and within a day; for backfills.",
    )
    batch_poll_s: float = Field(
        30.0,
        gt=0.0,
        le=3600.0,
        title="Seconds between looks",
        description="How often a batch is asked whether it ended.",
    )
    concurrency: int = Field(4, ge=1, le=64, title="Concurrent calls", description="Calls in flight at once.")
    calls_per_minute: int = Field(
        0,
        ge=0,
        le=1_000_000,
        title="Calls per minute",
        description="Upper limit on calls started per minute; 0: no limit.",
    )
    timeout_s: float = Field(
        60.0,
        gt=0.0,
        le=3600.0,
        title="Time-out in seconds",
        description="For one call, retries not included.",
    )
    transient_retries: int = Field(
        5, ge=0, le=20, title="Retries", description="How often a 429, 529, 5xx or time-out is tried again."
    )
    validation_retries: int = Field(
        1, ge=0, le=5, title="Repairs", description="How often a malformed answer is sent back to be corrected."
    )
    max_output_tokens: int = Field(
        4096, ge=64, le=64000, title="Answer length", description="Tokens per answer at most."
    )
