"""Write a line, ask three questions, again and again: what each costs, in one process and beside others.

The floor is what one could write by hand: SQLite with its index of words, and an exact product of vectors. The peers
are mem0 without a model (`infer=False`, Qdrant on disk) and LangGraph's `SqliteStore`, both with slowwave's embedder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from threading import Barrier, Event
from typing import Any, NamedTuple

import numpy as np

from inference.embedding import open_embedder
from recall.recaller import OFTEN
from slowwave.common.errors import UnknownName
from slowwave.common.settings import RecallSettings
from slowwave.integrations.langgraph import SlowwaveStore
from slowwave.integrations.python_api import OpenMemory

from . import synthetic
from .big_store import write_store
from .faults.model import KEY, NAME, Model
from .figures import Figure, Options, in_fresh_process, measured, peak_memory_mib
from .peers import mem0_of

SEED = 29
SIZES = (500, 20_000, 100_000)
ROUNDS, WARM_UP = 50, 10
QUESTIONS = 3
BATCH = 100
WRITE_BAR, BATCH_BAR = 60.0, 1_000.0
OTHERS = ((1, 10), (1_000, 3))
"""Facts that another process writes at once, and how often."""
OTHERS_BAR, INGEST_BAR, SMALL_BAR = 150.0, 250.0, 1.6
SMALL = 200  # facts of the store of the small ingest
PEER_SIZE = 20_000
PEERS: Mapping[str, Callable[[], bool]] = {
    "mem0": lambda: bool(find_spec("mem0")),
    "langgraph": lambda: bool(
        hasattr(sqlite3.Connection, "enable_load_extension") and find_spec("langgraph.store.sqlite")
    ),
}
"""By name: whether it can be measured here."""
ASKERS = 4
P99_BAR, STALE_BAR_S, MEMORY_BAR = 100.0, 1.0, 600.0
PATIENT = RecallSettings.model_validate({"walk": {"recall_timeout_ms": 60_000}})
"""The first question of a large store may take long on a busy machine."""
MARK = "quokka"  # a word that no fact has

Write = Callable[[str, str], object]
Ask = Callable[[str], object]


class Round(NamedTuple):
    """Milliseconds of processor time: the write, and the questions after it, in their order."""

    write: float
    questions: tuple[float, ...]


def run(options: Options) -> Iterable[Figure]:
    """Own rounds at each size, then beside the peers, then one writer beside four askers."""
    sizes = options.sizes or (SIZES[:2] if options.is_quick else SIZES)
    for size in sizes:
        facts = list(islice(synthetic.facts(size, SEED), size))
        place = options.place / str(size)
        write_store(str(place / "slowwave"), facts, SEED, compared_at=synthetic.START)
        yield from _own(place, facts, 20 if options.is_quick else ROUNDS)
        if size == PEER_SIZE:
            yield from _beside(place, facts, 10 if options.is_quick else ROUNDS)
        shutil.copytree(place / "slowwave", place / "written")
        yield from _after_another(place / "written", facts)
    yield from _small_ingest(options.place)
    yield from _together(place / "slowwave", facts, 10.0 if options.is_quick else 60.0)


def cost_of(work: Callable[..., object], *given: object) -> float:
    """Milliseconds of processor time."""
    with measured() as cost:
        work(*given)
    return 1000 * cost.cpu_s


def rounds_of(
    write: Write, ask: Ask, facts: Sequence[synthetic.FactText], rounds: int, seed: int
) -> tuple[float, list[Round]]:
    """What a question costs when nothing is written (median), and the rounds."""
    questions = [fact.question for fact in facts]
    warm = median([cost_of(ask, question) for question in questions[: WARM_UP * 3]][WARM_UP:])
    found = []
    for number, said in enumerate(lines(rounds, seed)):
        own = questions[WARM_UP * 3 + number * QUESTIONS :][:QUESTIONS]
        found.append(Round(cost_of(write, *said), tuple(cost_of(ask, question) for question in own)))
    return warm, found


def in_memory(memory: OpenMemory) -> None:
    """Read its tables into memory at once; after single questions they are read beside the next ones."""
    memory.recall_many(["nothing"] * OFTEN)


def lines(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """New statements (about whom, what); each measurement has its own."""
    for fact in islice(synthetic.facts(count, SEED + seed), count):
        yield fact.subject, fact.statement


def _own(place: Path, facts: Sequence[synthetic.FactText], rounds: int) -> Iterable[Figure]:
    name = f"{len(facts):,} facts"
    for who, measure in (("", own_rounds), ("langgraph face: ", face_rounds)):
        used = facts[: WARM_UP * 3 + rounds * QUESTIONS]  # more would count as memory of the store
        warm, found, batch, peak = in_fresh_process(measure, str(place / "slowwave"), used, rounds)
        bars = (WRITE_BAR + 10 * bool(who), 1.5 * warm + 2 + 3 * bool(who))
        yield Figure("loop", f"{name}: {who}warm question", warm, "cpu ms")
        yield Figure("loop", f"{name}: {who}one line", median(r.write for r in found), "cpu ms", bars[0], "lower")
        for number in range(QUESTIONS):
            value = median(each.questions[number] for each in found)
            yield Figure("loop", f"{name}: {who}question {number + 1} after it", value, "cpu ms", bars[1], "lower")
        if not who:
            yield Figure("loop", f"{name}: {BATCH} lines at once", batch, "cpu ms", BATCH_BAR, "lower")
            yield Figure("loop", f"{name}: memory", peak, "MiB", MEMORY_BAR, "lower", "most that the process held")
    yield from _commands(place / "slowwave", facts)


def own_rounds(uri: str, facts: Sequence[synthetic.FactText], rounds: int) -> tuple[float, list[Round], float, float]:
    """Rounds through the Python API, the cost of many lines about one entity, and MiB of memory."""
    with OpenMemory.open(uri, settings=PATIENT) as memory:
        in_memory(memory)
        warm, found = rounds_of(memory.add_observations, memory.recall, facts, rounds, 1)
        said = [f"On day {number}: {what}" for number, (_, what) in enumerate(lines(BATCH, 2))]
        batch = cost_of(memory.add_observations, facts[0].subject, said)
        return warm, found, batch, peak_memory_mib()


def face_rounds(uri: str, facts: Sequence[synthetic.FactText], rounds: int) -> tuple[float, list[Round], float, float]:
    """The same through the store of LangGraph."""
    with OpenMemory.open(uri, settings=PATIENT) as memory:
        in_memory(memory)
        store = SlowwaveStore(memory)
        numbers = iter(range(1 << 30))

        def put(about: str, statement: str) -> None:
            store.put(("ada",), f"line{next(numbers)}", {"text": statement})

        for said in lines(WARM_UP, 3):
            put(*said)
        warm, found = rounds_of(put, lambda query: store.search(("ada",), query=query), facts, rounds, 4)
        return warm, found, 0.0, peak_memory_mib()


def _commands(store: Path, facts: Sequence[synthetic.FactText]) -> Iterable[Figure]:
    """Whole commands beside the import of the engine that they need."""
    engine, recall = commands_cost(
        [sys.executable, "-c", "import lancedb"],
        [sys.executable, "-m", "slowwave", "recall", facts[0].question, "--store", str(store)],
    )
    yield Figure("loop", f"{len(facts):,} facts: slowwave recall", recall / engine, "× import lancedb", 1.5, "lower")


def commands_cost(*commands: Sequence[str], times: int = 5) -> list[float]:
    """Seconds of processor time of each command: medians of runs in turn, after one that warms the cache of files."""
    costs = [[command_cost(command) for command in commands] for _ in range(1 + times)][1:]
    return [median(each) for each in zip(*costs, strict=True)]


def command_cost(command: Sequence[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _after_another(store: Path, facts: Sequence[synthetic.FactText]) -> Iterable[Figure]:
    """Questions after another process wrote, and a message through `ingest`."""
    used, name = facts[:200], f"{len(facts):,} facts"
    warm, found = in_fresh_process(rounds_after_another, str(store), used)
    for count, costs in found.items():
        bar = 2 * warm + 15 if count == 1 else OTHERS_BAR
        for number, cost in enumerate(costs, 1):
            said = f"{name}: question {number} after another process wrote {count:,}"
            yield Figure("loop", said, cost, "cpu ms", bar, "lower")
    with Model() as model:
        cost = in_fresh_process(message_cost, str(store), used, model.address("loop"))
    yield Figure("loop", f"{name}: a message through ingest, read by a model", cost, "cpu ms", INGEST_BAR, "lower")


def rounds_after_another(uri: str, facts: Sequence[synthetic.FactText]) -> tuple[float, dict[int, tuple[float, float]]]:
    """What a warm question costs, and the first and second one after so many facts of another process: medians."""
    questions, found = iter([fact.question for fact in facts]), {}
    with OpenMemory.open(uri, settings=PATIENT) as memory, get_context("spawn").Pool(1) as other:
        in_memory(memory)
        warm = median([cost_of(memory.recall, next(questions)) for _ in range(WARM_UP * 3)][WARM_UP:])
        for count, rounds in OTHERS:
            costs = []
            for number in range(rounds):
                other.apply(write_many, (uri, f"Another {count} {number}", count))
                costs.append([cost_of(memory.recall, next(questions)) for _ in range(2)])
            first, second = zip(*costs, strict=True)
            found[count] = median(first), median(second)
    return warm, found


def write_many(uri: str, about: str, count: int) -> None:
    """So many statements about one entity, in one call."""
    said = [f"On day {number}: {what}" for number, (_, what) in enumerate(lines(count, 6))]
    with OpenMemory.open(uri, settings=PATIENT) as memory:
        memory.add_observations(about, said)


def message_cost(uri: str, facts: Sequence[synthetic.FactText], model: str) -> float:
    """Milliseconds of one message through `ingest`, whose answers another process has ready: facts, and verdicts."""
    os.environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model}
    with OpenMemory.open(uri, settings=PATIENT) as memory:
        in_memory(memory)
        for fact in facts[: WARM_UP * 3]:
            memory.recall(fact.question)
        costs = [
            cost_of(
                lambda said=said, number=number: memory.ingest(
                    [{"role": "user", "name": "Ada", "content": said, "timestamp": f"2026-06-01T10:{number:02}:00Z"}],
                    f"loop {number}",
                    model=NAME,
                )
            )
            for number, (_, said) in enumerate(lines(WARM_UP + 2, 7))
        ]
    return median(costs[2:])


def _small_ingest(place: Path) -> Iterable[Figure]:
    """A whole command that learns 16 messages without a model beside the import of the engine that it needs."""
    store, file = place / "small", place / "small.jsonl"
    write_store(str(store), list(islice(synthetic.facts(SMALL, SEED), SMALL)), SEED, compared_at=synthetic.START)
    file.write_text("".join(f'{{"role": "user", "speaker": "Ada", "text": "{what}"}}\n' for _, what in lines(16, 8)))
    costs, engines = [], []
    for number in range(6):
        copy = place / f"small-{number}"
        shutil.copytree(store, copy)
        ingest = [sys.executable, "-m", "slowwave", "ingest", str(file), "--llm", "quotes", "--store", str(copy)]
        engines.append(command_cost([sys.executable, "-c", "import lancedb"]))
        costs.append(command_cost(ingest))
    ratio = median(costs[1:]) / median(engines[1:])
    note = f"16 messages into {SMALL} facts, {median(costs[1:]):.2f} s"
    yield Figure("loop", "slowwave ingest", ratio, "× import lancedb", SMALL_BAR, "lower", note)


# Beside the peers, in one process and in turn, so that what else runs slows all of them.


def _beside(place: Path, facts: Sequence[synthetic.FactText], rounds: int) -> Iterable[Figure]:
    there = [name for name, is_there in PEERS.items() if is_there()]
    for name in PEERS.keys() - {*there}:
        note = "not measured: pip install -e .[bench]; LangGraph's needs a Python whose SQLite loads extensions"
        yield Figure("loop", f"beside {name}", float("nan"), note=note)
    names = ["slowwave", "floor", *there]
    costs = in_fresh_process(rounds_beside, names, place, facts, rounds)
    ours = costs["slowwave"]
    for name, cost in costs.items():
        note = f"{cost:.1f} ms: a line and {QUESTIONS} questions, {len(facts):,} facts"
        yield Figure("loop", f"rounds of {name}", cost / ours, "× slowwave", note=note)


def rounds_beside(
    names: Sequence[str], place: Path, facts: Sequence[synthetic.FactText], rounds: int
) -> dict[str, float]:
    """Milliseconds of processor time of a round of each, the medians."""
    texts = [fact.statement for fact in facts]
    with ExitStack() as stack:
        opened = {name: stack.enter_context(OPENED[name](place, texts)) for name in names}
        found: dict[str, list[float]] = {name: [] for name in names}
        for number, said in enumerate(lines(rounds, 5)):
            own = [fact.question for fact in facts[number * QUESTIONS :][:QUESTIONS]]
            for name, (write, ask) in opened.items():
                found[name].append(cost_of(write, *said) + sum(cost_of(ask, question) for question in own))
    return {name: median(costs) for name, costs in found.items()}


@contextmanager
def by_slowwave(place: Path, texts: Sequence[str]) -> Iterator[tuple[Write, Ask]]:
    """The store that was written before."""
    with OpenMemory.open(str(place / "slowwave"), settings=PATIENT) as memory:
        in_memory(memory)
        yield memory.add_observations, memory.recall


@contextmanager
def by_hand(place: Path, texts: Sequence[str]) -> Iterator[tuple[Write, Ask]]:
    """A table of texts with an index of words, and their vectors in one array."""
    embedder = open_embedder()
    db = sqlite3.connect(place / "floor.db")
    db.execute("CREATE VIRTUAL TABLE lines USING fts5(text)")
    db.executemany("INSERT INTO lines(rowid, text) VALUES (?, ?)", enumerate(texts, 1))
    db.commit()
    vectors = np.concatenate([embedder.embed(list(texts)), np.zeros((10_000, embedder.dims), np.float32)])
    size = len(texts)

    def write(about: str, statement: str) -> None:
        nonlocal size
        db.execute("INSERT INTO lines(rowid, text) VALUES (?, ?)", (size + 1, statement))
        db.commit()
        vectors[size] = embedder.embed([statement])[0]
        size += 1

    def ask(question: str) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in question.replace('"', " ").split())
        rows = db.execute("SELECT rowid FROM lines WHERE lines MATCH ? ORDER BY rank LIMIT 10", (words,)).fetchall()
        near = np.argsort(-(vectors[:size] @ embedder.embed([question])[0]))[:10]
        return [*(row for (row,) in rows), *near.tolist()]

    yield write, ask
    db.close()


@contextmanager
def by_mem0(place: Path, texts: Sequence[str]) -> Iterator[tuple[Write, Ask]]:
    """mem0 without a model."""
    with mem0_of(place, texts) as memory:
        yield (
            lambda about, statement: memory.add(statement, user_id="ada", infer=False),
            lambda question: memory.search(question, top_k=10, filters={"user_id": "ada"}),
        )


@contextmanager
def by_langgraph(place: Path, texts: Sequence[str]) -> Iterator[tuple[Write, Ask]]:
    """LangGraph's own store on SQLite."""
    from langgraph.store.sqlite import SqliteStore

    embedder = open_embedder()
    index: Any = {"dims": embedder.dims, "embed": lambda some: embedder.embed(list(some)).tolist(), "fields": ["text"]}
    numbers = iter(range(1 << 30))
    with SqliteStore.from_conn_string(str(place / "langgraph.db"), index=index) as store:
        store.setup()

        def put(about: str, statement: str) -> None:
            store.put(("ada",), f"line{next(numbers)}", {"text": statement})

        for text in texts:
            put("", text)
        yield put, lambda question: store.search(("ada",), query=question, limit=10)


