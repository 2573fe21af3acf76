"""Every default once: one frozen model per stage, each number with its meaning and its range.

The command line, `slowwave.toml`, the run form of a deployment and `docs/settings.md` are all made from these models.
`seed_names` translates the key names of the systems that slowwave unites (SEMANTICS §6.7).
"""

from __future__ import annotations

from .base import (
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    LISTED,
    ApprovalSettings,
    GateSettings,
    Group,
    NightGateSettings,
    Ratio,
    RetentionSettings,
    Risk,
    nearest,
)
from .facts import (
    ArtifactSettings,
    BeliefSettings,
    ConsolidateSettings,
    EvaluateSettings,
    MergeSettings,
    ReviseSettings,
)
from .ingest import (
    ExtractSettings,
    IngestSettings,
    LinkSettings,
    NoiseSettings,
    ResolveSettings,
    SessionSettings,
    SurpriseSettings,
)
from .language import LanguageSettings, SpendingLimits
from .maintenance import CommunitySettings, DecaySettings, StewardSettings
from .recall import (
    AspectSaturation,
    AspectSettings,
    AspectWeights,
    EdgeType,
    GraphMode,
    LimbicSettings,
    RecallSettings,
    SpreadSettings,
    UseSettings,
    WalkSettings,
)
from .whole import (
    BackfillBudget,
    BackfillSettings,
    FleetSettings,
    FleetWidth,
    LabelSettings,
    McpSettings,
    ReembedSettings,
    ReportSettings,
    Settings,
    SleepSettings,
    SplitSettings,
)

__all__ = [
    "DEFAULT_EMBEDDER",
    "DEFAULT_MODEL",
    "LISTED",
    "ApprovalSettings",
    "ArtifactSettings",
    "AspectSaturation",
    "AspectSettings",
    "AspectWeights",
    "BackfillBudget",
    "BackfillSettings",
    "BeliefSettings",
    "CommunitySettings",
    "ConsolidateSettings",
    "DecaySettings",
    "EdgeType",
    "EvaluateSettings",
    "ExtractSettings",
    "FleetSettings",
    "FleetWidth",
    "GateSettings",
    "GraphMode",
    "Group",
    "IngestSettings",
    "LabelSettings",
    "LanguageSettings",
    "LimbicSettings",
    "LinkSettings",
    "McpSettings",
    "MergeSettings",
    "NightGateSettings",
    "NoiseSettings",
    "Ratio",
    "RecallSettings",
    "ReembedSettings",
    "ReportSettings",
    "ResolveSettings",
    "RetentionSettings",
    "ReviseSettings",
    "Risk",
    "SessionSettings",
    "Settings",
    "SleepSettings",
    "SpendingLimits",
    "SplitSettings",
    "SpreadSettings",
    "StewardSettings",
    "SurpriseSettings",
    "UseSettings",
    "WalkSettings",
    "nearest",
]
