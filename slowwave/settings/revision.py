"""What a candidate must pass, and what happens when it contradicts what is known."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from .groups import Group, Ratio, alias


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
        validation_alias=alias("reassert_cosine", "dedup_threshold"),
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

    replaced: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "calls_per_batch": "pairs are judged many to a call, as many as [ingest.consolidate] pairs_per_fact says",
            "verify_with_llm": "a model judges whatever may contradict what is known, unless [ingest.consolidate] "
            "ask_model is false",
        }
    )

    conflicts: bool = Field(
        True,
        title="Settle conflicts",
        description="Of two objects of a relation that allows one at a time, the one that was said last holds and the "
        "other one ends; in doubt both stay and the pair is flagged (S2-58b).",
    )
    strategy: Literal["recency", "confidence", "llm"] = Field(
        "recency",
        title="Who wins",
        description="recency: what became true last. confidence: the surer; equal: recency. llm: both stay "
        "until a model has said which holds; recency where none is asked (S2-59).",
        validation_alias=alias("strategy", "conflict_resolution_strategy"),
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
    implicit_similarity: Ratio = Field(
        0.80, title="Almost alike", description="Levenshtein similarity from which two relations are flagged (S2-75)."
    )
    implicit_ttl_days: int = Field(
        30, ge=1, le=3650, title="Days of a flag", description="After which a pending flag is forgotten (S2-75)."
    )
    learn_predicates: bool = Field(
        True,
        title="Learn relations",
        description="Ask a model once about each relation that the table does not know (S2-61).",
    )


class BeliefSettings(Group):
    """Unsure statements gather evidence before they become candidates (BeliefMem, S2-63 … S2-70)."""

    enabled: bool = Field(
        False, title="Pending beliefs", description="Hold unsure statements back until enough is said for them."
    )
    promote_threshold: float = Field(
        0.85, ge=0.5, le=1.0, title="Sure enough", description="Probability at which a belief becomes a candidate."
    )
    min_entry: Ratio = Field(
        0.3,
        title="Too unsure",
        description="Statements below it are not even held (S2-64).",
        validation_alias=alias("min_entry", "min_entry_prob"),
    )
    decay_rate: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        title="Decay per day",
        description="Probability is divided by 1 + days times this (S2-66).",
        validation_alias=alias("decay_rate", "belief_decay_rate"),
    )
    max_pending: int = Field(
        1000,
        ge=1,
        le=10_000_000,
        title="Pending beliefs at most",
        description="The one updated longest ago is dropped first (S2-68).",
        validation_alias=alias("max_pending", "max_pending_beliefs"),
    )
    max_per_group: int = Field(
        10,
        ge=1,
        le=100_000,
        title="Per subject and relation",
        description="The least probable is dropped first (S2-68).",
        validation_alias=alias("max_per_group", "max_candidates_per_group"),
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.promote_threshold <= self.min_entry:
            raise ValueError(f"promote_threshold ({self.promote_threshold}) must be above min_entry ({self.min_entry})")
        return self
