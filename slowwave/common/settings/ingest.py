"""Settings of a run of `ingest`: what is refused, and how messages become candidates."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import DecidingSettings, Group, LanguageSettings, Ratio
from .facts import BeliefSettings, EvaluateSettings, MergeSettings, ReviseSettings


class NoiseSettings(Group):
    """What is refused before it is stored as knowledge (SEMANTICS S4-11 … S4-20, S2-22)."""

    min_assistant_chars: int = Field(
        80,
        ge=0,
        le=1_000_000,
        description="Characters; shorter messages of an assistant are refused; 0 switches this off (S4-13).",
    )
    content_gate: Ratio = Field(
        0.35, description="Messages that score lower against the noise prototypes are refused (S4-15)."
    )
    exchange_window: int = Field(
        50, ge=0, le=1000, description="How many accepted exchanges a new one is compared with; 0: none (S4-14)."
    )
    min_chunk_chars: int = Field(
        40, ge=0, le=1_000_000, description="Characters; shorter document passages are refused (S4-19)."
    )
    min_alnum_ratio: Ratio = Field(0.40, description="Smallest share of letters and digits in a passage (S4-19).")
    rejection_capacity: int = Field(
        500, ge=1, le=1_000_000, description="Size of the ring that teaches the noise prototypes (S4-18)."
    )
    rebuild_every: int = Field(
        25, ge=1, le=1_000_000, description="Teaching refusals after which the prototypes are rebuilt (S4-18)."
    )
    max_learned: int = Field(
        150, ge=0, le=1_000_000, description="Newest refusals that become noise prototypes (S4-18)."
    )
    noise_top_k: int = Field(3, ge=1, le=1000, description="Noise prototypes averaged in the score (S4-16).")
    topic_boundary: Ratio = Field(0.65, description="Cosine of neighbours below which a new topic begins (S4-22).")
    max_group_chars: int = Field(
        2048, ge=1, le=100_000_000, description="Characters after which a new group begins anyway (S4-22)."
    )
    acknowledgements: tuple[str, ...] = Field(
        (), description="Replies that say nothing by themselves, beside the built-in ones (S4-11)."
    )
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
    max_skip_turns: int = Field(5, ge=1, le=1_000_000, description="Skips in a row before one is forced through.")


class LinkSettings(Group):
    """Entities whose descriptions are alike are linked after extraction (S2-71)."""

    enabled: bool = Field(False, description="Link entities whose descriptions are alike.")
    similarity: Ratio = Field(0.85, description="Cosine from which two entities are linked.")
    top_k: int = Field(10, ge=1, le=100, description="Links of an entity, to the nearest ones.")
    timeout_s: float = Field(
        5.0, gt=0.0, le=600.0, description="Seconds for the whole pass; what was found by then is kept."
    )


class ExtractSettings(Group):
    """How messages become candidate facts (S2-16 … S2-25)."""

    enabled: bool = Field(True, description="Off: messages are stored and searched, no facts.")
    window_messages: int = Field(
        56,
        ge=1,
        le=200,
        description="New messages of people in one call; an assistant's are shown beside them and do not count.",
    )
    window_tokens: int = Field(
        3000, ge=100, le=100_000, description="A window is closed before what people say in it grows beyond this."
    )
    by_topic: bool = Field(
        False,
        description="On: a window also ends where the topic turns or gets too long, by noise.topic_boundary and "
        "noise.max_group_chars (S4-22). More calls, each about less.",
    )
    context_messages: int = Field(4, ge=0, le=50, description="Earlier messages shown but not extracted (S2-17).")
    max_entities_per_message: int = Field(
        10, ge=0, le=1000, description="Entities of a message; more are dropped (S2-18)."
    )
    max_facts_per_message: int = Field(15, ge=0, le=1000, description="Facts of a message; more are dropped (S2-18).")
    language: Literal["", "en", "es", "de", "fr", "pt", "it", "nl", "zh", "ja", "ko", "ru"] = Field(
        "",
        description="The language in which a model writes statements, by its code. Empty: that of the messages, or es "
        "where labels.locale is es.",
    )
    chunk_tokens: int = Field(500, ge=50, le=8000, description="Tokens per document passage (S3-01).")
    chunk_overlap: int = Field(50, ge=0, le=1000, description="Tokens that neighbouring passages share.")
    batch_messages: int = Field(2000, ge=1, le=50_000, description="Messages that are committed together.")
    max_attempts: int = Field(
        3, ge=1, le=20, description="Failed extractions of a message before it is given up (S2-25)."
    )
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
    community_refresh_interval: int = Field(
        100,
        ge=0,
        le=1_000_000_000,
        description="Each time so many more messages were extracted, communities are due to be found anew; 0: never "
        "(S2-45).",
    )


class SessionSettings(Group):
    """When a conversation gets a summary (S4-23)."""

    enabled: bool = Field(
        False,
        description="On: conversations get a summary as they grow, also those stored earlier. The role `summarize` of "
        "the language model is asked, several conversations to a call; without a model it is what was learned there.",
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
