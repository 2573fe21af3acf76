"""Builders that all tests share."""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from socket import socket
from threading import Lock
from typing import TYPE_CHECKING

import polars as pl
import prefect  # noqa: F401 (flows are Prefect's where it is imported before them, as in its own runs)
import pytest
import relations
from hypothesis import Phase, settings
from ledger_watch import watched
from messages_api import Behaviour, MessagesApi

import inference.language
from storage import store as making
from storage.connection import connect, is_remote
from storage.store import Store, make_tables

if TYPE_CHECKING:
    from lancedb.db import DBConnection

    from scripts.browser import Browser

# Prefect and the providers must not see the settings of whoever runs the tests; Prefect reads its own at import.
# Two workers on two cores: more threads would only wait for each other. Set before anything reads it.
for _threads in ("POLARS_MAX_THREADS", "LANCE_CPU_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
# A store is hundreds of small files: where the machine has room for them in memory, they lie there.
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30  # bytes
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands that tests start would compile the project each time
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="slowwave-prefect-")
atexit.register(shutil.rmtree, os.environ["PREFECT_HOME"], ignore_errors=True)
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
for _name in ("PREFECT_API_URL", "PREFECT_PROFILE", "ANTHROPIC_API_KEY", "SLOWWAVE_STORE", "SLOWWAVE_CONFIG"):
    os.environ.pop(_name, None)
os.environ["SLOWWAVE_RETRIES"] = (
    "off"  # what fails on purpose would be tried again for a minute; test_retrying has it on
)


# The laws look at the same examples in every run: at ten in `make test`, at a hundred in `make proofs`, or at fewer
# where a test says that each takes long. HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("suite", derandomize=True, deadline=None, max_examples=10)
settings.register_profile("proof", settings.get_profile("suite"), max_examples=100)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("mutants", settings.get_profile("proof"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

ALLOCATIONS = 50_000  # between two looks for garbage; Python's own 700 are for small programs
ON_A_SERVER = (pytest.mark.engine, pytest.mark.proof, pytest.mark.xdist_group("engine"))
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TINY = ("test/tiny", 4)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Tests that share something of their file go to one worker, so that it is made once.

    Those that start a Prefect server are proofs: it takes ten seconds.
    """
    for item in items:
        if "engine" in item.fixturenames:
            for mark in ON_A_SERVER:
                item.add_marker(mark)
        scopes = {made[-1].scope for made in item._fixtureinfo.name2fixturedefs.values()}
        if "module" in scopes and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """What was imported stays: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)


@pytest.fixture(autouse=True, scope="session")
def copied_namespaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A namespace on disk is made once for each embedding; from then on whoever makes one gets a copy.

    Making its 45 tables and their indexes takes six times as long as copying them, and nearly every test makes one.
    """
    root = tmp_path_factory.mktemp("namespaces")
    templates: dict[tuple[str, int], Path] = {}
    lock = Lock()

    def copied(db: DBConnection, model: str, dims: int) -> None:
        if is_remote(str(db.uri)):
            return make_tables(db, model, dims)
        with lock:
            if (model, dims) not in templates:
                place = Path(tempfile.mkdtemp(dir=root))  # of its own: one that fails halfway stands in nobody's way
                make_tables(connect(str(place), "template"), model, dims)
                Store.open(str(place), "template")  # makes the indexes
                templates[model, dims] = place / "template"
        shutil.copytree(templates[model, dims], str(db.uri), dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(making, "make_tables", copied)
        yield


@pytest.fixture
def making_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside, namespaces are made table by table, as they are everywhere but in tests."""
    monkeypatch.setattr(making, "make_tables", make_tables)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store directory with one empty namespace of four-dimensional vectors, to be copied and never written to."""
    uri = tmp_path_factory.mktemp("template") / "store"
    made = Store.create(str(uri), "default", TINY).head.sequence
    yield uri
    assert Store.open(str(uri)).head.sequence == made, "A test wrote into the template: take `new_store`."


@pytest.fixture
def new_store(empty_store: Path, tmp_path: Path) -> Callable[[], Store]:
    """Make fresh stores, cheaply."""
    made = iter(range(10_000))

    def make() -> Store:
        uri = tmp_path / f"store{next(made)}"
        shutil.copytree(empty_store, uri)
        return Store.open(str(uri), "default", embedding=TINY)

    return make


@pytest.fixture(scope="session")
def empty_memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without a fact, with the vectors of the bundled embedder, whose learning period is over; to be copied."""
    from inference.embedding import open_embedder

    seat, uri = open_embedder(), tmp_path_factory.mktemp("empty") / "store"
    event = {"fact_id": "elsewhere", "cosine": 0.6, "rank": 1, "query_hash": "q", "at": EPOCH}
    events = pl.DataFrame([{"id": f"elsewhere-{n}", **event} for n in range(50)])
    Store.create(str(uri), "default", (seat.name, seat.dims)).append("retrieval_events", events, EPOCH)
    return uri


@pytest.fixture
def keep(empty_memory: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make stores that hold these rows, by table."""
    from stores import keeper

    return keeper(empty_memory, tmp_path)


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A store that has read all bundled examples without a key, and the summary of that run; only to be looked at.

    The first worker that wants it makes it, the others wait for it.
    """
    from talk import EXAMPLES, READ, learn

    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    place = root / "learned"
    uri, summary = place / "memory", place / "summary"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not summary.exists():
            shutil.rmtree(uri, ignore_errors=True)  # of a maker that failed
            summary.write_bytes(pickle.dumps(learn([EXAMPLES / name for name in READ if name != "bad"], uri)))
    return uri, pickle.loads(summary.read_bytes())


@pytest.fixture
def memory_copy(learned: tuple[Path, dict[str, object]], tmp_path: Path) -> Path:
    """A copy of the store that has read the examples, to be changed."""
    return Path(shutil.copytree(learned[0], tmp_path / "memory"))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MessagesApi]]:
    """Start servers that answer as the given behaviour does and that the real SDK is pointed at."""
    from talk import extractor

    with ExitStack() as started:

        def start(behaviour: Behaviour = extractor) -> MessagesApi:
            api = started.enter_context(MessagesApi(behaviour))
            monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef")
            monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
            return api

        yield start


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with one page."""
    from scripts.browser import Browser, chromium

    if (program := chromium()) is None:
        pytest.skip("No Chromium on this machine: install it, or name it in $CHROMIUM.")
    with Browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="session")
def prefect_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the database of the Prefect server lies once it has started."""
    return tmp_path_factory.mktemp("prefect") / "prefect.db"


