"""What may be spent: reserved before a call, settled after it, so that calls in flight cannot overshoot together.

And what the tokens of a model cost, and how fast it may be asked.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from types import MappingProxyType

from slowwave.common.errors import BudgetReached
from slowwave.common.records import Prompt, Usage

from .agents import AGENTS

CHARS_PER_TOKEN = 3.5
TOOL_TOKENS = 350  # what providers add to a prompt that offers a tool
ANSWER_TOKENS = 400

Others = Callable[[date], Awaitable[Usage]]
"""What all other runs have spent on a day."""


def tokens_read(prompt: Prompt, schema_chars: int) -> int:
    """Tokens that a model will probably read: the prompt, and the schema of the tool that it is to fill in."""
    return TOOL_TOKENS + int((len(prompt.system) + len(prompt.text) + schema_chars) / CHARS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits on paid calls, tokens (in and out) and dollars; none: no limit. `suffix` ends their settings' names."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    suffix: str = ""

    def exceeded(self, total: Usage) -> list[str]:
        """The settings that so much would break."""
        return [f"max_{unit}{self.suffix}" for used, limit, unit, _ in self._each(total) if used > limit]

    def spent_of_limits(self, spent: Usage) -> list[str]:
        """How much of each limit is spent."""
        names = {"usd": "dollars"}
        return [
            f"{used:{form}} of {limit:{form}} {names.get(unit, unit)} (max_{unit}{self.suffix})"
            for used, limit, unit, form in self._each(spent)
        ]

    def _each(self, total: Usage) -> list[tuple[float, float, str, str]]:
        limits = (
            (total.calls, self.calls, "calls", "d"),
            (total.tokens_in + total.tokens_out, self.tokens, "tokens", "d"),
            (total.usd, self.usd, "usd", ".4f"),
        )
        return [(used, limit, unit, form) for used, limit, unit, form in limits if limit is not None]


@dataclass(frozen=True, eq=False, slots=True)
class Reservation:
    """The expected cost of calls in flight."""

    expected: Usage


@dataclass
class Budget:
    """Limits of a run, and of all runs of a day together.

    A call is admitted if the spent cost, the reserved cost of calls in flight and its own expected cost stay
    within every limit. A call that would not fit waits
    for those in flight, since they may turn out cheaper; if none is in flight, the budget is reached. Only an answer
    that costs more than was held for it can take a run over its limit, and a day only what other runs have in flight:
    what they spent is asked of `others` before each reservation. What a call cost belongs to the day on which it is
    settled, by `today`: a batch that was handed over before midnight and answered after it counts on the second day.
    """

    run: Caps = field(default_factory=Caps)
    day: Caps = field(default_factory=Caps)
    others: Others | None = None
    today: Callable[[], date] = lambda: datetime.now(UTC).date()
    spent: Usage = field(default_factory=Usage)
    spent_on: dict[date, Usage] = field(default_factory=dict)
    stopped_by: str = ""
    _day: date = date.min
    _spent_by_others: Usage = field(default_factory=Usage)
    _in_flight: list[Reservation] = field(default_factory=list)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_reached(self) -> bool:
        """Whether nothing more is admitted."""
        return bool(self.stopped_by)

    async def reserve(self, estimate: Usage) -> Reservation | None:
        """Reserve the expected cost of a call; None once the budget is reached."""
        return (await self.reserve_many([estimate]))[0]

    async def reserve_many(self, estimates: Sequence[Usage]) -> tuple[Reservation | None, int]:
        """Reserve the expected cost of the first of these calls, as many as fit; and their number."""
        while not self.is_reached:
            if self.others is not None and {self.day.calls, self.day.tokens, self.day.usd} != {None}:
                day = self.today()
                self._day, self._spent_by_others = day, await self.others(day)
            reservation, count = self._fitting(estimates)
            if count:
                self._in_flight.append(reservation)
                return reservation, count
            if not self._in_flight:
                self.stop(self._sentence(self._exceeded(estimates[0])))
                break
            self._settled.clear()
            await self._settled.wait()
        return None, 0

    def take_on(self, estimate: Usage) -> Reservation:
        """Reserve the expected cost of calls that an earlier run sent, whether it fits or not."""
        self._in_flight.append(Reservation(estimate))
        return self._in_flight[-1]

    def settle(self, reservation: Reservation, actual: Usage) -> None:
        """Replace the reserved cost of the calls by their real cost."""
        self._in_flight.remove(reservation)
        self.spent = self.spent + actual
        day = self.today()
        self.spent_on[day] = self.spent_on.get(day, Usage()) + actual
        self._settled.set()

    def stop(self, reason: str) -> None:
        """Admit nothing more; only the first reason counts."""
        self.stopped_by = self.stopped_by or reason
        self._settled.set()

    def error(self) -> BudgetReached:
        """What to raise when the work that is done has been committed."""
        return BudgetReached(
            self.stopped_by, "What is done is kept; run again, with a higher budget if need be, to do the rest."
        )

    def _fitting(self, estimates: Sequence[Usage]) -> tuple[Reservation, int]:
        expected = Usage()
        for count, each in enumerate(estimates):
            if self._exceeded(expected + each):
                return Reservation(expected), count
            expected = expected + each
        return Reservation(expected), len(estimates)

    def _exceeded(self, more: Usage) -> list[str]:
        reserved = sum((each.expected for each in self._in_flight), more)
        return self.run.exceeded(self.spent + reserved) + self.day.exceeded(self._spent_on_the_day() + reserved)

    def _spent_on_the_day(self) -> Usage:
        """What this run and all others spent on the day of the last look."""
        return self.spent_on.get(self._day, Usage()) + self._spent_by_others

    def _sentence(self, broken: Sequence[str]) -> str:
        run = self.run.spent_of_limits(self.spent)
        day = self.day.spent_of_limits(self._spent_on_the_day())
        parts = [f"{', '.join(run)} spent" if run else "", f"{', '.join(day)} spent since midnight UTC" if day else ""]
        return f"The budget is reached, by {' and '.join(broken)}: {'; '.join(part for part in parts if part)}."


MILLION = 1_000_000
_DATED = re.compile(r"-(?:\d{8}|latest)$")
LOCAL = frozenset({"ollama"})
"""Providers on one's own machine: their calls cost nothing."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens; prompts longer than `long_from` tokens cost `long_factor` times as much."""

    tokens_in: float
    tokens_out: float
    long_from: int = 0
    long_factor: float = 1.0

    def usd(self, tokens_in: int, tokens_out: int) -> float:
        """Dollars for one call."""
        factor = self.long_factor if self.long_from and tokens_in > self.long_from else 1.0
        return factor * (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / MILLION


# https://platform.claude.com/docs/en/about-claude/pricing as of November 2026; prompt caching is not used here.
CLAUDE: Mapping[str, Price] = MappingProxyType(
    {
        "claude-fable-5-1": Price(10.0, 50.0),
        "claude-fable-5": Price(10.0, 50.0),
        "claude-opus-5-5": Price(4.0, 20.0),
        "claude-opus-5": Price(5.0, 25.0),
        "claude-opus-4-8": Price(5.0, 25.0),
        "claude-opus-4-7": Price(5.0, 25.0),
        "claude-opus-4-6": Price(5.0, 25.0),
        "claude-opus-4-5": Price(5.0, 25.0),
        "claude-sonnet-5-5": Price(2.0, 10.0),
        "claude-sonnet-5": Price(2.0, 10.0),
        "claude-sonnet-4-6": Price(3.0, 15.0),
        "claude-sonnet-4-5": Price(3.0, 15.0),
        "claude-haiku-5-5": Price(0.10, 0.50, long_from=100_000, long_factor=5.0),
        "claude-haiku-4-5": Price(1.0, 5.0),
    }
)


def price_of(provider: str, model: str) -> Price | None:
    """The price of a model; free on one's own machine and by subscription, none where it is not known."""
    if provider in LOCAL or provider in AGENTS:
        return Price(0.0, 0.0)
    return CLAUDE.get(_DATED.sub("", model)) if provider == "anthropic" else None


# How fast may be asked: calls at once, calls a minute, and none while the server asks for a pause.


FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0

Sleep = Callable[[float], Awaitable[object]]


class RateLimit:
    """One clock for all calls of a run. `clock` and `sleep` are in seconds, `seed` fixes the jitter."""

    def __init__(
        self, concurrency: int, calls_per_minute: int, *, clock: Callable[[], float], sleep: Sleep, seed: int = 0
    ) -> None:
        self.clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._interval = 60.0 / calls_per_minute if calls_per_minute else 0.0
        self.pause = sleep
        self._chance = random.Random(seed)
        self._next_start = 0.0
        self._resume_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One of the places for a call, from its start to its end."""
        async with self._slots:
            await self.start()
            yield

    async def start(self) -> None:
        """Wait until the next call may start; starts are spread evenly over the minute."""
        await self.resumed()
        if not self._interval:
            return
        now = self.clock()
        begin = max(now, self._next_start)
        self._next_start = begin + self._interval
        if begin > now:
            await self.pause(begin - now)

    async def resumed(self) -> None:
        """Wait until the server no longer asks for a pause."""
        while self._resume_at > self.clock():
            await self.pause(self._resume_at - self.clock())

    async def recover(self, wait_s: float, failures: int) -> None:
        """Let no call start for the seconds that the server demands; if it names none, wait longer after each failure.

        From 0.5 s doubling to 30 s, shortened by up to half at random.
        """
        if wait_s:
            self._resume_at = max(self._resume_at, self.clock() + wait_s)
            return
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failures - 1))
        await self.pause(longest * self._chance.uniform(0.5, 1.0))
