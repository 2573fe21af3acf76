"""A Prefect server, the deployments and a worker on this machine, until Ctrl-C or `make down`.

SLOWWAVE_PORT: where the server listens (4200). SLOWWAVE_DATABASE_URL: its database, for example
postgresql://user:password@host/prefect; without one, SQLite in PREFECT_HOME. server.env: the rest.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
STARTS_WITHIN_S, ENDS_WITHIN_S = 180, 60
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # the last when the terminal is closed
DATABASE = "SLOWWAVE_DATABASE_URL"
DRIVERS = {"postgresql://": "postgresql+asyncpg://", "postgres://": "postgresql+asyncpg://"}


class Down(Exception):
    """Somebody wants the end."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What server, worker and runs see: server.env, then what is given, then the address and the database."""
    lines = (ROOT / "server.env").read_text(encoding="utf-8").splitlines()
    shared = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    port = given.get("SLOWWAVE_PORT", "4200")
    own = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_SERVER_API_PORT": port}
    if url := given.get(DATABASE, ""):
        driver = next((start for start in DRIVERS if url.startswith(start)), "")
        own["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = DRIVERS.get(driver, "") + url.removeprefix(driver)
    return {**shared, **given, **own}


def pid_file(port: str) -> Path:
    """Whoever is up on a port holds a lock on this file, and its process id is in it."""
    return BIN.parent / f"up-{port}.pid"


@contextmanager
def alone(port: str) -> Iterator[None]:
    """Hold the lock of the port, or stop with a sentence: it goes with the process, however that ends."""
    with pid_file(port).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            sys.exit(f"It is up already on port {port} (process {file.read().strip()}). `make down` stops it.")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
        file.truncate(0)


def down(port: str) -> int:
    """Stop what is up on the port and wait for its end; the exit code."""
    path = pid_file(port)
    if not path.exists():
        print(f"Nothing is up on port {port}.")
        return 0
    with path.open("r+") as file:
        end = time.monotonic() + 2 * ENDS_WITHIN_S
        process = 0
        while time.monotonic() < end:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                print(f"Stopped what was up on port {port}." if process else f"Nothing is up on port {port}.")
                return 0
            file.seek(0)
            if not process and (pid := file.read().strip()):
                process = int(pid)
                os.kill(process, signal.SIGTERM)
            time.sleep(0.2)
    print(f"Process {process} does not stop.")
    return 1


def up(given: Mapping[str, str]) -> int:
    """Start everything, and stay until it is stopped or one part ends; the exit code."""
    env = environment(given)
    url, port = env["PREFECT_API_URL"], env["PREFECT_SERVER_API_PORT"]
    parts: list[subprocess.Popen[bytes]] = []
    with alone(port):
        for sign in STOPS:
            if sign != signal.SIGHUP or signal.getsignal(sign) != signal.SIG_IGN:  # which nohup asks for
                signal.signal(sign, _stop)
        try:
            _check_free(port)
            parts.append(_start(env, "server", "start", "--port", port))
            _wait(url, parts[0])
            _do(env, sys.executable, ROOT / "scripts" / "register.py", "--only-machine")
            _do(env, BIN / "prefect", "--no-prompt", "deploy", "--all", is_quiet=True)
            parts.append(_start(env, "worker", "start", "--pool", "slowwave"))
            print(f"The deployments are at http://127.0.0.1:{port}/deployments", flush=True)
            while all(part.poll() is None for part in parts):
                time.sleep(0.5)
            return 1
        except Down:
            return 0
        finally:
            for sign in STOPS:
                signal.signal(sign, signal.SIG_IGN)
            for part in reversed(parts):  # the worker first, while the server still hears of the runs' end
                _end(part)


def _do(env: Mapping[str, str], *command: str | Path, is_quiet: bool = False) -> None:
    """Run a command to its end; if it fails, stop with its output."""
    stream = subprocess.PIPE if is_quiet else None
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=stream, stderr=stream, text=True, start_new_session=True)
    if done.returncode:
        print(done.stdout or "", done.stderr or "", sep="", file=sys.stderr)
        sys.exit(f"{' '.join(str(part) for part in command[1:])} failed; see above.")


def _start(env: Mapping[str, str], *command: str) -> subprocess.Popen[bytes]:
    """In a group of its own: Ctrl-C reaches this process alone, which ends the parts in order."""
    return subprocess.Popen([BIN / "prefect", *command], cwd=ROOT, env=dict(env), start_new_session=True)


def _check_free(port: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(port)))
        except OSError:
            sys.exit(f"Something else listens on port {port}; SLOWWAVE_PORT names another.")


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end and server.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2):
            return
        time.sleep(0.5)
    sys.exit("The server did not start; see above.")


def _end(part: subprocess.Popen[bytes]) -> None:
    part.terminate()
    try:
        part.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        part.kill()
        part.wait()
    with suppress(ProcessLookupError, PermissionError):  # runs that it left
        os.killpg(part.pid, signal.SIGTERM)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Down


if __name__ == "__main__":
    port = os.environ.get("SLOWWAVE_PORT", "4200")
    sys.exit(down(port) if sys.argv[1:] == ["--down"] else up(os.environ))
