"""Two machines put many tenants of one object store to sleep; one of them is killed in the middle.

A machine is a process space, a host name, a home and a copy of the project of its own, under the same path on each as
in containers of one image, so that neither can see whether a process of the other one lives. It runs
`scripts/worker.sh`, as the containers of compose.yaml do. Server and object store are on loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from .figures import Absent, Figure, Options, stored_bytes
from .loopback_storage import BUCKET, LoopbackStorage, loopback_storage
from .tenants import NOW, PLACES, ROOT

COPIED = (
    *("slowwave", "storage", "prompts", "inference", "tasks", "flows", "recall", "apps", "scripts"),
    *("prefect.yaml", "automations.yaml", "pyproject.toml", "server.env"),
)
STORE = f"s3://{BUCKET}/machines"
MESSAGES = 4
"""Of each tenant."""
UNHEARD_S = 90
"""Seconds after which a silent run is taken for lost; automations.yaml has ten minutes. It is heard every 30 s."""
PATIENCE_S = 1800.0
SHORT = {"phases": ["consolidate", "decay"], "settings": {"width": 2, "sleep": {"gate": {"enabled": False}}}}
"""A night of a few hundred requests, as the emulator does one after the other; a whole one with its gate is 7,100."""
OWN_SPACE = ("unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
AS_MACHINE = 'hostname "$1" && mount --bind "$2" "$3" && cd "$3" && exec sh scripts/worker.sh'
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True, slots=True)
class Campaign:
    """So many tenants, a night for each, by runs of the fleet for `share` tenants each."""

    place: Path
    tenants: int = 40
    share: int = 4
    store: str = STORE
    asked: Mapping[str, Any] = field(default_factory=lambda: SHORT)

    @property
    def names(self) -> list[str]:
        """All tenants; those of one run have the beginning of their names in common."""
        return [f"part{at // self.share:03}-tenant{at:03}" for at in range(self.tenants)]

    @property
    def patterns(self) -> list[str]:
        """What each run of the fleet is asked for."""
        return sorted({f"{name.partition('-')[0]}-*" for name in self.names})


@dataclass
class Outcome:
    """What happened: seconds of each part, requests of each part, and how the runs and the tenants ended."""

    seconds: dict[str, float] = field(default_factory=dict)
    requests: dict[str, Counter[str]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    nights: pl.DataFrame = field(default_factory=pl.DataFrame)
    wrong: list[str] = field(default_factory=list)
    retried: int = 0
    bytes: int = 0
    server_rows: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str, storage: LoopbackStorage) -> Iterator[None]:
        """Count what a part takes."""
        storage.taken()
        began = time.monotonic()
        yield
        self.seconds[name], self.requests[name] = time.monotonic() - began, storage.taken()


def run(options: Options) -> Iterable[Figure]:
    """Forty tenants, or six."""
    campaign = Campaign(options.place, 6, 3) if options.is_quick else Campaign(options.place)
    outcome = run_campaign(campaign)
    for each in outcome.wrong:
        print("  WRONG:", each)
    yield from figures(campaign, outcome)


def run_campaign(campaign: Campaign) -> Outcome:
    """All of it. Raises `Absent` where machines or the object store cannot be had here."""
    if subprocess.run([*_space(), "true"], capture_output=True, check=False).returncode:
        raise Absent("unshare(1) may not make a process space here")
    outcome = Outcome()
    try:
        with ExitStack() as opened:
            storage = opened.enter_context(loopback_storage())
            with outcome.part("seed", storage):
                said = seed(campaign, storage)
            house = opened.enter_context(House.up(campaign.place, storage))
            with outcome.part("nights", storage):
                work(campaign, house, outcome)
            house.kill_all()
            with outcome.part("check", storage):
                judge(campaign, said, outcome)
    except ImportError as error:
        raise Absent(f"no object store: {error}") from error
    return outcome


# Tenants


def seed(campaign: Campaign, storage: LoopbackStorage) -> set[str]:
    """Let a tenant say something, in a folder, and bring copies of it to the object store; the ids of its messages."""
    said = talk(campaign.place, campaign.place / "seed", "first")
    for name in campaign.names:
        storage.put_folder(campaign.place / "seed" / "first", f"{STORE.removeprefix(f's3://{BUCKET}/')}/{name}")
    return said


def talk(place: Path, store: Path, namespace: str) -> set[str]:
    """Let a tenant say something; the ids of its messages."""
    import asyncio

    from flows.ingest import ingest
    from slowwave.common.settings import IngestSettings

    settings = IngestSettings.model_validate({"llm": {"model": "quotes"}})
    lines = [_line(turn) for turn in range(MESSAGES)]
    path = place / "said.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    asyncio.run(ingest([str(path)], namespace=namespace, store=str(store), settings=settings, now=NOW))
    return {str(line["message_id"]) for line in lines}


def _line(turn: int) -> dict[str, Any]:
    place = PLACES[turn % len(PLACES)]
    texts = (
        f"I live in {place}.", f"I work at Ferrywise{turn} as a welder.", f"My sister Marta lives in {place}.",
        f"I moved to {place} and I work at Ferrywise{turn}.",
    )  # fmt: skip
    at = NOW - timedelta(days=30, minutes=-turn)
    return {"conversation_id": "talk", "message_id": f"m{turn}", "role": "user", "speaker": "Ines",
            "content": texts[turn % len(texts)], "occurred_at": at.isoformat()}  # fmt: skip


# Server and machines


@dataclass
class House:
    """A Prefect server, and the machines that work for it."""

    place: Path
    url: str
    environ: Mapping[str, str]
    machines: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def up(cls, place: Path, storage: LoopbackStorage) -> Iterator[House]:
        """Inside, the server answers; afterwards server and machines are gone."""
        from apps.local_server.setup import Setup, environment

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        few = dict.fromkeys(("POLARS_MAX_THREADS", "LANCE_CPU_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
        kept = {
            key: os.environ[key]
            for key in ("PATH", "LANG", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
            if key in os.environ
        }
        given = {**kept, **few, **storage.environ, "HOME": str(place / "server"),
                 "PREFECT_HOME": str(place / "server"), "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}  # fmt: skip
        (place / "server").mkdir()
        house = cls(place, f"http://127.0.0.1:{port}/api", environment(Setup(STORE, port=port), given))
        command = ["nice", sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
        with (place / "server.log").open("wb") as log:
            server = subprocess.Popen(
                command, cwd=ROOT, env=dict(house.environ), stdout=log, stderr=log, start_new_session=True
            )
        try:
            house.until(lambda: house.is_well(), "the server answers")
            yield house
        finally:
            house.kill_all()
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def start(self, name: str) -> None:
        """A machine: one worker, one run at a time."""
        own, shared = self.place / name, self.place / "app"
        for each in COPIED:
            (shutil.copytree if (ROOT / each).is_dir() else shutil.copy)(ROOT / each, _under(own / "app", each))
        shared.mkdir(exist_ok=True)
        (own / "tmp").mkdir()
        environ = {
            **self.environ, "HOME": str(own), "PREFECT_HOME": str(own / "prefect"), "TMPDIR": str(own / "tmp"),
            "PYTHONPATH": str(shared), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SLOWWAVE_WORKER_RUNS": "1", "SLOWWAVE_STORE": STORE,
        }  # fmt: skip
        command = ["nice", *_space(), "sh", "-c", AS_MACHINE, "sh", name, str(own / "app"), str(shared)]
        with (own / "log").open("wb") as log:
            self.machines[name] = subprocess.Popen(command, env=environ, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """With -9, and all that runs on it."""
        machine = self.machines.pop(name)
        machine.kill()
        machine.wait()

    def kill_all(self) -> None:
        """The end."""
        for name in list(self.machines):
            self.kill(name)

    def log(self, name: str) -> str:
        """What a machine printed."""
        return (self.place / name / "log").read_text("utf-8", "replace")

    def is_working(self, name: str) -> bool:
        """Whether the worker of a machine has begun to look for runs."""
        return "started!" in self.log(name)

    def is_well(self) -> bool:
        """Whether the server answers."""
        try:
            return bool(self.ask("GET", "/health"))
        except (OSError, urllib.error.URLError):
            return False

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """What the server's API answers; asked again for a while where it has no time, as SQLite makes it."""
        content = json.dumps(body).encode() if method != "GET" else None
        asked = urllib.request.Request(self.url + path, content, {"Content-Type": "application/json"}, method=method)
        for wait_s in (1, 2, 4, 8, 16, 0):
            try:
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code < 500 or not wait_s:
                    raise
                time.sleep(wait_s)
        return None

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Wait for something; raises TimeoutError, and says where the logs are, where it never comes."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if found := holds():
                return found
            if dead := [name for name, machine in self.machines.items() if machine.poll() is not None]:
                raise RuntimeError(f"{dead[0]} ended by itself; see {self.place / dead[0] / 'log'}")
            time.sleep(1)
        raise TimeoutError(f"It never came that {what}; see the logs in {self.place}.")

    def runs(self) -> list[dict[str, Any]]:
        """The runs of the fleet, in the order in which they began."""
        found: list[dict[str, Any]] = self.ask("POST", "/flow_runs/filter", flows={"name": {"any_": ["fleet"]}})
        return sorted(found, key=lambda each: each["start_time"] or "9")

    def nights(self, run: str) -> Counter[str]:
        """How many nights of a run are in which state."""
        found = self.ask("POST", "/task_runs/filter", flow_runs={"id": {"any_": [run]}})
        return Counter(each["state_type"] for each in found if each["name"].startswith("night of a namespace"))

    def operate(self, *words: str) -> None:
        """What an operator types."""
        command = [sys.executable, "-m", "prefect", "--no-prompt", *words]
        subprocess.run(command, cwd=self.place, env=dict(self.environ), check=True, capture_output=True)