OPENED: Mapping[str, Callable[[Path, Sequence[str]], Any]] = {
    "slowwave": by_slowwave, "floor": by_hand, "mem0": by_mem0, "langgraph": by_langgraph,
}  # fmt: skip


# One writer beside askers in other processes.


def _together(store: Path, facts: Sequence[synthetic.FactText], seconds: float) -> Iterable[Figure]:
    context = get_context("spawn")
    questions = [fact.question for fact in facts[:2_000]]
    with context.Manager() as manager, context.Pool(ASKERS + 1) as pool:
        together = seconds, manager.Barrier(ASKERS + 1), manager.Event()
        written = pool.apply_async(write_for, (str(store), *together))
        asked = [pool.apply_async(ask_for, (str(store), questions[n::ASKERS], *together)) for n in range(ASKERS)]
        lines_at, undone_at = written.get()
        answers = [each.get() for each in asked]
    name = f"one writer, {ASKERS} askers, {len(facts):,} facts"
    times = [cost for cost_s, _, _ in answers for cost in cost_s]
    yield Figure("loop", f"{name}: questions", len(times) / seconds, "a second")
    yield Figure("loop", f"{name}: lines", len(lines_at) / seconds, "a second")
    for share in (50, 95, 99):
        value, bar = float(np.percentile(times, share)), P99_BAR if share == 99 else None
        yield Figure("loop", f"{name}: p{share} of a question", value, "ms", bar, "lower")
    waits = [first - lines_at[line] for _, seen, _ in answers for line, (first, _) in seen.items()]
    yield Figure("loop", f"{name}: p99 until it is seen", float(np.percentile(waits, 99)), "s", STALE_BAR_S, "lower")
    lost = sum(line not in last for _, _, last in answers for line in lines_at.keys() - undone_at.keys())
    ghosts = sum(
        last_at > undone_at[line] + STALE_BAR_S
        for _, seen, _ in answers
        for line, (_, last_at) in seen.items()
        if line in undone_at
    )
    yield Figure("loop", f"{name}: lost", float(lost), "lines", 0.0, "lower")
    yield Figure("loop", f"{name}: seen after they were undone", float(ghosts), "lines", 0.0, "lower")


