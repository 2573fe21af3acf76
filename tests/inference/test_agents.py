"""Claude Code, Codex and Gemini CLI as language models: scripted programs on the PATH stand in for them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages_api import Verdict, asked, many

from inference import remote
from inference.agents import AGENTS, object_in, strict
from inference.language import Language
from inference.request_batch import MemoryLedger, ModelAnswer
from prompts.responses import WindowExtraction
from slowwave.common.errors import MissingDependency, MissingKey
from slowwave.reading.ingestion.transcripts import READER

ANSWER = {"word": "yes", "score": 0.5}
PROGRAM = f"""#!{sys.executable} -SE
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
words = sys.stdin.read()
log = os.path.join(here, "calls.jsonl")
files = {{name: open(name).read() for name in os.listdir(".")}}
with open(log, "a") as file:
    call = [sys.argv[1:], dict(os.environ), words, os.getcwd(), files, os.getpid()]
    file.write(json.dumps(call) + chr(10))
number = sum(1 for _ in open(log))
plan = json.load(open(os.path.join(here, "plan.json")))
act = plan[min(number, len(plan)) - 1]
sys.stderr.write(act.get("errors", ""))
sys.stdout.write(act.get("output", "") * act.get("times", 1))
sys.stdout.flush()
if act.get("hangs"):
    os.fork()
    time.sleep(60)
