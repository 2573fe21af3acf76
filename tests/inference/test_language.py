"""The language seat against a real SDK and a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from messages_api import (
    GOOD,
    Behaviour,
    Body,
    MessagesApi,
    Reply,
    Time,
    Verdict,
    asked,
    chat_completion,
    fault,
    filled,
    many,
    message,
)
from messages_api import question as prompt
from pydantic import BaseModel

from inference.budget import price_of
from inference.language import Language
from inference.request_batch import MemoryLedger, ModelAnswer
from prompts.responses import WindowExtraction
from slowwave.common.errors import MissingDependency, MissingKey, UnusableInput
from slowwave.common.records import Prompt, Usage, Window
from slowwave.common.settings import LanguageSettings

KEY = "sk-ant-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.fixture
def serve(serve: Callable[..., MessagesApi], monkeypatch: pytest.MonkeyPatch) -> Callable[..., MessagesApi]:
    """Start servers that play a script, and that every SDK is pointed at."""

    def start(*script: Behaviour, otherwise: Behaviour = GOOD) -> MessagesApi:
        api = serve(otherwise)
        api.script.extend(script)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{api.url}/v1")
        monkeypatch.setenv("OLLAMA_HOST", api.url)
        return api

    return start


def settings(**chosen: Any) -> LanguageSettings:
    return LanguageSettings.model_validate({"model": "anthropic/claude-haiku-4-5", "concurrency": 1, **chosen})


run = partial(asked, concurrency=1)


# A good answer


def test_an_answer_is_validated_priced_and_written_to_the_ledger(serve: Callable[..., MessagesApi]) -> None:
    api, ledger = serve(), MemoryLedger()
    [answer], language = run([prompt("Is it?")], ledger)
    assert answer.value == Verdict(word="yes", score=0.5)
    assert (answer.error, answer.cached, answer.skipped) == (None, False, False)
    assert answer.usage.calls == 1
    assert answer.usage.usd == pytest.approx((100 * 1.0 + 20 * 5.0) / 1_000_000)
    assert language.usage == answer.usage
    [entry] = ledger.entries.values()
    assert (entry.provider, entry.model, entry.role) == ("anthropic", "claude-haiku-4-5", "judge")
    assert json.loads(entry.response) == {"word": "yes", "score": 0.5}
    assert (entry.tokens_in, entry.tokens_out, entry.attempts, entry.error) == (100, 20, 1, "")
    assert api.requests[0]["tool_choice"]["name"] == "Verdict"
    assert api.requests[0]["max_tokens"] == 4096


def test_stored_text_reaches_the_model_as_it_is_and_is_never_run_as_a_template(
    serve: Callable[..., MessagesApi],
) -> None:
    api = serve()
    text = "{{ 7 * 7 }} {% raw %} https://example.com/cat.png"
    run([prompt(text)])
    sent = api.requests[0]["messages"][0]["content"]
    assert (sent if isinstance(sent, str) else sent[0]["text"]) == text


# Trouble that passes


def test_a_rate_limit_waits_as_long_as_the_server_asks(serve: Callable[..., MessagesApi]) -> None:
    api, time = serve(fault(429, "slow down", retry_after="7")), Time()
    [answer], _ = run([prompt("Is it?")], time=time)
    assert answer.value
    assert len(api.requests) == 2
    assert time.now == pytest.approx(7.0)


def test_a_wait_that_is_too_long_fails_the_prompt_for_now(serve: Callable[..., MessagesApi]) -> None:
    api = serve(fault(429, retry_after="3600"))
    [answer], _ = run([prompt("Is it?")])
    assert answer.error == "transient: HTTP 429: no"
    assert len(api.requests) == 1


@pytest.mark.parametrize("status", [529, 500, 502, 503, 408])
def test_an_overloaded_server_is_asked_again_with_growing_patience(
    serve: Callable[..., MessagesApi], status: int
) -> None:
    api, time = serve(fault(status), fault(status), fault(status)), Time()
    [answer], _ = run([prompt("Is it?")], time=time)
    assert answer.value
    assert answer.usage.calls == 1
    assert len(api.requests) == 4
    assert len(time.slept) == 3
    assert all(low <= slept <= 2 * low for low, slept in zip((0.25, 0.5, 1.0), time.slept, strict=True))


def test_retries_end_and_do_not_multiply_with_those_of_the_sdk(serve: Callable[..., MessagesApi]) -> None:
    api, ledger = serve(otherwise=fault(529, "Overloaded")), MemoryLedger()
    [answer], _ = run([prompt("Is it?")], ledger, transient_retries=2)
    assert len(api.requests) == 3
    assert answer.error == "transient: HTTP 529: Overloaded (after 3 requests)"
    assert ledger.entries == {}


@pytest.mark.parametrize(
    "late",
    [Reply(200, GOOD.body, delay_s=5.0), Reply(200, GOOD.body, drip_s=0.02)],
    ids=["nothing for five seconds", "a byte now and then"],
)
def test_an_answer_that_takes_too_long_is_abandoned_and_asked_again(
    serve: Callable[..., MessagesApi], late: Reply
) -> None:
    api = serve(late)
    [answer], _ = run([prompt("Is it?")], timeout_s=0.4)
    assert answer.value
    assert len(api.requests) == 2


# Trouble that stays


def test_a_wrong_form_is_sent_back_once_and_both_answers_are_paid(serve: Callable[..., MessagesApi]) -> None:
    api, ledger = serve(filled("Verdict", {"word": "yes", "score": 7})), MemoryLedger()
    [answer], _ = run([prompt("Is it?")], ledger)
    assert answer.value == Verdict(word="yes", score=0.5)
    assert (answer.usage.calls, answer.usage.tokens_in) == (2, 200)
    correction = json.dumps(api.requests[1]["messages"][-1])
    assert "less than or equal to 1" in correction
    assert next(iter(ledger.entries.values())).attempts == 2


def test_a_form_that_stays_wrong_is_given_up_and_asked_again_by_a_later_run(
    serve: Callable[..., MessagesApi],
) -> None:
    wrong = filled("Verdict", {"word": "yes", "score": 7})
    api, ledger = serve(wrong, wrong, wrong), MemoryLedger()
    [answer], _ = run([prompt("Is it?")], ledger, validation_retries=2)
    assert len(api.requests) == 3
    assert answer.error == "invalid: score: Input should be less than or equal to 1 (after 3 requests)"
    [again], _ = run([prompt("Is it?")], ledger)
    assert again.value


def test_a_refusal_is_final_and_is_not_asked_again(serve: Callable[..., MessagesApi]) -> None:
    api, ledger = serve(message([], "refusal")), MemoryLedger()
    [answer], _ = run([prompt("Is it?")], ledger)
    assert answer.error == "refused: the model declined to answer"
    [again], language = run([prompt("Is it?")], ledger)
    assert again.error == answer.error
    assert again.cached
    assert language.usage == Usage(cached=1)
    assert len(api.requests) == 1


def test_an_answer_cut_by_its_length_is_not_repaired(serve: Callable[..., MessagesApi]) -> None:
    api = serve(filled("Verdict", {"word": "ye"}, stop="max_tokens"))
    [answer], _ = run([prompt("Is it?")])
    assert len(api.requests) == 1
    assert (answer.error or "").endswith("raise max_output_tokens")
    assert answer.usage.calls == 1


def test_a_model_that_may_not_be_forced_to_a_tool_is_asked_to_use_it(serve: Callable[..., MessagesApi]) -> None:
    def picky(request: Body) -> Reply:
        if request["tool_choice"]["type"] == "tool":
            return fault(400, 'tool_choice: type "tool" and "any" are not supported for this model.')
        return GOOD

    api = serve(otherwise=picky)
    answers, _ = run(many(3), model="anthropic/claude-opus-5-5")
    assert all(answer.value for answer in answers)
    assert len(api.requests) == 4
    assert "calling the given tool" in json.dumps(api.requests[-1]["system"])


@pytest.mark.parametrize(
    ("status", "text", "kind", "words"),
    [
        (401, f"invalid x-api-key {KEY}", MissingKey, "ANTHROPIC_API_KEY"),
        (403, "not allowed", MissingKey, "ANTHROPIC_API_KEY"),
        (404, "model: claude-haiku-4-5", UnusableInput, "anthropic/claude-haiku-4-5"),
        (400, "Your credit balance is too low", UnusableInput, "credit balance"),
    ],
)
def test_trouble_that_every_prompt_would_meet_stops_the_run(
    serve: Callable[..., MessagesApi], status: int, text: str, kind: type[Exception], words: str
) -> None:
    api, ledger = serve(GOOD, fault(status, text), otherwise=fault(status, text)), MemoryLedger()
    with pytest.raises(kind, match=words) as raised:
        run(many(20), ledger)
    assert KEY not in str(raised.value)
    assert "--llm quotes" in str(raised.value)
    assert len(api.requests) == 2
    assert len(ledger.entries) == 1


# Limits


def test_failed_calls_give_their_share_of_the_budget_back(serve: Callable[..., MessagesApi]) -> None:
    serve(fault(529), fault(529))
    answers, _ = run(many(4), max_calls=3, concurrency=4, transient_retries=0)
    assert sum(bool(answer.value) for answer in answers) == 2
    assert not any(answer.skipped for answer in answers)


def test_a_budget_in_dollars_needs_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnusableInput, match="anthropic/claude-next"):
        Language(settings(model="anthropic/claude-next", max_usd=1.0), MemoryLedger())
    assert Language(settings(model="anthropic/claude-next"), MemoryLedger()).unpriced == ["anthropic/claude-next"]
    assert Language(settings(model="ollama/llama3.2", max_usd=1.0), MemoryLedger()).unpriced == []


@pytest.mark.parametrize("concurrency", [1, 3])
def test_never_more_calls_are_in_flight_than_allowed(serve: Callable[..., MessagesApi], concurrency: int) -> None:
    api = serve(otherwise=Reply(200, GOOD.body, delay_s=0.03))

    async def go() -> None:
        async with Language(settings(concurrency=concurrency), MemoryLedger()) as language:
            await asyncio.gather(
                language.ask_many(many(6), Verdict, "judge"),
                language.ask_many([prompt(f"More {n}") for n in range(6)], Verdict, "summarize"),
            )

    asyncio.run(go())
    assert api.most_at_once == concurrency


def test_calls_are_spread_over_the_minute(serve: Callable[..., MessagesApi]) -> None:
    serve()
    time = Time()
    run(many(5), time=time, calls_per_minute=30, concurrency=2)
    assert time.now == pytest.approx(4 * 2.0)


# Secrets


def test_keys_appear_nowhere_but_in_the_request(
    serve: Callable[..., MessagesApi], caplog: pytest.LogCaptureFixture
) -> None:
    leak = f"bad request with key {KEY} and Authorization: Bearer {KEY}"
    api, ledger = serve(fault(400, leak), fault(500, leak), fault(500, leak)), MemoryLedger()
    with caplog.at_level(logging.INFO):
        answers, _ = run(many(2), ledger, transient_retries=1)
    assert any(KEY in value for value in api.headers[0].values())
    kept = repr(ledger.entries) + repr(answers) + caplog.text
    assert KEY not in kept
    assert "[secret]" in kept


def test_each_role_may_have_its_own_model() -> None:
    language = Language(settings(model="quotes", resolve_model="anthropic/claude-sonnet-5-5"), MemoryLedger())
    assert [language.model(role) for role in ("extract", "resolve", "consolidate")] == [
        "quotes",
        "anthropic/claude-sonnet-5-5",
        "quotes",
    ]


# Providers


def test_a_missing_package_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CO_API_KEY", "12345678")
    monkeypatch.setitem(sys.modules, "cohere", None)
    with pytest.raises(MissingDependency, match=r"pip install cohere.*--llm quotes"):
        run([prompt("Is it?")], model="cohere/command-r")


@pytest.mark.parametrize("model", ["openai/gpt-5", "ollama/llama3.2"])
def test_other_providers_go_through_instructor_with_the_same_retries(
    serve: Callable[..., MessagesApi], monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-openai-1234")
    api = serve(fault(429, retry_after="2"), otherwise=chat_completion({"word": "yes", "score": 1}))
    time = Time()
    [answer], language = run([prompt("Is it?")], time=time, model=model)
    assert answer.value == Verdict(word="yes", score=1.0)
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.usage.usd) == (70, 9, 0.0)
    assert len(api.requests) == 2
    assert time.now == pytest.approx(2.0)
    assert api.requests[0]["model"] == model.split("/")[1]
    assert language.unpriced == ([] if model.startswith("ollama") else [model])


def test_prices_know_dated_names_and_long_prompts() -> None:
    dated, short = price_of("anthropic", "claude-haiku-4-5-20251001"), price_of("anthropic", "claude-haiku-5-5")
    assert dated is not None
    assert dated.usd(1_000_000, 100_000) == pytest.approx(1.5)
    assert short is not None
    assert short.usd(100_000, 0) == pytest.approx(0.01)
    assert short.usd(200_000, 0) == pytest.approx(0.10)
    assert price_of("anthropic", "claude-opus-5-55") is None


# Rules and replay


def ask_free(prompts: Sequence[Prompt], form: type[BaseModel], ledger: Any, **chosen: Any) -> list[ModelAnswer[Any]]:
    async def go() -> list[ModelAnswer[Any]]:
        async with Language(settings(**chosen), ledger) as language:
            answers: list[ModelAnswer[Any]] = await language.ask_many(prompts, form, "resolve")
            assert language.usage == Usage()
            return answers

    return asyncio.run(go())


def test_rules_answer_without_rendering_paying_or_recording() -> None:
    def never() -> str:
        raise AssertionError("rendered")

    asked = [Prompt("extract_facts", never, never, {"window": Window("talk", "global", ())})] * 500
    ledger = MemoryLedger()
    answers = ask_free(asked, WindowExtraction, ledger, model="quotes")
    assert [answer.value for answer in answers] == [WindowExtraction()] * 500
    assert ledger.entries == {}


@pytest.mark.parametrize("content", [None, '{"prompt_name": "x"}\n', "no json\n"])
def test_a_recording_that_cannot_be_read_says_why(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "answers.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UnusableInput, match=r"answers\.jsonl"):
        Language(settings(model=f"replay/{file}"), MemoryLedger())
