"""What is scored, what moves out of the way, and what belongs together."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from .base import DecidingSettings, GateSettings, Ratio, WritingSettings
from .facts import BeliefSettings
from .language import LanguageSettings
from .recall import UseSettings


class StewardSettings(DecidingSettings):
    """What is scored, pruned and merged by how it is used (S4-02 … S4-09)."""

    prune_threshold: Ratio = Field(
        0.1, title="Prune below", description="Score below which a fact that nobody ever recalled fades (S4-07)."
    )
    grace_period_hours: float = Field(
        24.0, ge=0.0, le=87_600.0, title="Grace in hours", description="Younger facts are never pruned (S4-07)."
    )
    decay_half_days: float = Field(
        90.0, gt=0.0, le=36_500.0, title="Half-life in days", description="Of the score of worthy facts (S4-06)."
    )
    min_half_life_days: float = Field(
        7.0, gt=0.0, le=36_500.0, title="Shortest half-life", description="Of the score of worthless facts (S4-06)."
    )
    merge_threshold: Ratio = Field(
        0.88, title="Duplicate", description="Cosine from which facts are merged, guards permitting (S4-08)."
    )
    merge_neighbors: int = Field(
        5, ge=1, le=100, title="Neighbours", description="Nearest facts that each new one is compared with (S4-08)."
    )
    merge_scan: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        title="New facts per sweep",
        description="Oldest first; the rest comes next time; 0: all (S4-08).",
    )
    batch_size: int = Field(
        500, ge=1, le=100_000, title="Facts per commit", description="So many are pruned in one commit."
    )
    learning_events: int = Field(
        50,
        ge=-1_000_000,
        le=1_000_000_000,
        title="Learning period",
        description="Until so many recalls were logged facts are scored, but nothing is pruned, merged or hidden; 0 or "
        "less: 50 (S4-02).",
    )
    use: UseSettings = UseSettings.as_field("Use", "What makes an entity important, and stale (S0-22, S0-24).")
    llm: LanguageSettings = LanguageSettings.as_field("Language model", "Who decides what guards keep apart.")
    gate: GateSettings = GateSettings.as_field("Gate", "Taken back if recall got worse.")


class DecaySettings(DecidingSettings):
    """What moves out of the way (S2-51 … S2-54, S2-73)."""

    expired_edge_retention_days: float = Field(
        90.0,
        ge=0.0,
        le=36_500.0,
        title="Days of closed facts",
        description="What the store stopped believing longer ago moves to the archive, and entities of which nothing "
        "is known and which nobody mentioned for so long (S2-51, S2-52).",
    )
    max_entities: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        title="Entities at most",
        description="The least connected ones go first; 0: no limit (S2-53).",
    )
    link_weight_decay_lambda: float = Field(
        0.95, gt=0.0, le=1.0, title="Link decay", description="Factor per interval without a recall; 1: none (S2-73)."
    )
    link_weight_decay_interval_secs: float = Field(
        86_400.0,
        gt=0.0,
        le=315_360_000.0,
        title="Link interval in seconds",
        description="How often links decay (S2-73).",
    )
    beliefs: BeliefSettings = BeliefSettings.as_field("Pending beliefs", "How many are held (S2-54).")
    gate: GateSettings = GateSettings.as_field("Gate", "Taken back if recall got worse.")


class CommunitySettings(WritingSettings):
    """How communities are found and summarised (S2-45 … S2-50)."""

    max_prompt_bytes: int = Field(
        8192,
        ge=0,
        le=1_000_000,
        title="Longest prompt in bytes",
        description="Communities share a prompt up to here; one that needs more is cut; 0: no summaries, else at least "
        "512 (S2-48).",
    )
    concurrency: int = Field(4, ge=1, le=64, title="Concurrent calls", description="Prompts in flight at once (S2-48).")
    llm: LanguageSettings = LanguageSettings.as_field("Language model", "Who summarises.")
    gate: GateSettings = GateSettings.as_field("Gate", "Taken back if recall got worse.")

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if 0 < self.max_prompt_bytes < 512:
            raise ValueError(
                f"max_prompt_bytes ({self.max_prompt_bytes}) leaves no room for what a community is made of; "
                "set 0 for no summaries, or at least 512"
            )
        return self
