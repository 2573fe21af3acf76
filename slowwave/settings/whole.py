"""The whole of `slowwave.toml`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slowwave.arguments import TOKEN_BUDGET

from .base import (
    DEFAULT_EMBEDDER,
    ApprovalSettings,
    Group,
    NightGateSettings,
    Ratio,
    RetentionSettings,
    WritingSettings,
)
from .facts import ConsolidateSettings
from .ingest import IngestSettings, LinkSettings
from .language import SpendingLimits
from .maintenance import CommunitySettings, DecaySettings, StewardSettings
from .recall import RecallSettings, UseSettings

# What is reported, in which words, and what agents are given.


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


class ReportSettings(WritingSettings):
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
    use: UseSettings = UseSettings.as_field("Use", "What makes an entity important, and stale (S0-22, S0-24).")
    split: SplitSettings = SplitSettings.as_field("Split", "When an entity is large.")


class LabelSettings(Group):
    """In which words types and relations are shown; all known ones are understood whatever is shown (C8)."""

    locale: Literal["en", "es"] = Field("en", title="Words", description="en, or es for those of sofia.")


class McpSettings(Group):
    """The door for agents."""

    token_budget: int = Field(
        TOKEN_BUDGET,
        ge=1,
        le=1_000_000,
        title="Tokens",
        description="What `recall` may return unless it is asked for more.",
    )
    approvals: Literal["ask", "never"] = Field(
        "ask",
        title="Approvals",
        description="ask: the client asks its person (elicitation). never: only the terminal and Prefect approve.",
    )


# Runs of many parts: nights, backfills, fleets, and re-embedding.


class SleepSettings(SpendingLimits, WritingSettings):
    """Everything a night can be told."""

    ingest: IngestSettings = IngestSettings.as_field(
        "Ingest",
        "How a model reads first what waits for it, quotations too; only within a budget of calls, tokens or dollars.",
    )
    consolidate: ConsolidateSettings = ConsolidateSettings.as_field("Consolidate", "What says the same becomes one.")
    steward: StewardSettings = StewardSettings.as_field("Steward", "What is used rises, what is not fades.")
    decay: DecaySettings = DecaySettings.as_field("Decay", "What moves out of the way.")
    communities: CommunitySettings = CommunitySettings.as_field("Communities", "What belongs together gets a name.")
    gate: NightGateSettings = NightGateSettings.as_field("Gate", "A phase after which recall got worse is taken back.")


class BackfillBudget(SpendingLimits):
    """What a backfill as a whole may cost, its windows and its nights together."""


class BackfillSettings(BackfillBudget):
    """Everything a run of `backfill` can be told."""

    ingest: IngestSettings = IngestSettings.as_field(
        "Ingest", "How each window is read; times, limit and force come from the parameters of the backfill."
    )
    sleep: SleepSettings = SleepSettings.as_field("Sleep", "The one night after all windows.")
    embedder: str = Field(
        DEFAULT_EMBEDDER, title="Embedding model", description="Of a memory that is made; one that is there keeps its."
    )


class FleetWidth(Group):
    """How the namespaces of a store are spread when a flow runs over many of them."""

    width: int = Field(
        2,
        ge=1,
        le=4096,
        title="Namespaces at once",
        description="So many are worked on side by side.",
    )


class FleetSettings(FleetWidth):
    """Everything a run of `fleet` can be told."""

    sleep: SleepSettings = SleepSettings.as_field("Sleep", "The night of each namespace.")


class ReembedSettings(WritingSettings):
    """How a memory turns to another embedding model (`slowwave reembed`)."""

    batch_size: int = Field(
        2048, ge=1, le=100_000, title="Texts per batch", description="Embedded and kept together; a kill loses one."
    )
    gate: NightGateSettings = NightGateSettings.as_field(
        "Gate", "The same questions on old and on new vectors; where recall fell, the run is undone."
    )
    link: LinkSettings = LinkSettings.as_field(
        "Links", "How entities that are alike are linked anew; on the command line the link of [ingest]."
    )


class Settings(Group):
    """The whole of `slowwave.toml`."""

    embedder: str = Field(
        DEFAULT_EMBEDDER,
        title="Embedding model",
        description="provider/model; the default ships with slowwave. A store keeps the model it was made with.",
    )
    ingest: IngestSettings = IngestSettings.as_field("Ingest", "The `ingest` flow.")
    consolidate: ConsolidateSettings = ConsolidateSettings.as_field("Consolidate", "The `consolidate` flow.")
    steward: StewardSettings = StewardSettings.as_field("Steward", "The `steward` flow.")
    decay: DecaySettings = DecaySettings.as_field("Decay", "The `decay` flow.")
    communities: CommunitySettings = CommunitySettings.as_field("Communities", "The `communities` flow.")
    sleep: NightGateSettings = NightGateSettings.as_field(
        "Sleep", "The gate of the `sleep` flow; its phases have sections of their own."
    )
    backfill: BackfillBudget = BackfillBudget.as_field("Backfill", "The `backfill` flow.")
    fleet: FleetWidth = FleetWidth.as_field("Fleet", "The `fleet` flow.")
    recall: RecallSettings = RecallSettings.as_field("Recall", "The query path.")
    approval: ApprovalSettings = ApprovalSettings.as_field("Approval", "What a person decides.")
    split: SplitSettings = SplitSettings.as_field("Split", "When an entity is large.")
    report: ReportSettings = ReportSettings.as_field("Report", "The `report` flow.")
    reembed: ReembedSettings = ReembedSettings.as_field("Re-embed", "The `reembed` flow.")
    labels: LabelSettings = LabelSettings.as_field("Labels", "Words that are shown.")
    mcp: McpSettings = McpSettings.as_field("MCP", "The door for agents.")
    retention: RetentionSettings = RetentionSettings.as_field("Retention", "Versions, leases.")

    @model_validator(mode="after")
    def _in_the_language_of_the_labels(self) -> Self:
        """Statements are in the language of the labels, if that is another one than English and none is chosen."""
        extract = self.ingest.extract
        if self.labels.locale != "en" and not extract.language:
            spoken = extract.model_copy(update={"language": self.labels.locale})
            object.__setattr__(self, "ingest", self.ingest.model_copy(update={"extract": spoken}))
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        repeated, merged = self.ingest.evaluate.reassert_cosine, self.steward.merge_threshold
        flagged = self.ingest.evaluate.flag_cosine
        if not repeated >= merged >= flagged:
            raise ValueError(
                f"ingest.evaluate.reassert_cosine ({repeated}) >= steward.merge_threshold ({merged}) >= "
                f"ingest.evaluate.flag_cosine ({flagged}) must hold"
            )
        for section, resolve in (
            ("ingest.", self.ingest.consolidate.resolve_cosine),
            ("", self.consolidate.resolve_cosine),
        ):
            if resolve is not None and resolve > flagged:
                raise ValueError(
                    f"ingest.evaluate.flag_cosine ({flagged}) must be at least {section}consolidate.resolve_cosine "
                    f"({resolve})"
                )
        return self