sys.exit(act.get("code", 0))
"""


def claude(answer: Any = None, **changes: Any) -> str:
    envelope = {
        "type": "result", "subtype": "success", "is_error": False, "result": "Done.", "structured_output": answer,
        "stop_reason": "end_turn", "total_cost_usd": 0.01,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7},
    }  # fmt: skip
    return json.dumps(envelope | changes)


def codex(text: str) -> str:
    events = [
        {"type": "thread.started", "thread_id": "1"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "Hm."}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": text}},
        {"type": "turn.completed", "usage": {"input_tokens": 15, "output_tokens": 7}},
    ]
    return "\n".join(map(json.dumps, events))


def gemini(text: str) -> str:
    tokens = {"tokens": {"prompt": 15, "candidates": 7}}
    return "Loaded credentials.\n" + json.dumps({"response": text, "stats": {"models": {"gemini-pro": tokens}}})


GOOD = {
    "claude-code": claude(ANSWER),
    "codex": codex(json.dumps(ANSWER)),
    "gemini-cli": gemini(f"```json\n{json.dumps(ANSWER)}\n```"),
}
TEXT = {"claude-code": claude(result="Sure! It is yes."), "codex": codex("Sure!"), "gemini-cli": gemini("Sure!")}
MISSED = {
    "claude-code": claude({"word": "yes", "score": 7}),
    "codex": codex('{"word": "yes"}'),
    "gemini-cli": gemini('{"word": 1}'),
}
LIMIT = {
    "claude-code": {"output": claude(is_error=True, result="You've hit your limit · resets 3pm (Europe/Berlin)")},
    "codex": {
        "output": json.dumps(
            {"type": "turn.failed", "error": {"message": "You've hit your usage limit. Try again at 3:05 PM."}}
        ),
        "code": 1,
    },
    "gemini-cli": {
        "output": json.dumps(
            {"error": {"message": "You exhausted your quota. It will reset after 5h30m.", "code": 429}}
        ),
        "code": 1,
    },
}
RESETS = {"claude-code": "resets 3pm", "codex": "Try again at 3:05 PM", "gemini-cli": "will reset after 5h30m"}
LOGIN = {
    "claude-code": {"output": claude(is_error=True, result="Invalid API key · Please run /login"), "code": 1},
    "codex": {"errors": "ERROR: 401 Unauthorized: not logged in", "code": 1},
    "gemini-cli": {"errors": "Please set an Auth method", "code": 41},
}
REFUSED = {
    "claude-code": {"output": claude(stop_reason="refusal", result="I cannot help with that.")},
    "codex": {"output": codex("I cannot help with that.")},
    "gemini-cli": {"output": gemini("I cannot help with that.")},
}
EACH = pytest.mark.parametrize("provider", sorted(AGENTS))
Act = Callable[..., Path]


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Act:
    """Put a scripted agent on the PATH: what it does at each call, the last for all further ones."""
    monkeypatch.setattr(remote, "SHORTEST_TIMEOUT_S", 0.0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")

    def install(provider: str, *acts: dict[str, Any]) -> Path:
        program = tmp_path / AGENTS[provider].program
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (tmp_path / "plan.json").write_text(json.dumps(acts))
        return tmp_path / "calls.jsonl"

    return install


def calls(log: Path) -> list[Any]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def run(
    provider: str, count: int = 1, ledger: MemoryLedger | None = None, **chosen: Any
) -> tuple[list[ModelAnswer[Verdict]], Language, MemoryLedger]:
    books = ledger or MemoryLedger()
    return *asked(many(count), books, model=provider, **{"timeout_s": 600.0, **chosen}), books


@EACH
def test_an_agent_answers_from_an_empty_folder_without_keys_and_is_asked_once(provider: str, act: Act) -> None:
    log = act(provider, {"output": GOOD[provider]})
    answers, language, ledger = run(f"{provider}/some-model")
    assert answers[0].value == Verdict.model_validate(ANSWER)
    usd = 0.01 if provider == "claude-code" else 0.0
    used = language.usage
    assert (used.calls, used.tokens_in, used.tokens_out, used.usd) == (1, 15, 7, usd)
    arguments, environment, words, folder, files, _ = calls(log)[0]
    assert "ANTHROPIC_API_KEY" not in environment
    assert environment["SLOWWAVE_READER"] == "1"
    assert "some-model" in arguments
    assert "Question 0?" in words
    assert "You judge." in [*arguments, *files.values()]
    assert '"score"' in " ".join([*arguments, words, *files.values()])
    assert Path(folder).name.startswith(READER)
    assert not Path(folder).exists()
    again, _, _ = run(f"{provider}/some-model", ledger=ledger)
    assert (again[0].value, again[0].cached, len(calls(log))) == (answers[0].value, True, 1)


@EACH
def test_without_the_program_or_a_login_the_error_names_the_way_out(provider: str, act: Act) -> None:
    label = AGENTS[provider].label
    with pytest.raises(MissingDependency, match=rf"{label} is not installed.*log in .*--llm quotes"):
        run(provider)
    act(provider, LOGIN[provider])
    with pytest.raises(MissingKey, match=rf"{label} is not logged in\. Log in: .*--llm quotes"):
        run(provider)


@EACH
def test_a_limit_that_is_reached_ends_the_run_and_the_next_one_reads_the_rest(provider: str, act: Act) -> None:
    log = act(provider, {"output": GOOD[provider]}, LIMIT[provider], {"output": GOOD[provider]})
    answers, language, ledger = run(provider, 4, concurrency=1)
    assert [answer.skipped for answer in answers] == [False, True, True, True]
    assert language.budget_reached
    assert f"limit of {AGENTS[provider].label} is reached: " in language.stopped_by
    assert RESETS[provider] in language.stopped_by
    assert len(calls(log)) == 2
    later, _, _ = run(provider, 4, ledger)
    assert all(answer.value for answer in later)
    assert len(calls(log)) == 5  # the first answer is in the ledger


FORMS = {"text": "invalid: ", "missed": "invalid: ", "half": "gave no answer", "refused": ""}
ANY = {
    "empty": "gave no answer: -",
    "exit": "gave no answer (exit code 1): Oh no",
    "busy": "transient: HTTP 503",
    "flood": "wrote more than 8 MB",
}


@pytest.mark.parametrize(
    ("provider", "failure", "said"),
    [(name, *form) for name in sorted(AGENTS) for form in FORMS.items()] + [("codex", *form) for form in ANY.items()],
)
def test_what_cannot_be_used_is_asked_once_more_and_then_told(
    provider: str, failure: str, said: str, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    if failure == "flood":
        monkeypatch.setattr(asyncio.StreamReader, "read", _slowly)  # more is written than the reader takes
    plan: dict[str, dict[str, Any]] = {
        "text": {"output": TEXT[provider]},
        "missed": {"output": MISSED[provider]},
        "half": {"output": GOOD[provider][: len(GOOD[provider]) // 2]},
        "empty": {},
        "exit": {"errors": "Oh no", "code": 1},
        "refused": REFUSED[provider],
        "busy": {"errors": "API Error: overloaded", "code": 1},
        "flood": {"output": "x" * 65_536, "times": 200},
    }
    log = act(provider, plan[failure])
    answers, language, ledger = run(provider)
    answer = answers[0]
    assert answer.value is None
    assert said in (answer.error or "")
    is_final = failure == "refused" and provider == "claude-code"
    assert len(calls(log)) == (1 if is_final or failure == "flood" else 2)
    if failure != "busy":
        assert language.usage.calls == len(calls(log))
        assert sum(entry.calls for entry in ledger.entries.values()) == language.usage.calls
    act(provider, {"output": GOOD[provider]})
    mended, _, _ = run(provider, ledger=ledger)
    assert (mended[0].value is None) == is_final  # nothing is lost: a later run asks again


_READ = asyncio.StreamReader.read


async def _slowly(stream: asyncio.StreamReader, count: int = -1) -> bytes:
    await asyncio.sleep(0.002)
    return await _READ(stream, count)


@EACH
def test_one_bad_answer_is_repaired(provider: str, act: Act) -> None:
    log = act(provider, {"output": MISSED[provider]}, {"output": GOOD[provider]})
    answers, language, _ = run(provider)
    assert answers[0].value is not None
    assert language.usage.calls == 2
    assert "could not be used" in calls(log)[1][2]


@EACH
def test_an_agent_that_hangs_is_ended_with_its_children(provider: str, act: Act) -> None:
    log = act(provider, {"hangs": True})
    answers, language, _ = run(provider, timeout_s=0.7)
    assert answers[0].is_transient
    assert "within the time-out" in (answers[0].error or "")
    assert language.usage.calls == 2
    for *_, group in calls(log):
        until = time.monotonic() + 5
        while _is_alive(group) and time.monotonic() < until:
            time.sleep(0.02)
        assert not _is_alive(group)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    states = [
        path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()
    ]
    return any(state[2] == str(group) and state[0] != "Z" for state in states)


def test_what_may_be_absent_may_be_null_where_all_is_required_and_null_is_absent() -> None:
    schema = strict(WindowExtraction.model_json_schema())
    claim = schema["$defs"]["FactClaim"]
    assert claim["required"] == [*claim["properties"]]
    assert claim["properties"]["date"]["anyOf"][1] == {"type": "null"}
    answer = {"new": None, "facts": [{"m": 1, "who": 1, "fact": "Ana lives in Oslo.", "date": None}]}
    assert (
        object_in(answer)
        == object_in(json.dumps(answer))
        == {"facts": [{"m": 1, "who": 1, "fact": "Ana lives in Oslo."}]}
    )
