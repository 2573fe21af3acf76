"""Several processes write several namespaces at once, are killed and stalled: nothing is lost, doubled or mixed up."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from .figures import Figure, Options

NAMES = ("a", "a.b", "a-b", "A")
"""Namespaces whose names are easily taken for one another."""
PROCESSES = 4
LEASE_S = 2.0
PATIENCE_S = 300.0
PLACES = ("Lisbon", "Porto", "Coimbra", "Braga", "Faro", "Evora", "Aveiro", "Sintra")
NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[1]

Deed = Callable[["Tenant", random.Random], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One namespace as one writer sees it; `who` and `number` name what the writer says there."""

    store: str
    namespace: str
    who: str
    number: int
    folder: Path

    @property
    def mark(self) -> str:
        """A word that stands in every text of the namespace and in no text of another."""
        return mark_of(self.namespace)


def mark_of(namespace: str) -> str:
    """The word of a namespace."""
    return f"Mark{namespace.encode().hex()}end"


def ingest_some(tenant: Tenant, chance: random.Random) -> dict[str, Any]:
    """Ingest a little conversation."""
    from flows.ingest import ingest
    from slowwave.common.settings import IngestSettings

    name = f"{tenant.who}-{tenant.number}"
    lines = [_line(tenant, name, turn, chance) for turn in range(chance.randint(1, 3))]
    path = tenant.folder / f"{tenant.mark}-{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    settings = IngestSettings.model_validate({"llm": {"model": "quotes"}, "retention": _retention()})
    done: dict[str, Any] = asyncio.run(
        ingest([str(path)], namespace=tenant.namespace, store=tenant.store, settings=settings, now=NOW)
    )
    return {"run": done["run"], "messages": [line["message_id"] for line in lines]}


def _line(tenant: Tenant, name: str, turn: int, chance: random.Random) -> dict[str, Any]:
    speaker = f"{tenant.mark}{chance.choice('XYZ')}"
    said = f"I live in {chance.choice(PLACES)} with the {tenant.mark} family number {tenant.number}."
    at = NOW - timedelta(days=30, minutes=-turn)
    return {"conversation_id": f"{tenant.mark}-{name}", "message_id": f"{tenant.mark}-{name}-{turn}", "role": "user",
            "speaker": speaker, "content": said, "occurred_at": at.isoformat()}  # fmt: skip


def observe_some(tenant: Tenant, chance: random.Random) -> dict[str, Any]:
    """What the tool `add_observations` of the MCP server does."""
    from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings
    from tasks.people.observations import observe
    from tasks.runtime.runs import new_run

    run = new_run("observe", tenant.store, tenant.namespace, DEFAULT_EMBEDDER, NOW, retention())
    text = f"The {tenant.mark} ship {chance.choice(PLACES)} sails on day {tenant.number} for {tenant.who}."
    settings = IngestSettings.model_validate({"llm": {"model": "quotes"}})
    observe(run, f"{tenant.mark}Fleet", [text], settings, entity_type="concept", create=True)
    return {"run": run.id}


def consolidate_all(tenant: Tenant, _: random.Random) -> dict[str, Any]:
    """The flow `consolidate`."""
    from flows.maintenance import consolidate
    from slowwave.common.settings import ConsolidateSettings

    chosen = ConsolidateSettings.model_validate({"llm": {"model": "quotes"}, "retention": _retention()})
    return _flow(consolidate, tenant, chosen)


def sweep(tenant: Tenant, _: random.Random) -> dict[str, Any]:
    """The flow `steward`."""
    from flows.maintenance import steward
    from slowwave.common.settings import StewardSettings

    chosen = StewardSettings.model_validate({"llm": {"model": "quotes"}, "retention": _retention()})
    return _flow(steward, tenant, chosen)


def sleep_once(tenant: Tenant, _: random.Random) -> dict[str, Any]:
    """The flow `sleep`."""
    from flows.nights import sleep
    from slowwave.common.settings import SleepSettings

    chosen = SleepSettings.model_validate({"retention": _retention()})  # without a key the rules are its model
    return _flow(sleep, tenant, chosen)


def _flow(flow: Callable[..., Any], tenant: Tenant, settings: object) -> dict[str, Any]:
    done: dict[str, Any] = asyncio.run(flow(namespace=tenant.namespace, store=tenant.store, settings=settings, now=NOW))
    return {"run": done["run"]}


def undo_one(tenant: Tenant, chance: random.Random) -> dict[str, Any]:
    """Take back one of the last runs, whosever it is; most of the time something stands in the way."""
    from storage.store import Store
    from storage.undo import undo

    store = Store.open(tenant.store, tenant.namespace, retention=retention())
    runs = store.snapshot().frame("runs", "state = 'completed'", ["id", "started_at"]).sort("started_at").tail(3)
    if runs.is_empty():
        return {}
    taken = chance.choice(runs["id"].to_list())
    undo(store, taken, f"undo-{tenant.who}-{tenant.number}", NOW, decided_by="rule")
    return {"run": f"undo-{tenant.who}-{tenant.number}", "undone": taken}


