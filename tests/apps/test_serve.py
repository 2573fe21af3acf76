"""The page in the browser and MCP in one process, asked over HTTP: who comes in, what they see and do."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from html import unescape
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from conftest import EPOCH, command
from mcp_client import MARTA, ROOT, TOKEN, small_memory
from messages_api import MessagesApi
from starlette.testclient import TestClient
from talk import CLAUDE
from test_ask import answer as answering

from apps.configuration import Place
from apps.mcp.server import Address, OneToken, Token
from apps.serve import app as served
from apps.serve.access import CODE_S, LoginCodes, Tokens
from apps.serve.app import PAGES, make_app
from flows.nights import sleep
from recall.order import UNLIKELY
from recall.proposals import list_proposals
from slowwave.common.errors import UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings, LanguageSettings, Settings
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store
from tasks.people.observations import propose_deletion
from tasks.people.review import propose_split
from tasks.runtime.runs import new_run

HOSTILE = "<script>window.broken = 1</script> ![x](https://evil.example/x.png) [click](javascript:alert(1)) \u202eabc"
MCP_TOKEN = "the-token-of-the-agents"
TOKENS = Tokens(Token(TOKEN, False), Token(MCP_TOKEN, False))
HOME = "http://127.0.0.1:8766"
NIGHT: Any = ("decay",)


def served_memory(uri: Path) -> Path:
    """A small memory with hostile text, two proposals that wait, and a night that archived an entity."""
    small_memory(uri)
    with OpenMemory(Place.of(str(uri)), is_logged=False) as memory:
        memory.add_observations("Marta", HOSTILE)
    asyncio.run(sleep(store=str(uri), phases=NIGHT))
    run = new_run("propose", str(uri), "default", DEFAULT_EMBEDDER)
    propose_deletion(run, "e_marta", ["f_00000000", "f_00000003"])
    propose_split(run, "House", Settings().split)
    return uri


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The memory, to be looked at."""
    return served_memory(tmp_path_factory.mktemp("served") / "memory")


@pytest.fixture
def own(template: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(template, tmp_path / "memory"))


def client(uri: Path, settings: Settings | None = None, codes: LoginCodes | None = None, **headers: str) -> TestClient:
    """A browser that has not logged in."""
    place = Place(str(uri), "default", settings or Settings())
    app = make_app(place, Address("127.0.0.1", 8766), TOKENS, codes=codes)
    return TestClient(app, base_url=HOME, headers=headers, follow_redirects=False)


def logged_in(uri: Path, settings: Settings | None = None) -> TestClient:
    browser = client(uri, settings, None, Origin=HOME)
    browser.get("/", params={"token": TOKEN})
    return browser


@pytest.fixture(scope="module")
def reader(template: Path) -> Iterator[TestClient]:
    with logged_in(template) as made:
        yield made