def _under(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _space() -> Sequence[str]:
    return OWN_SPACE if os.geteuid() == 0 else (OWN_SPACE[0], "--map-root-user", *OWN_SPACE[1:])


# What is done


def work(campaign: Campaign, house: House, outcome: Outcome) -> None:
    """Ask for all nights, kill a machine in the middle of one, and run again what was lost."""
    house.start("machine-1")
    found = house.until(lambda: _deployment(house), "the fleet is deployed")
    house.until(lambda: house.is_working("machine-1"), "the first machine waits for runs")
    house.start("machine-2")
    house.until(lambda: house.is_working("machine-2"), "both machines wait for runs")
    house.until(lambda: _hurry(house), "the automation is there")  # each worker that starts puts it as the file says
    began = time.monotonic()
    for pattern in campaign.patterns:
        parameters = {**campaign.asked, "namespace": pattern}
        house.ask(
            "POST", f"/deployments/{found}/create_flow_run", parameters=parameters, idempotency_key=pattern
        )  # asked twice it is made once
    house.until(lambda: _in_the_middle(house, "machine-1"), "the first machine is in the middle of its nights")
    house.kill("machine-1")
    killed = time.monotonic()
    lost = house.until(lambda: [run for run in house.runs() if run["state_type"] == "CRASHED"], "the loss is noticed")
    outcome.seconds["until the loss was noticed"] = time.monotonic() - killed
    for run in lost:
        house.operate("flow-run", "retry", run["id"])
        outcome.retried += 1
    house.until(lambda: all(run["state_type"] in ENDED for run in house.runs()), "all runs have ended")
    outcome.seconds["all nights, with the wait for the lost ones"] = time.monotonic() - began
    outcome.runs = house.runs()
    outcome.server_rows = {kind: house.ask("POST", f"/{kind}/count") for kind in ("flow_runs", "task_runs")}
    outcome.wrong += [
        f"{run['name']} ended {run['state_name']}" for run in outcome.runs if run["state_type"] != "COMPLETED"
    ]


def _deployment(house: House) -> str | None:
    try:
        return str(house.ask("GET", "/deployments/name/fleet/fleet")["id"])
    except urllib.error.HTTPError:
        return None


def _hurry(house: House) -> bool:
    """Let the automation that looks for lost runs take a minute and a half for what takes it ten."""
    automations = house.ask("POST", "/automations/filter")
    for each in automations:
        if each["name"] == "slowwave a run is lost":
            each["trigger"]["within"] = UNHEARD_S
            kept = ("name", "description", "enabled", "trigger", "actions", "actions_on_trigger", "actions_on_resolve")
            house.ask("PUT", f"/automations/{each['id']}", **{key: each[key] for key in kept})
            return True
    return False


def _in_the_middle(house: House, machine: str) -> bool:
    """Whether a run on this machine has ended nights and others under way, while another machine works, too."""
    under_way = [run for run in house.runs() if run["state_type"] == "RUNNING"]
    here = [run for run in under_way if f"Beginning flow run '{run['name']}'" in house.log(machine)]
    nights = [house.nights(run["id"]) for run in here]
    return len(under_way) > len(here) and any(night["COMPLETED"] and night["RUNNING"] for night in nights)


# What came of it


def judge(campaign: Campaign, said: set[str], outcome: Outcome) -> None:
    """Look at every tenant: sound, what it said still there once, read once, one night, and no run left open."""
    from storage.connection import namespaces
    from storage.doctor import examine
    from storage.store import Store

    if strays := set(namespaces(campaign.store)) ^ set(campaign.names):
        outcome.wrong.append(f"There are namespaces too many or too few: {sorted(strays)}.")
    frames = []
    for name in campaign.names:
        store = Store.attach(campaign.store, name)
        outcome.wrong += [f"{name}: {finding}" for finding in examine(store)]
        snapshot = store.snapshot()
        there = snapshot.frame("messages", columns=["message_id"])["message_id"].to_list()
        if Counter(there) != Counter(said):
            outcome.wrong.append(f"{name}: {len(there)} messages in place of {len(said)}")
        runs = snapshot.frame("runs", columns=["id", "flow", "state", "owner", "parent_id", "started_at", "ended_at"])
        ended = Counter(runs.filter(pl.col("state") == "completed")["flow"])
        outcome.wrong += [f"{name}: {ended[flow]} times {flow}" for flow in ("ingest", "sleep") if ended[flow] != 1]
        outcome.wrong += [
            f"{name}: {row['id']} is {row['state']} for ever"
            for row in runs.filter(pl.col("state") == "running").iter_rows(named=True)
        ]
        frames.append(runs.filter(pl.col("flow") == "sleep").with_columns(tenant=pl.lit(name)))
        outcome.bytes += stored_bytes(store)
    outcome.nights = pl.concat(frames).with_columns(machine=pl.col("owner").str.extract(r"\|(machine-\d)"))


def figures(campaign: Campaign, outcome: Outcome) -> Iterator[Figure]:
    """What was measured."""

    def figure(name: str, value: float, unit: str = "", bar: float | None = None, note: str = "") -> Figure:
        return Figure("machines", name, value, unit, bar, "lower", note)

    asked = sum(count for kind, count in outcome.requests["nights"].items() if " " not in kind)
    states = outcome.nights["state"].value_counts().rows()
    done = outcome.nights.filter(pl.col("state") == "completed")
    took = (done["ended_at"] - done["started_at"]).dt.total_milliseconds() / 1000
    yield figure("wrong", len(outcome.wrong), "findings", 0, f"{campaign.tenants} tenants, doctor and counts")
    yield figure("runs of the fleet", len(outcome.runs), note=f"{outcome.retried} run again after the kill")
    yield figure("nights", len(outcome.nights), note=str(dict(states)))
    for machine, count in sorted(done["machine"].value_counts().rows()):
        yield figure(f"nights of {machine}", count)
    yield figure("a night, median", float(took.median() or 0), "s")  # type: ignore[arg-type]
    yield figure("requests", asked, note=str(dict(outcome.requests["nights"])))
    yield figure("requests a night", asked / max(len(done), 1))
    for kind, count in outcome.server_rows.items():
        yield figure(f"{kind.replace('_', ' ')} in the server's database", count)
    yield figure("stored", outcome.bytes / 1e6, "MB", note=f"{outcome.bytes / campaign.tenants / 1e3:.0f} kB a tenant")
    for name, seconds in outcome.seconds.items():
        yield figure(name, seconds, "s")
