"""A run: what every task of it shares, and its row in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from inference.embedding import Embedder, open_embedder
from inference.language import Language
from inference.secrets import without_secrets
from recall.history import run_named
from slowwave.common.errors import Refused, SlowwaveError
from slowwave.common.records import COSTS, Usage
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import LanguageSettings, RetentionSettings
from slowwave.common.telemetry import Value, span
from slowwave.common.text import as_json
from slowwave.common.timestamps import in_utc
from slowwave.reading.filters.redaction import redact_values
from slowwave.review.proposals import Proposing
from storage.connection import address_of, has_namespace
from storage.disk import Folder, folder_on_disk
from storage.drafts import ProposingStore
from storage.lease import holder, is_surely_alive, is_surely_dead, new_owner
from storage.paid_answers import StoredAnswers
from storage.quotations import made_by_nobody
from storage.rows import new_run_id, quoted
from storage.store import Store
from storage.transactions import Transaction

from .retrying import patiently

ERROR_CHARS = 400
RUNNING = "state = 'running'"


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
    rereads: bool = False  # it reads what was kept as quotations, and must not see these


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
    return Run(new_run_id(flow, started), flow, store, namespace, at, embedder, kept)


def existing_run(
    flow: str, store: str, namespace: str, now: datetime | None = None, retention: RetentionSettings | None = None
) -> Run:
    """A run in a namespace that must exist, with the embedding model that it was made with."""
    model = Store.open(store, namespace, retention=retention).head.embed_model
    return new_run(flow, store, namespace, model, now, retention)


@lru_cache(maxsize=8)
def _store(uri: str, namespace: str, embedder: str, retention: RetentionSettings, folder: Folder | None) -> Store:
    """`folder` tells a namespace from another one at its place, of which nothing is known yet."""
    return open_store(uri, namespace, embedder, retention)


def open_store(uri: str, namespace: str, embedder: str, retention: RetentionSettings) -> Store:
    """A namespace for writing with this embedding model, made if it does not exist."""
    if has_namespace(uri, namespace):  # whose model may be out of reach for a run that embeds nothing
        store = Store.open(uri, namespace, retention=retention)
        if (head := store.head).embed_model == embedder:
            store.embedding = (head.embed_model, head.dims)
            return store
    seat = open_embedder(embedder)
    return Store.create(uri, namespace, (seat.name, seat.dims), retention=retention)


def store_of(run: Run) -> Store:
    """The run's namespace, made if it does not exist; what a run that proposes writes there waits for a person.

    A run that reads quotations again does not see them, so that it reads as if it were the first to.
    """
    if not has_namespace(run.store, run.namespace):
        _store.cache_clear()  # it may have been open before its directory was removed
    place = address_of(run.store)  # a relative one means another place later
    store = _store(place, run.namespace, run.embedder, run.retention, folder_on_disk(f"{place}/{run.namespace}"))
    if run.rereads:
        store = copy(store)
        store.out_of_sight = made_by_nobody
    return store if run.proposes is None else ProposingStore(store, run.proposes)


def newest_commit(run: Run) -> int:
    """The number of the newest commit; 0 where the namespace does not exist."""
    return store_of(run).head.sequence if has_namespace(run.store, run.namespace) else 0


def has_committed(run: Run) -> bool:
    """Whether the run wrote anything beside the record of its beginning."""
    where = f"run_id = {quoted(run.id)} AND kind != 'run'"
    return bool(store_of(run).snapshot().count("commits", where))


def embedder_of(run: Run) -> Embedder:
    """The run's embedding seat."""
    return open_embedder(run.embedder)