def text_of(page: str) -> str:
    """What a reader of a page sees, on one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


# Who comes in


@pytest.mark.parametrize("path", [path for method, path, _ in PAGES if method == "GET"])
def test_without_the_token_every_page_asks_for_it_and_tells_nothing(template: Path, path: str) -> None:
    answer = client(template).get(path.replace("{id}", "e_marta").replace("{id:path}", "e_marta"))
    assert answer.status_code == 401
    assert 'name="token"' in answer.text
    assert "Marta" not in answer.text


@pytest.mark.parametrize("path", [path for method, path, _ in PAGES if method == "POST"])
def test_without_the_token_nothing_is_changed(template: Path, path: str) -> None:
    before = Store.open(str(template)).head.sequence
    (run,) = _runs(template, "observe")
    proposal = list_proposals(Store.open(str(template)).snapshot())[0].id
    path = path.replace("{id}", proposal if "review" in path else run).replace("{choice}", "reject")
    for token in ("guessed", TOKEN, MCP_TOKEN):  # a token in a header logs nobody in
        headers = {"Origin": HOME, "Authorization": f"Bearer {token}"}
        answer = client(template).post(path, headers=headers, data={"by": "Ana"})
        assert answer.status_code == 401
        assert 'name="token"' in answer.text
    assert Store.open(str(template)).head.sequence == before


def test_the_link_and_the_form_give_a_cookie_that_scripts_and_other_sites_do_not_get(template: Path) -> None:
    for log_in in (
        lambda browser: browser.get("/people", params={"token": TOKEN, "type": "all"}),
        lambda browser: browser.post("/login", data={"token": TOKEN}, headers={"Origin": HOME}),
    ):
        browser = client(template)
        answer = log_in(browser)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert "Marta" in browser.get("/people").text
        assert browser.get(f"/people?token={TOKEN}").headers["location"] == "/", "it stays in no address"
        assert "Secure" not in cookie, "over plain HTTP a browser would not send it"


def test_the_code_of_a_link_logs_in_once_and_not_for_long(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "OneToken", partial(OneToken, pause_s=0.01))
    codes = LoginCodes()
    first, late = codes.new(), codes.new()
    browser = client(template, codes=codes)
    assert browser.get("/", params={"token": first}).status_code == 303
    assert "Marta" in browser.get("/people").text
    other = client(template, codes=codes)
    assert other.get("/people", params={"token": first}).status_code == 401
    now = time.monotonic()
    monkeypatch.setattr("apps.serve.access.time.monotonic", lambda: now + CODE_S)
    assert not codes.redeem(late)


def test_the_browser_is_opened_without_the_lasting_token(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(served, "http_server", lambda app: type("Server", (), {"run": lambda self, sockets: None})())
    served.serve(
        Place.of(str(template)),
        Address("127.0.0.1", 0),
        TOKENS,
        is_opened=True,
        say=lambda page, _: opened.append(page),
    )
    assert len(opened) == 2
    assert not any(token in address for token in (TOKEN, MCP_TOKEN) for address in opened)
    assert re.fullmatch(r"http://127.0.0.1:\d+/\?token=[\w-]+", opened[1])


def test_a_wrong_token_gives_no_cookie(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "OneToken", partial(OneToken, pause_s=0.01))
    browser = client(template)
    for answer in (
        browser.get("/people?token=guessed-guessed-guessed"),
        browser.post("/login", data={"token": "guessed"}, headers={"Origin": HOME}),
    ):
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "This is not the token" in answer.text
    browser.cookies.set("slowwave-8766", TOKEN)
    assert browser.get("/people").status_code == 401, "the token is not the cookie"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),  # another server of this machine
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Origin": HOME}, 303),
    ],
)
def test_a_change_that_rests_on_the_cookie_comes_from_a_page_of_this_address(
    own: Path, headers: dict[str, str], status: int
) -> None:
    browser = client(own)
    browser.get("/", params={"token": TOKEN})
    before = Store.open(str(own)).head.sequence
    run = _runs(own, "observe")[0]
    assert browser.post(f"/runs/{run}/undo", headers=headers, data={"run": run}).status_code == status
    assert (Store.open(str(own)).head.sequence > before) == (status == 303)


@pytest.mark.parametrize("rest", ["/static/#", "/static/?", "@evil.example", ":8766", "#", "x"])
@pytest.mark.parametrize("path", ["/people", "/mcp"])
def test_a_host_header_with_more_than_name_and_port_is_refused_and_opens_nothing(
    template: Path, path: str, rest: str
) -> None:
    host = {"Host": f"127.0.0.1:8766{rest}"}
    for caller in (client(template), logged_in(template)):
        answer = caller.request("POST" if path == "/mcp" else "GET", path, headers=host)
        assert answer.status_code == 421
        assert "Marta" not in answer.text


def test_every_page_forbids_foreign_scripts_frames_and_guessed_types(reader: TestClient) -> None:
    for path in ("/", "/people/e_marta", "/static/serve.js", "/static/serve.css", "/nothing"):
        headers = reader.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    page = reader.get("/people/e_marta").text
    assert not re.search(r"<script(?! type=\"module\" src=\"/static/serve.js\">)|<style|\sstyle=|\son\w+=", page)
    policy = reader.get("/atlas/map").headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; object-src 'none'")
    assert policy.endswith("frame-ancestors 'self'")
    assert not re.search(r"<script(?! src=\"/static/| type=\"application/json\")|<style|\sstyle=|\son\w+=",
                         reader.get("/atlas/map").text)  # fmt: skip


def test_mcp_has_its_own_check_and_answers_in_the_same_process(template: Path) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}  # fmt: skip
    accepted = {"Accept": "application/json, text/event-stream"}
    with client(template, Authorization=f"Bearer {MCP_TOKEN}") as agent:
        assert agent.post("/mcp", json=body, headers=accepted).status_code == 200
        for token in ("no", TOKEN):
            answer = agent.post("/mcp", json=body, headers={**accepted, "Authorization": f"Bearer {token}"})
            assert answer.status_code == 401


def test_the_token_of_agents_opens_mcp_alone(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "OneToken", partial(OneToken, pause_s=0.0))
    agent = client(template, Authorization=f"Bearer {MCP_TOKEN}")
    for method, path, _ in PAGES:
        assert agent.request(method, path, headers={"Origin": HOME}).status_code == 401, path


def test_one_token_for_both_is_refused() -> None:
    with pytest.raises(UnusableInput, match="SLOWWAVE_SERVE_TOKEN"):
        Tokens(Token(TOKEN, False), Token(TOKEN, False))


# What they send


FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": HOME}
PARTS = {"Content-Type": "multipart/form-data; boundary=x", "Origin": HOME}
FILE = b'--x\r\nContent-Disposition: form-data; name="token"; filename="a"\r\n\r\nb\r\n--x--'


@pytest.mark.parametrize(
    ("path", "headers", "sent", "status"),
    [
        ("/login", FORM, [b"token=", b"x" * 20_000], 413),
        ("/", FORM, [b"q=", *[b"x" * 100_000] * 11], 413),
        ("/login", PARTS, [FILE], 400),
        ("/login", PARTS, [b"no parts"], 400),
        ("/", PARTS, [b"no parts"], 400),
        ("/", {**PARTS, "Content-Type": "multipart/form-data"}, [b"q"], 400),
    ],
)  # fmt: skip
def test_bodies_are_counted_as_they_come_and_broken_ones_are_refused(
    reader: TestClient, path: str, headers: dict[str, str], sent: list[bytes], status: int
) -> None:
    answer = reader.post(path, content=iter(sent), headers=headers)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == status


# Asking


def test_without_a_model_a_question_gets_facts_and_says_why(reader: TestClient) -> None:
    page = reader.get("/", params={"q": "What does Marta play?"}).text
    assert "No language model is set" in page
    assert 'id="source-1"' in page
    assert MARTA[2] in page
    assert 'href="/why/f_00000002"' in page


@pytest.mark.parametrize("ask", ["get", "post"])
def test_a_question_that_nothing_matches_well_is_answered_with_a_warning(reader: TestClient, ask: str) -> None:
    asked = {"params" if ask == "get" else "data": {"q": "Who invented the telescope?"}}
    page = text_of(reader.request(ask, "/", **asked).text)
    assert UNLIKELY in page
    assert "The nearest facts and passages" in page
    assert UNLIKELY not in text_of(reader.get("/", params={"q": "What does Marta play?"}).text)


@pytest.mark.proof
def test_a_model_answers_by_post_with_numbered_sources(own: Path, serve: Callable[..., MessagesApi]) -> None:
    api = serve(answering("violin", text="The violin <b>x</b>."))
    settings = Settings(ingest=IngestSettings(llm=LanguageSettings(model=CLAUDE, transient_retries=0)))
    with logged_in(own, settings) as asked:
        assert "formmethod" in asked.get("/").text
        asked.get("/", params={"q": "What does Marta play?"})
        assert not api.requests, "a question by GET is free"
        page = asked.post("/", data={"q": "What does Marta play?"}).text
    assert "The violin" in page
    assert "<b>" not in page
    assert 'href="#source-1"' in page
    assert 'id="source-1"' in page
    assert f"{CLAUDE}, 1 call" in text_of(page)


def test_what_a_model_costs_is_shown_by_day(own: Path, serve: Callable[..., MessagesApi]) -> None:
    serve(answering("violin", text="The violin."))
    settings = Settings(ingest=IngestSettings(llm=LanguageSettings(model=CLAUDE, transient_retries=0)))
    with logged_in(own, settings) as asked:
        asked.post("/", data={"q": "What does Marta play?"})
        page = asked.get("/costs").text
    assert "<table" in page
    assert CLAUDE in text_of(page)


def test_stored_text_is_shown_and_never_markup(template: Path, reader: TestClient) -> None:
    found = OpenMemory(Place.of(str(template)), is_logged=False).recall("click javascript alert", 5).facts
    fact = next(each.id for each in found if "window.broken" in each.statement)
    for path in ("/?q=click+javascript+alert", "/people/e_marta", f"/why/{fact}"):
        page = reader.get(path).text
        assert "<script>window" not in page, path
        assert "<img" not in page
        assert 'href="javascript' not in page
        assert "\u202e" not in page
    assert "<script>window.broken = 1</script>" in text_of(reader.get("/people/e_marta").text)


def test_hostile_text_of_runs_and_proposals_is_never_markup(own: Path) -> None:
    store = Store.open(str(own))
    with store.commit("hostile", "hostile", EPOCH) as tx:
        tx.upsert("proposals", tx.frame("proposals").with_columns(title=pl.lit(HOSTILE), reason=pl.lit(HOSTILE)))
        tx.upsert("runs", tx.frame("runs", "flow = 'observe'").with_columns(flow=pl.lit(HOSTILE)))
    (run,) = store.snapshot().frame("runs", "flow LIKE '%window.broken%'", ["id"])["id"]
    proposal = list_proposals(store.snapshot())[0].id
    with logged_in(own) as asked:
        for path in ("/runs", f"/runs/{run}", "/review", f"/review/{proposal}"):
            page = asked.get(path).text
            assert "&lt;script&gt;window.broken" in page, path
            assert "<script>window" not in page
            assert "<img" not in page
            assert 'href="javascript' not in page
            assert "\u202e" not in page


# People


def test_a_person_is_shown_now_and_at_the_end_of_a_day_with_the_stops_of_the_slider(reader: TestClient) -> None:
    now, then = (reader.get("/people/e_marta", params=day).text for day in ({}, {"as_of": "2026-01-03"}))
    assert "Marta works at Ferrywise." in now
    assert "Marta works at Ferrywise." not in then
    assert MARTA[0] in then
    assert "at the end of 3 January 2026" in then
    (days,) = re.findall(r'data-days="([^"]*)"', now)
    assert days.split()[:2] == ["2026-01-01", "2026-01-04"]
    assert 'href="/people/e_ferry"' in now
    assert all(statement in then for statement in MARTA)


def test_people_are_listed_and_found_by_words(reader: TestClient) -> None:
    listed = text_of(reader.get("/people").text)
    assert "Marta" in listed
    assert "Redis Streams" not in listed.replace("all types", "")
    assert "Redis Streams" in reader.get("/people?type=tool").text
    assert "Redis Streams" in reader.get("/people", params={"q": "redis"}).text
    assert "Redis Streams" in reader.get("/people", params={"q": "redis", "type": "all"}).text
    assert "Redis Streams" in reader.get("/people", params={"q": "redis", "type": "tool"}).text
    assert "Redis Streams" not in reader.get("/people", params={"q": "redis", "type": "person"}).text
    assert reader.get("/people/e_nobody").status_code == 404


# Runs and undo


def _runs(uri: Path, flow: str) -> list[str]:
    return Store.open(str(uri)).snapshot().frame("runs", f"flow = '{flow}'", ["id"])["id"].to_list()


def test_the_last_night_is_told_with_the_names_of_what_it_archived(reader: TestClient) -> None:
    told = text_of(reader.get("/runs").text)
    assert "The last night" in told
    assert "Archived" in told.split("“Puerto”")[0]
    assert "2 proposals wait for you" in told


def test_a_run_is_taken_back_after_a_look_at_what_would_change(own: Path) -> None:
    (run,) = _runs(own, "observe")
    with logged_in(own) as person:
        page = text_of(person.get(f"/runs/{run}/undo").text)
        assert "facts 0 1" in page, "one fact would be removed"
        assert Store.open(str(own)).snapshot().count("facts", "statement LIKE '%window.broken%'") == 1
        done = person.post(f"/runs/{run}/undo", data={"run": run})
        assert done.headers["location"] == f"/runs?undone={run}"
        assert "was taken back" in person.get(done.headers["location"]).text
        again = person.post(f"/runs/{run}/undo", data={"run": run})
    assert again.status_code == 409
    assert "is undone already" in again.text
    assert Store.open(str(own)).snapshot().count("facts", "statement LIKE '%window.broken%'") == 0
    commits = Store.open(str(own)).snapshot().frame("commits", "kind = 'undo'", ["run_id"])
    assert commits["run_id"].str.starts_with("undo-").all()


@pytest.mark.proof
def test_an_undo_takes_back_no_run_that_the_page_did_not_show(own: Path) -> None:
    (first,) = _runs(own, "observe")
    with logged_in(own) as person:
        assert f'name="run" value="{first}"' in person.get(f"/runs/{first}/undo?cascade=yes").text
        with OpenMemory(Place.of(str(own)), is_logged=False) as memory:
            fact = next(each.id for each in memory.facts_of("Marta")[1] if "window.broken" in each.statement)
            (later,) = memory.retire(fact)
        before = Store.open(str(own)).head.sequence
        for shown in ([first], [], [first, later, "decay-1"]):
            again = person.post(f"/runs/{first}/undo", data={"cascade": "yes", "run": shown})
            assert again.status_code == 409
            assert "Other runs than those that were shown" in again.text
            assert f'name="run" value="{later}"' in again.text, "it shows what would be taken back now"
        alone = person.post(f"/runs/{first}/undo", data={"run": first})
        assert (alone.status_code, f"/runs/{first}/undo?cascade=yes" in alone.text) == (409, True)
        assert Store.open(str(own)).head.sequence == before


# Review


def _deletion(uri: Path) -> str:
    (found,) = list_proposals(Store.open(str(uri)).snapshot(), action="delete")
    return found.id


def _state(uri: Path, id: str) -> str:
    return next(each.state for each in list_proposals(Store.open(str(uri)).snapshot(), None) if each.id == id)


def test_an_approval_changes_exactly_what_it_shows_and_stands_in_the_ledger(own: Path) -> None:
    with logged_in(own) as person:
        id = _deletion(own)
        page = text_of(person.get(f"/review/{id}").text)
        assert MARTA[0] in page
        done = person.post(f"/review/{id}/approve", data={"by": "Ana", "note": "old", "risk": "yes"})
        assert done.headers["location"] == f"/review/{id}"
        assert "Approved and carried out, by Ana (browser)" in text_of(person.get(f"/review/{id}").text)
        left = person.get("/people/e_marta").text
        assert MARTA[1] in left
        assert MARTA[0] not in left.partition('class="over"')[0]
        listed = text_of(person.get("/review?show=decided").text)
        assert "applied by Ana" in listed
        assert _runs(own, "review"), "a run of its own"
        assert person.post(f"/review/{id}/reject", data={}).status_code in (400, 409)


def test_a_risk_is_confirmed_by_itself(own: Path) -> None:
    store = Store.open(str(own))
    with store.commit("risk", "risk", EPOCH) as tx:
        rows = tx.frame("proposals", "action = 'delete'")
        tx.upsert("proposals", rows.with_columns(risks=pl.Series([["pinned"]], dtype=pl.List(pl.String))))
    with logged_in(own) as person:
        id = _deletion(own)
        assert 'name="risk"' in person.get(f"/review/{id}").text
        refused = person.post(f"/review/{id}/approve", data={"by": "Ana"})
        assert refused.status_code == 400
        assert "pinned" in refused.text
        assert _state(own, id) == "pending"
        person.post(f"/review/{id}/approve", data={"by": "Ana", "risk": "yes"})
        assert _state(own, id) == "applied"


# The start


def test_where_nothing_is_yet_the_page_says_how_to_begin_and_goes_on_when_there_is(tmp_path: Path) -> None:
    with logged_in(tmp_path / "memory") as early:
        answer = early.get("/")
        assert answer.status_code == 404
        assert "slowwave ingest" in answer.text
        small_memory(tmp_path / "memory")
        assert early.get("/").status_code == 200


def test_what_prevents_the_start_is_named(
    template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*words: object) -> str:
        assert command(monkeypatch, "serve", "--store", template, *words) in (2, 4)
        return capsys.readouterr().err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "Choose another --port" in start("--port", taken.getsockname()[1])
    assert "Unknown namespace 'other'" in start("--namespace", "other")
    assert "Set SLOWWAVE_SERVE_TOKEN" in start("--host", "0.0.0.0")
    monkeypatch.setenv("SLOWWAVE_MCP_TOKEN", "short")
    assert "Sixteen printable" in start()


@pytest.mark.proof
def test_the_command_prints_a_link_that_logs_in_and_ends_when_it_is_told_to(template: Path, tmp_path: Path) -> None:
    words = ["-W", "ignore", "-m", "slowwave", "serve", "--store", str(template), "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment = {name: value for name, value in environment.items() if not name.endswith("_TOKEN")}
    how: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen([sys.executable, *words], env=environment, **how) as server:
        try:
            assert server.stdout is not None
            lines = list(takewhile(bool, (server.stdout.readline() for _ in range(7))))
            said = json.loads("".join(lines))
            with httpx.Client(follow_redirects=True, timeout=30) as browser:
                for _ in range(100):
                    try:
                        answer = browser.get(said["url"])
                        break
                    except httpx.ConnectError:
                        time.sleep(0.1)
                assert (answer.status_code, answer.url.query) == (200, b"")
                assert "Ask" in browser.get(str(answer.url)).text
                assert browser.get(said["mcp"]).status_code == 401
        finally:
            server.send_signal(signal.SIGINT)
        _, log = server.communicate(timeout=30)
    assert not any(secret in log for secret in (said["url"].rpartition("=")[2], said["token"], said["mcp_token"]))
