"""Builders that all tests share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.store import Store

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
