"""How recall searches, walks and ranks."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Group, Ratio

# What use makes of an entity's weight, and what counts how much in the score of an aspect.


class UseSettings(Group):
    """How important an entity is by reads and relations, and how that passes (S0-24, S0-25)."""

    degree_weight: float = Field(
        0.15,
        ge=0.0,
        le=100.0,
        description="What the most related entities gain in importance; 0: nothing (BETA_DEG, S0-24).",
    )
    days_weight: float = Field(
        0.2,
        ge=0.0,
        le=100.0,
        description="What an entity gains that is read on the most days, beside one read as often at once (ALPHA_CONS, "
        "S0-24).",
    )
    max_degree: int = Field(
        15,
        ge=1,
        le=1_000_000,
        description="Relations that count; more of them make nothing more important (D_MAX, S0-24).",
    )
    decay_per_hour: float = Field(
        0.0001,
        ge=0.0,
        le=10.0,
        description="How fast an entity loses weight that is not read: 0.0001 is half in 289 days; 0: never (S0-25).",
    )
    temporal_floor: Ratio = Field(
        0.1, description="What stays of the weight, however long ago it was read (TEMPORAL_FLOOR, S0-25)."
    )


class LimbicSettings(UseSettings):
    """How much use counts where entities, and with `recall.limbic` facts, are ranked (S0-26)."""

    importance_weight: float = Field(
        0.5, ge=0.0, le=100.0, description="What an importance of 1 adds to a score, as a share of it (S0-26)."
    )
    company_weight: float = Field(
        0.01,
        ge=0.0,
        le=100.0,
        description="What it adds to a score to have been read together with others that are found (S0-26).",
    )


class AspectWeights(Group):
    """How much each measure counts in the score of an aspect, beside the others: what matters is their shares."""

    facts: float = Field(0.40, ge=0.0, le=100.0, description="How many facts there are.")
    entities: float = Field(0.25, ge=0.0, le=100.0, description="How many entities they are about.")
    predicates: float = Field(0.20, ge=0.0, le=100.0, description="How many kinds of relations.")
    confidence: float = Field(0.15, ge=0.0, le=100.0, description="How sure they are on average.")

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

    facts: int = Field(25, ge=1, le=1_000_000_000, description="Facts that are enough.")
    entities: int = Field(12, ge=1, le=1_000_000_000, description="Entities that are enough.")
    predicates: int = Field(8, ge=1, le=1_000_000, description="Kinds of relations that are enough.")
    confidence: float = Field(1.0, gt=0.0, le=1.0, description="Mean confidence that is enough.")


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

    decay_lambda: float = Field(0.85, gt=0.0, le=1.0, description="Share of the activation that a relation passes on.")
    max_hops: int = Field(3, ge=1, le=20, description="How often activation is passed on.")
    activation_threshold: Ratio = Field(0.1, description="Activation below which nothing is passed on or counted.")
    inhibition_threshold: Ratio = Field(0.8, description="An entity that is activated so much receives no more.")
    max_activated_nodes: int = Field(
        50, ge=1, le=1_000_000, description="Entities that stay active after each hop, the most activated ones."
    )
    seed_activation: Literal["uniform", "hybrid"] = Field(
        "uniform",
        description="Activation of seeds. uniform: 1. hybrid: how well the query names them and how connected they "
        "are (S2-42).",
    )
    no_backflow: bool = Field(
        False, description="An entity passes nothing back over the relation that it was reached by."
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

    seeds: int = Field(10, ge=1, le=1000, description="Entities of the query at which walks begin.")
    max_hops: int = Field(2, ge=0, le=20, description="Hops of a breadth-first walk (S2-30).")
    edge_types: tuple[EdgeType, ...] = Field(
        (), description="Kinds of relations that are followed; empty: all (S2-30)."
    )
    temporal_decay_rate: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        description="How fast relations lose the boost, or the flow, that new ones have; 0: none (S2-35, S2-41).",
    )
    seed_structural_weight: Ratio = Field(
        0.4, description="Weight of connections beside words in the score of a seed (S2-28)."
    )
    seed_community_cap: int = Field(
        3, ge=0, le=1_000_000, description="Seeds of one community; more are passed over; 0: no limit (S2-29)."
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

    k: int = Field(10, ge=1, le=1000, description="Facts returned unless asked otherwise.")
    expansion: int = Field(3, ge=1, le=50, description="Candidates per channel for each fact returned (S0-26).")
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
    graph_weight: float = Field(
        0.3,
        ge=0.0,
        le=10.0,
        description="What the strongest fact of a walk gains; others by their share of it. Words alone give 1.",
    )
    rrf_k: int = Field(
        60,
        ge=1,
        le=10_000,
        description="k of reciprocal-rank fusion, 1 / (k + rank), where entities are searched (S0-26).",
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
    history_limit: int = Field(
        100, ge=1, le=1_000_000, description="Versions that a history tells unless asked otherwise, the latest (S2-38)."
    )
    uncertain_limit: int = Field(
        3,
        ge=0,
        le=1000,
        description="So many are told where nothing is known of two entities, the most probable; 0: none (S2-69).",
    )
    use: LimbicSettings = LimbicSettings.as_field(
        "How much it counts that entities are read often, lately and together (S0-24 … S0-26)."
    )
    aspects: AspectSettings = AspectSettings.as_field("How well each is known (S3-18).")
    walk: WalkSettings = WalkSettings.as_field("How relations are followed.")
    held_mb: int = Field(
        320,
        ge=0,
        le=1_000_000,
        description="Megabytes of messages and facts up to which a namespace is read into memory and answers from "
        "there, some 100,000 facts; their vectors lie in a temporary file. A larger one is asked by its indexes; 0: "
        "every one.",
    )
