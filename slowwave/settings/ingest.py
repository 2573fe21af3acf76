"""Everything a run of `ingest` can be told."""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from .groups import ApprovalSettings, Group, RetentionSettings, alias
from .intake import ExtractSettings, NoiseSettings, ResolveSettings, SessionSettings, SurpriseSettings
from .language import LanguageSettings
from .merging import MergeSettings
from .revision import BeliefSettings, EvaluateSettings, ReviseSettings

_MARKUP = frozenset('<>{}[]|`\\"')


class IngestSettings(Group):
    """Everything a run of `ingest` can be told."""

    owner: str = Field(
        "",
        max_length=200,
        title="Owner",
        description="Name of the person behind the role `user` where messages name no speaker; empty: learned from "
        "what is said.",
    )
    llm: LanguageSettings = Field(default_factory=LanguageSettings, title="Language model", description="Who reads.")
    noise: NoiseSettings = Field(
        default_factory=NoiseSettings,
        title="Gates",
        description="What is refused before extraction.",
        validation_alias=alias("noise", "pipeline"),
    )
    surprise: SurpriseSettings = Field(
        default_factory=SurpriseSettings,
        title="Surprise",
        description="Skip what tells nothing new.",
        validation_alias=alias("surprise", "rpe"),
    )
    extract: ExtractSettings = Field(
        default_factory=ExtractSettings,
        title="Extraction",
        description="Windows, limits, passages.",
        validation_alias=alias("extract", "graph"),
    )
    sessions: SessionSettings = Field(
        default_factory=SessionSettings, title="Conversations", description="When a conversation gets a summary."
    )
    resolve: ResolveSettings = Field(
        default_factory=ResolveSettings, title="Entity resolution", description="When two names are one."
    )
    evaluate: EvaluateSettings = Field(
        default_factory=EvaluateSettings,
        title="Evaluation",
        description="What a candidate must pass.",
        validation_alias=alias("evaluate", "eval"),
    )
    revise: ReviseSettings = Field(
        default_factory=ReviseSettings, title="Revision", description="When a new fact contradicts what is known."
    )
    beliefs: BeliefSettings = Field(
        default_factory=BeliefSettings,
        title="Pending beliefs",
        description="Unsure statements gather evidence first.",
        validation_alias=alias("beliefs", "belief_mem"),
    )
    consolidate: MergeSettings = Field(
        default_factory=MergeSettings,
        title="Consolidation",
        description="What says the same becomes one after each batch.",
        validation_alias=alias("consolidate", "consolidation"),
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
