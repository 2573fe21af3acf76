"""What use makes of an entity's weight, and what counts how much in the score of an aspect."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from .groups import Group, Ratio, alias


class UseSettings(Group):
    """How important an entity is by reads and relations, and how that passes (S0-24, S0-25)."""

    degree_weight: float = Field(
        0.15,
        ge=0.0,
        le=100.0,
        title="Weight of relations",
        description="What the most related entities gain in importance; 0: nothing (BETA_DEG, S0-24).",
        validation_alias=alias("degree_weight", "beta_deg"),
    )
    days_weight: float = Field(
        0.2,
        ge=0.0,
        le=100.0,
        title="Weight of days",
        description="What an entity gains that is read on the most days, beside one read as often at once (ALPHA_CONS, "
        "S0-24).",
        validation_alias=alias("days_weight", "alpha_cons"),
    )
    max_degree: int = Field(
        15,
        ge=1,
        le=1_000_000,
        title="Relations that count",
        description="More of them make nothing more important (D_MAX, S0-24).",
        validation_alias=alias("max_degree", "d_max"),
    )
    decay_per_hour: float = Field(
        0.0001,
        ge=0.0,
        le=10.0,
        title="Decay per hour",
        description="How fast an entity loses weight that is not read: 0.0001 is half in 289 days; 0: never (S0-25).",
        validation_alias=alias("decay_per_hour", "lambda_hourly"),
    )
    temporal_floor: Ratio = Field(
        0.1, title="Least recency", description="What stays of the weight, however long ago (TEMPORAL_FLOOR, S0-25)."
    )


class LimbicSettings(UseSettings):
    """How much use counts where entities, and with `recall.limbic` facts, are ranked (S0-26)."""

    importance_weight: float = Field(
        0.5,
        ge=0.0,
        le=100.0,
        title="Weight of importance",
        description="What an importance of 1 adds to a score, as a share of it (S0-26).",
        validation_alias=alias("importance_weight", "beta_sal"),
    )
    company_weight: float = Field(
        0.01,
        ge=0.0,
        le=100.0,
        title="Weight of company",
        description="What it adds to have been read together with others that are found (S0-26).",
        validation_alias=alias("company_weight", "gamma"),
    )


class AspectWeights(Group):
    """How much each measure counts in the score of an aspect, beside the others: what matters is their shares."""

    facts: float = Field(0.40, ge=0.0, le=100.0, title="Facts", description="How many there are.")
    entities: float = Field(0.25, ge=0.0, le=100.0, title="Entities", description="How many they are about.")
    predicates: float = Field(0.20, ge=0.0, le=100.0, title="Relations", description="How many kinds of them.")
    confidence: float = Field(0.15, ge=0.0, le=100.0, title="Confidence", description="How sure they are on average.")

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

    facts: int = Field(25, ge=1, le=1_000_000_000, title="Facts", description="Facts that are enough.")
    entities: int = Field(12, ge=1, le=1_000_000_000, title="Entities", description="Entities that are enough.")
    predicates: int = Field(8, ge=1, le=1_000_000, title="Relations", description="Kinds of relations.")
    confidence: float = Field(1.0, gt=0.0, le=1.0, title="Confidence", description="Mean confidence.")


class AspectSettings(Group):
    """How well an aspect is known, as a score of 0 to 100 (S3-18).

    Scores that runs wrote down are told by these settings too: they are counted anew from what was counted then.
    """

    weights: AspectWeights = Field(
        default_factory=AspectWeights, title="Weights", description="What counts how much (S3-18)."
    )
    saturation: AspectSaturation = Field(
        default_factory=AspectSaturation, title="Saturation", description="What is enough (S3-18)."
    )
