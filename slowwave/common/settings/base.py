"""What all settings share (groups that are frozen, know their names, and refuse what they do not know), and recall."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from slowwave.common.records import Usage

DEFAULT_EMBEDDER = "slowwave/minilm-static-256"
DEFAULT_MODEL = "anthropic/claude-haiku-4-5"
NEAR = 0.75
"""Likeness of two names from which one may be meant by the other."""
LISTED = 12
"""How many names are listed."""
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Share = Annotated[float, Field(gt=0.0, le=1.0)]
Rate = Annotated[float, Field(ge=0.0, le=10.0)]
Weight = Annotated[float, Field(ge=0.0, le=100.0)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Number = Annotated[int, Field(ge=1, le=1_000_000_000)]
Few = Annotated[int, Field(ge=1, le=1000)]
FewOrNone = Annotated[int, Field(ge=0, le=1000)]
AtOnce = Annotated[int, Field(ge=1, le=64)]
Days = Annotated[float, Field(gt=0.0, le=36_500.0)]
DaysOrNone = Annotated[float, Field(ge=0.0, le=36_500.0)]
Seconds = Annotated[float, Field(gt=0.0, le=3600.0)]


class Group(BaseModel):
    """Base of all settings: frozen; an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def as_field(cls, description: str) -> Any:
        """A table of these settings inside another group."""
        return Field(default_factory=cls, description=description)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        own = cls.model_fields
        unknown = [name for name in values if name not in own] if isinstance(values, dict) else []
        if not unknown:
            return values
        near = nearest(unknown[0], own)
        raise PydanticCustomError(
            "unknown_setting",
            "there is no setting {name}. {hint}{known}",
            {
                "name": repr(unknown[0]),
                "hint": f"Did you mean {near!r}? " if near else "",
                "known": f"Known: {', '.join(own)}" if len(own) <= LISTED else "docs/settings.md lists all",
                "unknown": unknown[0],
                "near": near,
            },
        )


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is nearly this one; empty where none is."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=NEAR)), "")


# How long the past is kept, what a person decides, and what maintenance may not make worse.


Risk = Literal["pinned", "override", "large", "erasure", "user_stated", "cross_source"]


class RetentionSettings(Group):
    """How long the past is kept."""

    undo_days: int = Field(
        30, ge=1, le=3650, description="Older versions are compacted away; undo and as-of-commit end there."
    )
    lease_s: float = Field(
        30.0, ge=1.0, le=3600.0, description="Seconds of silence after which a waiting writer takes over."
    )
    lease_wait_s: float = Field(
        60.0, ge=0.0, le=3600.0, description="Seconds that one try waits; a task of a flow has six."
    )


class ApprovalSettings(Group):
    """What a person decides, beside what a flow was told to propose (SEMANTICS §6.6)."""

    mode: Literal["auto", "manual"] = Field(
        "auto",
        description="auto: what passes is written, but for what is always a person's. manual: all changes wait for a "
        "person, as proposals (S3-10).",
    )
    risky: tuple[Risk, ...] = Field(
        ("pinned", "override", "large", "erasure"),
        description="What a flow never does by itself, also where it may write. pinned: changes what is pinned. "
        "override: retires what a person stated in favour of what was inferred. large: retires many facts at once. "
        "erasure: removes for good, a person's whether listed or not. user_stated: retires what a person stated. "
        "cross_source: joins facts of several sources.",
    )
    large: int = Field(8, ge=2, le=10_000, description="So many facts retired or moved at once are a large change.")


class WritingSettings(Group):
    """What every run that writes can be told."""

    retention: RetentionSettings = RetentionSettings.as_field(
        "Versions and leases; on the command line the [retention] of the file."
    )


class DecidingSettings(WritingSettings):
    """What every run that changes knowledge can be told."""

    approval: ApprovalSettings = ApprovalSettings.as_field(
        "What waits for a person; on the command line the [approval] of the file."
    )


