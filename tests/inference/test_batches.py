"""Message Batches: prompts are handed over together, and whatever happens in between none is handed over twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from messages_api import HUNG_UP, Body, MessagesApi, Reply, Time, Verdict, as_item, asked, fault, filled, many
from talk import CLAUDE, TALK, learn, started, states, written
from talk import said as said_lines

from inference.language import Language
from inference.request_batch import MemoryLedger, ModelAnswer
from slowwave.common.errors import BudgetReached, MissingKey, Refused, UnusableInput
from slowwave.common.records import LedgerEntry, Prompt, SubmittedBatch, Usage
from slowwave.common.settings import LanguageSettings
from slowwave.lifecycle.forgotten_names import NameMatcher
from storage.doctor import examine
from storage.paid_answers import StoredAnswers
from storage.store import Store
from tasks.people.forgetting import Subject, forget
from tasks.runtime.runs import existing_run

MALFORMED = filled("Verdict", {"word": "yes", "score": 7})
PRICE = (100 * 1.0 + 20 * 5.0) / 1_000_000


def echo(request: Body) -> Reply:
    """An answer that says which question it was asked."""
    return filled("Verdict", {"word": said(request), "score": 0.5})


def said(request: Body) -> str:
    """The question."""
    sent = request["messages"][0]["content"]
    return sent if isinstance(sent, str) else sent[0]["text"]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def api(serve: Callable[..., MessagesApi]) -> MessagesApi:
    """A server that answers every question with itself."""
    return serve(echo)


run = partial(asked, mode="batch", concurrency=2)


def words(answers: Sequence[ModelAnswer[Verdict]]) -> list[str | None]:
    return [answer.value.word if answer.value else None for answer in answers]


def texts(prompts: Sequence[Prompt]) -> list[str]:
    return [each.text for each in prompts]


# A batch


def test_prompts_are_answered_by_a_batch_at_half_the_price(api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.batches.POLL_S", 10.0)
    api.batches.looks = 3
    ledger, time = MemoryLedger(), Time()
    answers, language = run(many(5), ledger, time)
    assert words(answers) == texts(many(5))
    assert len(api.batches.batches) == 1
    assert api.requests == []
    assert time.now == 20.0  # looked at three times
    assert language.usage == Usage(5, 0, 500, 100, pytest.approx(5 * PRICE / 2))
    assert {(entry.tokens_in, entry.calls, entry.error) for entry in ledger.entries.values()} == {(100, 1, "")}
    assert sum(entry.usd for entry in ledger.entries.values()) == pytest.approx(5 * PRICE / 2)
    assert set(api.batches.keys) == set(ledger.entries)
    again, _ = run(many(5), ledger)
    assert all(answer.cached for answer in again)
    assert len(api.batches.batches) == 1


def test_a_request_in_a_batch_is_the_request_of_live_mode(api: MessagesApi) -> None:
    run(many(1), mode="live")
    run(many(1))
    [batch] = api.batches.batches.values()
    assert batch.requests[0]["params"] == api.requests[0]
    assert batch.requests[0]["params"]["tool_choice"]["name"] == "Verdict"


def test_other_providers_have_no_batches_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnusableInput, match=r'ollama/llama3\.2.*mode = "live".*anthropic/'):
        Language(LanguageSettings(model="ollama/llama3.2", mode="batch"), MemoryLedger())
    assert Language(LanguageSettings(model="quotes", mode="batch"), MemoryLedger()).is_keyless("extract")


# What becomes of each prompt


def test_prompts_that_expired_or_were_canceled_are_left_and_asked_by_a_later_run(api: MessagesApi) -> None:
    lost = {"Question 1?": {"type": "expired"}, "Question 2?": {"type": "canceled"}}
    api.batches.item = lambda request: lost.get(said(request)) or as_item(echo(request))
    ledger = MemoryLedger()
    answers, language = run(many(4), ledger)
    assert [answer.skipped for answer in answers] == [False, True, True, False]
    assert (language.budget_reached, len(ledger.entries)) == (False, 2)
    lost.clear()
    assert words(run(many(4), ledger)[0]) == texts(many(4))
    assert [len(batch.requests) for batch in api.batches.batches.values()] == [4, 2]


@pytest.mark.parametrize(
    ("error", "told", "is_transient"),
    [
        (fault(400, "too odd", "invalid_request_error"), "rejected: HTTP 400: too odd", False),
        (fault(529, "busy", "overloaded_error"), "transient: HTTP 529: busy", True),
    ],
)
def test_a_prompt_that_was_answered_with_an_error_ends_as_in_live_mode(
    api: MessagesApi, error: Reply, told: str, is_transient: bool
) -> None:
    ledger = MemoryLedger()
    api.script.append(error)
    answers, _ = run(many(2), ledger)
    assert [answer.error for answer in answers] == [None, told]  # results come in reverse order
    assert (answers[1].is_transient, answers[1].usage.usd) == (is_transient, 0.0)
    assert words(run(many(2), ledger)[0]) == texts(many(2))
    assert len(api.batches.keys) == 3


def test_a_malformed_answer_is_left_to_a_later_run(api: MessagesApi) -> None:
    api.script.extend([MALFORMED, echo])
    ledger = MemoryLedger()
    answers, language = run(many(2), ledger)
    assert (api.requests, language.usage.calls, language.budget.spent.calls) == ([], 2, 2)
    assert len([answer for answer in answers if answer.value is None]) == 1
    assert words(run(many(2), ledger)[0]) == texts(many(2))
    assert [len(each.requests) for each in api.batches.batches.values()] == [2, 1]


@pytest.mark.parametrize("place", ["item", "create", "look"])
def test_a_key_that_is_not_accepted_stops_the_run_and_what_was_answered_is_kept(api: MessagesApi, place: str) -> None:
    refusal = fault(401, "invalid x-api-key", "authentication_error")
    if place == "item":
        api.script.append(refusal)
    else:
        api.batches.faults[place] = [refusal]
    ledger = MemoryLedger()
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY"):
        run(many(3), ledger)
    assert len(ledger.entries) == (2 if place == "item" else 0)
    assert words(run(many(3), ledger)[0]) == texts(many(3))
    assert len(api.batches.keys) == (4 if place == "item" else 3)


# Time and trouble


def test_a_batch_that_takes_too_long_is_left_and_the_next_run_goes_on_with_it(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.batches.LONGEST_WAIT_S", 7200.0)
    monkeypatch.setattr("inference.batches.POLL_S", 1000.0)
    api.batches.looks = 99
    ledger, time = MemoryLedger(), Time()
    answers, language = run(many(3), ledger, time)
    assert all(answer.skipped for answer in answers)
    assert time.now == 7200.0
    assert language.budget_reached
    [batch] = api.batches.batches.values()
    assert f"3 prompts are still in a batch after 2 hours: {batch.id}." in language.stopped_by
    with pytest.raises(BudgetReached, match="The next run goes on"):
        raise language.budget.error()
    batch.looks = 0
    later, paid = run(many(3), ledger, mode="live")  # in any mode
    assert words(later) == texts(many(3))
    assert (len(api.batches.batches), api.requests) == (1, [])
    assert paid.usage.usd == pytest.approx(3 * PRICE / 2)


def test_trouble_while_looking_passes(api: MessagesApi) -> None:
    api.batches.faults = {
        "look": [fault(500), fault(429, retry_after="300"), HUNG_UP, fault(529)],
        "results": [fault(503), Reply(200, b'{"custom_id": "llm_1", "res')],
    }
    time = Time()
    answers, _ = run(many(2), time=time)
    assert words(answers) == texts(many(2))
    assert len(api.batches.batches) == 1
    assert time.now == 5 * 30 + 300


@pytest.mark.parametrize("lost", [fault(500), HUNG_UP, fault(529)])
def test_a_batch_whose_receipt_was_lost_is_found_and_not_handed_over_again(api: MessagesApi, lost: Reply) -> None:
    api.batches.put([{"custom_id": "another", "params": {}}] * 2, created_at=datetime.now(UTC) - timedelta(hours=3))
    api.batches.lost = [lost]
    answers, _ = run(many(2))
    assert words(answers) == texts(many(2))
    assert len(api.batches.batches) == 2
    assert api.batches.asked.count("create") == 1


@pytest.mark.proof
@pytest.mark.parametrize("arrived", [(0,), (1,), (0, 1), (1, 0)])
@pytest.mark.parametrize("is_waited_for", [True, False])
def test_of_two_batches_of_one_size_that_were_cut_off_none_is_taken_for_the_other(
    api: MessagesApi, arrived: tuple[int, ...], is_waited_for: bool
) -> None:
    ledger = MemoryLedger()
    for first in (0, 10):
        alone = MemoryLedger()  # neither saw the other's row
        with pytest.raises(Killed):
            run(many(2, first), _dying(alone, at=2))
        [cut_off] = alone.submitted.values()
        ledger.keep_batch(replace(cut_off, state="unsure"))
    sent = list(ledger.submitted.values())
    for number in arrived:
        keys = sent[number].keys
        prompts = many(2, 10 * number)
        api.batches.put(
            [
                {"custom_id": key, "params": {"messages": [{"role": "user", "content": prompt.text}]}}
                for key, prompt in zip(keys, prompts, strict=True)
            ]
        )
    prompts = [*many(2), *many(2, 10)] if is_waited_for else many(2, 10)
    assert words(run(prompts, ledger)[0]) == texts(prompts)
    assert words(run([*many(2), *many(2, 10)], ledger)[0]) == texts([*many(2), *many(2, 10)])
    assert sorted(api.batches.keys) == sorted(set(api.batches.keys))
    assert {batch.state for batch in ledger.submitted.values()} <= {"collected", "lost"}


# Two runs at once


def test_of_two_runs_that_wait_for_one_batch_only_one_books_its_answers(api: MessagesApi) -> None:
    api.batches.looks = 2
    ledger, others = MemoryLedger(), []

    def meanwhile() -> None:
        with ThreadPoolExecutor(1) as pool:
            others.append(pool.submit(run, many(3), ledger).result())

    answers, language = run(many(3), ledger, Time(meanwhile))
    [(other_answers, other)] = others
    assert words(answers) == words(other_answers) == texts(many(3))
    assert (language.usage, language.budget.spent) == (Usage(cached=3), Usage())
    assert other.usage.calls == other.budget.spent.calls == 3
    assert (len(api.batches.batches), api.requests) == (1, [])


# Death at any moment


def _dying(ledger: Any, at: int) -> Any:
    """The ledger, in which the process dies at the n-th write: before it is done, or right after."""

    class Dying:
        writes = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(ledger, name)

        def record(self, entries: Sequence[LedgerEntry]) -> None:
            self._write(lambda: ledger.record(entries))

        def keep_batch(self, batch: SubmittedBatch) -> None:
            self._write(lambda: ledger.keep_batch(batch))

        def _write(self, write: Callable[[], None]) -> None:
            self.writes += 1
            if self.writes * 2 - 1 >= at:
                raise Killed
            write()
            if self.writes * 2 >= at:
                raise Killed

    return Dying()


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store in which only the ledger is written."""
    return Store.create(str(tmp_path_factory.mktemp("batches") / "memory"), "default", ("test/tiny", 4))


