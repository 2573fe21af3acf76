"""What grows with what: one store at several sizes, and the same work in each."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from typing import Any
from unittest.mock import patch

import polars as pl

import flows.ingest  # noqa: F401, so that its imports are not measured
from flows.maintenance import decay, steward
from inference.embedding import open_embedder
from slowwave.common.settings import DecaySettings, StewardSettings
from slowwave.integrations.python_api import OpenMemory
from storage.doctor import examine
from storage.snapshots import numbered_rows, read_rows
from storage.store import Store
from tasks.nightly.groups import refreshed_aspects
from tasks.runtime.runs import existing_run

from . import data, synthetic
from .big_store import build_store, multiply_store
from .examples import FOLDER as EXAMPLES
from .figures import Absent, Figure, Options, in_fresh_process, measured, peak_memory_mib, percentiles, stored_bytes
from .ingest import ingest_files

SEED = 23
QUICK, SIZES = (10_000,), (2_000, 10_000, 100_000, 1_000_000)
WARM_UP, ASKED, K = 10, 50, 10
COPIED_BEYOND = 1_000_000
LATER = synthetic.START + timedelta(days=30)
COMMITS, ROWS = 10, 100
MESSAGES = 40
AFTER_ALL = timedelta(days=1000)  # the messages are said after everything that is there


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of work in a process of its own: milliseconds of processor time, and the most memory it held."""

    cpu_ms: float
    peak_mib: float


def run(options: Options) -> Iterable[Figure]:
    """At each size: bytes of a fact, and the cost of a question, an ingest, a commit, scoring, a night and a doctor.

    Stores that lie in the folder already, under the name of their size, are taken as they are. Those of more than
    1,000,000 facts are made by copying the tables of that one, with two messages for each of its own.
    """
    for facts in options.sizes or (QUICK if options.is_quick else SIZES):
        uri = options.place / str(facts)
        questions = _built(uri, facts)
        yield from _figures(facts, uri, Random(SEED).sample(questions, WARM_UP + ASKED))


