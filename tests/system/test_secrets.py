"""Secrets that somebody hid in all that slowwave reads come to light nowhere (S4-20, T39)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import command
from mcp.client import Client
from messages_api import Body, MessagesApi, Reply, fault, filled
from planted import KINDS, Planted, bytes_of, rows_of
from talk import CLAUDE, NOW, learn, said, texts_of, written

from apps.configuration import Place
from apps.mcp.server import make_server
from inference.secrets import clean_error, without_secrets
from recall.atlas import atlas_data
from slowwave.common.errors import SlowwaveError, UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings, Settings
from slowwave.integrations.python_api import OpenMemory
from slowwave.reading.filters.redaction import redact_values
from storage.store import Store
from tasks.entities.names_and_pins import alias_entity
from tasks.people.observations import observe
from tasks.runtime.engine import flow, task
from tasks.runtime.runs import Run, new_run
from tasks.transfer.imports import import_export

ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "a-key-of-anthropic-4711",
    "AWS_SECRET_ACCESS_KEY": "a/secret+of+aws/0815",
    "SLOWWAVE_MCP_TOKEN": "a-token-of-the-door-99",
    "PGPASSWORD": "open-sesame-of-postgres",
    "HTTPS_PROXY": "http://boats:a-word-of-the-proxy@proxy.internal:3128",
}


def run_of(store: Path, flow: str = "observe") -> Run:
    return new_run(flow, str(store), "default", DEFAULT_EMBEDDER, NOW)


def transcript(planted: Planted, place: str) -> list[dict[str, Any]]:
    """A conversation in which everybody says every kind of secret, and whose names are secrets."""
    told = {"Marta": KINDS, "assistant": KINDS[::6], "tool": KINDS[1::6], "system": KINDS[2::6]}
    turns = [
        (who, f"We keep this for the deployment of Ferrywise: {planted.plant(kind, f'{place}, said by {who}')}")
        for who, kinds in told.items()
        for kind in kinds
    ]
    lines = said(turns, conversation=place.replace(" ", "-"))
    lines[0]["conversation_id"] = planted.plant("github_token", f"{place}, conversation")
    lines[1]["message_id"] = planted.plant("openai", f"{place}, message id")
    lines[2]["speaker"] = planted.plant("email", f"{place}, speaker")
    lines[3]["title"] = planted.plant("said_password", f"{place}, title")
    lines[4]["scope"] = planted.plant("slack", f"{place}, scope")
    return lines


def claude_code(planted: Planted) -> list[dict[str, Any]]:
    """A transcript of an agent whose tools were given secrets and found some."""
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": planted.plant("bearer", "a command")}}
    found = [{"type": "text", "text": text} for text in planted.every_kind("the output of a tool")]
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": found}
    shared = {"sessionId": "s1", "timestamp": NOW.isoformat(), "cwd": "/home/ana"}
    talk = "We decided to deploy on Fridays because the traffic is low then."
    return [
        {**shared, "type": "user", "uuid": "u0", "message": {"role": "user", "content": talk}},
        {**shared, "type": "assistant", "uuid": "u1", "message": {"role": "assistant", "content": [call]}},
        {**shared, "type": "user", "uuid": "u2", "message": {"role": "user", "content": [answer]}},
    ]


def export(planted: Planted, folder: Path) -> Path:
    """What another memory holds, secrets in its texts and its names."""
    names = [planted.plant(kind, "mcp-memory, a name") for kind in ("openai", "email", "url_password")]
    lines = [
        {"type": "entity", "name": name, "entityType": "person", "observations": planted.every_kind(f"about {n}")[n::9]}
        for n, name in enumerate(["Ana", *names])
    ]
    return written(folder / "memory.jsonl", lines)


def everything_read(planted: Planted, folder: Path) -> Path:
    """A folder of all that can be ingested."""
    named = folder / planted.plant("variable", "a folder").replace("/", " ")
    named.mkdir(parents=True)
    written(named / "talk.jsonl", transcript(planted, "talk"))
    written(folder / "agent.jsonl", claude_code(planted))
    paragraphs = "\n\n".join(f"## Part {n}\n\n{text}" for n, text in enumerate(planted.every_kind("a document")))
    words = "The ferry office moved to the new harbour. " * 20
    (folder / f"notes {planted.plant('github_token', 'a file name')}.md").write_text(f"{words}\n\n{paragraphs}")
    (folder / f"broken {planted.plant('openai', 'a broken file name')}.json").write_text('{"no": "messages"}')
    return folder


@pytest.fixture(scope="module")
def planted() -> Planted:
    """All secrets of this module."""
    return Planted()


@pytest.fixture(scope="module")
def told(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store that was told secrets through every door, and all that its doors answered."""
    store = tmp_path_factory.mktemp("secrets") / "memory"
    folder = everything_read(planted, tmp_path_factory.mktemp("read") / "input")
    answers: list[str] = []
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    logging.getLogger().addHandler(handler)
    with redirect_stdout(printed), redirect_stderr(printed):
        answers.append(json.dumps(learn(folder, store), default=str))
        imported = import_export(run_of(store, "import"), export(planted, folder.parent), IngestSettings())
        answers.append(str(imported))
        with suppress(SlowwaveError):
            alias_entity(run_of(store, "alias"), "Marta", planted.plant("email", "an alias"))
        with suppress(SlowwaveError):
            planted_name = planted.plant("groq", "an entity that was made")
            observe(run_of(store), planted_name, ["It is slow."], IngestSettings(), entity_type="tool", create=True)
        answers += read_back(store, planted)
    logging.getLogger().removeHandler(handler)
    return store, [*answers, printed.getvalue()]


