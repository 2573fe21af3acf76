"""Settings of the rules about facts, evaluation, contradictions, beliefs, merging, and of their upkeep."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import DecidingSettings, GateSettings, Group, LanguageSettings, Ratio, WritingSettings
from .recall import UseSettings


class EvaluateSettings(Group):
    """What a candidate must pass to become an active fact (S3-09, §6.2)."""

    min_confidence: Ratio = Field(0.50, description="Least confidence times grounding of a fact (S3-09a).")
    grounding_ratio: Ratio = Field(
        0.60, description="Share of a statement's words that its message must contain (S3-09a)."
    )
    ungrounded_factor: Ratio = Field(0.7, description="Factor of the confidence of what is grounded less.")
    min_quality: Ratio = Field(0.85, description="Least mean of the seven checks of a fact (S3-09c).")
    reassert_cosine: Ratio = Field(
        0.92, description="Cosine from which a candidate repeats a fact, guards permitting (§6.2 S2)."
    )
    flag_cosine: Ratio = Field(0.85, description="Cosine from which a fact is flagged as similar (§6.2 S3).")
    flag_containment: Ratio = Field(0.70, description="Shared words that flag a much longer or shorter fact (S0-03).")
    length_ratio: float = Field(
        2.0, ge=1.0, le=1000.0, description="Length ratio from which containment counts (S0-03)."
    )
    related_cosine: Ratio = Field(0.75, description="Cosine from which the nearest fact is noted as related (S4-21).")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.reassert_cosine >= self.flag_cosine >= self.related_cosine:
            raise ValueError("reassert_cosine >= flag_cosine >= related_cosine must hold")
        return self


class ReviseSettings(Group):
    """What happens when a new fact contradicts what is known (S2-58 … S2-62, S2-75, §6.3)."""

    strategy: Literal["recency", "confidence", "llm"] = Field(
        "recency",
        description="recency: what became true last. confidence: the surer; equal: recency. llm: both stay "
        "until a model has said which holds; recency where none is asked (S2-59).",
    )
    retain_alternatives: bool = Field(
        False, description="Note the losers of a conflict as alternatives in the winner's decision (S2-59)."
    )
    belief_revision: bool = Field(
        False,
        description="A new fact about the same pair and the same kind of relation that is close in meaning retires the "
        "old one (S2-62).",
    )
    revision_cosine: Ratio = Field(0.85, description="Cosine from which a new fact revises an old one (S2-62).")
    implicit_conflicts: bool = Field(
        False, description="Flag facts of one subject whose relations are spelt almost alike (S2-75)."
    )


class BeliefSettings(Group):
    """Unsure statements gather evidence before they become candidates (BeliefMem, S2-63 … S2-70)."""

    enabled: bool = Field(False, description="Hold unsure statements back until enough is said for them.")
    promote_threshold: float = Field(
        0.85, ge=0.5, le=1.0, description="Probability at which a belief becomes a candidate."
    )
    min_entry: Ratio = Field(0.3, description="Probability below which a statement is not even held (S2-64).")
    decay_rate: float = Field(
        0.0, ge=0.0, le=10.0, description="Probability is divided by 1 + days times this (S2-66)."
    )
    max_pending: int = Field(
        1000, ge=1, le=10_000_000, description="So many are held; the one updated longest ago is dropped first (S2-68)."
    )
    max_per_group: int = Field(
        10,
        ge=1,
        le=100_000,
        description="So many of one subject and relation are held; the least probable is dropped first (S2-68).",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.promote_threshold <= self.min_entry:
            raise ValueError(f"promote_threshold ({self.promote_threshold}) must be above min_entry ({self.min_entry})")
        return self


class ArtifactSettings(Group):
    """How documents and pasted texts are linked to earlier ones (S1-15 … S1-19)."""

    enabled: bool = Field(True, description="File documents and pasted texts as wholes, and link their versions.")
    text_dedup: Ratio = Field(0.90, description="Shared five-word shingles from which one is a duplicate (S1-17).")
    link_confidence: Ratio = Field(
        0.80, description="Confidence from which an artifact is a version or derivative (S1-18)."
    )
    ask_model: bool = Field(False, description="Let a model say whether it is a version or a derivative (S1-18).")


class MergeSettings(Group):
    """When facts that say the same become one (S1-01 … S1-19)."""

    enabled: bool = Field(True, description="Off: `ingest` leaves it to the nightly run.")
    resolve_cosine: Ratio | None = Field(
        None,
        description="Cosine from which facts may say the same; none: what fits the embedding model, 0.60 for most "
        "(S1-03).",
    )
    text_dedup: Ratio = Field(
        0.85, description="Shared words from which facts are merged without a model, guards permitting (S1-04)."
    )
    merge_cosine: Ratio = Field(
        0.70,
        description="Cosine from which facts are merged without a model where every guard agrees; the guards demand "
        "the same statement, so this only says which pairs are shown to them (§6.2).",
    )
    max_existing_matches: int = Field(10, ge=1, le=100, description="Facts that each new one is compared with (S1-02).")
    max_cluster_size: int = Field(
        12, ge=2, le=100, description="Facts of a cluster; larger ones are cut before pairs are chosen in them (S1-03)."
    )
    pairwise_max_batch: int = Field(
        20, ge=0, le=10_000, description="So many new facts are compared pair by pair, more in clusters (S1-14)."
    )
    rerank: bool = Field(False, description="Look at more neighbours and keep those that share most words too (S1-12).")
    rerank_multiplier: int = Field(
        3, ge=1, le=20, description="How many times as many neighbours are looked at (S1-12)."
    )
    ask_model: bool = Field(
        True,
        description="Let a model, where there is one, judge which pairs say the same, which of two facts updates or "
        "corrects the other, and which clash (S1-05, S2-59).",
    )
    pairs_per_fact: float = Field(
        0.35,
        ge=0.0,
        le=100.0,
        description="Pairs that a model judges for each fact that is looked at, on average; the best four of a fact at "
        "most, and always as many as fill one call.",
    )
    per_call: int = Field(20, ge=1, le=50, description="Pairs of facts that one model call judges.")
    cluster_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        description="Calls in flight at once; within `ingest` that of its language model counts (S1-05).",
    )
    artifacts: ArtifactSettings = ArtifactSettings.as_field("Documents and pasted texts.")


class ConsolidateSettings(MergeSettings, DecidingSettings):
    """Everything a run of `consolidate` can be told."""

    llm: LanguageSettings = LanguageSettings.as_field("Who decides.")
    gate: GateSettings = GateSettings.as_field("Taken back if recall got worse.")


# What is scored, what moves out of the way, and what belongs together.


class StewardSettings(DecidingSettings):
    """What is scored, pruned and merged by how it is used (S4-02 … S4-09)."""

    prune_threshold: Ratio = Field(0.1, description="Score below which a fact that nobody ever recalled fades (S4-07).")
    grace_period_hours: float = Field(
        24.0, ge=0.0, le=87_600.0, description="Hours; younger facts are never pruned (S4-07)."
    )
    decay_half_days: float = Field(
        90.0, gt=0.0, le=36_500.0, description="Days in which the score of a worthy fact halves (S4-06)."
    )
    min_half_life_days: float = Field(
        7.0, gt=0.0, le=36_500.0, description="Days in which the score of a worthless fact halves (S4-06)."
    )
    merge_threshold: Ratio = Field(0.88, description="Cosine from which facts are merged, guards permitting (S4-08).")
    merge_neighbors: int = Field(
        5, ge=1, le=100, description="Nearest facts that each new one is compared with (S4-08)."
    )
    merge_scan: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="New facts of a sweep, oldest first; the rest comes next time; 0: all (S4-08).",
    )
    batch_size: int = Field(500, ge=1, le=100_000, description="Facts that are pruned in one commit.")
    learning_events: int = Field(
        50,
        ge=-1_000_000,
        le=1_000_000_000,
        description="Until so many recalls were logged facts are scored, but nothing is pruned, merged or hidden; 0 or "
        "less: 50 (S4-02).",
    )
    use: UseSettings = UseSettings.as_field("What makes an entity important, and stale (S0-22, S0-24).")
    llm: LanguageSettings = LanguageSettings.as_field("Who decides what guards keep apart.")
    gate: GateSettings = GateSettings.as_field("Taken back if recall got worse.")


class DecaySettings(DecidingSettings):
    """What moves out of the way (S2-51 … S2-54, S2-73)."""

    expired_edge_retention_days: float = Field(
        90.0,
        ge=0.0,
        le=36_500.0,
        description="What the store stopped believing longer ago moves to the archive, and entities of which nothing "
        "is known and which nobody mentioned for so long (S2-51, S2-52).",
    )
    max_entities: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Entities that are kept; the least connected ones go first; 0: no limit (S2-53).",
    )
    link_weight_decay_lambda: float = Field(
        0.95,
        gt=0.0,
        le=1.0,
        description="Factor by which links weaken per interval without a recall; 1: not at all (S2-73).",
    )
    link_weight_decay_interval_secs: float = Field(
        86_400.0, gt=0.0, le=315_360_000.0, description="Seconds of that interval (S2-73)."
    )
    beliefs: BeliefSettings = BeliefSettings.as_field("How many are held (S2-54).")
    gate: GateSettings = GateSettings.as_field("Taken back if recall got worse.")


class CommunitySettings(WritingSettings):
    """How communities are found and summarised (S2-45 … S2-50)."""

    max_prompt_bytes: int = Field(
        8192,
        ge=0,
        le=1_000_000,
        description="Communities share a prompt up to here; one that needs more is cut; 0: no summaries, else at least "
        "512 (S2-48).",
    )
    concurrency: int = Field(4, ge=1, le=64, description="Prompts in flight at once (S2-48).")
    llm: LanguageSettings = LanguageSettings.as_field("Who summarises.")
    gate: GateSettings = GateSettings.as_field("Taken back if recall got worse.")

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if 0 < self.max_prompt_bytes < 512:
            raise ValueError(
                f"max_prompt_bytes ({self.max_prompt_bytes}) leaves no room for what a community is made of; "
                "set 0 for no summaries, or at least 512"
            )
        return self
