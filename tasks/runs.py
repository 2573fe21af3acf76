"""A run: what every task of it shares, and its row in the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import polars as pl

from inference.embedding import Embedder, open_embedder
from inference.language import Language
from slowwave.intake.redaction import redact
from slowwave.records import Usage
from slowwave.review.proposing import Proposing
from slowwave.settings import LanguageSettings, RetentionSettings
from slowwave.text import as_json, run_id
from slowwave.timestamps import in_utc
from storage.answers import StoredAnswers
from storage.connection import namespaces
from storage.drafts import ProposingStore
from storage.lease import is_surely_dead, new_owner
from storage.store import Store

ERROR_CHARS = 400


@dataclass(frozen=True, slots=True)
class Run:
    """Names everything by value, so that it can cross a process border."""

    id: str
    flow: str
    store: str
    namespace: str
    now: datetime
    embedder: str
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    proposes: Proposing | None = None  # what it writes waits for a person


def new_run(
    flow: str,
    store: str,
    namespace: str,
    embedder: str,
    now: datetime | None = None,
    retention: RetentionSettings | None = None,
) -> Run:
    """A run with an identifier that sorts by time and says what it is; a `now` without a zone is UTC."""
    started = datetime.now(UTC)
    at = started if now is None else in_utc(now)
    kept = retention or RetentionSettings()
    return Run(run_id(flow, started, uuid4().hex), flow, store, namespace, at, embedder, kept)


def existing_run(
    flow: str, store: str, namespace: str, now: datetime | None = None, retention: RetentionSettings | None = None
) -> Run:
    """A run in a namespace that must exist, with the embedding model that it was made with."""
    model = Store.open(store, namespace, retention=retention).head.embed_model
    return new_run(flow, store, namespace, model, now, retention)


@lru_cache(maxsize=8)
def _store(uri: str, namespace: str, embedder: str, retention: RetentionSettings) -> Store:
    return open_store(uri, namespace, embedder, retention)


def open_store(uri: str, namespace: str, embedder: str, retention: RetentionSettings) -> Store:
    """A namespace for writing with this embedding model, made if it does not exist."""
    seat = open_embedder(embedder)
    return Store.create(uri, namespace, (seat.name, seat.dims), retention=retention)


def store_of(run: Run) -> Store:
    """The run's namespace, made if it does not exist; what a run that proposes writes there waits for a person."""
    if run.namespace not in namespaces(run.store):
        _store.cache_clear()  # it may have been open before its directory was removed
    place = run.store if "://" in run.store else os.path.abspath(run.store)  # a relative one means another place later
    store = _store(place, run.namespace, run.embedder, run.retention)
    return store if run.proposes is None else ProposingStore(store, run.proposes)


def newest_commit(run: Run) -> int:
    """The number of the newest commit; 0 where the namespace does not exist."""
    return store_of(run).head.sequence if run.namespace in namespaces(run.store) else 0


def embedder_of(run: Run) -> Embedder:
    """The run's embedding seat."""
    return open_embedder(run.embedder)


def embed_rows(run: Run, rows: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The rows with the vector of their text, from a frame of id and text; null where it says nothing."""
    seat = embedder_of(run)
    vectors = vector_column(seat.embed(texts["text"].fill_null("").to_list()))
    return rows.join(texts.select("id").with_columns(vectors), on="id", how="left", maintain_order="left")


def vector_column(vectors: npt.NDArray[np.float32]) -> pl.Series:
    """A vector column in which zero rows are null, so that search skips them."""
    column = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
    is_empty = pl.Series(~vectors.any(axis=1))
    return pl.select(pl.when(~is_empty).then(column).alias("vector"))["vector"]


@lru_cache(maxsize=4)
def language_of(run: Run, settings: LanguageSettings) -> Language:
    """The run's language seat: one for all its tasks, so that they share one budget."""
    return Language(settings, StoredAnswers(store_of(run), run.id))


class Summary(Protocol):
    """What a run counts as it goes."""

    @property
    def state(self) -> str:
        """completed or stopped."""

    @property
    def usage(self) -> Usage:
        """What the models cost."""

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""


_night: ContextVar[str | None] = ContextVar("night", default=None)


@contextmanager
def phases_of(run: Run) -> Iterator[None]:
    """Inside, every run that begins is a phase of this one, and undone with it."""
    token = _night.set(run.id)
    try:
        yield
    finally:
        _night.reset(token)


@contextmanager
def recorded(run: Run, counted: Summary, parameters: dict[str, Any], *, dry_run: bool = False) -> Iterator[Run]:
    """Record the run from start to end, however it ends; a dry run leaves no trace, not even a new store."""
    if dry_run:
        with _traceless(run) as shadow:
            yield shadow
        return
    row = {
        "id": run.id,
        "flow": run.flow,
        "state": "running",
        "owner": new_owner(run.id),
        "parent_id": _night.get(),
        "parameters": as_json(parameters),
        "started_at": datetime.now(UTC),
    }
    _begin(run, row)
    try:
        yield run
    except BaseException as error:
        _record(
            run,
            {
                **row,
                **_ending(
                    "failed", {**counted.summary(), "error": redact(str(error)).text[:ERROR_CHARS]}, counted.usage
                ),
            },
        )
        raise
    _record(run, {**row, **_ending(counted.state, counted.summary(), counted.usage)})


@contextmanager
def _traceless(run: Run) -> Iterator[Run]:
    if run.namespace in namespaces(run.store):
        yield run
        return
    with TemporaryDirectory() as folder:
        yield replace(run, store=folder)


def _ending(state: str, summary: dict[str, Any], usage: Usage) -> dict[str, Any]:
    return {
        "state": state,
        "summary": as_json(summary),
        "ended_at": datetime.now(UTC),
        "calls": usage.calls,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "usd": usage.usd,
    }


def _begin(run: Run, row: dict[str, Any]) -> None:
    """Record the start, and that runs whose process is gone were interrupted."""
    with store_of(replace(run, proposes=None)).commit(run.id, "run", run.now) as tx:
        running = tx.frame("runs", "state = 'running'")
        dead = running.filter([is_surely_dead(owner or "") for owner in running["owner"]])
        tx.upsert("runs", dead.with_columns(state=pl.lit("interrupted")))
        tx.upsert("runs", pl.DataFrame([row]))


def _record(run: Run, row: dict[str, Any]) -> None:
    with store_of(replace(run, proposes=None)).commit(run.id, "run", run.now) as tx:
        tx.upsert("runs", pl.DataFrame([row]))