DEEDS: Mapping[Deed, int] = {
    ingest_some: 8, observe_some: 8, consolidate_all: 2, sweep: 2, sleep_once: 1, undo_one: 3,
}  # fmt: skip
"""What a writer does, and how often."""


def retention() -> Any:
    """A short lease and much patience."""
    from slowwave.common.settings import RetentionSettings

    return RetentionSettings.model_validate(_retention())


def _retention() -> dict[str, float]:
    return {"lease_s": LEASE_S, "lease_wait_s": PATIENCE_S}


def work(
    store: str, who: str, seed: int, folder: Path, names: Sequence[str] = NAMES, deeds: Mapping[Deed, int] = DEEDS,
    limit: int = sys.maxsize,
) -> None:  # fmt: skip
    """Do one thing after the other in one namespace after the other; tell of each in a file, when it is done."""
    from slowwave.common.errors import Fenced, SlowwaveError

    chance = random.Random(seed)
    with (folder / f"told-{who}.jsonl").open("a", encoding="utf-8") as told:
        for number in range(limit):
            (deed,) = chance.choices(list(deeds), list(deeds.values()))
            tenant = Tenant(store, chance.choice(names), who, number, folder)
            what: dict[str, Any] = {"deed": deed.__name__, "namespace": tenant.namespace}
            try:
                what |= deed(tenant, chance)
            except SlowwaveError as error:
                what |= {"refused": type(error).__name__, "fenced": isinstance(error, Fenced), "why": str(error)[:200]}
            except Exception as error:
                what |= {"failed": repr(error)[:2000]}
            told.write(json.dumps(what) + "\n")
            told.flush()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the writers left: `told` is what they say they did, `wrong` what should not be."""

    told: pl.DataFrame
    wrong: list[str]
    waits: list[float]
    commits: int
    rows: int


def judge(store: str, folder: Path, names: Sequence[str] = NAMES) -> Verdict:
    """Look at every namespace: the doctor, double keys, words of others, what was acknowledged; and who waited."""
    from storage.connection import namespaces
    from storage.doctor import examine
    from storage.store import Store

    told = _told(folder)
    wrong = [f"{row['deed']} in {row['namespace']}: {row['failed']}" for row in told if row.get("failed")]
    waits: list[float] = []
    commits = rows = 0
    for name in [n for n in namespaces(store) if n in names]:
        opened = Store.open(store, name, retention=retention())
        with opened.commit("judge", "test") as tx:  # puts back what a dead writer left
            tx.keep_recovered()
        wrong += [f"{name}: {finding}" for finding in examine(opened)]
        counted, strange = _strange(opened, [other for other in names if other != name])
        wrong += [f"{name}: {what}" for what in strange]
        wrong += [f"{name}: {what}" for what in _lost(opened, [row for row in told if row["namespace"] == name])]
        waits += opened.commits()["waited_s"].drop_nulls().to_list()
        commits, rows = commits + opened.head.sequence, rows + counted
    if strays := set(namespaces(store)) - set(names):
        wrong.append(f"There are namespaces that nobody made: {sorted(strays)}.")
    return Verdict(pl.DataFrame(told, infer_schema_length=None), wrong, waits, commits, rows)


def _told(folder: Path) -> list[dict[str, Any]]:
    lines = (line for path in sorted(folder.glob("told-*.jsonl")) for line in path.read_text("utf-8").splitlines())
    told = []
    for line in lines:
        with suppress(json.JSONDecodeError):  # a writer was killed while it told
            told.append(json.loads(line))
    return told


def _strange(store: Any, others: Iterable[str]) -> tuple[int, list[str]]:
    """How many rows there are, and what is double or speaks of another tenant."""
    from storage.tables import Role, tables_of

    snapshot, found, counted = store.snapshot(), [], 0
    marks = [mark_of(other) for other in others]
    for name in tables_of(Role.STATE, Role.HISTORY):
        frame = pl.DataFrame(pl.from_arrow(snapshot.handle(name).to_arrow())).drop("vector", strict=False)
        counted += len(frame)
        if double := len(frame) - frame["id"].n_unique():
            found.append(f"{double} keys of {name} are double")
        text = frame.write_json()
        found += [f"{name} speaks of {mark}" for mark in marks if mark in text]
    return counted, found


def _lost(store: Any, told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Messages of runs that were acknowledged and are not undone."""
    snapshot = store.snapshot()
    runs = snapshot.frame("runs", columns=["id", "state"])
    states = dict(runs.iter_rows())
    there = set(snapshot.frame("messages", columns=["message_id"])["message_id"])
    for row in told:
        if (run := row.get("run")) and row["deed"] != "undo_one":
            if run not in states:
                yield f"run {run} was acknowledged and is not there"
            elif states[run] == "completed" and not there.issuperset(row.get("messages") or []):
                yield f"run {run} lost messages"


@dataclass(frozen=True, slots=True)
class Campaign:
    """So many processes at these namespaces for so many minutes, one of which is harmed every `pause_s` seconds."""

    title: str
    store: str
    folder: Path
    minutes: float
    processes: int = PROCESSES
    names: tuple[str, ...] = NAMES
    pause_s: tuple[float, float] = (2.0, 8.0)


