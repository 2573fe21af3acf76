"""When what says the same becomes one."""

from __future__ import annotations

from pydantic import Field

from .groups import ApprovalSettings, GateSettings, Group, Ratio, RetentionSettings, alias
from .language import LanguageSettings


class ArtifactSettings(Group):
    """How documents and pasted texts are linked to earlier ones (S1-15 … S1-19)."""

    enabled: bool = Field(
        True,
        title="Artifacts",
        description="File documents and pasted texts as wholes, and link their versions.",
        validation_alias=alias("enabled", "enable_artifact_consolidation"),
    )
    min_chars: int = Field(
        400,
        ge=1,
        le=1_000_000,
        title="Shortest paste",
        description="A fenced block in a message this long is an artifact.",
    )
    similar_cosine: Ratio = Field(
        0.60, title="Similar artifact", description="Cosine from which two artifacts are compared (S1-16)."
    )
    matches: int = Field(5, ge=1, le=100, title="Compared with", description="Nearest heads looked at (S1-16).")
    text_dedup: Ratio = Field(
        0.90,
        title="Same text",
        description="Shared five-word shingles from which one is a duplicate (S1-17).",
        validation_alias=alias("text_dedup", "artifact_text_dedup_threshold"),
    )
    link_confidence: Ratio = Field(
        0.80,
        title="Sure link",
        description="Confidence from which an artifact is a version or derivative (S1-18).",
        validation_alias=alias("link_confidence", "artifact_consolidation_confidence_threshold"),
    )
    title_jaccard: Ratio = Field(
        0.50, title="Same title", description="Shared title words from which it is a version (S1-18)."
    )
    ask_model: bool = Field(
        False, title="Ask a model", description="Let a model say whether it is a version or a derivative (S1-18)."
    )


class MergeSettings(Group):
    """When facts that say the same become one (S1-01 … S1-19)."""

    enabled: bool = Field(
        True,
        title="Consolidate after a batch",
        description="Off: `ingest` leaves it to the nightly run.",
        validation_alias=alias("enabled", "enable_consolidation"),
    )
    resolve_cosine: Ratio | None = Field(
        None,
        title="Perhaps the same",
        description="Cosine from which facts may say the same; none: what fits the embedding model, 0.60 for most "
        "(S1-03).",
        validation_alias=alias("resolve_cosine", "consolidation_resolve_threshold"),
    )
    text_dedup: Ratio = Field(
        0.85,
        title="Same words",
        description="Shared words from which facts are merged without a model, guards permitting (S1-04).",
        validation_alias=alias("text_dedup", "consolidation_text_dedup_threshold"),
    )
    merge_cosine: Ratio = Field(
        0.70,
        title="Same form",
        description="Cosine from which facts are merged without a model where every guard agrees; the guards demand "
        "the same statement, so this only says which pairs are shown to them (§6.2).",
    )
    max_existing_matches: int = Field(
        10,
        ge=1,
        le=100,
        title="Neighbours",
        description="Facts that each new one is compared with (S1-02).",
        validation_alias=alias("max_existing_matches", "consolidation_max_existing_matches"),
    )
    max_cluster_size: int = Field(
        12,
        ge=2,
        le=100,
        title="Largest cluster",
        description="Larger ones are cut before pairs are chosen in them (S1-03).",
        validation_alias=alias("max_cluster_size", "consolidation_max_cluster_size"),
    )
    pairwise_max_batch: int = Field(
        20,
        ge=0,
        le=10_000,
        title="Pairwise up to",
        description="So many new facts are compared pair by pair, more in clusters (S1-14).",
        validation_alias=alias("pairwise_max_batch", "consolidation_pairwise_max_batch"),
    )
    rerank: bool = Field(
        False,
        title="Rerank",
        description="Look at more neighbours and keep those that share most words too (S1-12).",
        validation_alias=alias("rerank", "consolidation_rerank"),
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
        validation_alias=alias("cluster_concurrency", "consolidation_cluster_concurrency"),
    )
    partition_from: int = Field(
        2000,
        ge=10,
        le=10_000_000,
        title="Partition from",
        description="Facts from which HDBSCAN parts what is connected (S1-03).",
    )
    max_attempts: int = Field(
        3, ge=1, le=20, title="Attempts", description="Unusable verdicts about a fact before it is given up (S1-08)."
    )
    artifacts: ArtifactSettings = Field(
        default_factory=ArtifactSettings, title="Artifacts", description="Documents and pasted texts."
    )


class ConsolidateSettings(MergeSettings):
    """Everything a run of `consolidate` can be told."""

    propose_pairs: int = Field(
        50,
        ge=0,
        le=10_000,
        title="Pairs for a person",
        description="So many pairs that a guard kept apart wait for a person at a time, where no model is asked; 0: "
        "none (§6.2).",
    )
    propose_cosine: Ratio = Field(
        0.88, title="Pairs from", description="Cosine from which a person is asked about a pair (§6.2 S8)."
    )
    llm: LanguageSettings = Field(default_factory=LanguageSettings, title="Language model", description="Who decides.")
    gate: GateSettings = Field(
        default_factory=GateSettings, title="Gate", description="Taken back if recall got worse."
    )
    approval: ApprovalSettings = Field(
        default_factory=ApprovalSettings,
        title="Approval",
        description="What waits for a person; on the command line the [approval] of the file.",
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions and leases; on the command line the [retention] of the file.",
    )
