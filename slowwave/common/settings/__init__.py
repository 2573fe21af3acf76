"""Every default once: one frozen model per stage, each number with its meaning and its range.

The command line, `slowwave.toml`, the run form of a deployment and `docs/settings.md` are all made from these models.
`seed_names` translates the key names of the systems that slowwave unites (SEMANTICS §6.7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from slowwave.common.arguments import TOKEN_BUDGET

from .base import DEFAULT_EMBEDDER as DEFAULT_EMBEDDER
from .base import DEFAULT_MODEL as DEFAULT_MODEL
from .base import LISTED as LISTED
from .base import ApprovalSettings as ApprovalSettings
from .base import AspectSaturation as AspectSaturation
from .base import AspectSettings as AspectSettings
from .base import AspectWeights as AspectWeights
from .base import Count, DaysOrNone, Few, FewOrNone, Number, WritingSettings
from .base import EdgeType as EdgeType
from .base import GateSettings as GateSettings
from .base import GraphMode as GraphMode
from .base import Group as Group
from .base import LanguageSettings as LanguageSettings
from .base import LimbicSettings as LimbicSettings
from .base import NightGateSettings as NightGateSettings
from .base import Ratio as Ratio
from .base import RecallSettings as RecallSettings
from .base import RetentionSettings as RetentionSettings
from .base import Risk as Risk
from .base import SpendingLimits as SpendingLimits
from .base import SpreadSettings as SpreadSettings
from .base import UseSettings as UseSettings
from .base import WalkSettings as WalkSettings
from .base import nearest as nearest
from .stages import ArtifactSettings as ArtifactSettings
from .stages import BeliefSettings as BeliefSettings
from .stages import CommunitySettings as CommunitySettings
from .stages import ConsolidateSettings as ConsolidateSettings
from .stages import DecaySettings as DecaySettings
from .stages import EvaluateSettings as EvaluateSettings
from .stages import ExtractSettings as ExtractSettings
from .stages import IngestSettings as IngestSettings
from .stages import LinkSettings as LinkSettings
from .stages import MergeSettings as MergeSettings
from .stages import NoiseSettings as NoiseSettings
from .stages import ResolveSettings as ResolveSettings
from .stages import ReviseSettings as ReviseSettings
from .stages import SessionSettings as SessionSettings
from .stages import StewardSettings as StewardSettings
from .stages import SurpriseSettings as SurpriseSettings

if TYPE_CHECKING:
    from slowwave.common.records import Usage

# What is reported, in which words, and what agents are given.


class SplitSettings(Group):
    """When an entity holds too much, and how it is parted by topic (S0-07 … S0-16)."""

    thresholds: dict[str, Annotated[int, Field(ge=1, le=100_000)]] = Field(
        default_factory=lambda: {"session": 15, "project": 25, "default": 20},
        description="Observations beyond which an entity of a type may be parted; `default` for all other types. What "
        "is not given stays as it is. Names of other vocabularies are understood (S0-07).",
    )
    cut_distance: float = Field(
        0.5, gt=0.0, le=2.0, description="Cosine distance at which topics part, average linkage (S0-09)."
    )
    label_terms: int = Field(2, ge=1, le=5, description="Words of the label of a topic (S0-10).")
    min_topics: Few = Field(2, description="Topics; fewer are no diversity (S0-08).")
    min_topic_size: Few = Field(2, description="Observations of a topic; smaller topics stay on the parent (S0-13).")
    proactive_ratio: Ratio = Field(
        0.8, description="Share of its threshold from which an entity is approaching (S0-16, S0-21)."
    )


class ReportSettings(WritingSettings):
    """What the consolidation report finds stale, and what it shows (S0-17 … S0-28)."""

    stale_days: DaysOrNone = Field(90.0, description="Days without access, or since it was made (S0-20).")
    stale_max_access: Count = Field(2, description="Reads with which an entity may still be stale (S0-20).")
    top_n_active: FewOrNone = Field(10, description="So many most read entities are looked at for duplicates (S0-28).")
    use: UseSettings = UseSettings.as_field("What makes an entity important, and stale (S0-22, S0-24).")
    split: SplitSettings = SplitSettings.as_field("When an entity is large.")


class LabelSettings(Group):
    """In which words types and relations are shown; all known ones are understood whatever is shown (C8)."""

    locale: Literal["en", "es"] = Field("en", description="The words that are shown: en, or es for those of sofia.")


class McpSettings(Group):
    """The door for agents."""

    token_budget: Number = Field(
        TOKEN_BUDGET, description="Tokens that `recall` may return unless it is asked for more."
    )


# Runs of many parts: nights, backfills, fleets, and re-embedding.


class SleepSettings(SpendingLimits, WritingSettings):
    """Everything a night can be told."""

    ingest: IngestSettings = IngestSettings.as_field(
        "How a model reads first what waits for it, quotations too; only within a budget of calls, tokens or dollars."
    )
    consolidate: ConsolidateSettings = ConsolidateSettings.as_field("What says the same becomes one.")
    steward: StewardSettings = StewardSettings.as_field("What is used rises, what is not fades.")
    decay: DecaySettings = DecaySettings.as_field("What moves out of the way.")
    communities: CommunitySettings = CommunitySettings.as_field("What belongs together gets a name.")
    gate: NightGateSettings = NightGateSettings.as_field("A phase after which recall got worse is taken back.")

    def after(self, spent: Usage) -> Self:
        """The night after this spending: each phase may spend the remainder."""
        left = self.less(spent)
        phases = {name: getattr(self, name) for name in ("ingest", "consolidate", "steward", "communities")}
        return self.model_copy(
            update={name: each.model_copy(update={"llm": each.llm.within(left)}) for name, each in phases.items()}
        )


class BackfillBudget(SpendingLimits):
    """What a backfill as a whole may cost, its windows and its nights together."""


class BackfillSettings(BackfillBudget):
    """Everything a run of `backfill` can be told."""

    ingest: IngestSettings = IngestSettings.as_field(
        "How each window is read; times, limit and force come from the parameters of the backfill."
    )
    sleep: SleepSettings = SleepSettings.as_field("The one night after all windows.")
    embedder: str = Field(
        DEFAULT_EMBEDDER, description="Embedding model of a memory that is made; one that is there keeps its."
    )


class FleetWidth(Group):
    """How the namespaces of a store are spread when a flow runs over many of them."""

    width: int = Field(2, ge=1, le=4096, description="Namespaces that are worked on side by side.")


class FleetSettings(FleetWidth):
    """Everything a run of `fleet` can be told."""

    sleep: SleepSettings = SleepSettings.as_field("The night of each namespace.")


class ReembedSettings(WritingSettings):
    """How a memory turns to another embedding model (`slowwave reembed`)."""

    gate: NightGateSettings = NightGateSettings.as_field(
        "The same questions on old and on new vectors; where recall fell, the run is undone."
    )
    link: LinkSettings = LinkSettings.as_field("How entities that are alike are linked anew.")


_WRITING = ("ingest", "consolidate", "steward", "decay", "communities", "report", "reembed")
_WATCHED = ("consolidate", "steward", "decay", "communities")
SHARED: Mapping[str, str] = MappingProxyType(
    {f"{flow}.retention": "retention" for flow in _WRITING}
    | {f"{flow}.approval": "approval" for flow in ("ingest", "consolidate", "steward", "decay")}
    | {f"{flow}.llm": "ingest.llm" for flow in ("consolidate", "steward", "communities")}
    | {f"{flow}.gate": "sleep" for flow in (*_WATCHED, "reembed")}
    | {"ingest.consolidate": "consolidate", "decay.beliefs": "ingest.beliefs"}
    | {"steward.use": "recall.use", "report.use": "recall.use", "report.split": "split"}
    | {"reembed.link": "ingest.extract.note_linking"}
)
"""Tables that several flows need and the file has once: each place with the table that it is filled from."""


def _filled(group: Group, path: Sequence[str], source: Group, but: frozenset[str]) -> Group:
    """The group in which the table at this path has what the source says of its settings."""
    name, *inside = path
    table: Group = getattr(group, name)
    if inside:
        return group.model_copy(update={name: _filled(table, inside, source, but)})
    common = [each for each in type(table).model_fields if each in type(source).model_fields and each not in but]
    return group.model_copy(update={name: table.model_copy(update={each: getattr(source, each) for each in common})})


def _at(group: Any, path: str) -> Any:
    for name in path.split("."):
        group = getattr(group, name)
    return group


class Settings(Group):
    """The whole of `slowwave.toml`: each table once, also those that several flows need (`SHARED`)."""

    embedder: str = Field(
        DEFAULT_EMBEDDER,
        description="provider/model; the default ships with slowwave. A store keeps the model it was made with.",
    )
    ingest: IngestSettings = IngestSettings.as_field("The `ingest` flow.")
    consolidate: ConsolidateSettings = ConsolidateSettings.as_field("The `consolidate` flow.")
    steward: StewardSettings = StewardSettings.as_field("The `steward` flow.")
    decay: DecaySettings = DecaySettings.as_field("The `decay` flow.")
    communities: CommunitySettings = CommunitySettings.as_field("The `communities` flow.")
    sleep: NightGateSettings = NightGateSettings.as_field(
        "The gate of the `sleep` flow; its phases have sections of their own."
    )
    backfill: BackfillBudget = BackfillBudget.as_field("The `backfill` flow.")
    fleet: FleetWidth = FleetWidth.as_field("The `fleet` flow.")
    recall: RecallSettings = RecallSettings.as_field("The query path.")
    approval: ApprovalSettings = ApprovalSettings.as_field("What a person decides.")
    split: SplitSettings = SplitSettings.as_field("When an entity is large.")
    report: ReportSettings = ReportSettings.as_field("The `report` flow.")
    reembed: ReembedSettings = ReembedSettings.as_field("The `reembed` flow.")
    labels: LabelSettings = LabelSettings.as_field("Words that are shown.")
    mcp: McpSettings = McpSettings.as_field("The door for agents.")
    retention: RetentionSettings = RetentionSettings.as_field("Versions, leases.")

    @model_validator(mode="after")
    def _in_the_language_of_the_labels(self) -> Self:
        """Statements are in the language of the labels, if that is another one than English and none is chosen."""
        extract = self.ingest.extract
        if self.labels.locale != "en" and not extract.language:
            spoken = extract.model_copy(update={"language": self.labels.locale})
            object.__setattr__(self, "ingest", self.ingest.model_copy(update={"extract": spoken}))
        return self

    @model_validator(mode="after")
    def _shared(self) -> Self:
        """Fill the tables that the file has once; only the gates of `sleep` and `reembed` are closed by it."""
        for place, source in SHARED.items():
            flow, *inside = place.split(".")
            but = frozenset({"enabled"} if flow in _WATCHED and inside == ["gate"] else ())
            object.__setattr__(self, flow, _filled(getattr(self, flow), inside, _at(self, source), but))
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
        resolve = self.consolidate.resolve_cosine
        if resolve is not None and resolve > flagged:
            raise ValueError(
                f"ingest.evaluate.flag_cosine ({flagged}) must be at least consolidate.resolve_cosine ({resolve})"
            )
        return self