@pytest.mark.proof
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 9])
def test_whenever_a_run_dies_the_next_one_hands_nothing_over_again(
    api: MessagesApi, journal: Store, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.paid_answers.is_surely_dead", lambda owner: owner.startswith("first"))
    prompts = many(2, first=100 * at)
    with pytest.raises(Killed):
        run(prompts, _dying(StoredAnswers(journal, f"first-{at}"), at), concurrency=1)
    answers, _ = run(prompts, StoredAnswers(journal, f"second-{at}"))
    assert words(answers) == texts(prompts)
    assert len(api.batches.batches) == 1
    assert api.requests == []
    assert run(prompts, StoredAnswers(journal, f"third-{at}"))[1].usage == Usage(cached=2)
    assert {batch.state for batch in StoredAnswers(journal).batches()} <= {"collected", "lost"}


@pytest.mark.proof
def test_a_process_that_is_killed_while_it_waits_is_followed_by_one_that_hands_nothing_over_again(
    tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    server = serve()
    server.batches.looks = 10**9
    talk = written(tmp_path / "talk.jsonl", said_lines(TALK[:5]))
    code = """
import sys
from pathlib import Path
from talk import learn
learn(Path(sys.argv[1]), Path(sys.argv[2]), llm={"model": sys.argv[3], "mode": "batch"})
"""
    with started(code, talk, tmp_path / "m", CLAUDE) as process:
        while "look" not in server.batches.asked and process.poll() is None:
            sleep(0.05)
        process.kill()
        told = process.communicate(timeout=60)
    assert (process.returncode, told) == (-9, ("", ""))
    [batch] = server.batches.batches.values()
    batch.looks = 0
    summary = learn(talk, tmp_path / "m", llm={"model": CLAUDE, "mode": "batch"})
    assert summary["state"] == "completed"
    assert summary["llm"]["calls"] == len(batch.keys)
    assert (len(server.batches.batches), server.requests) == (1, [])
    assert Counter(states(tmp_path / "m").values())["done"] == 3
    assert examine(Store.open(str(tmp_path / "m"))) == ()


# In a store


def test_nothing_is_forgotten_while_answers_that_may_name_it_are_under_way(journal: Store) -> None:
    Store.create(journal.uri, "open", ("test/tiny", 4))
    batch = SubmittedBatch(
        "batch_2", "anthropic", "claude-x", "extract", "s", "submitted", ("llm_a",), ("p",), ("1",),
        datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    StoredAnswers(Store.open(journal.uri, "open"), "run-1").keep_batch(batch)
    with pytest.raises(Refused, match=r"1 prompts .*claude-x.*slowwave ingest"):
        forget(existing_run("forget", journal.uri, "open"), Subject("", "Ada", NameMatcher.of(["Ada Byron"])))