@pytest.fixture(scope="session")
def prefect_server(prefect_database: Path) -> Iterator[str]:
    """The address of a Prefect server with a database of its own; only tests that ask for `engine` talk to it."""
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = SubprocessASGIServer(port=probe.getsockname()[1])
    database = f"sqlite+aiosqlite:///{prefect_database}"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: database}):
        server.start(timeout=120)
    yield server.api_url
    server.stop()


@pytest.fixture(scope="module")
def engine(prefect_server: str) -> Iterator[None]:
    """Inside, flows run under Prefect; tests that ask for it belong to the group `engine`, which has one server."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: prefect_server}):
        yield
        APILogWorker.instance().drain()
        EventsWorker.drain_all()


@pytest.fixture(autouse=True, scope="session")
def every_active_fact_has_a_decision() -> Iterator[None]:
    """Whatever road a test goes along, the ledger says why a fact became active (S3-07)."""
    with watched():
        yield


def command(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    """The exit code of a command line."""
    from apps.cli import main

    monkeypatch.setattr(sys, "argv", ["slowwave", *map(str, args)])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def killed_creation(root: Path) -> Path:
    """The folder that a process left which was killed while it made a namespace."""
    code = """
import os, signal, sys
from storage.connection import place_for_making
with place_for_making(sys.argv[1], "default") as place:
    open(f"{place}/half", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, str(root)], check=False)
    (left,) = root.glob(".making-*")
    assert (left / "half").exists()
    os.utime(left, (0, 0))  # long ago
    return left


@pytest.fixture
def reads_relations() -> Iterator[None]:
    """Without a model, plain sentences are read as relations by a script: see `relations`."""
    before = relations.install()
    yield
    inference.language.RULES = before
