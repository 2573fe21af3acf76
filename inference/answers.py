"""What comes back for a prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, get_args

from pydantic import BaseModel

from slowwave.records import Usage

Role = Literal["extract", "resolve", "consolidate", "summarize", "judge", "answer"]
ROLES: tuple[Role, ...] = get_args(Role)

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What became of one prompt: it has a `value`, or an `error`, or it was `skipped`.

    Skipped prompts were never asked, because the budget was reached or the provider was down, or are still in a batch;
    `is_transient` are those that the provider could not answer now. `may_retry` tells whether a later run may succeed
    with the same prompt; `cached`, that nothing was paid for this answer now.
    """

    value: T | None = None
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    skipped: bool = False
    may_retry: bool = False
    is_transient: bool = False

    @property
    def is_unheard(self) -> bool:
        """Whether nobody answered, through no fault of the prompt or of what it asks about."""
        return self.skipped or self.is_transient


OnDone = Callable[[int, Answer[Any]], None]