class GateSettings(Group):
    """Maintenance may not make recall worse: questions are put before and after, and a run that lost is taken back."""

    enabled: bool = Field(
        False, description="Ask the same questions before and after, and take the run back if recall fell."
    )
    probes: int = Field(
        200,
        ge=10,
        le=10_000,
        description="How many questions are asked, made from stored facts and from logged recalls.",
    )
    k: Few = Field(10, description="A question is answered within so many facts.")
    tolerance: Ratio = Field(0.02, description="Share of the questions that may be answered worse than before.")


class NightGateSettings(GateSettings):
    """The gate of the night, which is closed unless somebody opens it."""

    enabled: bool = Field(True, description="Ask the same questions after each phase, and take it back if recall fell.")


# Which language model does what, and how much it may cost.


class SpendingLimits(Group):
    """What a run may cost, all its parts together."""

    max_calls: int | None = Field(
        None, ge=0, le=1_000_000_000, description="Stop cleanly after this many paid calls; none: no limit."
    )
    max_tokens: int | None = Field(
        None, ge=0, le=1_000_000_000_000, description="Stop cleanly after this many tokens, in and out."
    )
    max_usd: float | None = Field(
        None, ge=0.0, le=1_000_000.0, description="Stop cleanly when this much has been spent."
    )

    def less(self, spent: Usage) -> SpendingLimits:
        """The limits less what is spent, never below nothing; none stays none."""
        paid = {"max_calls": spent.calls, "max_tokens": spent.tokens_in + spent.tokens_out, "max_usd": spent.usd}
        mine = {name: getattr(self, name) for name in paid}
        return SpendingLimits(
            **{name: None if limit is None else max(limit - paid[name], type(limit)(0)) for name, limit in mine.items()}
        )

    def within(self, other: SpendingLimits) -> Self:
        """The same with the smaller of each limit."""
        both = {name: [getattr(each, name) for each in (self, other)] for name in SpendingLimits.model_fields}
        least = {name: min((each for each in pair if each is not None), default=None) for name, pair in both.items()}
        return self.model_copy(update=least)


class LanguageSettings(SpendingLimits):
    """Which language model does what, and how much it may cost."""

    model: str = Field(
        "auto",
        description="provider/model, for example anthropic/claude-haiku-4-5 or ollama/llama3.2. 'claude-code', 'codex' "
        "and 'gemini-cli' (also with /model) are agents on this machine. 'quotes' keeps words as they were said, "
        "'replay/FILE' plays recorded answers. 'auto': nobody was asked yet, as 'quotes'.",
    )
    extract_model: str = Field("", description="Overrides the model for extraction only; empty means the same.")
    resolve_model: str = Field("", description="Overrides the model for ambiguous names only.")
    summarize_model: str = Field("", description="Overrides the model that summarises communities only.")
    answer_model: str = Field("", description="Overrides the model that answers questions: slowwave ask.")
    max_calls_per_day: int | None = Field(
        None,
        ge=0,
        le=1_000_000_000,
        description="Paid calls of all runs of this namespace since midnight UTC; none: no limit.",
    )
    max_tokens_per_day: int | None = Field(
        None, ge=0, le=1_000_000_000_000, description="Tokens, in and out, of all runs since midnight UTC."
    )
    max_usd_per_day: float | None = Field(
        None, ge=0.0, le=1_000_000.0, description="Dollars of all runs since midnight UTC."
    )
    mode: Literal["live", "batch"] = Field(
        "live",
        description="How models are asked. batch: through Anthropic's Message Batches, at half the price and within a "
        "day; for backfills.",
    )
    concurrency: AtOnce = Field(4, description="Calls in flight at once.")
    calls_per_minute: Count = Field(0, description="Upper limit on calls started per minute; 0: no limit.")
    timeout_s: Seconds = Field(60.0, description="Seconds for one call, retries not included.")
    transient_retries: FewOrNone = Field(5, description="How often a 429, 529, 5xx or time-out is tried again.")
    validation_retries: int = Field(
        1, ge=0, le=5, description="How often a malformed answer is sent back to be corrected."
    )
    max_output_tokens: int = Field(4096, ge=64, le=64000, description="Tokens per answer at most.")


