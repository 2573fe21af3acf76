"""The desk of one question to many: each prompt with its place in the ledger, and what becomes of it."""

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
from .remote import BATCH_SHARE, Outcome, RemoteSeat
from .telemetry import note_call

# What comes back for a prompt.


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


@dataclass(frozen=True, slots=True)
class Pending:
    """A prompt that is to be asked, for all places where it stands; `earlier` is what was paid for it in vain."""

    blank: LedgerEntry
    prompt: Prompt
    indexes: tuple[int, ...]
    earlier: LedgerEntry | None = None

    @property
    def key(self) -> str:
        """Its id in the ledger."""
        return self.blank.id


@dataclass
class Desk(Generic[T]):
    """What all ways of asking share: who is asked for what, within which budget, and where it is written down."""

    seat: RemoteSeat
    budget: Budget
    books: Bookkeeper
    role: Role
    model: type[T]
    on_answer: Callable[[int, Answer[T]], None]

    def __post_init__(self) -> None:
        schema = self.model.model_json_schema()
        self.schema_hash, self._schema_chars = schema_hash(schema), len(as_json(schema))

    async def open(self, prompts: Sequence[Prompt]) -> dict[str, Pending]:
        """Answer what the ledger knows; the rest by key, in order, equal prompts once."""
        places: dict[str, tuple[LedgerEntry, Prompt, list[int]]] = {}
        for index, prompt in enumerate(prompts):
            blank = self._blank(prompt)
            places.setdefault(blank.id, (blank, prompt, []))[2].append(index)
        return await self.unanswered(
            {key: Pending(blank, prompt, tuple(indexes)) for key, (blank, prompt, indexes) in places.items()}
        )

    async def unanswered(self, asked: Mapping[str, Pending]) -> dict[str, Pending]:
        """Answer those that the ledger knows by now; the others."""
        known = await self.books.lookup(list(asked))
        rest = {key: replace(each, earlier=known.get(key)) for key, each in asked.items()}
        for key, entry in known.items():
            replayed = _replayed(entry, self.model)
            if replayed is not None:
                self._finish(rest.pop(key), replayed)
        return rest

    def estimate(self, pending: Pending, share: float = 1.0) -> Usage:
        """What asking it will probably cost, at this share of the price."""
        return self.seat.estimate(pending.prompt, self._schema_chars, share)

    def expected(self, pending: Sequence[Pending]) -> list[Usage]:
        """What asking each in a batch will probably cost."""
        return [self.estimate(each, BATCH_SHARE) for each in pending]

    async def keep(self, pending: Pending, outcome: Outcome, unless_since: datetime | None = None) -> bool:
        """Write down how an ask ended, then answer; raises what would meet every other prompt too.

        False, and nothing is done, if another run wrote its own down since that moment.
        """
        entry = filled(pending.blank, outcome)
        is_told = bool(outcome.usage.calls) or not (outcome.is_transient or outcome.fatal)
        if is_told and not await self.books.record(entry.after(pending.earlier), unless_since):
            return False
        note_call(entry)
        if outcome.fatal is not None:
            raise outcome.fatal
        value = cast("T | None", outcome.value)
        may_retry, is_transient = not entry.is_final, outcome.is_transient
        answer = Answer(value, outcome.error or None, outcome.usage, may_retry=may_retry, is_transient=is_transient)
        self._finish(pending, answer)
        return True

    def skip(self, pending: Pending) -> None:
        """It was not asked, and is left to a later run."""
        self._finish(pending, Answer(skipped=True, may_retry=True))

    def _blank(self, prompt: Prompt) -> LedgerEntry:
        choice, text = self.seat.choice, prompt_hash(prompt)
        return LedgerEntry(
            id=ledger_key(choice.provider, choice.model, text, self.schema_hash),
            provider=choice.provider,
            model=choice.model,
            role=self.role,
            prompt_name=prompt.name,
            prompt_hash=text,
            schema_hash=self.schema_hash,
        )

    def _finish(self, pending: Pending, answer: Answer[T]) -> None:
        """The first of equal prompts bears the cost, the others are repetitions."""
        repeated = answer if answer.skipped else replace(answer, usage=Usage(cached=1), cached=True)
        for index in pending.indexes:
            self.on_answer(index, answer if index == pending.indexes[0] else repeated)


def filled(blank: LedgerEntry, outcome: Outcome) -> LedgerEntry:
    """The entry with how the ask ended."""
    usage, value = outcome.usage, outcome.value
    return replace(
        blank,
        response=_json(value),
        error=outcome.error,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        usd=usage.usd,
        latency_s=usage.seconds,
        attempts=outcome.attempts,
        calls=usage.calls,
    )


def _json(value: BaseModel | None) -> str:
    return as_json(value.model_dump(mode="json")) if value is not None else ""


def _replayed(entry: LedgerEntry, model: type[T]) -> Answer[T] | None:
    """The answer that an entry holds; none if it should be asked again."""
    if not entry.is_final:
        return None
    if not entry.response:
        return Answer(error=entry.error, usage=Usage(cached=1), cached=True)
    try:
        return Answer(model.model_validate_json(entry.response), usage=Usage(cached=1), cached=True)
    except ValidationError:
        return None