def write_for(uri: str, seconds: float, ready: Barrier, done: Event) -> tuple[dict[str, float], dict[str, float]]:
    """Writes lines once all are ready, and undoes every fifth; returns when each was there, and when it was gone."""
    from storage.store import Store
    from storage.undo import undo

    there, gone = dict[str, float](), dict[str, float]()
    store = Store.open(uri)
    with OpenMemory.open(uri, settings=PATIENT) as memory:
        in_memory(memory)
        ready.wait()
        number, until = 0, time.time() + seconds
        while time.time() < until:
            line = f"{MARK}{number}"
            added = memory.add_observations(f"Writer {number % 7}", f"The code word of round {number} is {line}.")
            there[line] = time.time()
            if number % 5 == 4:
                undo(store, added.run, f"undo-{number}", datetime.now(UTC))
                gone[line] = time.time()
            number += 1
            time.sleep(0.1)
    done.set()
    return there, gone


def ask_for(
    uri: str, questions: Sequence[str], seconds: float, ready: Barrier, done: Event
) -> tuple[list[float], dict[str, tuple[float, float]], set[str]]:
    """Asks in turn for what is stored and for the newest lines.

    Returns milliseconds of each question, when each line was seen first and last, and the lines that are seen at the
    end.
    """
    times, seen = [], dict[str, tuple[float, float]]()
    with OpenMemory.open(uri, settings=PATIENT, is_logged=False) as memory:
        in_memory(memory)
        ready.wait()
        number, newest, until = 0, -1, time.time() + seconds + 1.0
        while time.time() < until or not done.is_set():
            awaited = " ".join(f"{MARK}{newest + step}" for step in range(1, 6))
            query = questions[number % len(questions)] if number % 3 else awaited
            started = time.perf_counter()
            found = memory.recall(query)
            times.append((time.perf_counter() - started) * 1000)
            for fact in found.facts:
                if MARK in fact.statement:
                    line = fact.statement.rstrip(".").rpartition(" ")[2]
                    seen[line] = seen.get(line, (time.time(), 0.0))[0], time.time()
                    newest = max(newest, int(line.removeprefix(MARK)))
            number += 1
        left = {line for n in range(7) for line in _lines_about(memory, f"Writer {n}")}
    return times, seen, left


def _lines_about(memory: OpenMemory, name: str) -> list[str]:
    with suppress(UnknownName):
        return [fact.statement.rstrip(".").rpartition(" ")[2] for fact in memory.facts_of(name)[1]]
    return []
