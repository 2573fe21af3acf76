"""The request batch: many prompts of one role, each with its entry in the ledger and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from slowwave.records import LedgerEntry, Prompt, Usage
from slowwave.text import as_json

from .budget import Budget
from .ledger import Bookkeeper, ledger_key, prompt_hash, schema_hash
from .remote import BATCH_SHARE, CallOutcome, ModelClient
from .telemetry import note_call

Role = Literal["extract", "resolve", "consolidate", "summarize", "judge", "answer"]
ROLES: tuple[Role, ...] = get_args(Role)

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ModelAnswer(Generic[T]):
    """The answer to one prompt: it has a `value`, or an `error`, or it was `skipped`.

    Skipped prompts were never sent, because the budget was reached or the provider was down, or are still in a batch;
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
    def is_unanswered(self) -> bool:
        """Whether there is no answer for a reason outside the prompt."""
        return self.skipped or self.is_transient


OnDone = Callable[[int, ModelAnswer[Any]], None]


@dataclass(frozen=True, slots=True)
class PendingPrompt:
    """A prompt without an answer yet, with all its places in the batch; `earlier` is an entry that was paid in vain."""

    blank: LedgerEntry
    prompt: Prompt
    indexes: tuple[int, ...]
    earlier: LedgerEntry | None = None

    @property
    def key(self) -> str:
        """Its id in the ledger."""
        return self.blank.id


@dataclass
class RequestBatch(Generic[T]):
    """Many prompts of one role, and all that live calls and batches share: model, budget and ledger."""

    client: ModelClient
    budget: Budget
    books: Bookkeeper
    role: Role
    model: type[T]
    on_answer: Callable[[int, ModelAnswer[T]], None]

    def __post_init__(self) -> None:
        schema = self.model.model_json_schema()
        self.schema_hash, self._schema_chars = schema_hash(schema), len(as_json(schema))

    async def open(self, prompts: Sequence[Prompt]) -> dict[str, PendingPrompt]:
        """Answer prompts that have an entry in the ledger; the rest by key, in order, equal prompts once."""
        places: dict[str, tuple[LedgerEntry, Prompt, list[int]]] = {}
        for index, prompt in enumerate(prompts):
            blank = self._blank(prompt)
            places.setdefault(blank.id, (blank, prompt, []))[2].append(index)
        return await self.unanswered(
            {key: PendingPrompt(blank, prompt, tuple(indexes)) for key, (blank, prompt, indexes) in places.items()}
        )

    async def unanswered(self, waiting: Mapping[str, PendingPrompt]) -> dict[str, PendingPrompt]:
        """Answer the prompts with an entry in the ledger; returns the others."""
        known = await self.books.lookup(list(waiting))
        rest = {key: replace(each, earlier=known.get(key)) for key, each in waiting.items()}
        for key, entry in known.items():
            replayed = _replayed(entry, self.model)
            if replayed is not None:
                self._finish(rest.pop(key), replayed)
        return rest

    def estimate(self, pending: PendingPrompt, share: float = 1.0) -> Usage:
        """The expected cost of the prompt, at this share of the price."""
        return self.client.estimate(pending.prompt, self._schema_chars, share)

    def expected(self, pending: Sequence[PendingPrompt]) -> list[Usage]:
        """The expected cost of each in a batch."""
        return [self.estimate(each, BATCH_SHARE) for each in pending]

    async def keep(self, pending: PendingPrompt, outcome: CallOutcome, unless_since: datetime | None = None) -> bool:
        """Record the outcome of a call, then answer; raises errors that every other prompt would meet, too.

        False, and nothing is done, if another run wrote its own down since that moment.
        """
        entry = filled(pending.blank, outcome)
        is_recorded = bool(outcome.usage.calls) or not (outcome.is_transient or outcome.fatal)
        if is_recorded and not await self.books.record(entry.after(pending.earlier), unless_since):
            return False
        note_call(entry)
        if outcome.fatal is not None:
            raise outcome.fatal
        value = cast("T | None", outcome.value)
        may_retry, is_transient = not entry.is_final, outcome.is_transient
        answer = ModelAnswer(
            value, outcome.error or None, outcome.usage, may_retry=may_retry, is_transient=is_transient
        )
        self._finish(pending, answer)
        return True

    def skip(self, pending: PendingPrompt) -> None:
        """Leave the prompt to a later run."""
        self._finish(pending, ModelAnswer(skipped=True, may_retry=True))

    def _blank(self, prompt: Prompt) -> LedgerEntry:
        choice, text = self.client.choice, prompt_hash(prompt)
        return LedgerEntry(
            id=ledger_key(choice.provider, choice.model, text, self.schema_hash),
            provider=choice.provider,
            model=choice.model,
            role=self.role,
            prompt_name=prompt.name,
            prompt_hash=text,
            schema_hash=self.schema_hash,
        )

    def _finish(self, pending: PendingPrompt, answer: ModelAnswer[T]) -> None:
        """The first of equal prompts bears the cost, the others are repetitions."""
        repeated = answer if answer.skipped else replace(answer, usage=Usage(cached=1), cached=True)
        for index in pending.indexes:
            self.on_answer(index, answer if index == pending.indexes[0] else repeated)


def filled(blank: LedgerEntry, outcome: CallOutcome) -> LedgerEntry:
    """The entry with the outcome of the call."""
    usage, value = outcome.usage, outcome.value
    return replace(
        blank,
        response=as_json(value.model_dump(mode="json")) if value is not None else "",
        error=outcome.error,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        usd=usage.usd,
        latency_s=usage.seconds,
        attempts=outcome.attempts,
        calls=usage.calls,
    )


def _replayed(entry: LedgerEntry, model: type[T]) -> ModelAnswer[T] | None:
    """The answer of an entry; None if the prompt should be sent again."""
    if not entry.is_final:
        return None
    if not entry.response:
        return ModelAnswer(error=entry.error, usage=Usage(cached=1), cached=True)
    try:
        return ModelAnswer(model.model_validate_json(entry.response), usage=Usage(cached=1), cached=True)
    except ValidationError:
        return None
