"""The whole of `slowwave.toml`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from .groups import DEFAULT_EMBEDDER, Group, alias
from .ingest import IngestSettings
from .keeping import ApprovalSettings, NightGateSettings, RetentionSettings
from .maintenance import CommunitySettings, DecaySettings, StewardSettings
from .merging import ConsolidateSettings
from .nights import BackfillBudget, FleetWidth, ReembedSettings
from .recall import RecallSettings
from .shown import LabelSettings, McpSettings, ReportSettings, SplitSettings


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
        validation_alias=alias("consolidate", "consolidation"),
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
    backfill: BackfillBudget = Field(
        default_factory=BackfillBudget, title="Backfill", description="The `backfill` flow."
    )
    fleet: FleetWidth = Field(default_factory=FleetWidth, title="Fleet", description="The `fleet` flow.")
    recall: RecallSettings = Field(
        default_factory=RecallSettings,
        title="Recall",
        description="The read road.",
        validation_alias=alias("recall", "retrieval"),
    )
    approval: ApprovalSettings = Field(
        default_factory=ApprovalSettings, title="Approval", description="What a person decides."
    )
    split: SplitSettings = Field(default_factory=SplitSettings, title="Split", description="When an entity is large.")
    report: ReportSettings = Field(default_factory=ReportSettings, title="Report", description="The `report` flow.")
    reembed: ReembedSettings = Field(
        default_factory=ReembedSettings, title="Re-embed", description="The `reembed` flow."
    )
    labels: LabelSettings = Field(default_factory=LabelSettings, title="Labels", description="Words that are shown.")
    mcp: McpSettings = Field(default_factory=McpSettings, title="MCP", description="The door for agents.")
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="Versions, leases.",
        validation_alias=alias("retention", "eviction"),
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
        for section, asked in (
            ("ingest.", self.ingest.consolidate.resolve_cosine),
            ("", self.consolidate.resolve_cosine),
        ):
            if asked is not None and asked > flagged:
                raise ValueError(
                    f"ingest.evaluate.flag_cosine ({flagged}) must be at least {section}consolidate.resolve_cosine "
                    f"({asked})"
                )
        return self
