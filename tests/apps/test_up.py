"""`slowwave up` and `slowwave down`: what is deployed, which processes are up, and errors with the way out."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import socket
from typing import Any, ClassVar

import pytest
from conftest import command
from prefect.flows import load_flow_from_entrypoint
from talk import EXAMPLES, ROOT

from apps.configuration import Place, parse_settings
from apps.local_server import parts
from apps.local_server.setup import (
    Setup,
    deployments_of,
    environment,
    keep_password,
    password,
    setup_of,
)
from slowwave.common.errors import Refused, UnusableInput
from slowwave.common.settings import Settings

MEMORY = "/data/it's mine/memory"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, for this process and those that it starts."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: tmp_path / "data" / "slowwave")
    return tmp_path / "data" / "slowwave"


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# What was asked for


def test_given_variables_win_over_the_file_of_the_folder_and_that_over_the_defaults(data_folder: Path) -> None:
    setup = Setup(MEMORY, port=4711)
    setup.folder.mkdir(parents=True)
    (setup.folder / "environment").write_text("# keys\nANTHROPIC_API_KEY = k=1\nDO_NOT_TRACK=2\n", encoding="utf-8")
    env = environment(setup, {"DO_NOT_TRACK": "0", "PREFECT_API_URL": "http://elsewhere/api", "PREFECT_PROFILE": "x"})
    assert (env["ANTHROPIC_API_KEY"], env["DO_NOT_TRACK"]) == ("k=1", "0")
    assert env["PREFECT_API_URL"] == "http://127.0.0.1:4711/api"
    assert env["PREFECT_HOME"] == str(data_folder / "server-4711" / "prefect")
    assert env["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert not {"PREFECT_PROFILE", "PREFECT_SERVER_DATABASE_CONNECTION_URL"} & env.keys()


def test_only_pages_of_the_server_may_ask_it_and_no_proxy_stands_between() -> None:
    env = environment(Setup(MEMORY, port=4711), {"no_proxy": "example.org"})
    assert env["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4711,http://localhost:4711"
    assert env["no_proxy"] == env["NO_PROXY"] == "example.org,127.0.0.1,localhost"


def test_the_password_is_random_stays_and_is_for_this_user_alone() -> None:
    one, other = Setup(MEMORY, port=4711), Setup(MEMORY, port=4712)
    for each in (one, other):
        each.folder.mkdir(parents=True)
        keep_password(each, {})
    first = password(one)
    assert len(first) > 24
    assert first != password(other)
    assert stat.S_IMODE(one.password_file.stat().st_mode) == 0o600
    keep_password(one, {})
    assert password(one) == first
    keep_password(one, {"PREFECT_API_AUTH_STRING": "ana:hers"})
    assert password(one) == "ana:hers"


def test_paths_become_absolute_addresses_stay_and_a_missing_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talks").mkdir()
    setup = setup_of("./memory", "work", (Path("talks"),), 4201)
    assert (setup.store, setup.watched) == (str(tmp_path / "memory"), (str(tmp_path / "talks"),))
    assert setup_of("s3://bucket/memory", "work", (), 4201).store == "s3://bucket/memory"
    with pytest.raises(UnusableInput, match=r"no folder .*elsewhere"):
        setup_of("./memory", "work", (Path("elsewhere"),), 4201)


# What is deployed


def test_deployments_take_the_store_the_namespace_and_the_settings_that_differ_from_the_defaults() -> None:
    settings = parse_settings({"ingest": {"llm": {"model": "quotes"}}, "retention": {"undo_days": 9}}, "here")
    setup = Setup(MEMORY, "work")
    written = deployments_of(setup, Place(MEMORY, "work", settings))
    assert written["pull"] == [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]
    by_name = {each["name"]: each for each in written["deployments"]}
    assert {each["parameters"]["store"] for each in by_name.values()} == {MEMORY}
    namespaces = {name: each["parameters"]["namespace"] for name, each in by_name.items()}
    assert namespaces.pop("fleet") == "*"
    assert {*namespaces.values()} == {"work"}
    assert by_name["ingest"]["parameters"]["settings"] == {"llm": {"model": "quotes"}, "retention": {"undo_days": 9}}
    assert by_name["sleep"]["parameters"]["settings"]["retention"] == {"undo_days": 9}
    assert by_name["inbox"]["parameters"]["folder"] == str(Path("inbox").resolve())
    (trigger,) = by_name["ingest"]["triggers"]
    assert f'default("{MEMORY}")' in trigger["parameters"]["store"]
    for each in by_name.values():
        flow: Any = load_flow_from_entrypoint(str(ROOT / each["entrypoint"]), use_placeholder_flow=False)
        assert flow.validate_parameters(each["parameters"])["store"] == MEMORY


def test_watched_folders_are_read_hourly_and_nothing_in_them_is_moved() -> None:
    setup = Setup(MEMORY, watched=("/data/talks", "/data/mail"))
    written = deployments_of(setup, Place(MEMORY, "default", Settings()))
    first, second = written["deployments"][-2:]
    assert (first["name"], second["name"]) == ("watch", "watch-2")
    assert first["entrypoint"] == "flows/ingest.py:inbox"
    assert [each["cron"] for each in first["schedules"]] == ["7 * * * *"]
    assert first["concurrency_limit"]["collision_strategy"] == "ENQUEUE"  # an hour is not left out
    assert second["parameters"].items() >= {"folder": "/data/mail", "afterwards": "stay", "by_folder": False}.items()


# Which processes are up


HOLDER = """
import sys, time
from apps.local_server import parts
from apps.local_server.setup import Setup
parts._hold_lock(Setup({store!r}, port={port}), "server")
print("up", flush=True)
time.sleep(60)
"""


@contextmanager
def held(setup: Setup) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of the server's part."""
    setup.folder.mkdir(parents=True, exist_ok=True)
    code = "from pathlib import Path\nimport platformdirs\n"
    code += f"platformdirs.user_data_path = lambda *_, **__: Path({str(setup.folder.parent)!r})\n"
    code += HOLDER.format(store=setup.store, port=setup.port)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_part_is_up_while_its_process_lives_and_a_file_that_it_left_is_no_part() -> None:
    setup = Setup(MEMORY, port=free_port())
    assert parts.running(setup, "server") is None
    with held(setup) as process:
        found = parts.running(setup, "server")
        assert found is not None
        assert (found["pid"], found["options"]) == (process.pid, setup.options)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (setup.folder / "server.pid").read_text()  # stale, and in nobody's way
        assert parts.running(setup, "server") is None
        assert parts.stop_all(setup) == []


