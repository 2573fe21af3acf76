"""The ledger of paid answers: looked up before any call, written as each call ends; and what is measured of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import ParamSpec, Protocol, TypeVar

from slowwave.common.records import LedgerEntry, Prompt, SubmittedBatch, Usage
from slowwave.common.telemetry import Value, count, ended_span, measure
from slowwave.common.text import digest

P = ParamSpec("P")
R = TypeVar("R")


class Ledger(Protocol):
    """Where paid answers are kept. All methods are called from worker threads, one call at a time."""

    def lookup(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """The newest entry of each id that is known."""

    def written_since(self, keys: Sequence[str], moment: datetime) -> set[str]:
        """Those of these ids that have an entry since then."""

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
    kept_at: dict[str, datetime] = field(default_factory=dict)

    def lookup(self, keys: Sequence[str]) -> dict[str, LedgerEntry]:
        """The entries of these ids that are known."""
        return {key: self.entries[key] for key in keys if key in self.entries}

    def written_since(self, keys: Sequence[str], moment: datetime) -> set[str]:
        """Those of these ids that have an entry since then."""
        return {key for key in keys if key in self.kept_at and self.kept_at[key] >= moment}

    def record(self, entries: Sequence[LedgerEntry]) -> None:
        """Keep these entries."""
        self.entries |= {entry.id: entry for entry in entries}
        self.kept_at |= dict.fromkeys((entry.id for entry in entries), datetime.now(UTC))

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


def schema_hash(schema: Mapping[str, object]) -> str:
    """Hash of the JSON schema that an answer must fit."""
    return digest(dict(schema))


def ledger_key(provider: str, model: str, prompt: str, schema: str) -> str:
    """The id of an entry: the model, and the hashes of the prompt and of the schema of the answer."""
    return f"llm_{digest(provider, model, prompt, schema)}"


# Spans and measures of model calls, in the words of OpenTelemetry's conventions for generative AI: model, role, tokens
# and dollars, never the text of a prompt.


OPERATION = "chat"


def note_call(entry: LedgerEntry) -> None:
    """Record a call that ended now, with its cost, with or without an answer."""
    who: dict[str, Value] = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.system": entry.provider,
        "gen_ai.provider.name": entry.provider,
        "gen_ai.request.model": entry.model,
        "slowwave.role": entry.role,
    }
    cost: dict[str, Value] = {
        "gen_ai.usage.input_tokens": entry.tokens_in,
        "gen_ai.usage.output_tokens": entry.tokens_out,
        "slowwave.prompt": entry.prompt_name,
        "slowwave.usd": entry.usd,
        "slowwave.attempts": entry.attempts,
    }
    failed = "NoAnswer" if entry.error else ""  # the text of an error may quote a prompt
    ended_span(f"{OPERATION} {entry.model}", entry.latency_s, who | cost, failed, is_client=True)
    for kind, tokens in (("input", entry.tokens_in), ("output", entry.tokens_out)):
        measure("gen_ai.client.token.usage", tokens, "{token}", "Tokens of a call", who | {"gen_ai.token.type": kind})
    measure("gen_ai.client.operation.duration", entry.latency_s, "s", "Time of a call", who)
    count("slowwave.model.calls", entry.attempts, "{call}", "Requests sent", who)
    count("slowwave.model.cost", entry.usd, "{USD}", "Dollars paid", who)
