"""Settings of a run of `ingest`, of the rules about facts, and of their upkeep."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import (
    AtOnce,
    Count,
    Days,
    DaysOrNone,
    DecidingSettings,
    Few,
    FewOrNone,
    GateSettings,
    Group,
    LanguageSettings,
    Number,
    Rate,
    Ratio,
    Seconds,
    Share,
    UseSettings,
    Weight,
    WritingSettings,
)


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
    decay_rate: Rate = Field(0.0, description="Probability is divided by 1 + days times this (S2-66).")
    max_pending: Number = Field(
        1000, description="So many are held; the one updated longest ago is dropped first (S2-68)."
    )
    max_per_group: Number = Field(
        10, description="So many of one subject and relation are held; the least probable is dropped first (S2-68)."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.promote_threshold <= self.min_entry:
            raise ValueError(f"promote_threshold ({self.promote_threshold}) must be above min_entry ({self.min_entry})")
        return self


class ArtifactSettings(Group):
    """How documents are linked to earlier ones (S1-15 … S1-19)."""

    enabled: bool = Field(True, description="File documents as wholes, and link their versions.")
    text_dedup: Ratio = Field(0.90, description="Shared five-word shingles from which one is a duplicate (S1-17).")
    link_confidence: Ratio = Field(
        0.80, description="Confidence from which an artifact is a version or derivative (S1-18)."
    )


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
    max_existing_matches: Few = Field(10, description="Facts that each new one is compared with (S1-02).")
    max_cluster_size: int = Field(
        12, ge=2, le=100, description="Facts of a cluster; larger ones are cut before pairs are chosen in them (S1-03)."
    )
    pairwise_max_batch: int = Field(
        20, ge=0, le=10_000, description="So many new facts are compared pair by pair, more in clusters (S1-14)."
    )
    rerank: bool = Field(False, description="Look at more neighbours and keep those that share most words too (S1-12).")
    rerank_multiplier: Few = Field(3, description="How many times as many neighbours are looked at (S1-12).")
    ask_model: bool = Field(
        True,
        description="Let a model, where there is one, judge which pairs say the same, which of two facts updates or "
        "corrects the other, and which clash (S1-05, S2-59).",
    )
    pairs_per_fact: Weight = Field(
        0.35,
        description="Pairs that a model judges for each fact that is looked at, on average; the best four of a fact at "
        "most, and always as many as fill one call.",
    )
    per_call: Few = Field(20, description="Pairs of facts that one model call judges.")
    cluster_concurrency: AtOnce = Field(
        4, description="Calls in flight at once; within `ingest` that of its language model counts (S1-05)."
    )
    artifacts: ArtifactSettings = ArtifactSettings.as_field("Documents.")


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
    decay_half_days: Days = Field(90.0, description="Days in which the score of a worthy fact halves (S4-06).")
    min_half_life_days: Days = Field(7.0, description="Days in which the score of a worthless fact halves (S4-06).")
    merge_threshold: Ratio = Field(0.88, description="Cosine from which facts are merged, guards permitting (S4-08).")
    merge_neighbors: Few = Field(5, description="Nearest facts that each new one is compared with (S4-08).")
    merge_scan: Count = Field(
        0, description="New facts of a sweep, oldest first; the rest comes next time; 0: all (S4-08)."
    )
    batch_size: Number = Field(500, description="Facts that are pruned in one commit.")
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

    expired_edge_retention_days: DaysOrNone = Field(
        90.0,
        description="What the store stopped believing longer ago moves to the archive, and entities of which nothing "
        "is known and which nobody mentioned for so long (S2-51, S2-52).",
    )
    max_entities: Count = Field(
        0, description="Entities that are kept; the least connected ones go first; 0: no limit (S2-53)."
    )
    link_weight_decay_lambda: Share = Field(
        0.95, description="Factor by which links weaken per interval without a recall; 1: not at all (S2-73)."
    )
    link_weight_decay_interval_secs: float = Field(
        86_400.0, gt=0.0, le=315_360_000.0, description="Seconds of that interval (S2-73)."
    )
    beliefs: BeliefSettings = BeliefSettings.as_field("How many are held (S2-54).")
    gate: GateSettings = GateSettings.as_field("Taken back if recall got worse.")


class CommunitySettings(WritingSettings):
    """How communities are found and summarised (S2-45 … S2-50)."""

    max_prompt_bytes: Count = Field(
        8192,
        description="Communities share a prompt up to here; one that needs more is cut; 0: no summaries, else at least "
        "512 (S2-48).",
    )
    concurrency: AtOnce = Field(4, description="Prompts in flight at once (S2-48).")
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


# What is refused, and how messages become candidates.


class NoiseSettings(Group):
    """What is refused before it is stored as knowledge (SEMANTICS S4-11 … S4-20, S2-22)."""

    min_assistant_chars: Count = Field(
        80, description="Characters; shorter messages of an assistant are refused; 0 switches this off (S4-13)."
    )
    content_gate: Ratio = Field(
        0.35, description="Messages that score lower against the noise prototypes are refused (S4-15)."
    )
    exchange_window: FewOrNone = Field(
        50, description="How many accepted exchanges a new one is compared with; 0: none (S4-14)."
    )
    min_chunk_chars: Count = Field(40, description="Characters; shorter document passages are refused (S4-19).")
    min_alnum_ratio: Ratio = Field(0.40, description="Smallest share of letters and digits in a passage (S4-19).")
    rejection_capacity: Number = Field(500, description="Size of the ring that teaches the noise prototypes (S4-18).")
    rebuild_every: Number = Field(25, description="Teaching refusals after which the prototypes are rebuilt (S4-18).")
    max_learned: Count = Field(150, description="Newest refusals that become noise prototypes (S4-18).")
    noise_top_k: Few = Field(3, description="Noise prototypes averaged in the score (S4-16).")
    topic_boundary: Ratio = Field(0.65, description="Cosine of neighbours below which a new topic begins (S4-22).")
    max_group_chars: Number = Field(2048, description="Characters after which a new group begins anyway (S4-22).")
    quality_prototypes: tuple[str, ...] = Field(
        (), description="Texts that show what is worth keeping; empty: the built-in ones (S4-16)."
    )
    noise_prototypes: tuple[str, ...] = Field(
        (), description="Texts that show what is noise; empty: the built-in ones (S4-16)."
    )


class SurpriseSettings(Group):
    """Reward-prediction-error gate: messages that tell nothing new are not extracted (S2-72)."""

    enabled: bool = Field(False, description="Skip messages that tell nothing new.")
    threshold: Ratio = Field(0.3, description="Surprise below which a message is skipped.")
    max_skip_turns: Number = Field(5, description="Skips in a row before one is forced through.")


class LinkSettings(Group):
    """Entities whose descriptions are alike are linked after extraction (S2-71)."""

    enabled: bool = Field(False, description="Link entities whose descriptions are alike.")
    similarity: Ratio = Field(0.85, description="Cosine from which two entities are linked.")
    top_k: Few = Field(10, description="Links of an entity, to the nearest ones.")
    timeout_s: Seconds = Field(5.0, description="Seconds for the whole pass; what was found by then is kept.")


class ExtractSettings(Group):
    """How messages become candidate facts (S2-16 … S2-25)."""

    enabled: bool = Field(True, description="Off: messages are stored and searched, no facts.")
    window_messages: Few = Field(
        56, description="New messages of people in one call; an assistant's are shown beside them and do not count."
    )
    window_tokens: int = Field(
        3000, ge=100, le=100_000, description="A window is closed before what people say in it grows beyond this."
    )
    by_topic: bool = Field(
        False,
        description="On: a window also ends where the topic turns or gets too long, by noise.topic_boundary and "
        "noise.max_group_chars (S4-22). More calls, each about less.",
    )
    context_messages: FewOrNone = Field(4, description="Earlier messages shown but not extracted (S2-17).")
    max_entities_per_message: FewOrNone = Field(10, description="Entities of a message; more are dropped (S2-18).")
    max_facts_per_message: FewOrNone = Field(15, description="Facts of a message; more are dropped (S2-18).")
    max_outline_lines: ClassVar[int] = 20
    """Lines of the outline of a window: no setting, but what the prompt asks for and what is kept of the answer."""
    language: Literal["", "en", "es", "de", "fr", "pt", "it", "nl", "zh", "ja", "ko", "ru"] = Field(
        "",
        description="The language in which a model writes statements, by its code. Empty: that of the messages, or es "
        "where labels.locale is es.",
    )
    chunk_tokens: int = Field(500, ge=50, le=8000, description="Tokens per document passage (S3-01).")
    chunk_overlap: FewOrNone = Field(50, description="Tokens that neighbouring passages share.")
    batch_messages: int = Field(2000, ge=1, le=50_000, description="Messages that are committed together.")
    max_attempts: Few = Field(3, description="Failed extractions of a message before it is given up (S2-25).")
    since: datetime | None = Field(None, description="Only messages said at or after this time; empty: from the first.")
    until: datetime | None = Field(None, description="Only messages said before this time; empty: to the last.")
    limit: int | None = Field(
        None, ge=0, le=1_000_000_000, description="Extract so many, the oldest first; 0: none; empty: all."
    )
    force: bool = Field(
        False,
        description="Also messages that were extracted or given up before, or skipped for what they tell a model to do "
        "(S2-22).",
    )
    reread: bool = Field(
        False,
        description="Also messages that are kept as quotations because no model was there; what is read replaces them.",
    )
    note_linking: LinkSettings = LinkSettings.as_field("Entities whose descriptions are alike.")
    community_refresh_interval: Count = Field(
        100,
        description="Each time so many more messages were extracted, communities are due to be found anew; 0: never "
        "(S2-45).",
    )


class SessionSettings(Group):
    """When a conversation gets a summary (S4-23)."""

    enabled: bool = Field(
        False,
        description="On: conversations get a summary as they grow, also those stored earlier. The role `summarize` of "
        "the language model is asked, several conversations to a call; without a model there are none.",
    )


class ResolveSettings(Group):
    """When two names are one entity (S2-01 … S2-09)."""

    use_embedding_resolution: bool = Field(False, description="Off: only exact names and aliases are joined (S2-07).")
    entity_similarity: Ratio = Field(
        0.85, description="Cosine from which two names of one type are one entity (S2-07)."
    )
    entity_ambiguous: Ratio = Field(
        0.70, description="Cosine from which a model is asked whether they are one (S2-07)."
    )
    type_strict: bool = Field(False, description="On: one name under two types is two entities (S2-09).")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.entity_ambiguous >= self.entity_similarity:
            raise ValueError(
                f"entity_ambiguous ({self.entity_ambiguous}) must be below entity_similarity ({self.entity_similarity})"
            )
        return self


_MARKUP = frozenset('<>{}[]|`\\"')


class IngestSettings(DecidingSettings):
    """Everything a run of `ingest` can be told."""

    owner: str = Field(
        "",
        max_length=200,
        description="Name of the person behind the role `user` where messages name no speaker; empty: learned from "
        "what is said.",
    )
    llm: LanguageSettings = LanguageSettings.as_field("Who reads.")
    noise: NoiseSettings = NoiseSettings.as_field("What is refused before extraction.")
    surprise: SurpriseSettings = SurpriseSettings.as_field("Skip what tells nothing new.")
    extract: ExtractSettings = ExtractSettings.as_field("Windows, limits, passages.")
    sessions: SessionSettings = SessionSettings.as_field("When a conversation gets a summary.")
    resolve: ResolveSettings = ResolveSettings.as_field("When two names are one.")
    evaluate: EvaluateSettings = EvaluateSettings.as_field("What a candidate must pass.")
    revise: ReviseSettings = ReviseSettings.as_field("When a new fact contradicts what is known.")
    beliefs: BeliefSettings = BeliefSettings.as_field("Unsure statements gather evidence first.")
    consolidate: MergeSettings = MergeSettings.as_field("What says the same becomes one after each batch.")

    @field_validator("owner")
    @classmethod
    def _plain(cls, name: str) -> str:
        if bad := sorted({char for char in name if not char.isprintable() or char in _MARKUP}):
            raise ValueError(
                f"owner is a name on one line without markup, as in 'Ana Lima'; leave out {', '.join(map(ascii, bad))}"
            )
        return name

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        flagged, resolve = self.evaluate.flag_cosine, self.consolidate.resolve_cosine
        if resolve is not None and resolve > flagged:
            raise ValueError(
                f"evaluate.flag_cosine ({flagged}) must be at least consolidate.resolve_cosine ({resolve})"
            )
        return self