def read_back(store: Path, planted: Planted) -> list[str]:
    """What reading gives: recall, the atlas, the report, an agent's tools."""
    with OpenMemory.open(str(store)) as memory:
        found = memory.recall(planted.plant("aws_key", "a question"), 50, now=NOW)
        known = [str(memory.entities(500)), str(memory.communities(now=NOW)), str(memory.facts_of("Marta"))]
        answers = [str(found.facts), *known]  # what was asked is told to whoever asked
    answers.append(json.dumps(atlas_data(Store.open(str(store)), NOW)))
    return [*answers, *asyncio.run(agent(store, planted))]


async def agent(store: Path, planted: Planted) -> list[str]:
    """What an agent gets to see, and what it is told when it says a secret."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("open_nodes", {"names": ["Marta"]}),
        ("search_semantic", {"query": "deployment"}),
        ("recall", {"query": "What do we keep for the deployment?"}),
        ("add_observations", {"entity_name": "Marta", "observations": planted.every_kind("an agent")[::4]}),
        ("history", {"subject": "Marta"}),
        ("consolidation_report", {}),
    ]
    async with Client(make_server(OpenMemory(Place(str(store), "default", Settings())))) as client:
        return [str(await client.call_tool(name, arguments)) for name, arguments in calls]


@pytest.mark.proof
def test_a_store_that_was_told_secrets_through_every_door_holds_none(
    planted: Planted, told: tuple[Path, list[str]]
) -> None:
    store, _ = told
    assert len(planted.where) > 5 * len(KINDS)
    assert planted.found_in(rows_of(store)) == set()
    assert planted.found_in(bytes_of(store)) == set()


@pytest.mark.proof
def test_nothing_that_is_answered_printed_or_logged_holds_a_secret(
    planted: Planted, told: tuple[Path, list[str]]
) -> None:
    _, answers = told
    assert sum(map(len, answers)) > 30_000
    assert planted.found_in(answers) == set()


# What a provider says, and what a model makes up


def echo(planted: Planted) -> Callable[[Body], Reply]:
    """A model that answers with secrets that nobody showed to it."""

    def answer(request: Body) -> Reply:
        tool = request["tools"][0]["name"]
        if tool != "WindowExtraction":
            return filled(tool, {"answers": [], "verdicts": []})
        fresh = [n for n, _, _, is_context in texts_of(request) if not is_context]
        facts = [
            {"m": n, "about": "Marta", "c": 0.9, "rel": planted.plant("jwt", "a relation"),
             "obj": planted.plant("openai", f"an object {n}"),
             "s": f"Marta keeps it: {planted.plant('github_token', f'a statement {n}')}."}
            for n in fresh
        ]  # fmt: skip
        named = [{"name": "Marta", "type": "person", "is": planted.plant("said_password", "a summary")},
                 {"name": planted.plant("slack", "a name of an entity"), "type": "tool"}]  # fmt: skip
        names = [{"n": 1, "name": planted.plant("jwt", "a name")}]
        return filled(tool, {"names": names, "new": named, "facts": facts})

    return answer


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a process has in its environment, and must not tell."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    secrets = [value for name, value in ENVIRONMENT.items() if name != "HTTPS_PROXY"]
    return dict.fromkeys([*secrets, "a-word-of-the-proxy"], "the environment")


@pytest.mark.proof
def test_what_a_model_makes_up_and_what_a_provider_says_when_it_fails_is_cleaned_before_it_is_kept(
    serve: Callable[..., MessagesApi], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted, store = Planted(dict(environment)), tmp_path / "memory"
    for name in ("good", "worse"):
        kept = f"We decided to keep the {name} boats because they are cheap: {planted.plant('groq', name)}"
        lines = [*said([("Marta", kept)], name), *said([("Devon", "We moved to Lisbon in May.")], f"{name}-too")]
        written(tmp_path / f"{name}.jsonl", lines)
    words = f"no such account: {' '.join([*ENVIRONMENT.values(), *planted.every_kind('an error')])}"
    paid = {"llm": {"model": CLAUDE, "transient_retries": 0, "concurrency": 1}}
    api = serve(fault(400, words))
    api.script.append(echo(planted))
    monkeypatch.setenv("ANTHROPIC_API_KEY", ENVIRONMENT["ANTHROPIC_API_KEY"])
    answers = [str(learn(tmp_path / "good.jsonl", store, **paid))]
    api.otherwise = fault(401, words)
    with pytest.raises(SlowwaveError) as refused:
        learn(tmp_path / "worse.jsonl", store, **paid)
    told = [*answers, str(refused.value), *rows_of(store)]
    assert "no such account" in "".join(told)
    assert "Marta keeps it: push with [redacted:github_token]." in "".join(told)
    assert planted.found_in(told) == set()
    assert planted.found_in(bytes_of(store)) == set()
    assert planted.found_in(json.dumps(request) for request in api.requests) == set()
    key = ENVIRONMENT["ANTHROPIC_API_KEY"]
    sent = {name for headers in api.headers for name, value in headers.items() if key in value}
    assert sent
    assert sent <= {"authorization", "x-api-key"}


# Errors and logs


@pytest.mark.parametrize(
    "name", ["HF_TOKEN_READ", "PREFECT_API_AUTH_STRING", "OTEL_EXPORTER_OTLP_HEADERS", "DB_PASSWORDS_A"]
)
def test_variables_that_name_a_secret_are_struck_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "admin:boats-and-boats")
    monkeypatch.setenv("VAULT_TOKEN_FILE", "/run/secrets/vault")
    assert without_secrets("sent admin:boats-and-boats") == "sent [secret]"
    assert without_secrets("no file /run/secrets/vault") == "no file /run/secrets/vault"


def test_an_error_is_told_without_secrets_and_so_is_what_led_to_it(environment: dict[str, str]) -> None:
    planted = Planted(dict(environment))
    first = OSError(5, f"cannot read {planted.plant('url_password', 'a cause')}")
    second = UnusableInput(planted.plant("aws_key", "a message"), f"Try {ENVIRONMENT['SLOWWAVE_MCP_TOKEN']}.")
    second.__cause__ = first
    assert clean_error(second) is second
    assert (second.message, second.remedy) == ("the key is [redacted:aws_key]", "Try [secret].")
    assert planted.found_in([str(second), str(second.__cause__), str(second.args)]) == set()


def test_an_error_that_cannot_be_cleaned_gives_way_to_one_that_can_be_told(environment: dict[str, str]) -> None:
    class Stubborn(ValueError):
        def __str__(self) -> str:
            return f"no: {ENVIRONMENT['PGPASSWORD']}"

    told = clean_error(Stubborn())
    assert str(told) == "Stubborn: no: [secret]"
    outer = ValueError("outer")
    outer.__context__ = Stubborn()
    assert clean_error(outer) is outer
    assert outer.__context__ is None


def test_what_the_project_logs_is_cleaned_with_its_arguments_and_its_traceback(
    environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    planted = Planted(dict(environment))
    log = logging.getLogger("slowwave")
    log.warning("the door: %s and %d", planted.plant("openai", "a log"), 7)
    try:
        raise ValueError(ENVIRONMENT["PGPASSWORD"])
    except ValueError:
        log.exception("It failed.")
    assert "the door: use [secret] for it and 7" in caplog.text
    assert "ValueError: [secret]" in caplog.text
    assert planted.found_in([caplog.text]) == set()


def test_a_command_that_fails_tells_no_secret(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    planted = Planted(dict(environment))
    config = tmp_path / "slowwave.toml"
    config.write_text(f"[ingest.llm]\nmax_usd = '{planted.plant('anthropic', 'a setting')}'\n")
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(config))
    shown = []
    for more in ([], ["--json"]):
        assert command(monkeypatch, "recall", "boats", "--store", tmp_path / "memory", *more) == 2
        shown += capsys.readouterr()
    assert "max_usd" in shown[1]
    assert planted.found_in(shown) == set()


def test_plain_data_is_cleaned_wherever_its_texts_stand_and_keeps_its_shape() -> None:
    planted = Planted()
    data = {planted.plant("email", "a key"): [1, None, (planted.plant("jwt", "a list"), 2.5)], "max_tokens": 5}
    clean = redact_values(data)
    assert planted.found_in([json.dumps(clean)]) == set()
    assert list(clean.values()) == [[1, None, ["cookie [redacted:jwt]", 2.5]], 5]
    ordinary = {"paths": ["a/b.jsonl"], "n": 3}
    assert redact_values(ordinary) is ordinary
    assert without_secrets("nothing to hide") == "nothing to hide"


# Under an engine


@flow("tell")
async def _tell() -> None:
    """A flow whose task fails with an error that holds secrets."""
    _fail()


@task("fail")
def _fail() -> None:
    try:
        raise OSError(f"canary of a cause: {ENVIRONMENT['PGPASSWORD']}")
    except OSError as error:
        raise ValueError(f"canary of an error: {ENVIRONMENT['AWS_SECRET_ACCESS_KEY']}") from error


@pytest.mark.proof
@pytest.mark.engine
@pytest.mark.xdist_group("engine")
def test_the_database_of_prefect_holds_no_secret(
    engine: None, prefect_database: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    planted = Planted(dict(environment))
    turns = [("Marta", text) for text in planted.every_kind("a run under Prefect")]
    learn(
        written(tmp_path / "talk.jsonl", said([*turns, ("Marta", "We decided to use Redis Streams.")])), tmp_path / "m"
    )
    with pytest.raises(ValueError, match="canary"):
        asyncio.run(_tell())
    end = time.monotonic() + 30
    while not (kept := _holds(prefect_database, "canary of a cause")) and time.monotonic() < end:
        time.sleep(0.3)  # logs reach the server in the background
    assert kept
    assert planted.found_in(bytes_of(prefect_database.parent)) == set()


def _holds(database: Path, words: str) -> bool:
    return any(words.encode() in each for each in bytes_of(database.parent))