def embed_rows(run: Run, rows: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The rows with the vector of their text, from a frame of id and text; null where it says nothing."""
    embedder = embedder_of(run)
    vectors = vector_column(embedder.embed(texts["text"].fill_null("").to_list()))
    return rows.join(texts.select("id").with_columns(vectors), on="id", how="left", maintain_order="left")


def vector_column(vectors: npt.NDArray[np.float32]) -> pl.Series:
    """A vector column in which zero rows are null, so that search skips them."""
    column = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
    is_there = vectors.any(axis=1)
    if is_there.all():
        return column
    return pl.select(pl.when(pl.Series(is_there)).then(column).alias("vector"))["vector"]


@lru_cache(maxsize=4)
def language_of(run: Run, settings: LanguageSettings) -> Language:
    """The run's language seat: one for all its tasks, so that they share one budget."""
    return Language(settings, StoredAnswers(store_of(run), run.id))


@dataclass
class Counts:
    """The counts of a run for its row in `runs`, how it ended (completed or stopped), and what the models cost."""

    run: str
    counts: Counter[str] = field(default_factory=Counter)
    state: str = "completed"
    usage: Usage = field(default_factory=Usage)

    def summary(self) -> dict[str, Any]:
        """Everything counted, as plain data."""
        return {"run": self.run, "state": self.state, "counts": self.labelled()}

    def labelled(self) -> dict[str, int]:
        """What was counted, by the names that are stored."""
        return {str(what): number for what, number in self.counts.items() if number}


# The span of a run, for a program that has set up OpenTelemetry.


@contextmanager
def watched_run(name: str, run_id: str, namespace: str) -> Iterator[Callable[[str, Mapping[str, Any]], None]]:
    """Inside, a run of a flow is measured. The caller passes state and summary of the end to the yielded function."""
    about = {"slowwave.flow": name, "slowwave.run.id": run_id, "slowwave.namespace": namespace}
    with span(f"run {name}", about) as note:
        yield lambda state, summary: note({"slowwave.run.state": state, **_attributes(summary)})


def _attributes(summary: Mapping[str, Any]) -> dict[str, Value]:
    """Counts and costs of a run's summary, and nothing else that is in it."""
    counts, llm = summary.get("counts", {}), summary.get("llm", {})
    names = {what: what.replace(": ", ".").replace(" ", "_") for what in counts}
    found: dict[str, Value] = {f"slowwave.count.{name}": counts[what] for what, name in names.items()}
    return found | {f"slowwave.llm.{key}": llm[key] for key in COSTS if key in llm}


_night: ContextVar[str | None] = ContextVar("night", default=None)


@contextmanager
def phases_of(run: Run) -> Iterator[None]:
    """Inside, every run that begins is a phase of this one, and undone with it."""
    token = _night.set(run.id)
    try:
        yield
    finally:
        _night.reset(token)


def night_of(run: Run) -> str:
    """The id of the run that this one is a phase of, or its own."""
    return _night.get() or run.id


@dataclass(frozen=True, slots=True)
class Writing:
    """What a run writes together with the record of its end: the kind of that commit, and what does it."""

    kind: str
    write: Callable[[Transaction], None]

    @staticmethod
    def of(parts: Sequence[Writing | None]) -> Writing | None:
        """All of them as one, of the first one's kind; None where there is none."""
        there = [part for part in parts if part is not None]

        def write(tx: Transaction) -> None:
            for part in there:
                part.write(tx)

        return Writing(there[0].kind, write) if there else None


@contextmanager
def recorded(
    run: Run,
    counted: Counts,
    parameters: dict[str, Any],
    *,
    dry_run: bool = False,
    begins_later: bool = False,
    last: Callable[[Run], Writing | None] | None = None,
) -> Iterator[Run]:
    """Record the run from start to end, however it ends; a dry run leaves no trace, not even a new store.

    Its beginning is a commit of its own; where it `begins_later` it belongs to the first one, or `begin_now` writes it.
    `last` finds, outside the lease and after all else was done, what is written in the commit that records the end, so
    that it is no commit more; where the run fails it is not asked.
    """
    if dry_run:
        with traceless(run) as shadow:
            yield shadow
        return
    row = _begun(run, parameters)
    with watched_run(run.flow, run.id, run.namespace) as ended:
        Store.beginnings[run.id] = partial(_begin, row=row, since=newest_commit(run) if begins_later else None)
        if not begins_later:
            begin_now(run)
        try:
            yield run
            writing = last(run) if last is not None else None
        except BaseException as error:
            state = "failed" if isinstance(error, Exception) else "interrupted"  # somebody told the process to stop
            is_made = has_namespace(run.store, run.namespace)
            why = without_secrets(str(error))[:ERROR_CHARS]
            ended(state, _record(run, row, counted, state, error=why) if is_made else {})
            raise
        ended(counted.state, patiently("end the run", _record)(run, row, counted, counted.state, writing))


@contextmanager
def traceless(run: Run) -> Iterator[Run]:
    """A run that reads the namespace, or an empty one that vanishes where there is none."""
    if has_namespace(run.store, run.namespace):
        yield run
        return
    with TemporaryDirectory() as folder:
        yield replace(run, store=folder)


def _begun(run: Run, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a run that begins now."""
    return {
        "id": run.id,
        "flow": run.flow,
        "state": "running",
        "owner": new_owner(run.id),
        "parent_id": _night.get(),
        "parameters": as_json(redact_values(dict(parameters))),
        "started_at": datetime.now(UTC),
    }


def _ending(state: str, summary: dict[str, Any], usage: Usage) -> dict[str, Any]:
    return {
        "state": state,
        "summary": as_json(redact_values(summary)),
        "ended_at": datetime.now(UTC),
        **usage.paid,
    }


def begin_now(run: Run) -> None:
    """Record the beginning of a run as a commit of its own, unless an earlier one has it."""
    if (begin := Store.beginnings.pop(run.id, None)) is not None:
        patiently("begin the run", _begin_alone)(run, begin)


def _begin_alone(run: Run, begin: Callable[[Transaction], None]) -> None:
    with store_of(replace(run, proposes=None)).commit(run.id, "run", run.now) as tx:
        begin(tx)


def _begin(tx: Transaction, row: dict[str, Any], since: int | None) -> None:
    """Record the start, and that runs whose process is gone were interrupted.

    Raises `Refused` where something was erased after the commit `since`: nobody waited for this run.
    """
    erased = f"sequence > {since} AND starts_with(kind, 'forget')"
    if since is not None and tx.sequence > since + 1 and tx.count("commits", erased):
        raise Refused("Something was forgotten while this run read its input.", "Run it again, without what is erased.")
    running = tx.frame("runs", RUNNING, ["id", "owner"])
    interrupt(tx, [each for each, owner in running.iter_rows() if is_surely_dead(owner or "")], is_surely_dead)
    tx.insert("runs", pl.DataFrame([row]))


def interrupt(tx: Transaction, runs: Iterable[str], is_gone: Callable[[str], bool]) -> None:
    """Record as interrupted those of these runs and their parts that count as running and whose owner is gone."""
    left, seen = [*runs], set[str]()
    while left:
        running = tx.by_ids("runs", left, where=RUNNING)
        gone = running.filter([is_gone(owner or "") for owner in running["owner"]])
        tx.upsert("runs", gone.with_columns(state=pl.lit("interrupted")))
        seen.update(left)
        left = [part for part in tx.by_ids("runs", left, ["id"], key="parent_id")["id"] if part not in seen]


def _record(
    run: Run, row: dict[str, Any], counted: Counts, state: str, writing: Writing | None = None, **more: str
) -> dict[str, Any]:
    """Record how it ended, with any model that the namespace has by then; returns the summary."""
    Store.beginnings.pop(run.id, None)
    try:
        store = copy(store_of(replace(run, proposes=None)))
        store.embedding = None
    except SlowwaveError:  # it has another model by now
        store = Store.open(address_of(run.store), run.namespace, retention=run.retention)
    kind = "run" if writing is None else writing.kind
    with store.commit(run.id, kind, run.now) as tx:
        if writing is not None:
            writing.write(tx)
        summary = {**counted.summary(), **more}
        tx.upsert("runs", pl.DataFrame([{**row, **_ending(state, summary, counted.usage)}]))
    return summary


# Runs of one task: what a person asks for at once is recorded, listed and undone like any other run.


R = TypeVar("R")


def as_run(
    run: Run, parameters: Mapping[str, Any], work: Callable[[], R], count: Callable[[R], dict[RunCount, int]]
) -> R:
    """Do the work as a run of its own, which `slowwave runs` lists and undo takes back."""
    tally = Counts(run.id)
    with recorded(run, tally, dict(parameters)):
        done = work()
        tally.counts.update(count(done))
    return done


def finished_row(run: Run, parameters: Mapping[str, Any], summary: Mapping[str, Any]) -> pl.DataFrame:
    """The row of a run that is over within one commit, which also writes this row."""
    summary = {"run": run.id, "state": "completed", "counts": {}, **summary}
    return pl.DataFrame([{**_begun(run, parameters), **_ending("completed", summary, Usage())}])


def in_one_commit(
    run: Run,
    kind: str,
    parameters: Mapping[str, Any],
    work: Callable[[Transaction], R],
    count: Callable[[R], dict[RunCount, int]],
) -> R:
    """Do the work in one commit, which records it as a run too: all of it is there afterwards, or nothing.

    The work raises what is wrong before it writes; then there is no run.
    """
    begun = _begun(run, parameters)
    with watched_run(run.flow, run.id, run.namespace) as ended:
        with store_of(run).commit(run.id, kind, run.now) as tx:
            done = work(tx)
            summary = Counts(run.id, Counter(count(done))).summary()
            tx.insert("runs", pl.DataFrame([{**begun, **_ending("completed", summary, Usage())}]))
        ended("completed", summary)
    return done


def alive_runs(store: Store, where: str = "true") -> list[str]:
    """Ids of the runs that count as running and whose process may be alive."""
    running = store.snapshot().frame("runs", f"{RUNNING} AND {where}", ["id", "owner"])
    return [id_ for id_, owner in running.iter_rows() if not is_surely_dead(owner or "")]


def existing_store(run: Run) -> Store:
    """The namespace, which is not made for a question about it."""
    return Store.open(run.store, run.namespace, retention=run.retention)


# Ending a run by hand: of a process on another machine nobody here can know that it is gone.


def end_run(store: Store, id_: str, now: datetime) -> str:
    """Record that a run which counts as running was interrupted, with its parts; returns its id.

    Raises `Refused` for a run that has ended, and for one whose process is alive on this machine.
    """
    run = run_named(store.snapshot(), id_)["id"]
    with store.commit(run, "run", now) as tx:
        [row] = tx.by_ids("runs", [run]).to_dicts()
        if row["state"] != "running":
            raise Refused(f"Run {run} has ended already: it is {row['state']}.", "Nothing is to be done.")
        if is_surely_alive(row["owner"] or ""):
            raise Refused(f"{holder(row['owner'])} is alive on this machine.", "Stop that process, or wait for it.")
        interrupt(tx, [run], lambda owner: not is_surely_alive(owner))
    return str(run)