def run(options: Options) -> Iterable[Figure]:
    """In a folder; and for as long on object storage, where the emulator is installed."""
    minutes = min(options.minutes, 0.5) if options.is_quick else options.minutes
    here = Campaign("tenants", str(options.place / "store"), options.place / "told", minutes)
    yield from _figures_of(here)
    try:
        from .loopback_storage import BUCKET, loopback_storage

        with loopback_storage():
            there = options.place / "told of object storage"
            place = f"s3://{BUCKET}/tenants"
            yield from _figures_of(Campaign("tenants on S3", place, there, minutes, 2, NAMES[:2], (10.0, 40.0)))
    except ImportError as error:
        print(f"  object storage skipped: {error}")


def _figures_of(campaign: Campaign) -> Iterable[Figure]:
    campaign.folder.mkdir()
    harmed = _let_work(campaign)
    verdict = judge(campaign.store, campaign.folder, campaign.names)
    for each in verdict.wrong:
        print("  WRONG:", each)
    yield from figures(verdict, harmed, campaign)


def figures(verdict: Verdict, harmed: Mapping[str, int], campaign: Campaign) -> Iterable[Figure]:
    """What came of it."""
    told = verdict.told
    refused = told["refused"].drop_nulls() if "refused" in told.columns else pl.Series([], dtype=pl.String)
    waits = pl.Series(verdict.waits or [0.0])
    deeds = dict(Counter(told["deed"].to_list())) if "deed" in told.columns else {}
    note = f"{campaign.minutes:g} min, {campaign.processes} processes, {len(campaign.names)} namespaces, {deeds}"

    def figure(name: str, value: float, unit: str, bar: float | None = None, note: str = "") -> Figure:
        return Figure(campaign.title, name, value, unit, bar, "lower", note)

    yield figure("wrong", len(verdict.wrong), "findings", 0, note)
    yield figure("killed", harmed["killed"], "processes")
    yield figure("stalled", harmed["stalled"], "processes", note=f"for more than a lease of {LEASE_S:g} s")
    yield figure("done", len(told) - len(refused), "runs")
    yield figure("refused", len(refused), "runs", note=str(dict(Counter(refused.to_list()))))
    yield figure("commits", verdict.commits, "", note=f"{verdict.rows:,} rows at the end")
    yield figure("waited for the lease, median", float(waits.median() or 0.0), "s")  # type: ignore[arg-type]
    yield figure("waited for the lease, 95th percentile", float(waits.quantile(0.95) or 0.0), "s")
    yield figure("waited for the lease, longest", float(waits.max() or 0.0), "s")  # type: ignore[arg-type]


def _let_work(campaign: Campaign) -> Counter[str]:
    """Start the writers, harm one now and then, start another in the place of the dead; stop all at the end."""
    chance, harmed = random.Random(7), Counter({"killed": 0, "stalled": 0})
    end = time.monotonic() + campaign.minutes * 60
    writers = [_started(campaign, number, chance) for number in range(campaign.processes)]
    try:
        while time.monotonic() < end:
            time.sleep(chance.uniform(*campaign.pause_s))
            busy = [place for place, writer in enumerate(writers) if _has_told(campaign.folder, writer)]
            if not busy:
                continue  # nobody has done anything since it was started
            place = chance.choice(busy)
            if chance.random() < 0.4:
                _stall(writers[place], LEASE_S * 1.5)
                harmed["stalled"] += 1
            else:
                _kill(writers[place])
                harmed["killed"] += 1
                writers[place] = _started(campaign, place, chance)
            if dead := [w for w in writers if w.poll() not in (None, -signal.SIGKILL)]:
                raise RuntimeError(f"A writer ended by itself with {dead[0].returncode}.")
    finally:
        for writer in writers:
            _kill(writer)
    return harmed


def _has_told(folder: Path, writer: subprocess.Popen[bytes]) -> bool:
    path = folder / f"told-{_who(writer)}.jsonl"
    return path.exists() and path.stat().st_size > 0


def _who(writer: subprocess.Popen[bytes]) -> str:
    return str(list(writer.args)[6])  # type: ignore[arg-type]


def _stall(writer: subprocess.Popen[bytes], seconds: float) -> None:
    writer.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    writer.send_signal(signal.SIGCONT)


def _kill(writer: subprocess.Popen[bytes]) -> None:
    writer.kill()
    writer.wait()


def _started(campaign: Campaign, place: int, chance: random.Random) -> subprocess.Popen[bytes]:
    seed = chance.randrange(1 << 30)
    code = "import sys; from pathlib import Path; from bench.tenants import work; "
    code += "work(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])"
    asked = [campaign.store, f"w{place}s{seed}", str(seed), str(campaign.folder), *campaign.names]
    keyless = ("ANTHROPIC_API_KEY", "PREFECT_API_URL")
    environ = {name: value for name, value in os.environ.items() if name not in keyless}
    command = [sys.executable, "-W", "ignore", "-c", code, *asked]
    return subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)
