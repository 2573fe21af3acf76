"""Settings of the rules about facts: evaluation, contradictions, beliefs, merging."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import DecidingSettings, GateSettings, Group, Ratio
from .language import LanguageSettings


class EvaluateSettings(Group):
    """What a candidate must pass to become an active fact (S3-09, §6.2)."""

    min_confidence: Ratio = Field(0.50, title="Smallest confidence", description="Confidence times grounding (S3-09a).")
    grounding_ratio: Ratio = Field(
        0.60, title="Grounded share", description="Share of a statement's words that its message must contain (S3-09a)."
    )
    ungrounded_factor: Ratio = Field(0.7, title="Ungrounded factor", description="Confidence factor below that share.")
    min_quality: Ratio = Field(0.85, title="Smallest quality", description="Mean of the seven checks (S3-09c).")
    reassert_cosine: Ratio = Field(
        0.92,
        title="Same statement",
        description="Cosine from which a candidate repeats a fact, guards permitting (§6.2 S2).",
    )
    flag_cosine: Ratio = Field(
        0.85, title="Similar statement", description="Cosine from which a fact is flagged as similar (§6.2 S3)."
    )
    flag_containment: Ratio = Field(
        0.70, title="Contained statement", description="Shared words that flag a much longer or shorter fact (S0-03)."
    )
    length_ratio: float = Field(
        2.0, ge=1.0, le=1000.0, title="Much longer", description="Length ratio from which containment counts (S0-03)."
    )
    related_cosine: Ratio = Field(
        0.75, title="Related statement", description="Cosine from which the nearest fact is noted as related (S4-21)."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.reassert_cosine >= self.flag_cosine >= self.related_cosine:
            raise ValueError("reassert_cosine >= flag_cosine >= related_cosine must hold")
        return self


class ReviseSettings(Group):
    """What happens when a new fact contradicts what is known (S2-58 … S2-62, S2-75, §6.3)."""

    strategy: Literal["recency", "confidence", "llm"] = Field(
        "recency",
        title="Who wins",
        description="recency: what became true last. confidence: the surer; equal: recency. llm: both stay "
        "until a model has said which holds; recency where none is asked (S2-59).",
    )
    retain_alternatives: bool = Field(
        False,
        title="Name the losers",
        description="Note the losers of a conflict as alternatives in the winner's decision (S2-59).",
    )
    belief_revision: bool = Field(
        False,
        title="Belief revision",
        description="A new fact about the same pair and the same kind of relation that is close in meaning retires the "
        "old one (S2-62).",
    )
    revision_cosine: Ratio = Field(
        0.85, title="Same belief", description="Cosine from which a new fact revises an old one (S2-62)."
    )
    implicit_conflicts: bool = Field(
        False,
        title="Implicit conflicts",
        description="Flag facts of one subject whose relations are spelt almost alike (S2-75).",
    )


class BeliefSettings(Group):
    """Unsure statements gather evidence before they become candidates (BeliefMem, S2-63 … S2-70)."""

    enabled: bool = Field(
        False, title="Pending beliefs", description="Hold unsure statements back until enough is said for them."
    )
    promote_threshold: float = Field(
        0.85, ge=0.5, le=1.0, title="Sure enough", description="Probability at which a belief becomes a candidate."
    )
    min_entry: Ratio = Field(0.3, title="Too unsure", description="Statements below it are not even held (S2-64).")
    decay_rate: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        title="Decay per day",
        description="Probability is divided by 1 + days times this (S2-66).",
    )
    max_pending: int = Field(
        1000,
        ge=1,
        le=10_000_000,
        title="Pending beliefs at most",
        description="The one updated longest ago is dropped first (S2-68).",
    )
    max_per_group: int = Field(
        10,
        ge=1,
        le=100_000,
        title="Per subject and relation",
        description="The least probable is dropped first (S2-68).",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.promote_threshold <= self.min_entry:
            raise ValueError(f"promote_threshold ({self.promote_threshold}) must be above min_entry ({self.min_entry})")
        return self


class ArtifactSettings(Group):
    """How documents and pasted texts are linked to earlier ones (S1-15 … S1-19)."""

    enabled: bool = Field(
        True, title="Artifacts", description="File documents and pasted texts as wholes, and link their versions."
    )
    text_dedup: Ratio = Field(
        0.90, title="Same text", description="Shared five-word shingles from which one is a duplicate (S1-17)."
    )
    link_confidence: Ratio = Field(
        0.80, title="Sure link", description="Confidence from which an artifact is a version or derivative (S1-18)."
    )
    ask_model: bool = Field(
        False, title="Ask a model", description="Let a model say whether it is a version or a derivative (S1-18)."
    )


class MergeSettings(Group):
    """When facts that say the same become one (S1-01 … S1-19)."""

    enabled: bool = Field(
        True, title="Consolidate after a batch", description="Off: `ingest` leaves it to the nightly run."
    )
    resolve_cosine: Ratio | None = Field(
        None,
        title="Perhaps the same",
        description="Cosine from which facts may say the same; none: what fits the embedding model, 0.60 for most "
        "(S1-03).",
    )
    text_dedup: Ratio = Field(
        0.85,
        title="Same words",
        description="Shared words from which facts are merged without a model, guards permitting (S1-04).",
    )
    merge_cosine: Ratio = Field(
        0.70,
        title="Same form",
        description="Cosine from which facts are merged without a model where every guard agrees; the guards demand "
        "the same statement, so this only says which pairs are shown to them (§6.2).",
    )
    max_existing_matches: int = Field(
        10, ge=1, le=100, title="Neighbours", description="Facts that each new one is compared with (S1-02)."
    )
    max_cluster_size: int = Field(
        12,
        ge=2,
        le=100,
        title="Largest cluster",
        description="Larger ones are cut before pairs are chosen in them (S1-03).",
    )
    pairwise_max_batch: int = Field(
        20,
        ge=0,
        le=10_000,
        title="Pairwise up to",
        description="So many new facts are compared pair by pair, more in clusters (S1-14).",
    )
    rerank: bool = Field(
        False, title="Rerank", description="Look at more neighbours and keep those that share most words too (S1-12)."
    )
    rerank_multiplier: int = Field(
        3, ge=1, le=20, title="Rerank factor", description="How many more neighbours are looked at (S1-12)."
    )
    ask_model: bool = Field(
        True,
        title="Ask a model",
        description="Let a model, where there is one, judge which pairs say the same, which of two facts updates or "
        "corrects the other, and which clash (S1-05, S2-59).",
    )
    pairs_per_fact: float = Field(
        0.35,
        ge=0.0,
        le=100.0,
        title="Pairs per fact",
        description="Pairs that a model judges for each fact that is looked at, on average; the best four of a fact at "
        "most, and always as many as fill one call.",
    )
    per_call: int = Field(
        20, ge=1, le=50, title="Pairs per call", description="Pairs of facts that one model call judges."
    )
    cluster_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        title="Concurrent calls",
        description="Calls in flight at once; within `ingest` that of its language model counts (S1-05).",
    )
    artifacts: ArtifactSettings = ArtifactSettings.as_field("Artifacts", "Documents and pasted texts.")


class ConsolidateSettings(MergeSettings, DecidingSettings):
    """Everything a run of `consolidate` can be told."""

    llm: LanguageSettings = LanguageSettings.as_field("Language model", "Who decides.")
    gate: GateSettings = GateSettings.as_field("Gate", "Taken back if recall got worse.")
