"""Runs of many parts: nights, backfills, fleets, and re-embedding."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .groups import DEFAULT_EMBEDDER, Group
from .ingest import IngestSettings
from .intake import LinkSettings
from .keeping import NightGateSettings, RetentionSettings
from .language import SpendingLimits
from .maintenance import CommunitySettings, DecaySettings, StewardSettings
from .merging import ConsolidateSettings


class SleepSettings(SpendingLimits):
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


class BackfillBudget(SpendingLimits):
    """What a backfill as a whole may cost, its windows and its nights together, and how its cost is estimated."""

    sample: int = Field(
        200,
        ge=1,
        le=100_000,
        title="Sample for the estimate",
        description="A dry run plans all windows and renders so many prompts to count their tokens.",
    )


class BackfillSettings(BackfillBudget):
    """Everything a run of `backfill` can be told."""

    ingest: IngestSettings = Field(
        default_factory=IngestSettings,
        title="Ingest",
        description="How each window is read; times, limit and force come from the parameters of the backfill.",
    )
    sleep: SleepSettings = Field(
        default_factory=SleepSettings, title="Sleep", description="The one night after all windows."
    )
    embedder: str = Field(
        DEFAULT_EMBEDDER, title="Embedding model", description="Of a memory that is made; one that is there keeps its."
    )


class FleetWidth(Group):
    """How the namespaces of a store are spread when a flow runs over many of them."""

    runner: Literal["threads", "dask"] = Field(
        "threads",
        title="Runner",
        description="threads: one machine. dask: a cluster, through prefect-dask (the extra `dask`), under Prefect.",
    )
    address: str = Field(
        "",
        title="Cluster",
        description="Address of its scheduler, for example tcp://host:8786; empty: a cluster of this machine alone.",
    )
    width: int = Field(
        2,
        ge=1,
        le=4096,
        title="Namespaces at once",
        description="So many are worked on side by side; a cluster with an address has a width of its own.",
    )


class FleetSettings(FleetWidth):
    """Everything a run of `fleet` can be told."""

    sleep: SleepSettings = Field(
        default_factory=SleepSettings, title="Sleep", description="The night of each namespace."
    )


class ReembedSettings(Group):
    """How a memory turns to another embedding model (`slowwave reembed`)."""

    batch_size: int = Field(
        2048, ge=1, le=100_000, title="Texts per batch", description="Embedded and kept together; a kill loses one."
    )
    gate: NightGateSettings = Field(
        default_factory=NightGateSettings,
        title="Gate",
        description="The same questions on old and on new vectors; where recall fell, nothing is published.",
    )
    link: LinkSettings = Field(
        default_factory=LinkSettings,
        title="Links",
        description="How entities that are alike are linked anew; on the command line the link of [ingest].",
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        title="Retention",
        description="How long old vectors are kept; on the command line the [retention] of the file.",
    )
