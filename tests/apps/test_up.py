"""`slowwave up` and `slowwave down`: what is deployed, which processes are up, units, and errors with the way out."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from conftest import command
from prefect.flows import load_flow_from_entrypoint
from talk import EXAMPLES, ROOT

from apps.configuration import Place, parse_settings
from apps.local_server import parts
from apps.local_server.deployments import deployments_of
from apps.local_server.setup import Setup, environment, setup_of
from apps.local_server.units import how_to_enable, launchd_agent, systemd_unit, write_units
from slowwave.errors import Refused, UnusableInput
from slowwave.settings import Settings

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


def test_one_variable_puts_the_server_on_postgresql() -> None:
    env = environment(Setup(MEMORY), {"SLOWWAVE_DATABASE_URL": "postgresql://u:p@h/prefect"})
    assert env["PREFECT_SERVER_DATABASE_CONNECTION_URL"] == "postgresql+asyncpg://u:p@h/prefect"


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
    settings = parse_settings({"ingest": {"llm": {"model": "rules"}}, "retention": {"undo_days": 9}}, "here")
    setup = Setup(MEMORY, "work")
    written = deployments_of(setup, Place(MEMORY, "work", settings))
    assert written["pull"] == [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]
    by_name = {each["name"]: each for each in written["deployments"]}
    assert {each["parameters"]["store"] for each in by_name.values()} == {MEMORY}
    namespaces = {name: each["parameters"]["namespace"] for name, each in by_name.items()}
    assert namespaces.pop("fleet") == "*"
    assert {*namespaces.values()} == {"work"}
    assert by_name["ingest"]["parameters"]["settings"] == {"llm": {"model": "rules"}, "retention": {"undo_days": 9}}
    assert by_name["sleep"]["parameters"]["settings"]["retention"] == {"undo_days": 9}
    assert by_name["inbox"]["parameters"]["folder"] == str(Path("inbox").resolve())
    (trigger,) = by_name["ingest"]["triggers"]
    assert f'default("{MEMORY}")' in trigger["parameters"]["store"]
    for each in by_name.values():
        flow: Any = load_flow_from_entrypoint(str(ROOT / each["entrypoint"]), use_placeholder_flow=False)
        assert flow.validate_parameters(each["parameters"])["store"] == MEMORY


def test_defaults_are_not_written_so_that_forms_show_none() -> None:
    written = deployments_of(Setup(MEMORY), Place(MEMORY, "default", Settings()))
    assert not [each["name"] for each in written["deployments"] if "settings" in each["parameters"]]


def test_watched_folders_are_read_hourly_and_nothing_in_them_is_moved() -> None:
    setup = Setup(MEMORY, watched=("/data/talks", "/data/mail"))
    written = deployments_of(setup, Place(MEMORY, "default", Settings()))
    first, second = written["deployments"][-2:]
    assert (first["name"], second["name"]) == ("watch", "watch-2")
    assert first["entrypoint"] == "flows/inbox.py:inbox"
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


def test_what_is_up_for_something_else_or_from_another_version_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(MEMORY, port=free_port())
    with held(setup):
        with pytest.raises(Refused, match=rf"other options: .*slowwave down --port {setup.port}"):
            parts.start_all(Setup(MEMORY, "other", port=setup.port))
        monkeypatch.setattr(parts, "installed_prefect", lambda: "9.9.9")
        with pytest.raises(Refused, match=r"The server is Prefect 3.* installed is 9\.9\.9.*slowwave down"):
            parts.start_all(setup)


class _Prefect(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/admin/version" else 404)
        self.end_headers()
        self.wfile.write(b'"3.1.4"' if self.path == "/api/admin/version" else b"")

    def log_message(self, *_: object) -> None:
        pass


def test_a_port_in_use_is_named_with_who_listens_and_another_way() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Prefect)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(UnusableInput, match=r"Prefect server 3\.1\.4 that slowwave did not start.*--port"):
        parts.start_all(Setup(MEMORY, port=server.server_port))
    server.shutdown()
    server.server_close()
    with socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        other.settimeout(0.01)
        setup = Setup(MEMORY, port=other.getsockname()[1])
        threading.Thread(target=lambda: other.accept()[0].close(), daemon=True).start()
        other.settimeout(5)
        with pytest.raises(UnusableInput, match="Another program listens on port"):
            parts.start_all(setup)


def test_a_part_that_ends_at_once_is_an_error_with_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(MEMORY, port=free_port())
    fails = [sys.executable, "-c", "raise SystemExit('the database is of a newer version')"]
    monkeypatch.setattr(Setup, "command", lambda self, part: fails)
    with pytest.raises(
        Exception, match=r"The server did not start\..*server\.log:\nthe database is of a newer version"
    ):
        parts.start_all(setup)
    assert parts.running(setup, "server") is None


def test_status_says_what_is_up_and_ends_with_one_if_that_is_not_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(MEMORY, port=free_port())
    assert command(monkeypatch, "up", "--status", "--json", "--port", setup.port) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], [each["state"] for each in told["parts"]]) == ("down", ["down", "down"])
    with held(setup):
        assert command(monkeypatch, "up", "--status", "--port", setup.port) == 1
    assert re.search(r"server +starting +process \d+.*\nworker +down\n", capsys.readouterr().out)


def test_options_that_cannot_be_used_end_with_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "up", "--watch", "/nowhere") == 2
    assert command(monkeypatch, "up", "--part", "boiler") == 2
    assert "--watch takes a folder" in (told := capsys.readouterr().err)
    assert "boiler" in told


# Units


ODD = Setup('/data/50% $HOME "q"/memory', watched=("/data/my talks",), port=4201)


def words_of(line: str) -> list[str]:
    """The words of a quoted command as systemd reads them."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    return [re.sub(r"\\(.)", r"\1", word).replace("%%", "%").replace("$$", "$") for word in found]


