"""The two processes of a local server. Each holds the lock of its file while it lives, however it ends.

A command takes the lock, which survives `exec`, and then turns into Prefect's server or worker: `slowwave up`, systemd
and launchd start the same.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import yaml

from apps.configuration import Place
from slowwave.common.errors import Refused, SlowwaveError, UnusableInput
from slowwave.common.installation import project_folder

from .setup import (
    CLIENT_PASSWORD,
    SERVER_PASSWORD,
    WATCH,
    Setup,
    basic_authorization,
    deployments_of,
    environment,
    keep_password,
    password,
    watch_name,
)

Part = Literal["server", "worker"]
PARTS: tuple[Part, ...] = ("server", "worker")
POOL = "slowwave"
TAG = "slowwave"  # of every deployment of prefect.yaml
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks this machine without the proxy that `http_proxy` names."""
STARTS_WITHIN_S, ENDS_WITHIN_S, LOCKED_WITHIN_S = 600.0, 60.0, 2.0
LOOKS_EVERY_S = 0.3
LAST_LINES = 15


# Who is up


def running(setup: Setup, part: Part) -> dict[str, Any] | None:
    """Process id and options of the part that is up on this port; None where it is down."""
    try:
        file = _lock_file(setup, part).open(encoding="utf-8")
    except FileNotFoundError:
        return None
    with file:
        if _take(file, fcntl.LOCK_SH):  # so that one who looks does not look like the part to another
            return None
        found: dict[str, Any] = json.loads(file.read() or "null") or {}
    with suppress(KeyError, ProcessLookupError):
        # Who has just taken the lock has not said yet who it is: the file is empty, or of a process that is gone.
        os.kill(found["pid"], 0)
        return found
    return None


def is_healthy(setup: Setup) -> bool:
    """Whether the server answers."""
    try:
        return bool(call(setup, "/health"))
    except OSError:
        return False


def has_worker(setup: Setup) -> bool:
    """Whether the server has heard of a worker since ours began: one that was killed counts as online for a while."""
    worker = running(setup, "worker")
    try:
        found = call(setup, f"/work_pools/{POOL}/workers/filter", {})
    except OSError:
        return False
    return worker is not None and any(
        each["status"] == "ONLINE"
        and datetime.fromisoformat(each["last_heartbeat_time"]) > datetime.fromisoformat(worker["since"])
        for each in found
    )


def call(setup: Setup, path: str, body: Mapping[str, Any] | None = None, method: str = "") -> Any:
    """What the server answers, parsed; raises `OSError` where it does not, or with another status than 2xx.

    Only our own server gets the password.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    if running(setup, "server"):
        headers["authorization"] = basic_authorization(password(setup))
    request = urllib.request.Request(f"{setup.page}/api{path}", data, headers, method=method or None)
    try:
        with DIRECT.open(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None
    except (HTTPException, ValueError) as error:
        raise OSError(f"What listens on port {setup.port} is no Prefect server: {error!r}.") from error


def _lock_file(setup: Setup, part: Part) -> Path:
    return setup.folder / f"{part}.pid"


def log_file(setup: Setup, part: Part) -> Path:
    """Where a part writes that `slowwave up` started; under systemd it is the journal."""
    return setup.folder / f"{part}.log"


def _take(file: IO[str], lock: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(file, lock | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# Starting and stopping


def start_all(setup: Setup) -> bool:
    """Start what is not up, and wait until the worker takes runs; whether anything was started.

    Raises where something else listens on the port, where what is up has other options, and where a part does not
    start: nothing is left then of what this call started.
    """
    setup.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (setup.folder / "starting.lock").open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another `slowwave up` on this port waits, and then finds it up
        up = {part: found for part in PARTS if (found := running(setup, part))}
        for found in up.values():
            if found["options"] != setup.options:
                raise Refused(
                    f"It is up with other options: {shlex.join(found['options'])}.",
                    f"Stop it first: slowwave down --port {setup.port}",
                )
        if "server" not in up:
            check_free(setup)
        started: dict[Part, subprocess.Popen[bytes]] = {}
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        try:
            for part, is_ready in zip(PARTS, (is_healthy, has_worker), strict=True):
                if part not in up:
                    with log_file(setup, part).open("wb") as log:
                        started[part] = subprocess.Popen(setup.command(part), stdout=log, stderr=log, **how)
                _wait(setup, part, started.get(part), is_ready)
        except BaseException:  # Ctrl-C, too; a part of somebody else stays
            for process in reversed(started.values()):
                _end(process)
            raise
        return bool(started)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its group, and what it left in it."""
    process.terminate()
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)


