"""Every default once: one frozen model per stage, each number with its meaning and its range.

The command line, `slowwave.toml`, the run form of a deployment and `docs/settings.md` are all made from these models.
Key names of the systems that slowwave unites stay valid as aliases (SEMANTICS §6.7).
"""

from __future__ import annotations

from .deciding import BeliefSettings, EvaluateSettings, ReviseSettings
from .groups import DEFAULT_EMBEDDER, DEFAULT_MODEL, LISTED, Group, Ratio, named, names_of, nearest
from .ingest import IngestSettings
from .intake import ExtractSettings, LinkSettings, NoiseSettings, ResolveSettings, SessionSettings, SurpriseSettings
from .keeping import ApprovalSettings, GateSettings, NightGateSettings, RetentionSettings, Risk
from .language import LanguageSettings, SpendingLimits
from .maintenance import CommunitySettings, DecaySettings, StewardSettings
from .merging import ArtifactSettings, ConsolidateSettings, MergeSettings
from .nights import BackfillBudget, BackfillSettings, FleetSettings, FleetWidth, ReembedSettings, SleepSettings
from .recall import EdgeType, GraphMode, RecallSettings, SpreadSettings, WalkSettings
from .shown import LabelSettings, McpSettings, ReportSettings, SplitSettings
from .weights import AspectSaturation, AspectSettings, AspectWeights, LimbicSettings, UseSettings
from .whole import Settings

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
    "named",
    "names_of",
    "nearest",
]