def test_down_stops_the_process_and_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(MEMORY, port=free_port())
    with held(setup) as process:
        threading.Thread(target=process.wait, daemon=True).start()
        assert command(monkeypatch, "down", "--port", setup.port) == 0
        assert process.wait(5) == -signal.SIGTERM
    assert "Stopped: server." in capsys.readouterr().out
    assert command(monkeypatch, "down", "--port", setup.port, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": []}


def test_what_is_up_for_something_else_is_left_alone() -> None:
    setup = Setup(MEMORY, port=free_port())
    with held(setup), pytest.raises(Refused, match=rf"other options: .*slowwave down --port {setup.port}"):
        parts.start_all(Setup(MEMORY, "other", port=setup.port))


def test_a_port_in_use_is_named_with_another_way(api: Setup) -> None:
    with pytest.raises(UnusableInput, match=r"Another program listens on port .*--port"):
        parts.start_all(api)


def test_a_part_that_ends_at_once_is_an_error_with_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(MEMORY, port=free_port())
    fails = [sys.executable, "-c", "raise SystemExit('the database is of a newer version')"]
    monkeypatch.setattr(Setup, "command", lambda self, part: fails)
    with pytest.raises(
        Exception, match=r"The server did not start\..*server\.log:\nthe database is of a newer version"
    ):
        parts.start_all(setup)
    assert parts.running(setup, "server") is None


def test_an_interrupted_start_leaves_no_process_that_comes_up_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(MEMORY, port=free_port())
    started = []
    real = subprocess.Popen

    def popen(*arguments: Any, **more: Any) -> Any:
        started.append(real(*arguments, **more))
        return started[-1]

    def interrupt(_: Setup) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Setup, "command", lambda self, part: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr("apps.local_server.parts.subprocess.Popen", popen)
    monkeypatch.setattr(parts, "is_healthy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        parts.start_all(setup)
    assert [each.poll() for each in started] == [-signal.SIGTERM]


# What the server is asked


class _Api(BaseHTTPRequestHandler):
    """The flows `sleep` and `inbox`, and the deployments of a person beside ours."""

    flows = ({"id": "1", "name": "sleep"}, {"id": "2", "name": "inbox"})
    deployments = (
        {"id": "a", "flow_id": "1", "name": "sleep", "tags": ["slowwave"], "entrypoint": "flows/nights.py:sleep"},
        {"id": "b", "flow_id": "2", "name": "watch", "tags": ["slowwave"], "entrypoint": "flows/ingest.py:inbox"},
        {"id": "c", "flow_id": "2", "name": "watch-2", "tags": ["slowwave"], "entrypoint": "flows/ingest.py:inbox"},
        {"id": "d", "flow_id": "2", "name": "watch-3", "tags": [], "entrypoint": "flows/ingest.py:inbox"},
        {"id": "e", "flow_id": "2", "name": "my watch", "tags": ["slowwave"], "entrypoint": "flows/ingest.py:inbox"},
        {"id": "f", "flow_id": "1", "name": "twice", "tags": [], "entrypoint": "x.py:x"},
        {"id": "g", "flow_id": "2", "name": "twice", "tags": [], "entrypoint": "x.py:x"},
    )
    asked: ClassVar[list[tuple[str, str]]] = []
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or "{}")
        self.asked.append((f"{self.command} {self.path}", self.headers.get("authorization", "")))
        names = body.get("deployments", {}).get("name", {}).get("any_", [each["name"] for each in self.deployments])
        found = {
            "/api/flows/filter": self.flows,
            "/api/deployments/filter": [each for each in self.deployments if each["name"] in names],
        }
        answer = json.dumps(found.get(self.path, {"id": "r"})).encode()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    monkeypatch.setattr(_Api, "asked", [])
    server = HTTPServer(("127.0.0.1", 0), _Api)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    yield Setup(MEMORY, port=server.server_port)
    server.shutdown()
    server.server_close()


def test_the_server_of_this_setup_alone_gets_the_password_whatever_proxy_is_set(
    api: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    api.folder.mkdir(parents=True)
    keep_password(api, {"PREFECT_API_AUTH_STRING": "ana:hers"})
    parts.call(api, "/health")
    with held(api):
        parts.call(api, "/health")
    assert [each for _, each in _Api.asked] == ["", "Basic YW5hOmhlcnM="]


def test_only_deployments_of_folders_that_were_watched_are_forgotten(api: Setup) -> None:
    parts._forget_old_watches(Setup(MEMORY, watched=("/talks",), port=api.port))
    assert [each for each, _ in _Api.asked if each.startswith("DELETE")] == ["DELETE /api/deployments/c"]


# All of it


@pytest.mark.proof
@pytest.mark.xdist_group("engine")
def test_up_runs_a_night_in_the_store_that_it_was_given_and_down_stops_all_of_it(tmp_path: Path) -> None:
    port, store = str(free_port()), str(tmp_path / "memory")
    environ = {**os.environ, "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30", "PREFECT_HOME": str(tmp_path / "prefect")}

    def slowwave(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "slowwave", *words], cwd=tmp_path, env=environ, capture_output=True, text=True,
            timeout=900, check=False,
        )  # fmt: skip

    talk = str(EXAMPLES / "conversations" / "c01-kestrel-orientation.jsonl")
    assert slowwave("ingest", talk, "--store", store).returncode == 0
    (tmp_path / "slowwave.toml").write_text("[retention]\nundo_days = 9\n", encoding="utf-8")
    try:
        told = slowwave("up", "--port", port, "--store", store)
        assert told.returncode == 0, told.stderr
        password = Setup("", port=int(port)).password_file.read_text(encoding="utf-8")
        subprocess.run(
            [sys.executable, "-P", "-m", "prefect", "deployment", "run", "upkeep/upkeep"], check=True, timeout=300,
            env={**environ, "PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_API_AUTH_STRING": password},
        )  # fmt: skip
        evil = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/flows/", b'{"name": "evil"}',
            {"content-type": "application/json", "host": "evil.example", "origin": "https://evil.example"},
        )  # fmt: skip
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(evil)
        assert "access-control-allow-origin" not in refused.value.headers
        assert "It is up already" in slowwave("up", "--port", port, "--store", store).stdout
        end = time.monotonic() + 300
        while "upkeep" not in (listed := slowwave("runs", "--store", store).stdout) and time.monotonic() < end:
            time.sleep(1)
        assert "upkeep" in listed
        planned = {"flow_runs": {"tags": {"all_": ["auto-scheduled"]}}}
        while (
            not (count := parts.call(Setup(store, port=int(port)), "/flow_runs/count", planned))
            and time.monotonic() < end
        ):
            time.sleep(1)
        assert count, "The server schedules what has a schedule."
        (run,) = json.loads(slowwave("runs", "--store", store, "--limit", "1", "--json").stdout)["runs"]
        told = slowwave("runs", run["id"], "--store", store, "--json")
        assert '"undo_days": 9' in told.stdout  # of the slowwave.toml that counts where it was started
        assert slowwave("up", "--port", port, "--status", "--json").returncode == 0
    finally:
        ended = slowwave("down", "--port", port)
    assert "Stopped: worker, server." in ended.stdout
    assert slowwave("up", "--port", port, "--status").returncode == 1