def _built(uri: Path, facts: int) -> list[str]:
    noted = uri.with_suffix(".json")
    if facts > COPIED_BEYOND:
        if facts % COPIED_BEYOND:
            raise Absent(f"a store of more than {COPIED_BEYOND:,} facts has a multiple of that")
        one = uri.parent / str(COPIED_BEYOND)
        of_one = _built(one, COPIED_BEYOND)
        if not uri.exists():
            multiply_store(str(one), str(uri), facts // COPIED_BEYOND, messages=2)
        return of_one
    if not noted.exists():
        noted.parent.mkdir(parents=True, exist_ok=True)
        noted.write_text(json.dumps(build_store(str(uri), facts, SEED)), encoding="utf-8")
    questions: list[str] = json.loads(noted.read_text(encoding="utf-8"))
    return questions


def _figures(facts: int, uri: Path, questions: list[str]) -> Iterator[Figure]:
    name = f"{facts:,} facts"
    held = stored_bytes(Store.open(str(uri)))
    yield Figure("scaling", f"{name}: stored", held / facts, "bytes/fact", note="with its message and entities")
    times, asked = in_fresh_process(ask, str(uri), questions)
    median, slow = percentiles(times[WARM_UP:])
    yield Figure("scaling", f"{name}: first question", times[0], "ms")
    yield Figure("scaling", f"{name}: question p50", median, "ms", note=f"p95 {slow:.1f} ms")
    yield Figure("scaling", f"{name}: question", asked.cpu_ms, "cpu ms", note=f"{asked.peak_mib:.0f} MiB")
    in_fresh_process(count_aspects, str(uri))
    known = list(synthetic.messages(MESSAGES, SEED))
    for what, messages in (("about new people", conversation()), ("about the entities with most facts", known)):
        learned, rows = in_fresh_process(learn, str(uri), messages)
        note = f"{learned.peak_mib:.0f} MiB, {rows} rows read"
        yield Figure("scaling", f"{name}: ingest of {MESSAGES} messages {what}", learned.cpu_ms, "cpu ms", note=note)
    for what, work in (("commit of 100 facts", commit), ("scoring", score), ("decay", fade), ("doctor", look)):
        cost = in_fresh_process(work, str(uri))
        yield Figure("scaling", f"{name}: {what}", cost.cpu_ms, "cpu ms", note=f"{cost.peak_mib:.0f} MiB")


def count_aspects(uri: str) -> None:
    """Aspects of the whole store."""
    run = existing_run("bench", uri, "default", synthetic.START)
    if (scores := refreshed_aspects(run, is_nightly=True)) is not None:
        with Store.open(run.store, run.namespace).commit(run.id, scores.kind, run.now) as tx:
            scores.write(tx)


def learn(uri: str, messages: list[dict[str, Any]]) -> tuple[Work, int]:
    """Keyless ingest of messages into a copy of the store: also how many rows were read, those of searches apart.

    They are said after all that is known. Imports and the model come before the measurement.
    """
    place = Path(f"{uri}-ingest")
    rmtree(place, ignore_errors=True)
    copytree(uri, place / "m", copy_function=os.link)  # files are never changed, only added
    open_embedder().embed(["load the model"])
    times = [(synthetic.START + AFTER_ALL + timedelta(minutes=n)).isoformat() for n in range(len(messages))]
    new = [{**row, "conversation_id": "new", "occurred_at": at} for row, at in zip(messages, times, strict=True)]
    path = data.write_messages(place / "new.jsonl", new)
    rows: list[int] = []

    def counted(read: Callable[..., pl.DataFrame], *args: Any) -> pl.DataFrame:
        frame = read(*args)
        rows.append(len(frame))
        return frame

    with ExitStack() as counting, measured() as cost:
        for name, read in (("snapshots.read_rows", read_rows), ("search.read_rows", read_rows),
                           ("snapshots.numbered_rows", numbered_rows)):  # fmt: skip
            counting.enter_context(patch(f"storage.{name}", partial(counted, read)))
        ingest_files([str(path)], str(place / "m"), now=synthetic.START + 2 * AFTER_ALL)
    work = Work(1000 * cost.cpu_s, peak_memory_mib())
    rmtree(place)
    return work, sum(rows)


def conversation() -> list[dict[str, Any]]:
    """The first forty messages of the bundled conversations: of people whom the store does not know."""
    files = sorted((EXAMPLES / "conversations").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return lines[:MESSAGES]


def ask(uri: str, questions: list[str]) -> tuple[list[float], Work]:
    """Milliseconds on the clock of each question, and what one costs on average when warm."""
    times: list[float] = []
    with OpenMemory.open(uri, is_logged=False) as memory:
        for question in questions[:WARM_UP]:
            times.append(_timed(memory, question))
        with measured() as cost:
            times += [_timed(memory, question) for question in questions[WARM_UP:]]
    return times, Work(1000 * cost.cpu_s / ASKED, peak_memory_mib())


def _timed(memory: OpenMemory, question: str) -> float:
    with measured() as cost:
        memory.recall(question, K)
    return 1000 * cost.wall_s


def commit(uri: str) -> Work:
    """One commit that rewrites a hundred facts as they are, on average of ten."""
    store = Store.open(uri)
    some = store.snapshot().frame("facts", limit=ROWS, columns=["id"])["id"]
    rows = store.snapshot().by_ids("facts", some, with_vector=True)
    with measured() as cost:
        for _ in range(COMMITS):
            with store.commit("bench", "bench", LATER) as tx:
                tx.upsert("facts", rows.select(pl.exclude("updated_at", "run_id")))
    return Work(1000 * cost.cpu_s / COMMITS, peak_memory_mib())


def score(uri: str) -> Work:
    """The steward's first phase: every fact is scored, and the scores are written."""
    settings = StewardSettings.model_validate({"llm": {"model": "quotes"}})
    with measured() as cost:
        asyncio.run(steward(store=uri, settings=settings, now=LATER, phases=("score",)))
    return Work(1000 * cost.cpu_s, peak_memory_mib())


def fade(uri: str) -> Work:
    """What a night's decay looks at, without writing."""
    with measured() as cost:
        asyncio.run(decay(store=uri, settings=DecaySettings(), now=LATER, dry_run=True))
    return Work(1000 * cost.cpu_s, peak_memory_mib())


def look(uri: str) -> Work:
    """Every check of the doctor."""
    with measured() as cost:
        examine(Store.open(uri))
    return Work(1000 * cost.cpu_s, peak_memory_mib())
