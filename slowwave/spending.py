"""The budget of a run of many parts: each part gets the remainder of the parts before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .records import Usage
from .settings import IngestSettings, LanguageSettings, SleepSettings, SpendingLimits


def what_is_left(limits: SpendingLimits, spent: Usage) -> SpendingLimits:
    """The limits less what is spent, never below nothing; none stays none."""
    paid = {"max_calls": spent.calls, "max_tokens": spent.tokens_in + spent.tokens_out, "max_usd": spent.usd}
    update = {
        name: max(limit - paid[name], type(limit)(0)) for name in paid if (limit := getattr(limits, name)) is not None
    }
    return SpendingLimits(**{**_limits(limits), **update})


def tighter(limits: SpendingLimits, other: SpendingLimits) -> SpendingLimits:
    """The smaller of each limit."""
    mine, theirs = _limits(limits), _limits(other)
    return SpendingLimits(**{name: _least((mine[name], theirs[name])) for name in mine})


def llm_within(llm: LanguageSettings, left: SpendingLimits) -> LanguageSettings:
    """The settings of a language model that may spend no more than this."""
    return llm.model_copy(update={name: _least((getattr(llm, name), value)) for name, value in _limits(left).items()})


def ingest_within(settings: IngestSettings, left: SpendingLimits) -> IngestSettings:
    """The settings of `ingest` that may spend no more than this."""
    return settings.model_copy(update={"llm": llm_within(settings.llm, left)})


def sleep_within(settings: SleepSettings, spent: Usage) -> SleepSettings:
    """The settings of a night after this spending: each phase may spend the remainder."""
    left = what_is_left(settings, spent)
    phases = ("consolidate", "steward", "communities")
    own = {name: getattr(settings, name) for name in phases}
    return settings.model_copy(
        update={"ingest": ingest_within(settings.ingest, left)}
        | {name: phase.model_copy(update={"llm": llm_within(phase.llm, left)}) for name, phase in own.items()}
    )


def _limits(limits: SpendingLimits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in SpendingLimits.model_fields}


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
