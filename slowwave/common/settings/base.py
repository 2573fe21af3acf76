"""What all settings share: groups that are frozen, know their names, and refuse what they do not know."""

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
LONG_WORD, LISTED = 4, 12
"""Letters of a word that says something by itself, and how many names are listed."""
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


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
            "there is no setting {name}; {hint}{known}",
            {
                "name": repr(unknown[0]),
                "hint": f"did you mean {near!r}? " if near else "",
                "known": f"known: {', '.join(own)}"
                if len(own) <= LISTED
                else "docs/settings.md lists those that there are",
                "unknown": unknown[0],
            },
        )


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is nearly this one, or the likeliest that shares a long word with it; empty where none is."""
    if near := get_close_matches(name, known, n=1, cutoff=NEAR):
        return near[0]
    words = _words(name)
    return next(iter(get_close_matches(name, [each for each in known if words & _words(each)], n=1, cutoff=0.0)), "")


def _words(name: str) -> set[str]:
    return {word for word in name.lower().split("_") if len(word) >= LONG_WORD}


# How long the past is kept, what a person decides, and what maintenance may not make worse.


Risk = Literal["pinned", "override", "large", "erasure", "user_stated", "cross_source"]


class RetentionSettings(Group):
    """How long the past is kept."""

    undo_days: int = Field(
        30, ge=1, le=3650, description="Older versions are compacted away; undo and as-of-commit end there."
    )
    mode: Literal["archive", "delete"] = Field(
        "archive",
        description="archive: what has been out of use long enough moves to the archive and can be restored. delete: "
        "it is removed for good (§6.1 C3).",
    )
    lease_s: float = Field(30.0, ge=1.0, le=3600.0, description="Seconds after which a silent writer is dead.")
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
    low_risk: Literal["person", "auto"] = Field(
        "person",
        description="person: where approval is required, all waits. auto: what has no risk is written at once.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_a_word(cls, value: Any) -> Any:
        """`approval = "manual"` is short for its mode."""
        return {"mode": value} if isinstance(value, str) else value


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
    k: int = Field(10, ge=1, le=100, description="A question is answered within so many facts.")
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
    consolidate_model: str = Field(
        "", description="Overrides the model that judges pairs of facts: the same, an update, a clash."
    )
    summarize_model: str = Field("", description="Overrides the model that summarises communities only.")
    judge_model: str = Field("", description="Overrides the model that names new relations and links documents.")
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
    batch_poll_s: float = Field(30.0, gt=0.0, le=3600.0, description="How often a batch is asked whether it ended.")
    concurrency: int = Field(4, ge=1, le=64, description="Calls in flight at once.")
    calls_per_minute: int = Field(
        0, ge=0, le=1_000_000, description="Upper limit on calls started per minute; 0: no limit."
    )
    timeout_s: float = Field(60.0, gt=0.0, le=3600.0, description="Seconds for one call, retries not included.")
    transient_retries: int = Field(5, ge=0, le=20, description="How often a 429, 529, 5xx or time-out is tried again.")
    validation_retries: int = Field(
        1, ge=0, le=5, description="How often a malformed answer is sent back to be corrected."
    )
    max_output_tokens: int = Field(4096, ge=64, le=64000, description="Tokens per answer at most.")