def check_free(setup: Setup) -> None:
    """Raise `UnusableInput` where something listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", setup.port))
        except OSError:
            raise UnusableInput(
                f"Another program listens on port {setup.port}.", "Stop it, or use another port: --port 4201."
            ) from None


def _wait(setup: Setup, part: Part, process: subprocess.Popen[bytes] | None, is_ready: Callable[[Setup], bool]) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while not is_ready(setup):
        if process is not None and process.poll() is not None:
            raise SlowwaveError(f"The {part} did not start.", _end_of_log(setup, part))
        if time.monotonic() > end:
            raise SlowwaveError(f"The {part} was not ready after {STARTS_WITHIN_S:.0f} s.", _end_of_log(setup, part))
        time.sleep(LOOKS_EVERY_S)


def _end_of_log(setup: Setup, part: Part) -> str:
    path = log_file(setup, part)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join([f"The end of {path}:", *lines])


def stop_all(setup: Setup) -> list[Part]:
    """Stop what is up, the worker first, while the server still hears how its runs end; returns the stopped parts."""
    return [part for part in reversed(PARTS) if stop(setup, part)]


def stop(setup: Setup, part: Part) -> bool:
    """Stop a part and the runs that it left, and wait for its end; False where it is down. Raises where it stays."""
    found = running(setup, part)
    if found is None:
        return False
    pid = int(found["pid"])
    leads_group = False
    with suppress(ProcessLookupError):
        leads_group = os.getpgid(pid) == pid
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + ENDS_WITHIN_S
    while (running(setup, part) or {}).get("pid") == pid:
        if time.monotonic() > end:
            raise SlowwaveError(f"The {part}, process {pid}, does not stop.", f"End it by force: kill -9 {pid}")
        time.sleep(LOOKS_EVERY_S)
    if leads_group:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
    return True


# Becoming a part


def become(setup: Setup, place: Place, part: Part) -> NoReturn:
    """Turn this process into the server, or into the worker once the server has all deployments."""
    setup.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.environ.update(environment(setup, os.environ))
    os.environ.pop("PREFECT_PROFILE", None)
    _hold_lock(setup, part)
    if part == "server":
        check_free(setup)
        keep_password(setup, os.environ)
        _log_in(setup)
        command = ["server", "start", "--host", "127.0.0.1", "--port", str(setup.port)]
    else:
        _wait(setup, "server", None, is_healthy)
        _log_in(setup)
        put_on_server(setup, place)
        command = ["worker", "start", "--pool", POOL]
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts it in the background has them ignored
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "prefect", *command])


def _log_in(setup: Setup) -> None:
    os.environ.update(dict.fromkeys((SERVER_PASSWORD, CLIENT_PASSWORD), password(setup)))


def _hold_lock(setup: Setup, part: Part) -> None:
    """Take the lock for as long as this process lives, whatever it turns into."""
    file = _lock_file(setup, part).open("a+", encoding="utf-8")
    end = time.monotonic() + LOCKED_WITHIN_S  # who looks for it holds it for a moment
    while not _take(file):
        if time.monotonic() > end:
            raise Refused(f"A {part} is up on port {setup.port}.", f"Stop it: slowwave down --port {setup.port}")
        time.sleep(LOOKS_EVERY_S)
    file.truncate(0)
    since = datetime.now(UTC).isoformat()
    json.dump({"pid": os.getpid(), "since": since, "options": setup.options}, file)
    file.flush()
    os.set_inheritable(os.dup(file.fileno()), True)


def put_on_server(setup: Setup, place: Place) -> None:
    """Put work pool, automations and deployments on the server; a second time changes what has changed."""
    from tasks.runtime.registration import register

    for line in asyncio.run(register()):
        print(f"registered: {line}", flush=True)
    file = setup.folder / "deployments.yaml"
    text = yaml.safe_dump(deployments_of(setup, place), sort_keys=False, allow_unicode=True)
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
    done = subprocess.run(
        command, cwd=project_folder(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SlowwaveError("The deployments were not accepted.", done.stdout)
    _forget_old_watches(setup)


def _forget_old_watches(setup: Setup) -> None:
    wanted = {watch_name(number) for number in range(1, len(setup.watched) + 1)}
    for each in call(setup, "/deployments/filter", {"deployments": {"name": {"like_": WATCH}}}):
        is_ours = TAG in each["tags"] and re.fullmatch(rf"{WATCH}(-\d+)?", each["name"])
        if is_ours and each["name"] not in wanted and each["entrypoint"] == "flows/ingest.py:inbox":
            call(setup, f"/deployments/{each['id']}", method="DELETE")
