"""The request batch: many prompts of one role, each with its entry in the ledger and its answer.

The ledger of paid answers is looked up before any call, and written as each call ends. Live prompts are asked one by
one: budget, then the call, then the ledger, a few at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from slowwave.common.errors import Terminal, UnusableInput
from slowwave.common.records import LedgerEntry, Prompt, SubmittedBatch, Usage
from slowwave.common.telemetry import Value, ended_span
from slowwave.common.text import as_json, digest

from .budget import Budget
from .remote import BATCH_SHARE, CallOutcome, ModelClient

Role = Literal["extract", "resolve", "consolidate", "summarize", "judge", "answer"]
ROLES: tuple[Role, ...] = get_args(Role)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=BaseModel)


class Ledger(Protocol):
    """Where paid answers are kept. All methods are called from worker threads, one call at a time."""

    def lookup(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """The newest entry of each id that is known."""

    def record(self, entries: Sequence[LedgerEntry]) -> None:
        """Keep these entries for good; one of the same id replaces the earlier one."""

    def spent_since(self, moment: datetime) -> Usage:
        """What other runs paid since then, and will probably pay for batches that are under way."""

    def batches(self) -> list[SubmittedBatch]:
        """The newest row of every batch; those that are closed come without their prompts."""

    def keep_batch(self, batch: SubmittedBatch) -> None:
        """Keep this row of a batch, in place of the earlier ones; from now on this process works at it."""


@dataclass
class MemoryLedger:
    """A ledger that lives as long as the process: for dry runs and tests."""

    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    submitted: dict[str, SubmittedBatch] = field(default_factory=dict)

    def lookup(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """The entries of these ids that are known."""
        return {key: self.entries[key] for key in keys if key in self.entries}

    def record(self, entries: Sequence[LedgerEntry]) -> None:
        """Keep these entries."""
        self.entries |= {entry.id: entry for entry in entries}

    def spent_since(self, moment: datetime) -> Usage:
        """Nothing: no other run writes here."""
        return Usage()

    def batches(self) -> list[SubmittedBatch]:
        """All batches."""
        return list(self.submitted.values())

    def keep_batch(self, batch: SubmittedBatch) -> None:
        """Keep this row."""
        self.submitted[batch.id] = batch


class Bookkeeper:
    """A ledger off the event loop, one call at a time; entries that arrive during a write go together in the next."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._pending: list[LedgerEntry] = []
        self._turn = asyncio.Lock()

    async def call(self, method: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """What a method of the ledger returns."""
        async with self._turn:
            return await asyncio.to_thread(method, *given, **named)

    async def record(self, entry: LedgerEntry) -> None:
        """Return when the entry is kept."""
        self._pending.append(entry)
        await self.flush()

    async def spent_by_others(self, day: date) -> Usage:
        """What other runs have spent on a day, by UTC, and since."""
        return await self.call(self.ledger.spent_since, datetime.combine(day, time.min, UTC))

    async def flush(self) -> None:
        """Write what is pending."""
        async with self._turn:
            if self._pending:
                entries, self._pending = self._pending, []
                await asyncio.to_thread(self.ledger.record, entries)


def prompt_hash(prompt: Prompt) -> str:
    """Hash of all that the model reads."""
    return digest(prompt.name, prompt.system, prompt.text)


@cache
def _schema_of(model: type[BaseModel]) -> tuple[str, int]:
    """Hash and characters of the JSON schema that an answer must fit."""
    schema = model.model_json_schema()
    return digest(schema), len(as_json(schema))


# Spans of model calls, in the words of OpenTelemetry's conventions for generative AI: model, role, tokens and dollars,
# never the text of a prompt.


OPERATION = "chat"


def note_call(entry: LedgerEntry) -> None:
    """Record a call that ended now, with its cost, with or without an answer."""
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.system": entry.provider,
        "gen_ai.provider.name": entry.provider,
        "gen_ai.request.model": entry.model,
        "slowwave.role": entry.role,
        "gen_ai.usage.input_tokens": entry.tokens_in,
        "gen_ai.usage.output_tokens": entry.tokens_out,
        "slowwave.prompt": entry.prompt_name,
        "slowwave.usd": entry.usd,
        "slowwave.attempts": entry.attempts,
    }
    failed = "NoAnswer" if entry.error else ""  # the text of an error may quote a prompt
    ended_span(f"{OPERATION} {entry.model}", entry.latency_s, attributes, failed, is_client=True)


# Prompts and their answers.


