"""A run: what every task of it shares, and its row in the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import uuid4

import polars as pl

from inference.embedding import Embedder, open_embedder
from inference.language import Language
from slowwave.records import Usage
from slowwave.settings import LanguageSettings, RetentionSettings
from slowwave.text import as_json
from storage.answers import StoredAnswers
from storage.store import Store


@dataclass(frozen=True, slots=True)
class Run:
    """Names everything by value, so that it can cross a process border."""

    id: str
    flow: str
    store: str
    namespace: str
    now: datetime
    embedder: str
    retention: RetentionSettings = RetentionSettings()


def new_run(flow: str, store: str, namespace: str, embedder: str, now: datetime | None = None) -> Run:
    """A run with an identifier that sorts by time and says what it is."""
    at = now or datetime.now(UTC)
    return Run(f"{flow}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}", flow, store, namespace, at, embedder)


@lru_cache(maxsize=8)
def _store(uri: str, namespace: str, embedder: str, retention: RetentionSettings) -> Store:
    seat = open_embedder(embedder)
    return Store.create(uri, namespace, (seat.name, seat.dims), retention=retention)


def store_of(run: Run) -> Store:
    """The run's namespace, made if it does not exist."""
    return _store(run.store, run.namespace, run.embedder, run.retention)


def embedder_of(run: Run) -> Embedder:
    """The run's embedding seat."""
    return open_embedder(run.embedder)


@lru_cache(maxsize=4)
def language_of(run: Run, settings: LanguageSettings) -> Language:
    """The run's language seat: one for all its tasks, so that they share one budget."""
    return Language(settings, StoredAnswers(store_of(run), run.id))


def begin(run: Run, parameters: dict[str, Any]) -> None:
    """Record that the run has started."""
    row = {"id": run.id, "flow": run.flow, "state": "running", "parameters": as_json(parameters), "started_at": run.now}
    _record(run, row)


def finish(run: Run, state: str, summary: dict[str, Any], usage: Usage = Usage()) -> None:  # noqa: B008
    """Record how the run ended, what it did and what it cost."""
    row = {
        "id": run.id, "state": state, "summary": as_json(summary), "ended_at": datetime.now(UTC), "calls": usage.calls,
        "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out, "usd": usage.usd,
    }
    started = store_of(run).snapshot().by_ids("runs", [run.id])
    _record(run, {**(started.to_dicts()[0] if len(started) else {}), **row})


def _record(run: Run, row: dict[str, Any]) -> None:
    with store_of(run).commit(run.id, "run", run.now) as tx:
        tx.upsert("runs", pl.DataFrame([row]))