def test_units_and_agents_start_the_same_command_whatever_is_in_its_paths(tmp_path: Path) -> None:
    files = write_units(
        ODD, tmp_path / "units", tmp_path, {"XDG_DATA_HOME": "/data/50%", "ANTHROPIC_API_KEY": "secret"}
    )
    assert [each.name for each in files] == [
        "slowwave-server-4201.service", "slowwave.server-4201.plist",
        "slowwave-worker-4201.service", "slowwave.worker-4201.plist",
    ]  # fmt: skip
    assert not any("secret" in each.read_text(encoding="utf-8") for each in files)
    for part, unit, agent in zip(parts.PARTS, files[::2], files[1::2], strict=True):
        text = unit.read_text(encoding="utf-8")
        (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        read = plistlib.loads(agent.read_bytes())
        assert words_of(line) == read["ProgramArguments"] == ODD.command(part)
        assert read["Label"] == agent.stem
        assert read["EnvironmentVariables"] == {"XDG_DATA_HOME": "/data/50%"}
        assert 'Environment="XDG_DATA_HOME=/data/50%%"' in text
    lines = "\n".join(how_to_enable(ODD, files))
    assert all(str(each) in lines for each in files)


def test_the_worker_comes_after_the_server_and_a_restart_of_one_leaves_the_other() -> None:
    worker = systemd_unit(ODD, "worker", Path("/data/100%"), {})
    assert "After=slowwave-server-4201.service" in worker
    assert "Requires=" not in worker
    assert "WorkingDirectory=/data/100%%\n" in worker
    assert plistlib.loads(launchd_agent(ODD, "worker", Path("/data/100%"), {}))["WorkingDirectory"] == "/data/100%"


def test_a_path_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="line break"):
        write_units(Setup("/data/a\nExecStart=/bin/evil"), tmp_path, tmp_path, {})
    assert not list(tmp_path.glob("*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    files = [str(each) for each in write_units(Setup(MEMORY), tmp_path, tmp_path, {}) if each.suffix == ".service"]
    checked = subprocess.run(
        ["systemd-analyze", "--user", "--no-pager", "--man=no", "verify", *files], capture_output=True, text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert [line for line in checked.stderr.splitlines() if "slowwave-" in line] == []


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
        told = slowwave("up", "--port", port, "--store", store, "--run", "upkeep")
        assert told.returncode == 0, told.stderr
        assert f"http://127.0.0.1:{port}/runs/flow-run/" in told.stdout
        again = slowwave("up", "--port", port, "--store", store)
        assert "up already" in again.stdout
        end = time.monotonic() + 300
        while "upkeep" not in (listed := slowwave("runs", "--store", store).stdout) and time.monotonic() < end:
            time.sleep(1)
        assert "upkeep" in listed
        (run,) = json.loads(slowwave("runs", "--store", store, "--limit", "1", "--json").stdout)["runs"]
        told = slowwave("runs", run["id"], "--store", store, "--json")
        assert '"undo_days": 9' in told.stdout  # of the slowwave.toml that counts where it was started
        assert slowwave("up", "--port", port, "--status", "--json").returncode == 0
    finally:
        ended = slowwave("down", "--port", port)
    assert "Stopped: worker, server." in ended.stdout
    assert slowwave("up", "--port", port, "--status").returncode == 1
