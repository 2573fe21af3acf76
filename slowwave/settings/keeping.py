"""How long the past is kept, what a person decides, and what maintenance may not make worse."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from .groups import Group, Ratio

Risk = Literal["pinned", "override", "large", "erasure", "user_stated", "cross_source"]


class RetentionSettings(Group):
    """How long the past is kept."""

    undo_days: int = Field(
        30,
        ge=1,
        le=3650,
        title="Days of undo",
        description="Older versions are compacted away; undo and as-of-commit end there.",
    )
    mode: Literal["archive", "delete"] = Field(
        "archive",
        title="What eviction does",
        description="archive: what has been out of use long enough moves to the archive and can be restored. delete: "
        "it is removed for good (§6.1 C3).",
    )
    lease_s: float = Field(
        30.0, ge=1.0, le=3600.0, title="Writer lease", description="Seconds after which a silent writer is dead."
    )
    lease_wait_s: float = Field(
        60.0,
        ge=0.0,
        le=3600.0,
        title="Wait for the lease",
        description="Seconds that one try waits; a task of a flow has six.",
    )


class ApprovalSettings(Group):
    """What a person decides, beside what a flow was told to propose (SEMANTICS §6.6)."""

    mode: Literal["auto", "manual"] = Field(
        "auto",
        title="Approval",
        description="auto: what passes is written, but for what is always a person's. manual: all changes wait for a "
        "person, as proposals (S3-10).",
    )
    risky: tuple[Risk, ...] = Field(
        ("pinned", "override", "large", "erasure"),
        title="Always a person's",
        description="What a flow never does by itself, also where it may write. pinned: changes what is pinned. "
        "override: retires what a person stated in favour of what was inferred. large: retires many facts at once. "
        "erasure: removes for good, a person's whether listed or not. user_stated: retires what a person stated. "
        "cross_source: joins facts of several sources.",
    )
    large: int = Field(
        8, ge=2, le=10_000, title="Large", description="So many facts retired or moved at once are a large change."
    )
    low_risk: Literal["person", "auto"] = Field(
        "person",
        title="Proposals without risk",
        description="person: where approval is required, all waits. auto: what has no risk is written at once.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_a_word(cls, value: Any) -> Any:
        """`approval = "manual"` is short for its mode."""
        return {"mode": value} if isinstance(value, str) else value


class GateSettings(Group):
    """Maintenance may not make recall worse: questions are put before and after, and a run that lost is taken back."""

    enabled: bool = Field(
        False,
        title="Gate",
        description="Ask the same questions before and after, and take the run back if recall fell.",
    )
    probes: int = Field(
        200, ge=10, le=10_000, title="Questions", description="Made from stored facts and from logged recalls."
    )
    k: int = Field(10, ge=1, le=100, title="Places", description="A question is answered within so many facts.")
    tolerance: Ratio = Field(
        0.02, title="Tolerance", description="Share of the questions that may be answered worse than before."
    )


class NightGateSettings(GateSettings):
    """The gate of the night, which is closed unless somebody opens it."""

    enabled: bool = Field(
        True, title="Gate", description="Ask the same questions after each phase, and take it back if recall fell."
    )