@dataclass(frozen=True, slots=True)
class ModelAnswer(Generic[T]):
    """The answer to one prompt: it has a `value`, or an `error`, or it was `skipped`.

    Skipped prompts were never sent, because the budget was reached or the provider was down, or are still in a batch;
    `is_transient` are those that the provider could not answer now; `cached`, that nothing was paid for it now.
    """

    value: T | None = None
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    skipped: bool = False
    is_transient: bool = False

    @property
    def is_unanswered(self) -> bool:
        """Whether there is no answer for a reason outside the prompt."""
        return self.skipped or self.is_transient


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
        self.schema_hash, self._schema_chars = _schema_of(self.model)

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
        known = await self.books.call(self.books.ledger.lookup, list(waiting))
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

    async def keep(self, pending: PendingPrompt, outcome: CallOutcome) -> None:
        """Record the outcome of a call, then answer; raises errors that every other prompt would meet, too."""
        value, usage = cast("T | None", outcome.value), outcome.usage
        entry = replace(
            pending.blank,
            response=as_json(value.model_dump(mode="json")) if value is not None else "",
            error=outcome.error,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            usd=usage.usd,
            latency_s=usage.seconds,
            attempts=outcome.attempts,
            calls=usage.calls,
        )
        if usage.calls or not (outcome.is_transient or outcome.fatal):
            await self.books.record(entry.after(pending.earlier))
        note_call(entry)
        if outcome.fatal is not None:
            raise outcome.fatal
        self._finish(pending, ModelAnswer(value, outcome.error or None, usage, is_transient=outcome.is_transient))

    def skip(self, pending: PendingPrompt) -> None:
        """Leave the prompt to a later run."""
        self._finish(pending, ModelAnswer(skipped=True))

    def _blank(self, prompt: Prompt) -> LedgerEntry:
        choice, text = self.client.choice, prompt_hash(prompt)
        return LedgerEntry(
            id=f"llm_{digest(choice.provider, choice.model, text, self.schema_hash)}",
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


UNAVAILABLE_AFTER = 5


class LivePrompts(Generic[T]):
    """A fixed number of workers takes the prompts in order.

    After five prompts in a row whose retries were in vain, the provider counts as down and the rest is skipped; later
    questions of the run try one prompt before they give up, too.
    """

    def __init__(self, request_batch: RequestBatch[T]) -> None:
        self._request_batch, self._client = request_batch, request_batch.client
        self._stopped_by: Exception | None = None

    async def ask(self, pending: Iterable[PendingPrompt], workers: int) -> None:
        """Answer all; what stops the run is raised after the calls in flight ended."""
        self._client.failures_in_a_row = min(self._client.failures_in_a_row, UNAVAILABLE_AFTER - 1)
        queue = list(pending)
        prompts = iter(queue)
        await asyncio.gather(*(self._work(prompts) for _ in range(min(len(queue), workers))))
        if self._stopped_by is not None:
            raise self._stopped_by

    async def _work(self, prompts: Iterable[PendingPrompt]) -> None:
        for each in prompts:
            if self._stopped_by is not None:
                return
            try:
                await self._ask_one(each)
            except Exception as error:  # raised above, when no paid answer is under way any more
                self._stopped_by = self._stopped_by or error

    async def _ask_one(self, pending: PendingPrompt) -> None:
        request_batch, client = self._request_batch, self._client
        is_down = client.failures_in_a_row >= UNAVAILABLE_AFTER
        reservation = None if is_down else await request_batch.budget.reserve(request_batch.estimate(pending))
        if reservation is None:
            request_batch.skip(pending)
            return
        spent = Usage()
        try:
            outcome = await client.ask(pending.prompt, request_batch.model)
            spent = outcome.usage
        finally:
            request_batch.budget.settle(reservation, spent)
        if outcome.limit:
            request_batch.budget.stop(outcome.limit)
            request_batch.skip(pending)
            return
        client.failures_in_a_row = client.failures_in_a_row + 1 if outcome.is_transient else 0
        await request_batch.keep(pending, outcome)


# Recorded answers: written while a model is asked, played back without one.


WAY_OUT = "Record the answers with a model first, or use --llm quotes."


@dataclass(frozen=True)
class RecordedAnswers:
    """Answers by prompt: JSON lines of `{prompt_name, prompt_hash, response}`."""

    path: Path
    answers: dict[tuple[str, str], dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> RecordedAnswers:
        """Read a recording; of two answers to one prompt the later one counts."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise UnusableInput(f"The recording {str(path)!r} cannot be read ({error.strerror}).", WAY_OUT) from None
        except UnicodeDecodeError:
            raise UnusableInput(f"The recording {str(path)!r} is no text in UTF-8.", WAY_OUT) from None
        return cls(path, dict(_parsed(path, number, line) for number, line in enumerate(lines, 1) if line.strip()))

    def answer(self, prompt: Prompt) -> dict[str, Any]:
        """The recorded answer; `Terminal` if the prompt was never recorded."""
        found = self.answers.get((prompt.name, prompt_hash(prompt)))
        if found is None:
            raise Terminal(
                f"{self.path.name} has no answer to this prompt ({prompt.name} {prompt_hash(prompt)}).", WAY_OUT
            )
        return found


def _parsed(path: Path, number: int, line: str) -> tuple[tuple[str, str], dict[str, Any]]:
    try:
        row = json.loads(line)
        return (row["prompt_name"], row["prompt_hash"]), dict(row["response"])
    except (ValueError, KeyError, TypeError):
        raise UnusableInput(
            f"Line {number} of {path.name} is not a recorded answer.",
            'Each line is {"prompt_name": …, "prompt_hash": …, "response": {…}}.',
        ) from None
