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


class RetentionSettings(Group):
    """How long the past is kept."""

    undo_days: int = Field(
        30,
        ge=1,
        le=3650,
        title="Days of undo",
        description="Older versions are compacted away; undo and as-of-commit end there.",
    )
    lease_s: float = Field(
        30.0, ge=1.0, le=3600.0, title="Writer lease", description="Seconds after which a silent writer is dead."
    )
    lease_wait_s: float = Field(
        60.0, ge=0.0, le=3600.0, title="Wait for the lease", description="Seconds before giving up."
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
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions and leases; on the command line the [retention] of the file.",
    )
    approval: Literal["auto", "manual"] = Field(
        "auto",
        title="Approval",
        description="auto: what passes becomes active. manual: batches wait for a person (S3-10).",
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


class Settings(Group):
    """The whole of `slowwave.toml`."""

    embedder: str = Field(
        DEFAULT_EMBEDDER,
        title="Embedding model",
        description="provider/model; the default ships with slowwave. A store keeps the model it was made with.",
    )
    ingest: IngestSettings = Field(default_factory=IngestSettings, title="Ingest", description="The `ingest` flow.")
    recall: RecallSettings = Field(
        default_factory=RecallSettings,
        title="Recall",
        description="The read road.",
        validation_alias=_alias("recall", "retrieval"),
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions, leases.",
        validation_alias=_alias("retention", "eviction"),
    )
