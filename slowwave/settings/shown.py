"""What is reported, in which words, and what agents are given."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .groups import Group, Ratio
from .keeping import RetentionSettings
from .weights import UseSettings


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
    use: UseSettings = Field(
        default_factory=UseSettings,
        title="Use",
        description="What makes an entity important, and stale (S0-22, S0-24).",
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