# How recall searches, walks and ranks.


class UseSettings(Group):
    """How important an entity is by reads and relations, and how that passes (S0-24, S0-25)."""

    degree_weight: Weight = Field(
        0.15, description="What the most related entities gain in importance; 0: nothing (BETA_DEG, S0-24)."
    )
    days_weight: Weight = Field(
        0.2,
        description="What an entity gains that is read on the most days, beside one read as often at once (ALPHA_CONS, "
        "S0-24).",
    )
    max_degree: Number = Field(
        15, description="Relations that count; more of them make nothing more important (D_MAX, S0-24)."
    )
    decay_per_hour: Rate = Field(
        0.0001,
        description="How fast an entity loses weight that is not read: 0.0001 is half in 289 days; 0: never (S0-25).",
    )
    temporal_floor: Ratio = Field(
        0.1, description="What stays of the weight, however long ago it was read (TEMPORAL_FLOOR, S0-25)."
    )


class LimbicSettings(UseSettings):
    """How much use counts where entities, and with `recall.limbic` facts, are ranked (S0-26)."""

    importance_weight: Weight = Field(
        0.5, description="What an importance of 1 adds to a score, as a share of it (S0-26)."
    )
    company_weight: Weight = Field(
        0.01, description="What it adds to a score to have been read together with others that are found (S0-26)."
    )


