"""Budgets of a run and of a day, and models that are away for an hour: nothing is lost, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from conftest import command
from hypothesis import given
from hypothesis import strategies as st
from messages_api import GOOD, HUNG_UP, Body, MessagesApi, Reply, Time, Verdict, asked, fault, filled, many
from talk import CLAUDE, TALK, extractor, learn, rows, said, states, written

from flows.nights import sleep
from inference.budget import Budget, Caps
from inference.request_batch import MemoryLedger, ModelAnswer
from slowwave.common.errors import SlowwaveError
from slowwave.common.records import LedgerEntry, Usage
from slowwave.common.settings import SleepSettings
from storage.doctor import examine
from storage.paid_answers import StoredAnswers
from storage.store import Store

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
run = partial(asked, concurrency=1)
ONE = Usage(calls=1, tokens_in=100, tokens_out=20, usd=0.001)


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Store]:
    """Stores in which only ledgers are written, one for each name."""
    place = str(tmp_path_factory.mktemp("budgets") / "memory")
    return lambda name: Store.create(place, name, ("test/tiny", 4))


@pytest.fixture
def api(serve: Callable[..., MessagesApi]) -> MessagesApi:
    """A server that answers every question."""
    return serve(GOOD)


def answered(answers: Sequence[ModelAnswer[Verdict]]) -> int:
    return sum(answer.value is not None for answer in answers)


# A day


def test_all_runs_of_a_day_share_its_budget(api: MessagesApi, journals: Callable[[str], Store]) -> None:
    store = journals("day")
    first, _ = run(many(3), StoredAnswers(store, "one"), max_calls_per_day=5)
    second, language = run(many(8), StoredAnswers(store, "two"), max_calls_per_day=5)
    assert (answered(first), answered(second), len(api.requests)) == (3, 5, 5)
    assert language.budget_reached
    assert language.stopped_by == (
        "The budget is reached, by max_calls_per_day: 5 of 5 calls (max_calls_per_day) spent since midnight UTC."
    )
    other, _ = run(many(1), StoredAnswers(journals("other"), "one"), max_calls_per_day=5)
    assert answered(other) == 1  # another namespace has its own day


def test_what_was_paid_before_a_fatal_error_belongs_to_the_day(
    api: MessagesApi, journals: Callable[[str], Store]
) -> None:
    store = journals("fatal")
    api.script.extend([filled("Verdict", {"word": 7}), fault(402, "no credit left", "billing_error")])
    with pytest.raises(SlowwaveError, match="no credit left"):
        run(many(1), StoredAnswers(store, "one"))
    spent = StoredAnswers(store, "two").spent_since(datetime.now(UTC) - timedelta(hours=1))
    assert (spent.calls, spent.tokens_in) == (1, 100)


@pytest.mark.proof
def test_two_runs_at_once_overshoot_by_no_more_than_what_is_in_flight(
    api: MessagesApi, journals: Callable[[str], Store]
) -> None:
    store = journals("both")

    def ask(number: int) -> None:
        run(many(20, 100 * number), StoredAnswers(store, f"run-{number}"), max_calls_per_day=9)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, range(2)))
    assert 9 <= len(api.requests) <= 9 + 1


def test_what_was_spent_before_midnight_belongs_to_the_day_before() -> None:
    clock = [NOON.date()]

    async def others(_: date) -> Usage:
        return Usage(calls=2)

    async def go() -> list[bool]:
        budget = Budget(day=Caps(calls=4), others=others, today=lambda: clock[0])
        admitted = []
        for number in range(6):
            if number == 3:
                clock[0] = NOON.date() + timedelta(days=1)
            held = await budget.reserve(ONE)
            if held is not None:
                budget.settle(held, ONE)
            admitted.append(held is not None)
        return admitted

    assert asyncio.run(go()) == [True, True, False, False, False, False]  # reached is reached
    clock[0] = NOON.date()

    async def across() -> int:
        budget = Budget(day=Caps(calls=4), others=others, today=lambda: clock[0])
        for number in range(4):
            if number == 2:
                clock[0] = NOON.date() + timedelta(days=1)
            held = await budget.reserve(ONE)
            assert held is not None
            budget.settle(held, ONE)
        return budget.spent.calls

    assert asyncio.run(across()) == 4


def test_what_a_batch_cost_belongs_to_the_day_on_which_it_was_answered() -> None:
    clock = [NOON.date()]

    async def others(_: date) -> Usage:
        return Usage()

    async def go() -> list[bool]:
        capped = Caps(calls=10, suffix="_per_day")
        ten = replace(ONE, calls=10)
        resumed = Budget(day=capped, others=others, today=lambda: clock[0])
        resumed.settle(resumed.take_on(ten), ten)  # of an earlier run, and before this one reserved anything
        late = Budget(day=capped, others=others, today=lambda: clock[0])
        held = await late.reserve(ten)
        clock[0] += timedelta(days=1)
        assert held is not None
        late.settle(held, ten)
        admitted = [await late.reserve(ONE) is not None]
        clock[0] -= timedelta(days=1)
        return [*admitted, await resumed.reserve(ONE) is not None]

    assert asyncio.run(go()) == [False, False]


def test_the_ledger_knows_what_others_spent_and_counts_each_try_once(journals: Callable[[str], Store]) -> None:
    store = journals("tries")
    midnight = datetime.now(UTC) - timedelta(hours=1)

    def tried(run: str, key: str, attempts: int, calls: int) -> None:
        """The entry of a try, with the cost of those before it."""
        entry = LedgerEntry(
            key, "anthropic", "m", "judge", "p", "h", "s", tokens_in=100 * calls, tokens_out=20 * calls,
            usd=0.001 * calls, attempts=attempts, calls=calls,
        )  # fmt: skip
        StoredAnswers(store, run).record([entry])

    tried("one", "a", 1, 1)
    tried("two", "a", 2, 2)  # once more, and its own cost is one call
    tried("two", "a", 3, 2)  # once more, for nothing
    tried("one", "b", 1, 1)
    tried("two", "b", 1, 1)  # both at once
    tried("mine", "c", 1, 1)
    spent = StoredAnswers(store, "mine").spent_since(midnight)
    assert (spent.calls, spent.tokens_in, spent.tokens_out, spent.usd) == (4, 400, 80, pytest.approx(0.004))
    assert StoredAnswers(store, "mine").spent_since(datetime.now(UTC) + timedelta(hours=1)) == Usage()


@given(
    limit=st.integers(0, 12),
    spent=st.integers(0, 12),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_no_reservation_goes_beyond_a_limit(limit: int, spent: int, sizes: list[int]) -> None:
    async def others(_: date) -> Usage:
        return Usage(calls=spent)

    async def go() -> None:
        budget = Budget(Caps(calls=10), Caps(calls=limit), others)
        total = 0
        for size in sizes:
            held, count = await budget.reserve_many([ONE] * size)
            assert (held is None) == (count == 0)
            total += count
            assert total <= min(10, max(0, limit - spent))
            assert count == size or total == min(10, max(0, limit - spent))
            if held is not None:
                budget.settle(held, Usage(count, 0, 100 * count, 20 * count, 0.001 * count))

    asyncio.run(go())


# Through the door


def lengthy(request: Body) -> Reply:
    """What the extractor says, at what it would really cost."""
    body = json.loads(extractor(request).body) | {"usage": {"input_tokens": 3000, "output_tokens": 400}}
    return Reply(200, json.dumps(body).encode())


@pytest.mark.proof
def test_a_budget_that_is_reached_ends_with_code_3_and_the_next_run_goes_on(
    tmp_path: Path,
    serve: Callable[..., MessagesApi],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = serve(lengthy)
    monkeypatch.chdir(tmp_path)
    windows = "[ingest.extract]\nwindow_messages = 2\ncontext_messages = 0\nbatch_messages = 4\n"
    line = ("ingest", written(tmp_path / "talk.jsonl", said()), "--llm", CLAUDE, "--store", tmp_path / "m")

    def stopped(limit: str, *flags: object, asked: int) -> None:
        """One run that asks so many prompts and ends for this limit, told to people and to programs."""
        assert command(monkeypatch, *line, *flags, "--json") == 3
        told = capsys.readouterr()
        summary = json.loads(told.out)
        assert (summary["state"], len(api.requests)) == ("stopped", asked)
        assert f"by {limit}:" in summary["stopped_by"]
        assert summary["stopped_by"] in " ".join(told.err.split())
        assert Counter(states(tmp_path / "m").values())["done"] == 2 * asked
        assert rows(tmp_path / "m", "facts", "status = 'active'").height == 2 * asked
        assert examine(Store.open(str(tmp_path / "m"))) == ()

    (tmp_path / "slowwave.toml").write_text(windows)
    stopped("max_tokens", "--max-tokens", 5000, asked=1)
    (tmp_path / "slowwave.toml").write_text(f"{windows}[ingest.llm]\nmax_calls_per_day = 2\n")
    stopped("max_calls_per_day", asked=2)
    (tmp_path / "slowwave.toml").write_text(windows)
    assert command(monkeypatch, *line) == 0
    assert len(api.requests) == 3
    assert Counter(states(tmp_path / "m").values())["done"] == 6


# A model that is away


def outage(time: Time, until: float, *faults: Reply) -> Callable[[Body], Reply]:
    """Whatever is asked fails until then, each time in another way."""
    turns = iter(range(10**9))

    def reply(_: Body) -> Reply:
        return faults[next(turns) % len(faults)] if time.now < until else GOOD

    return reply


@pytest.mark.proof
def test_an_hour_without_the_model_loses_nothing_and_pays_nothing_twice(api: MessagesApi) -> None:
    time, ledger = Time(), MemoryLedger()
    first, _ = run(many(4), ledger, time=time)
    api.otherwise = outage(time, 3600.0, fault(503), fault(529), HUNG_UP, fault(429, retry_after="20"))
    heard = []
    for start in (0.0, 1200.0, 2400.0, 3600.0):
        time.now = max(time.now, start)
        answers, language = run(many(24), ledger, time=time, concurrency=2)
        heard.append(answered(answers))
        assert all(answer.value or answer.is_unanswered for answer in answers)
        assert not language.budget_reached
    assert heard == [4, 4, 4, 24]
    assert len(ledger.entries) == 24
    assert {entry.calls for entry in ledger.entries.values()} == {1}
    assert answered(first) == 4


@pytest.mark.proof
def test_an_outage_does_not_count_as_a_try_of_a_message(tmp_path: Path, serve: Callable[..., MessagesApi]) -> None:
    api = serve(fault(503))
    talk = written(tmp_path / "talk.jsonl", said(TALK[:5]))
    how = {
        "llm": {"model": CLAUDE, "concurrency": 1, "transient_retries": 0},
        "extract": {"window_messages": 2, "context_messages": 0, "batch_messages": 4, "max_attempts": 1},
    }
    summary = learn(talk, tmp_path / "m", **how)
    assert summary["state"] == "incomplete"
    assert summary["counts"]["messages failed"] == 3
    before = rows(tmp_path / "m", "messages")
    assert set(before["attempts"]) == {0}
    api.otherwise = extractor
    asked_before = len(api.requests)
    assert learn(talk, tmp_path / "m", **how)["state"] == "completed"
    assert Counter(states(tmp_path / "m").values())["done"] == 3
    assert len(api.requests) - asked_before == 2


# A night


@pytest.mark.proof
@pytest.mark.usefixtures("reads_relations")
def test_a_night_whose_budget_is_reached_is_stopped_and_says_in_which_phase(
    tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    api = serve()
    learn(written(tmp_path / "talk.jsonl", said()), tmp_path / "m")
    none = {"llm": {"model": CLAUDE, "max_calls": 0}}
    settings = SleepSettings.model_validate({"consolidate": none, "communities": none})
    night = asyncio.run(sleep(store=str(tmp_path / "m"), phases=("consolidate", "communities"), settings=settings))
    assert night["state"] == "stopped"
    assert night["stopped_by"] == "consolidate: The budget is reached, by max_calls: 0 of 0 calls (max_calls) spent."
    assert night["counts"]["communities: communities left for later"] > 0
    assert api.requests == []
    assert examine(Store.open(str(tmp_path / "m"))) == ()
