"""Every default once: one frozen model per stage, each number with its meaning and its range.

The command line, `slowwave.toml`, the run form of a deployment and `docs/settings.md` are all made from these models.
Key names of the systems that slowwave unites stay valid as aliases (SEMANTICS §6.7).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

DEFAULT_EMBEDDER = "slowwave/minilm-static-256"
DEFAULT_MODEL = "anthropic/claude-haiku-4-5"

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Risk = Literal["pinned", "override", "large", "erasure", "user_stated", "cross_source"]


def _alias(name: str, *others: str) -> Any:
    """The field's own name first, then the names under which other systems know it."""
    return AliasChoices(name, *others)


class Group(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class LanguageSettings(Group):
    """Which language model does what, and how much it may cost."""

    model: str = Field(
        "auto",
        title="Model",
        description="provider/model, for example anthropic/claude-haiku-4-5 or ollama/llama3.2. 'rules' is the keyless "
        "extractor, 'replay/FILE' plays recorded answers. 'auto' takes Claude if ANTHROPIC_API_KEY is set, else rules.",
    )
    extract_model: str = Field(
        "",
        title="Model for extraction",
        description="Overrides the model for extraction only; empty means the same.",
        validation_alias=_alias("extract_model", "extract_provider"),
    )
    resolve_model: str = Field(
        "", title="Model for name resolution", description="Overrides the model for ambiguous names only."
    )
    consolidate_model: str = Field(
        "", title="Model for consolidation", description="Overrides the model that decides what says the same."
    )
    summarize_model: str = Field(
        "", title="Model for summaries", description="Overrides the model that summarises communities only."
    )
    judge_model: str = Field(
        "", title="Model for judgement", description="Overrides the model that settles conflicts and new relations."
    )
    max_calls: int | None = Field(
        None,
        ge=0,
        title="Budget: calls",
        description="Stop the run cleanly after this many paid calls; none: no limit.",
    )
    max_tokens: int | None = Field(
        None, ge=0, title="Budget: tokens", description="Stop the run cleanly after this many tokens, in and out."
    )
    max_usd: float | None = Field(
        None, ge=0.0, title="Budget: dollars", description="Stop the run cleanly when this much has been spent."
    )
    concurrency: int = Field(4, ge=1, le=64, title="Concurrent calls", description="Calls in flight at once.")
    calls_per_minute: int = Field(
        0, ge=0, title="Calls per minute", description="Upper limit on calls started per minute; 0: no limit."
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


class NoiseSettings(Group):
    """What is refused before it is stored as knowledge (SEMANTICS S4-11 … S4-20, S2-22)."""

    min_assistant_chars: int = Field(
        80,
        ge=0,
        title="Shortest assistant message",
        description="Shorter ones are refused; 0 switches this off (S4-13).",
        validation_alias=_alias("min_assistant_chars", "ingest_min_len"),
    )
    content_gate: Ratio = Field(
        0.35,
        title="Content gate",
        description="Messages that score lower against the noise prototypes are refused (S4-15).",
        validation_alias=_alias("content_gate", "content_score_pre_gate"),
    )
    exchange_similarity: Ratio = Field(
        0.85, title="Repeated exchange", description="Cosine from which an exchange repeats a recent one (S4-14)."
    )
    exchange_window: int = Field(
        50, ge=0, le=1000, title="Recent exchanges", description="How many accepted exchanges are compared; 0: none."
    )
    min_chunk_chars: int = Field(
        40,
        ge=0,
        title="Shortest passage",
        description="Shorter document passages are refused (S4-19).",
        validation_alias=_alias("min_chunk_chars", "noise_min_len"),
    )
    min_alnum_ratio: Ratio = Field(
        0.40,
        title="Letters and digits",
        description="Smallest share of letters and digits in a passage (S4-19).",
        validation_alias=_alias("min_alnum_ratio", "noise_min_alnum_ratio"),
    )
    max_chars: int = Field(
        50_000, ge=1000, title="Longest message", description="Longer ones are cut at a line end (S4-19)."
    )
    rejection_capacity: int = Field(
        500,
        ge=1,
        title="Refusals remembered",
        description="Size of the ring that teaches the noise prototypes (S4-18).",
    )
    rebuild_every: int = Field(
        25, ge=1, title="Relearn after", description="Teaching refusals after which the prototypes are rebuilt (S4-18)."
    )
    max_learned: int = Field(
        150,
        ge=0,
        title="Learned prototypes",
        description="Newest refusals that become noise prototypes (S4-18).",
        validation_alias=_alias("max_learned", "max_protos"),
    )
    noise_top_k: int = Field(
        3, ge=1, title="Nearest noise", description="Noise prototypes averaged in the score (S4-16)."
    )
    topic_boundary: Ratio = Field(
        0.65,
        title="Topic boundary",
        description="Cosine of neighbours below which a new topic begins (S4-22).",
        validation_alias=_alias("topic_boundary", "topic_boundary_threshold"),
    )
    max_group_chars: int = Field(
        2048, ge=1, title="Longest topic", description="Characters after which a new group begins anyway (S4-22)."
    )
    acknowledgements: tuple[str, ...] = Field(
        (),
        title="More acknowledgements",
        description="Replies that say nothing by themselves, beside the built-in ones (S4-11).",
    )
    finding_phrases: tuple[str, ...] = Field(
        (),
        title="More finding phrases",
        description="Words that announce a finding and pass the gates, beside the built-in ones (S4-12).",
    )
    quality_prototypes: tuple[str, ...] = Field(
        (),
        title="Worth keeping",
        description="Texts that show what is worth keeping; empty: the built-in ones (S4-16).",
        validation_alias=_alias("quality_prototypes", "quality_protos"),
    )
    noise_prototypes: tuple[str, ...] = Field(
        (),
        title="Noise",
        description="Texts that show what is noise; empty: the built-in ones (S4-16).",
        validation_alias=_alias("noise_prototypes", "noise_protos"),
    )


class SurpriseSettings(Group):
    """Reward-prediction-error gate: messages that tell nothing new are not extracted (S2-72)."""

    enabled: bool = Field(False, title="Surprise gate", description="Skip messages that tell nothing new.")
    threshold: Ratio = Field(0.3, title="Smallest surprise", description="Messages below it are skipped.")
    max_skip_turns: int = Field(
        5, ge=1, title="Longest silence", description="Skips in a row before one is forced through."
    )


class LinkSettings(Group):
    """Entities whose descriptions are alike are linked after extraction (S2-71)."""

    enabled: bool = Field(False, title="Link entities", description="Link entities whose descriptions are alike.")
    similarity: Ratio = Field(
        0.85,
        title="Alike",
        description="Cosine from which two entities are linked.",
        validation_alias=_alias("similarity", "similarity_threshold"),
    )
    top_k: int = Field(10, ge=1, le=100, title="Links per entity", description="The nearest ones.")
    timeout_s: float = Field(
        5.0,
        gt=0.0,
        le=600.0,
        title="Time-out in seconds",
        description="For the whole pass; what was found by then is kept.",
        validation_alias=_alias("timeout_s", "timeout_secs"),
    )


class ExtractSettings(Group):
    """How messages become candidate facts (S2-16 … S2-25)."""

    enabled: bool = Field(True, title="Build the graph", description="Off: messages are stored and searched, no facts.")
    window_messages: int = Field(
        12, ge=1, le=200, title="Messages per call", description="New messages of one conversation in one call."
    )
    window_tokens: int = Field(
        3000, ge=100, le=100_000, title="Tokens per call", description="A window is closed before it grows beyond this."
    )
    context_messages: int = Field(
        4, ge=0, le=50, title="Messages of context", description="Earlier messages shown but not extracted (S2-17)."
    )
    known_facts: int = Field(
        12, ge=0, le=100, title="Known facts shown", description="Live facts near the window that it may supersede."
    )
    max_entities_per_message: int = Field(
        10, ge=0, title="Entities per message", description="More are dropped (S2-18)."
    )
    max_facts_per_message: int = Field(
        15,
        ge=0,
        title="Facts per message",
        description="More are dropped (S2-18).",
        validation_alias=_alias("max_facts_per_message", "max_edges_per_message"),
    )
    default_confidence: Ratio = Field(
        0.8, title="Missing confidence", description="Taken when the extractor gives none (S2-18)."
    )
    chunk_tokens: int = Field(
        500, ge=50, le=8000, title="Passage size", description="Tokens per document passage (S3-01)."
    )
    chunk_overlap: int = Field(50, ge=0, le=1000, title="Passage overlap", description="Tokens shared by neighbours.")
    batch_messages: int = Field(
        2000, ge=1, le=50_000, title="Messages per batch", description="Messages that are committed together."
    )
    max_attempts: int = Field(
        3, ge=1, le=20, title="Attempts", description="Failed extractions of a message before it is given up (S2-25)."
    )
    note_linking: LinkSettings = Field(
        default_factory=LinkSettings, title="Links", description="Entities whose descriptions are alike."
    )
    community_refresh_interval: int = Field(
        100,
        ge=0,
        title="Messages until a refresh",
        description="Each time so many more messages were extracted, communities are due to be found anew; 0: never "
        "(S2-45).",
    )


class ResolveSettings(Group):
    """When two names are one entity (S2-01 … S2-09)."""

    use_embedding_resolution: bool = Field(
        False, title="Compare by meaning", description="Off: only exact names and aliases are joined (S2-07)."
    )
    entity_similarity: Ratio = Field(
        0.85,
        title="Same entity",
        description="Cosine from which two names of one type are one entity (S2-07).",
        validation_alias=_alias("entity_similarity", "entity_similarity_threshold"),
    )
    entity_ambiguous: Ratio = Field(
        0.70,
        title="Ambiguous",
        description="Cosine from which a model is asked whether they are one (S2-07).",
        validation_alias=_alias("entity_ambiguous", "entity_ambiguous_threshold"),
    )
    type_strict: bool = Field(
        False, title="Types apart", description="On: one name under two types is two entities (S2-09)."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.entity_ambiguous >= self.entity_similarity:
            raise ValueError(
                f"entity_ambiguous ({self.entity_ambiguous}) must be below entity_similarity ({self.entity_similarity})"
            )
        return self


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
        validation_alias=_alias("reassert_cosine", "dedup_threshold"),
    )
    flag_cosine: Ratio = Field(
        0.85, title="Similar statement", description="Cosine from which a fact is flagged as similar (§6.2 S3)."
    )
    flag_containment: Ratio = Field(
        0.70, title="Contained statement", description="Shared words that flag a much longer or shorter fact (S0-03)."
    )
    length_ratio: float = Field(
        2.0, ge=1.0, title="Much longer", description="Length ratio from which containment counts (S0-03)."
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

    conflicts: bool = Field(
        True,
        title="Settle conflicts",
        description="Of two objects of a relation that allows one at a time, one is retired where something tells of a "
        "change; in doubt both stay and the pair is flagged (S2-58b).",
    )
    strategy: Literal["recency", "confidence", "llm"] = Field(
        "recency",
        title="Who wins",
        description="recency: what became true last. confidence: the surer; equal: recency. llm: a model is asked, "
        "and recency decides where it gives no answer (S2-59).",
        validation_alias=_alias("strategy", "conflict_resolution_strategy"),
    )
    calls_per_batch: int = Field(
        3, ge=0, le=100, title="Calls per batch", description="Questions to the model about conflicts (S2-59)."
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
    verify_with_llm: bool = Field(
        False, title="Verify", description="Ask a model whether a revision contradicts or reinforces (S2-62)."
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
        validation_alias=_alias("min_entry", "min_entry_prob"),
    )
    decay_rate: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        title="Decay per day",
        description="Probability is divided by 1 + days times this (S2-66).",
        validation_alias=_alias("decay_rate", "belief_decay_rate"),
    )
    max_pending: int = Field(
        1000,
        ge=1,
        title="Pending beliefs at most",
        description="The one updated longest ago is dropped first (S2-68).",
        validation_alias=_alias("max_pending", "max_pending_beliefs"),
    )
    max_per_group: int = Field(
        10,
        ge=1,
        title="Per subject and relation",
        description="The least probable is dropped first (S2-68).",
        validation_alias=_alias("max_per_group", "max_candidates_per_group"),
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.promote_threshold <= self.min_entry:
            raise ValueError(f"promote_threshold ({self.promote_threshold}) must be above min_entry ({self.min_entry})")
        return self


class ArtifactSettings(Group):
    """How documents and pasted texts are linked to earlier ones (S1-15 … S1-19)."""

    enabled: bool = Field(
        True,
        title="Artifacts",
        description="File documents and pasted texts as wholes, and link their versions.",
        validation_alias=_alias("enabled", "enable_artifact_consolidation"),
    )
    min_chars: int = Field(
        400, ge=1, title="Shortest paste", description="A fenced block in a message this long is an artifact."
    )
    similar_cosine: Ratio = Field(
        0.60, title="Similar artifact", description="Cosine from which two artifacts are compared (S1-16)."
    )
    matches: int = Field(5, ge=1, le=100, title="Compared with", description="Nearest heads looked at (S1-16).")
    text_dedup: Ratio = Field(
        0.90,
        title="Same text",
        description="Shared five-word shingles from which one is a duplicate (S1-17).",
        validation_alias=_alias("text_dedup", "artifact_text_dedup_threshold"),
    )
    link_confidence: Ratio = Field(
        0.80,
        title="Sure link",
        description="Confidence from which an artifact is a version or derivative (S1-18).",
        validation_alias=_alias("link_confidence", "artifact_consolidation_confidence_threshold"),
    )
    title_jaccard: Ratio = Field(
        0.50, title="Same title", description="Shared title words from which it is a version (S1-18)."
    )
    ask_model: bool = Field(
        False, title="Ask a model", description="Let a model say whether it is a version or a derivative (S1-18)."
    )


class RetentionSettings(Group):
    """How long the past is kept."""

    undo_days: int = Field(
        30,
        ge=1,
        le=3650,
        title="Days of undo",
        description="Older versions are compacted away; undo and as-of-commit end there.",
    )
    mode: Literal["archive", "delete"] = Field(
        "archive",
        title="What eviction does",
        description="archive: what has been out of use long enough moves to the archive and can be restored. delete: "
        "it is removed for good (§6.1 C3).",
    )
    lease_s: float = Field(
        30.0, ge=1.0, le=3600.0, title="Writer lease", description="Seconds after which a silent writer is dead."
    )
    lease_wait_s: float = Field(
        60.0, ge=0.0, le=3600.0, title="Wait for the lease", description="Seconds before giving up."
    )


class ApprovalSettings(Group):
    """What a person decides, beside what a flow was told to propose (SEMANTICS §6.6)."""

    mode: Literal["auto", "manual"] = Field(
        "auto",
        title="Approval",
        description="auto: what passes is written, but for what is always a person's. manual: all changes wait for a "
        "person, as proposals (S3-10).",
    )
    risky: tuple[Risk, ...] = Field(
        ("pinned", "override", "large", "erasure"),
        title="Always a person's",
        description="What a flow never does by itself, also where it may write. pinned: changes what is pinned. "
        "override: retires what a person stated in favour of what was inferred. large: retires many facts at once. "
        "erasure: removes for good, a person's whether listed or not. user_stated: retires what a person stated. "
        "cross_source: joins facts of several sources.",
    )
    large: int = Field(
        8, ge=2, le=10_000, title="Large", description="So many facts retired or moved at once are a large change."
    )
    low_risk: Literal["person", "auto"] = Field(
        "person",
        title="Proposals without risk",
        description="person: where approval is required, all waits. auto: what has no risk is written at once.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_a_word(cls, value: Any) -> Any:
        """`approval = "manual"` is short for its mode."""
        return {"mode": value} if isinstance(value, str) else value


class GateSettings(Group):
    """Maintenance may not make recall worse: questions are put before and after, and a run that lost is taken back."""

    enabled: bool = Field(
        False,
        title="Gate",
        description="Ask the same questions before and after, and take the run back if recall fell.",
    )
    probes: int = Field(
        200, ge=10, le=10_000, title="Questions", description="Made from stored facts and from logged recalls."
    )
    k: int = Field(10, ge=1, le=100, title="Places", description="A question is answered within so many facts.")
    tolerance: Ratio = Field(
        0.02, title="Tolerance", description="Share of the questions that may be answered worse than before."
    )


class NightGateSettings(GateSettings):
    """The gate of the night, which is closed unless somebody opens it."""

    enabled: bool = Field(
        True, title="Gate", description="Ask the same questions after each phase, and take it back if recall fell."
    )


class MergeSettings(Group):
    """When facts that say the same become one (S1-01 … S1-19)."""

    enabled: bool = Field(
        True,
        title="Consolidate after a batch",
        description="Off: `ingest` leaves it to the nightly run.",
        validation_alias=_alias("enabled", "enable_consolidation"),
    )
    resolve_cosine: Ratio | None = Field(
        None,
        title="Perhaps the same",
        description="Cosine from which a model is asked whether facts say the same; none: what fits the embedding "
        "model, 0.60 for most (S1-03).",
        validation_alias=_alias("resolve_cosine", "consolidation_resolve_threshold"),
    )
    text_dedup: Ratio = Field(
        0.85,
        title="Same words",
        description="Shared words from which facts are merged without a model, guards permitting (S1-04).",
        validation_alias=_alias("text_dedup", "consolidation_text_dedup_threshold"),
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
        validation_alias=_alias("max_existing_matches", "consolidation_max_existing_matches"),
    )
    max_cluster_size: int = Field(
        12,
        ge=2,
        le=100,
        title="Largest cluster",
        description="Larger ones are cut before a model sees them (S1-03).",
        validation_alias=_alias("max_cluster_size", "consolidation_max_cluster_size"),
    )
    pairwise_max_batch: int = Field(
        20,
        ge=0,
        title="Pairwise up to",
        description="So many new facts are compared pair by pair, more in clusters (S1-14).",
        validation_alias=_alias("pairwise_max_batch", "consolidation_pairwise_max_batch"),
    )
    rerank: bool = Field(
        False,
        title="Rerank",
        description="Look at more neighbours and keep those that share most words too (S1-12).",
        validation_alias=_alias("rerank", "consolidation_rerank"),
    )
    rerank_multiplier: int = Field(
        3, ge=1, le=20, title="Rerank factor", description="How many more neighbours are looked at (S1-12)."
    )
    per_call: int = Field(
        8, ge=1, le=50, title="Clusters per call", description="Clusters or pairs that one model call decides."
    )
    cluster_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        title="Concurrent calls",
        description="Calls in flight at once; within `ingest` that of its language model counts (S1-05).",
        validation_alias=_alias("cluster_concurrency", "consolidation_cluster_concurrency"),
    )
    partition_from: int = Field(
        2000, ge=10, title="Partition from", description="Facts from which HDBSCAN parts what is connected (S1-03)."
    )
    max_attempts: int = Field(
        3, ge=1, le=20, title="Attempts", description="Failed decisions about a fact before it is given up (S1-08)."
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


class IngestSettings(Group):
    """Everything a run of `ingest` can be told."""

    llm: LanguageSettings = Field(default_factory=LanguageSettings, title="Language model", description="Who reads.")
    noise: NoiseSettings = Field(
        default_factory=NoiseSettings,
        title="Gates",
        description="What is refused before extraction.",
        validation_alias=_alias("noise", "pipeline"),
    )
    surprise: SurpriseSettings = Field(
        default_factory=SurpriseSettings,
        title="Surprise",
        description="Skip what tells nothing new.",
        validation_alias=_alias("surprise", "rpe"),
    )
    extract: ExtractSettings = Field(
        default_factory=ExtractSettings,
        title="Extraction",
        description="Windows, limits, passages.",
        validation_alias=_alias("extract", "graph"),
    )
    resolve: ResolveSettings = Field(
        default_factory=ResolveSettings, title="Entity resolution", description="When two names are one."
    )
    evaluate: EvaluateSettings = Field(
        default_factory=EvaluateSettings,
        title="Evaluation",
        description="What a candidate must pass.",
        validation_alias=_alias("evaluate", "eval"),
    )
    revise: ReviseSettings = Field(
        default_factory=ReviseSettings, title="Revision", description="When a new fact contradicts what is known."
    )
    beliefs: BeliefSettings = Field(
        default_factory=BeliefSettings,
        title="Pending beliefs",
        description="Unsure statements gather evidence first.",
        validation_alias=_alias("beliefs", "belief_mem"),
    )
    consolidate: MergeSettings = Field(
        default_factory=MergeSettings,
        title="Consolidation",
        description="What says the same becomes one after each batch.",
        validation_alias=_alias("consolidate", "consolidation"),
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions and leases; on the command line the [retention] of the file.",
    )
    approval: ApprovalSettings = Field(
        default_factory=ApprovalSettings,
        title="Approval",
        description="What waits for a person; on the command line the [approval] of the file.",
    )


class StewardSettings(Group):
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
        0, ge=0, title="New facts per sweep", description="Oldest first; the rest comes next time; 0: all (S4-08)."
    )
    batch_size: int = Field(
        500, ge=1, le=100_000, title="Facts per commit", description="So many are pruned or merged in one commit."
    )
    learning_events: int = Field(
        50,
        title="Learning period",
        description="Until so many recalls were logged facts are scored, but nothing is pruned, merged or hidden; 0 or "
        "less: 50 (S4-02).",
    )
    score_step: Ratio = Field(
        0.01, title="Written steps", description="Scores that changed less since they were written are not written."
    )
    llm: LanguageSettings = Field(
        default_factory=LanguageSettings, title="Language model", description="Who decides what guards keep apart."
    )
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


class DecaySettings(Group):
    """What moves out of the way (S2-51 … S2-54, S2-73)."""

    expired_edge_retention_days: float = Field(
        90.0,
        ge=0.0,
        le=36_500.0,
        title="Days of closed facts",
        description="Facts that the store stopped believing longer ago move to the archive (S2-51).",
    )
    orphan_days: float = Field(
        90.0, ge=0.0, le=36_500.0, title="Days of orphans", description="Entities of which nothing is known (S2-52)."
    )
    max_entities: int = Field(
        0, ge=0, title="Entities at most", description="The least connected ones go first; 0: no limit (S2-53)."
    )
    link_weight_decay_lambda: float = Field(
        0.95, gt=0.0, le=1.0, title="Link decay", description="Factor per interval without a recall; 1: none (S2-73)."
    )
    link_weight_decay_interval_secs: float = Field(
        86_400.0, gt=0.0, title="Link interval in seconds", description="How often links fade (S2-73)."
    )
    beliefs: BeliefSettings = Field(
        default_factory=BeliefSettings,
        title="Pending beliefs",
        description="How many are held (S2-54).",
        validation_alias=_alias("beliefs", "belief_mem"),
    )
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
        description="Archive or delete; on the command line the [retention] of the file.",
    )


class CommunitySettings(Group):
    """How communities are found and summarised (S2-45 … S2-50)."""

    algorithm: Literal["label_propagation", "leiden"] = Field(
        "label_propagation",
        title="Algorithm",
        description="label_propagation needs nothing more. leiden finds better ones; it needs slowwave[leiden].",
    )
    resolution: float = Field(
        1.0, gt=0.0, le=100.0, title="Resolution", description="Of Leiden: higher finds more and smaller communities."
    )
    max_rounds: int = Field(
        50, ge=1, le=1000, title="Rounds", description="Label propagation stops here at the latest (S2-46)."
    )
    facts_per_summary: int = Field(
        20, ge=1, le=200, title="Facts per summary", description="The strongest relations that are summarised (S2-48)."
    )
    max_prompt_bytes: int = Field(
        8192,
        ge=0,
        le=1_000_000,
        title="Longest prompt in bytes",
        description="Communities share a prompt up to here; one that needs more is cut; 0: no summaries, else at least "
        "512 (S2-48).",
        validation_alias=_alias("max_prompt_bytes", "community_summary_max_prompt_bytes"),
    )
    concurrency: int = Field(
        4,
        ge=1,
        le=64,
        title="Concurrent calls",
        description="Prompts in flight at once (S2-48).",
        validation_alias=_alias("concurrency", "community_summary_concurrency"),
    )
    llm: LanguageSettings = Field(
        default_factory=LanguageSettings, title="Language model", description="Who summarises."
    )
    gate: GateSettings = Field(
        default_factory=GateSettings, title="Gate", description="Taken back if recall got worse."
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions and leases; on the command line the [retention] of the file.",
    )

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if 0 < self.max_prompt_bytes < 512:
            raise ValueError(
                f"max_prompt_bytes ({self.max_prompt_bytes}) leaves no room for what a community is made of; "
                "set 0 for no summaries, or at least 512"
            )
        return self


class SleepSettings(Group):
    """Everything a night can be told."""

    consolidate: ConsolidateSettings = Field(
        default_factory=ConsolidateSettings, title="Consolidate", description="What says the same becomes one."
    )
    steward: StewardSettings = Field(
        default_factory=StewardSettings, title="Steward", description="What is used rises, what is not fades."
    )
    decay: DecaySettings = Field(default_factory=DecaySettings, title="Decay", description="What moves out of the way.")
    communities: CommunitySettings = Field(
        default_factory=CommunitySettings, title="Communities", description="What belongs together gets a name."
    )
    gate: NightGateSettings = Field(
        default_factory=NightGateSettings,
        title="Gate",
        description="A phase after which recall got worse is taken back.",
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions and leases; on the command line the [retention] of the file.",
    )


GraphMode = Literal["none", "bfs", "spread"]
EdgeType = Literal["semantic", "temporal", "causal", "hierarchical", "co_occurrence"]


class SpreadSettings(Group):
    """Spreading activation: entities pass on what reaches them (SYNAPSE, S2-41 … S2-43)."""

    decay_lambda: float = Field(
        0.85, gt=0.0, le=1.0, title="Passed on", description="Share of the activation that a relation passes on."
    )
    max_hops: int = Field(3, ge=1, le=20, title="Hops", description="How often activation is passed on.")
    activation_threshold: Ratio = Field(
        0.1, title="Least activation", description="Less is neither passed on nor counted."
    )
    inhibition_threshold: Ratio = Field(
        0.8, title="Inhibition", description="An entity that is activated so much receives no more."
    )
    max_activated_nodes: int = Field(
        50, ge=1, title="Active entities at most", description="The most activated ones stay after each hop."
    )
    seed_activation: Literal["uniform", "hybrid"] = Field(
        "uniform",
        title="Activation of seeds",
        description="uniform: 1. hybrid: how well the query names them and how connected they are (S2-42).",
    )
    no_backflow: bool = Field(
        False, title="No echo", description="An entity passes nothing back over the relation that it was reached by."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.activation_threshold >= self.inhibition_threshold:
            raise ValueError(
                f"activation_threshold ({self.activation_threshold}) must be below inhibition_threshold "
                f"({self.inhibition_threshold})"
            )
        return self


class WalkSettings(Group):
    """How recall follows relations from the entities that a query names (S2-26 … S2-35)."""

    seeds: int = Field(10, ge=1, le=1000, title="Seeds", description="Entities of the query at which walks begin.")
    max_hops: int = Field(2, ge=0, le=20, title="Hops", description="How far a breadth-first walk goes (S2-30).")
    edge_types: tuple[EdgeType, ...] = Field(
        (), title="Kinds of relations", description="Only these are followed; empty: all (S2-30)."
    )
    temporal_decay_rate: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        title="Decay per day",
        description="How fast relations lose the boost, or the flow, that new ones have; 0: none (S2-35, S2-41).",
    )
    seed_structural_weight: Ratio = Field(
        0.4, title="Weight of structure", description="Of connections beside words in the score of a seed (S2-28)."
    )
    seed_community_cap: int = Field(
        3, ge=0, title="Seeds per community", description="More of one community are passed over; 0: no limit (S2-29)."
    )
    similar_links: bool = Field(
        False, title="Follow similar entities", description="Also walk from an entity to those that are alike (S2-71)."
    )
    recall_timeout_ms: int = Field(
        500,
        ge=1,
        le=600_000,
        title="Time-out in milliseconds",
        description="A longer walk finds nothing; loading the graph, once per commit, is not counted (S2-44).",
    )
    spread: SpreadSettings = Field(
        default_factory=SpreadSettings,
        title="Spreading activation",
        description="The other way to walk.",
        validation_alias=_alias("spread", "spreading_activation"),
    )


class RecallSettings(Group):
    """How recall searches and ranks."""

    k: int = Field(
        10,
        ge=1,
        le=1000,
        title="Facts",
        description="Facts returned unless asked otherwise.",
        validation_alias=_alias("k", "recall_limit"),
    )
    expansion: int = Field(
        3, ge=1, le=50, title="Candidate factor", description="Candidates per channel for each fact returned (S0-26)."
    )
    vector_weight: float = Field(
        1.0,
        ge=0.0,
        le=10.0,
        title="Weight of meaning",
        description="Of the cosine beside the words' score, which is 0 to 1.",
    )
    min_quality: Ratio = Field(
        0.0,
        title="Smallest quality",
        description="Facts that the steward scored lower are not recalled once the learning period is over; 0: all "
        "are. With the 0.05 of S4-03 a memory that nobody asked for half a year would answer nothing.",
    )
    graph: GraphMode = Field(
        "bfs",
        title="Graph",
        description="Whether relations of the entities that the query names are recalled too: breadth first, or by "
        "spreading activation.",
    )
    graph_weight: float = Field(
        0.3,
        ge=0.0,
        le=10.0,
        title="Weight of the graph",
        description="What the strongest fact of a walk gains; others by their share of it. Words alone give 1.",
    )
    rrf_k: int = Field(
        60,
        ge=1,
        le=10_000,
        title="Rank constant",
        description="k of reciprocal-rank fusion, 1 / (k + rank), where entities are searched (S0-26).",
    )
    limbic: bool = Field(
        False,
        title="Weight of use",
        description="Facts about entities that are read often, lately and together come first. Off: what was not asked "
        "for in a while would be hidden by what was (S0-26).",
    )
    diversity: Ratio = Field(
        0.0, title="Diversity", description="How much a fact loses by being like one that is recalled before it."
    )
    neighbours: Ratio = Field(
        0.5,
        title="Turns beside",
        description="Share of a matching message's score that the turns before and after it get.",
    )
    episode_boost: Ratio = Field(
        0.1, title="Current conversation", description="What a fact of the conversation gains that is asked in (S2-74)."
    )
    walk: WalkSettings = Field(default_factory=WalkSettings, title="Walk", description="How relations are followed.")


class SplitSettings(Group):
    """When an entity holds too much, and how it is parted by topic (S0-07 … S0-16)."""

    thresholds: dict[str, Annotated[int, Field(ge=1, le=100_000)]] = Field(
        default_factory=lambda: {"session": 15, "project": 25, "default": 20},
        title="Thresholds",
        description="Observations beyond which an entity of a type may be parted; `default` for all other types. What "
        "is not given stays as it is. Names of other vocabularies are understood (S0-07).",
    )
    cut_distance: float = Field(
        0.5, gt=0.0, le=2.0, title="Cut", description="Cosine distance at which topics part, average linkage (S0-09)."
    )
    large_entity: int = Field(
        200, ge=2, le=100_000, title="Density above", description="Observations beyond which HDBSCAN finds the topics."
    )
    label_terms: int = Field(2, ge=1, le=5, title="Words of a label", description="How many name a topic (S0-10).")
    min_topics: int = Field(2, ge=1, le=100, title="Topics", description="Fewer are no diversity (S0-08).")
    min_topic_size: int = Field(
        2, ge=1, le=1000, title="Smallest topic", description="Observations; smaller ones stay on the parent (S0-13)."
    )
    proactive_ratio: Ratio = Field(
        0.8, title="Early", description="Share of its threshold from which an entity is approaching (S0-16, S0-21)."
    )
    stop_words: tuple[str, ...] = Field(
        (), title="Stop words", description="Words that name no topic, beside the English and Spanish ones (S0-09)."
    )


class ReportSettings(Group):
    """What the consolidation report finds stale, and what it shows (S0-17 … S0-28)."""

    stale_days: float = Field(
        90.0, ge=0.0, le=36_500.0, title="Stale after", description="Days without access, or since it was made (S0-20)."
    )
    stale_max_access: int = Field(
        2, ge=0, le=1_000_000, title="Stale up to", description="Reads with which an entity may still be stale (S0-20)."
    )
    top_n_active: int = Field(
        10, ge=0, le=1000, title="Duplicates of", description="So many most read entities are reviewed (S0-28)."
    )
    propose_splits: bool = Field(
        False, title="Propose splits", description="Leave a proposal for every split candidate (S0-16)."
    )
    split: SplitSettings = Field(default_factory=SplitSettings, title="Split", description="When an entity is large.")
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions and leases; on the command line the [retention] of the file.",
    )


class LabelSettings(Group):
    """In which words types and relations are shown; all known ones are understood whatever is shown (C8)."""

    locale: Literal["en", "es"] = Field("en", title="Words", description="en, or es for those of sofia.")


class McpSettings(Group):
    """The door for agents."""

    token_budget: int = Field(
        2000, ge=1, le=1_000_000, title="Tokens", description="What `recall` may return unless it is asked for more."
    )
    approvals: Literal["ask", "never"] = Field(
        "ask",
        title="Approvals",
        description="ask: the client asks its person (elicitation). never: only the terminal and Prefect approve.",
    )


class Settings(Group):
    """The whole of `slowwave.toml`."""

    embedder: str = Field(
        DEFAULT_EMBEDDER,
        title="Embedding model",
        description="provider/model; the default ships with slowwave. A store keeps the model it was made with.",
    )
    ingest: IngestSettings = Field(default_factory=IngestSettings, title="Ingest", description="The `ingest` flow.")
    consolidate: ConsolidateSettings = Field(
        default_factory=ConsolidateSettings,
        title="Consolidate",
        description="The `consolidate` flow.",
        validation_alias=_alias("consolidate", "consolidation"),
    )
    steward: StewardSettings = Field(
        default_factory=StewardSettings, title="Steward", description="The `steward` flow."
    )
    decay: DecaySettings = Field(default_factory=DecaySettings, title="Decay", description="The `decay` flow.")
    communities: CommunitySettings = Field(
        default_factory=CommunitySettings, title="Communities", description="The `communities` flow."
    )
    sleep: NightGateSettings = Field(
        default_factory=NightGateSettings,
        title="Sleep",
        description="The gate of the `sleep` flow; its phases have sections of their own.",
    )
    recall: RecallSettings = Field(
        default_factory=RecallSettings,
        title="Recall",
        description="The read road.",
        validation_alias=_alias("recall", "retrieval"),
    )
    approval: ApprovalSettings = Field(
        default_factory=ApprovalSettings, title="Approval", description="What a person decides."
    )
    split: SplitSettings = Field(default_factory=SplitSettings, title="Split", description="When an entity is large.")
    report: ReportSettings = Field(default_factory=ReportSettings, title="Report", description="The `report` flow.")
    labels: LabelSettings = Field(default_factory=LabelSettings, title="Labels", description="Words that are shown.")
    mcp: McpSettings = Field(default_factory=McpSettings, title="MCP", description="The door for agents.")
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions, leases.",
        validation_alias=_alias("retention", "eviction"),
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        repeated, merged = self.ingest.evaluate.reassert_cosine, self.steward.merge_threshold
        flagged = self.ingest.evaluate.flag_cosine
        if not repeated >= merged >= flagged:
            raise ValueError(
                f"ingest.evaluate.reassert_cosine ({repeated}) >= steward.merge_threshold ({merged}) >= "
                f"ingest.evaluate.flag_cosine ({flagged}) must hold"
            )
        return self