class AspectWeights(Group):
    """How much each measure counts in the score of an aspect, beside the others: what matters is their shares."""

    facts: Weight = Field(0.40, description="How many facts there are.")
    entities: Weight = Field(0.25, description="How many entities they are about.")
    predicates: Weight = Field(0.20, description="How many kinds of relations.")
    confidence: Weight = Field(0.15, description="How sure they are on average.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.whole:
            raise ValueError("one of the weights must be above 0")
        return self

    @property
    def whole(self) -> float:
        """All of them together."""
        return self.facts + self.entities + self.predicates + self.confidence


class AspectSaturation(Group):
    """From where on more of a measure adds nothing to the score of an aspect."""

    facts: Number = Field(25, description="Facts that are enough.")
    entities: Number = Field(12, description="Entities that are enough.")
    predicates: Number = Field(8, description="Kinds of relations that are enough.")
    confidence: Share = Field(1.0, description="Mean confidence that is enough.")


class AspectSettings(Group):
    """How well an aspect is known, as a score of 0 to 100 (S3-18).

    Scores that runs wrote down are told by these settings too: they are counted anew from what was counted then.
    """

    weights: AspectWeights = AspectWeights.as_field("What counts how much (S3-18).")
    saturation: AspectSaturation = AspectSaturation.as_field("What is enough (S3-18).")


GraphMode = Literal["none", "bfs", "spread"]
EdgeType = Literal["semantic", "temporal", "causal", "hierarchical", "co_occurrence"]


class SpreadSettings(Group):
    """Spreading activation: entities pass on what reaches them (SYNAPSE, S2-41 … S2-43)."""

    decay_lambda: Share = Field(0.85, description="Share of the activation that a relation passes on.")
    max_hops: Few = Field(3, description="How often activation is passed on.")
    activation_threshold: Ratio = Field(0.1, description="Activation below which nothing is passed on or counted.")
    inhibition_threshold: Ratio = Field(0.8, description="An entity that is activated so much receives no more.")
    max_activated_nodes: Number = Field(
        50, description="Entities that stay active after each hop, the most activated ones."
    )
    seed_activation: Literal["uniform", "hybrid"] = Field(
        "uniform",
        description="Activation of seeds. uniform: 1. hybrid: how well the query names them and how connected they "
        "are (S2-42).",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.activation_threshold >= self.inhibition_threshold:
            raise ValueError(
                f"activation_threshold ({self.activation_threshold}) must be below inhibition_threshold "
                f"({self.inhibition_threshold})"
            )
        return self


class WalkSettings(Group):
    """How recall follows relations from the entities that a query names (S2-26 … S2-35)."""

    seeds: Few = Field(10, description="Entities of the query at which walks begin.")
    max_hops: FewOrNone = Field(2, description="Hops of a breadth-first walk (S2-30).")
    edge_types: tuple[EdgeType, ...] = Field(
        (), description="Kinds of relations that are followed; empty: all (S2-30)."
    )
    temporal_decay_rate: Rate = Field(
        0.0, description="How fast relations lose the boost, or the flow, that new ones have; 0: none (S2-35, S2-41)."
    )
    seed_structural_weight: Ratio = Field(
        0.4, description="Weight of connections beside words in the score of a seed (S2-28)."
    )
    seed_community_cap: Count = Field(
        3, description="Seeds of one community; more are passed over; 0: no limit (S2-29)."
    )
    similar_links: bool = Field(False, description="Also walk from an entity to those that are alike (S2-71).")
    recall_timeout_ms: int = Field(
        5000,
        ge=0,
        le=600_000,
        description="Milliseconds of a whole recall, which then gives nothing and says so. A walk may take a tenth of "
        "it; the rest answers without one that takes longer. The first recall after a commit, which opens tables, and "
        "one about the past may take ten times as long. Embedding the question is not counted; 0: no end (S2-44, "
        "decision 32).",
    )
    spread: SpreadSettings = SpreadSettings.as_field("The other way to walk.")


class RecallSettings(Group):
    """How recall searches and ranks."""

    k: Few = Field(10, description="Facts returned unless asked otherwise.")
    expansion: Few = Field(3, description="Candidates per channel for each fact returned (S0-26).")
    min_quality: Ratio = Field(
        0.0,
        description="Facts that the steward scored lower are not recalled once the learning period is over; 0: all "
        "are. With the 0.05 of S4-03 a memory that nobody asked for half a year would answer nothing.",
    )
    graph: GraphMode = Field(
        "bfs",
        description="Whether relations of the entities that the query names are recalled too: breadth first, or by "
        "spreading activation.",
    )
    graph_weight: Rate = Field(
        0.3, description="What the strongest fact of a walk gains; others by their share of it. Words alone give 1."
    )
    rrf_k: Number = Field(
        60, description="k of reciprocal-rank fusion, 1 / (k + rank), where entities are searched (S0-26)."
    )
    limbic: bool = Field(
        False,
        description="Facts about entities that are read often, lately and together come first. Off: what was not asked "
        "for in a while would be hidden by what was (S0-26).",
    )
    diversity: Ratio = Field(0.0, description="How much a fact loses by being like one that is recalled before it.")
    neighbours: Ratio = Field(
        0.5, description="Share of a matching message's score that the turns before and after it get."
    )
    others_weight: Ratio = Field(
        0.8, description="What a fact about somebody else counts where the question names people. 1 changes nothing."
    )
    history_limit: Number = Field(
        100, description="Versions that a history tells unless asked otherwise, the latest (S2-38)."
    )
    uncertain_limit: FewOrNone = Field(
        3, description="So many are told where nothing is known of two entities, the most probable; 0: none (S2-69)."
    )
    use: LimbicSettings = LimbicSettings.as_field(
        "How much it counts that entities are read often, lately and together (S0-24 … S0-26)."
    )
    aspects: AspectSettings = AspectSettings.as_field("How well each is known (S3-18).")
    walk: WalkSettings = WalkSettings.as_field("How relations are followed.")
    held_mb: Count = Field(
        320,
        description="Megabytes of messages and facts up to which a namespace is read into memory and answers from "
        "there, some 100,000 facts; their vectors lie in a temporary file. A larger one is asked by its indexes; 0: "
        "every one.",
    )
