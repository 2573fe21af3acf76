"""What a run may spend: reserved before a call, settled after it, so that calls in flight cannot overshoot together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from math import ceil

from slowwave.errors import BudgetReached
from slowwave.records import Usage

CHARS_PER_TOKEN = 3.5
TOOL_TOKENS = 350  # what providers add to a prompt that offers a tool
ANSWER_TOKENS = 400


@dataclass(frozen=True, eq=False, slots=True)
class Reservation:
    """What a call in flight was expected to cost, and what is held back for it."""

    estimate: Usage
    held: Usage


@dataclass
class Budget:
    """Limits on paid calls, tokens (in and out) and dollars; none means no limit.

    A call is admitted if what is spent, what is held for calls in flight and what it will probably cost itself stay
    within every limit. Estimates are corrected by what the calls so far really cost. A call that would not fit waits
    for those in flight, since they may turn out cheaper; if none is in flight, the budget is reached. Only an answer
    that costs more than was held for it can take a run over its limit.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    spent: Usage = field(default_factory=Usage)
    is_reached: bool = False
    _estimated: Usage = field(default_factory=Usage)
    _in_flight: list[Reservation] = field(default_factory=list)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def reserve(self, estimate: Usage) -> Reservation | None:
        """Hold what a call will probably cost; none once the budget is reached."""
        while not self.is_reached:
            held = self._corrected(estimate)
            if self._fits(held):
                self._in_flight.append(Reservation(estimate, held))
                return self._in_flight[-1]
            if not self._in_flight:
                self.is_reached = True
                break
            self._settled.clear()
            await self._settled.wait()
        return None

    def settle(self, reservation: Reservation, actual: Usage) -> None:
        """Put what the call really cost in place of what was held for it."""
        self._in_flight.remove(reservation)
        self.spent = self.spent + actual
        if actual.calls:
            self._estimated = self._estimated + reservation.estimate
        self._settled.set()

    def error(self) -> BudgetReached:
        """What to raise when the work that is done has been committed."""
        spent = self.spent
        shares = [
            f"{used:{form}} of {limit:{form}} {unit}"
            for used, limit, unit, form in (
                (spent.calls, self.max_calls, "calls", "d"),
                (spent.tokens_in + spent.tokens_out, self.max_tokens, "tokens", "d"),
                (spent.usd, self.max_usd, "dollars", ".4f"),
            )
            if limit is not None
        ]
        return BudgetReached(
            f"The budget is reached: {', '.join(shares)} spent.",
            "What is done is kept; run again, with a higher budget if need be, to do the rest.",
        )

    def _corrected(self, estimate: Usage) -> Usage:
        spent, before = self.spent, self._estimated
        tokens = (spent.tokens_in + spent.tokens_out) / max(1, before.tokens_in + before.tokens_out)
        return replace(
            estimate,
            tokens_in=ceil(estimate.tokens_in * (tokens if before.calls else 1.0)),
            tokens_out=ceil(estimate.tokens_out * (tokens if before.calls else 1.0)),
            usd=estimate.usd * (spent.usd / before.usd if before.usd else 1.0),
        )

    def _fits(self, held: Usage) -> bool:
        total = sum((reservation.held for reservation in self._in_flight), self.spent + held)
        return (
            (self.max_calls is None or total.calls <= self.max_calls)
            and (self.max_tokens is None or total.tokens_in + total.tokens_out <= self.max_tokens)
            and (self.max_usd is None or total.usd <= self.max_usd)
        )
