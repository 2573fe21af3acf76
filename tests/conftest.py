"""Builders that all tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from messages_api import Behaviour, MessagesApi

# Prefect and the providers must not see the settings of whoever runs the tests; Prefect reads its own at import.
# Two workers on two cores: more threads would only wait for each other. Set before anything reads it.
for _threads in ("POLARS_MAX_THREADS", "LANCE_CPU_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="slowwave-prefect-")
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
for _name in ("PREFECT_API_URL", "PREFECT_PROFILE", "ANTHROPIC_API_KEY", "SLOWWAVE_STORE", "SLOWWAVE_CONFIG"):
    os.environ.pop(_name, None)

from storage.store import Store  # noqa: E402 (after the environment is clean)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TINY = ("test/tiny", 4)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store directory with one empty namespace of four-dimensional vectors, to be copied."""
    uri = tmp_path_factory.mktemp("template") / "store"
    Store.create(str(uri), "default", TINY)
    return uri


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
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A store that has read all bundled examples without a key, and the summary of that run; only to be looked at."""
    from talk import EXAMPLES, READ, learn

    uri = tmp_path_factory.mktemp("learned") / "memory"
    return uri, learn([EXAMPLES / name for name in READ if name != "bad"], uri)


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
