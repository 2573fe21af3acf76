"""Writers that are killed or stalled at random moments lose nothing acknowledged and leave nothing half done."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from slowwave.common.errors import Fenced
from slowwave.common.settings import RetentionSettings
from storage import transactions
from storage.doctor import examine
from storage.snapshots import Reading
from storage.store import Store
from storage.transactions import LARGE

NewStore = Callable[[], Store]
ROOT = Path(__file__).parents[2]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)  # not that of conftest: what it brings along would slow every writer down
BRIEF = RetentionSettings(lease_s=1.0, lease_wait_s=60.0)
KEYS = [f"k{number}" for number in range(20)]
SECONDS = 8.0
FEWEST = 2  # kills of each, however slow the machine is
FEWEST_LOOKS = 6
PLACES = ("begun", "one table", "all tables")
TABLES_SEEN = ("metadata", "facts", "entity_aliases")


def count_up(store: Store, name: str, wait: Callable[[str], None] = lambda _: None) -> None:
    """One commit: a row of its own, and the next number under every shared key of three tables."""
    with store.commit(name, "count", EPOCH) as tx:
        number = counters(tx)[0] + 1
        wait("begun")
        own = pl.DataFrame({"id": [name], "text": [name]})
        shared = pl.DataFrame({"id": KEYS, "number": [float(number)] * len(KEYS)})
        tx.upsert("metadata", pl.concat([own, shared], how="diagonal"))
        wait("one table")
        tx.upsert("facts", pl.DataFrame({"id": KEYS, "evidence_count": number}))
        alias = pl.DataFrame({"id": KEYS, "alias_name": str(number), "entity_id": "e"})
        tx.upsert("entity_aliases", alias)
        if not number % 5:
            tx.delete("entity_aliases", KEYS[:3])
            tx.upsert("entity_aliases", alias.head(3))
        wait("all tables")


def counters(reading: Reading) -> list[int]:
    """The number in each of the three tables; an error if two rows of one table disagree."""
    columns = ("number", "evidence_count", "alias_name")
    found = [
        reading.frame(name, f"id LIKE 'k%' AND {column} IS NOT NULL", ["id", column])
        for name, column in zip(TABLES_SEEN, columns, strict=True)
    ]
    numbers = []
    for rows, column in zip(found, columns, strict=True):
        assert rows["id"].sort().to_list() in ([], sorted(KEYS)), rows
        assert rows[column].n_unique() <= 1, rows
        numbers.append(int(float(rows[column][0])) if len(rows) else 0)
    return numbers


def write_for_ever(uri: str, who: str, acknowledged: str) -> None:
    """Commit in a loop; note each commit after it has returned."""
    store = Store.open(uri, retention=BRIEF)
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        try:
            count_up(store, f"{who}-{number}")
        except Fenced:
            continue
        os.write(file, f"{who}-{number}\n".encode())


def read_for_ever(uri: str) -> None:
    """Take snapshots until stdin ends, some at least, and check that the tables agree and the number never falls."""
    store, last, taken = Store.open(uri), 0, 0
    print("ready", flush=True)
    while taken < FEWEST_LOOKS or not select.select([sys.stdin], [], [], 0)[0]:
        numbers = counters(store.snapshot())
        assert len(set(numbers)) == 1, numbers
        assert numbers[0] >= last, (numbers, last)
        last, taken = numbers[0], taken + 1
    print(taken)


def doze(uri: str) -> None:
    """At each place of a commit, stop until a line arrives, go on, and print how the commit ended."""
    store = Store.open(uri, retention=BRIEF)
    for where in PLACES:

        def wait(place: str, where: str = where) -> None:
            if place == where:
                print("ready", flush=True)
                sys.stdin.readline()

        try:
            count_up(store, f"zombie {where}", wait)
            print("committed", flush=True)
        except Fenced:
            print("fenced", flush=True)


@contextmanager
def process(role: Callable[..., None], *arguments: str, large: int = LARGE) -> Iterator[subprocess.Popen[str]]:
    """One of the roles above in a process of its own, once it is ready; keys are looked up from `large` rows on."""
    change = f"storage.transactions.LARGE = {large}"
    code = f"import sys, storage.transactions, test_crashes; {change}; test_crashes.{role.__name__}(*sys.argv[1:])"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)])
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as started:
        assert started.stdout
        try:
            assert started.stdout.readline() == "ready\n"
            yield started
        finally:
            started.kill()


def harass(uri: str, who: str, acknowledged: str, seed: int, large: int) -> list[str]:
    """Run writers one after the other until time is up, but two at least; kill each, some stalled before."""
    chance, end, deeds = random.Random(seed), time.monotonic() + SECONDS, []
    while time.monotonic() < end or len(deeds) < FEWEST:
        with process(write_for_ever, uri, f"{who}-{len(deeds)}", acknowledged, large=large) as writer:
            time.sleep(chance.uniform(0.05, 1.0))
            if chance.random() < 0.3:
                writer.send_signal(signal.SIGSTOP)
                time.sleep(BRIEF.lease_s + 0.3)
                writer.send_signal(signal.SIGCONT)
                deeds.append("stalled")
                time.sleep(chance.uniform(0.05, 0.5))
            assert writer.poll() is None, f"a writer ended by itself with {writer.returncode}: see stderr"
            writer.kill()
            deeds.append("killed")
    return deeds


@pytest.mark.proof
@pytest.mark.parametrize(("names", "large"), [("ab", LARGE), ("abcd", 0)], ids=["compared", "looked up"])
def test_killed_and_stalled_writers_lose_nothing_and_no_reader_sees_half_a_commit(
    new_store: NewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, large: int
) -> None:
    monkeypatch.setattr(transactions, "LARGE", large)
    store = new_store()
    with store.commit("first", "count", EPOCH) as tx:
        tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["e"]}))
    acknowledged = tmp_path / "acknowledged"
    with process(read_for_ever, store.uri) as reader:
        with ThreadPoolExecutor(len(names)) as pool:
            turns = [(store.uri, who, str(acknowledged), seed, large) for seed, who in enumerate(names)]
            writers = [pool.submit(harass, *turn) for turn in turns]
            deeds = [deed for writer in writers for deed in writer.result()]
        snapshots = int(reader.communicate()[0])
        assert reader.returncode == 0
    assert len(deeds) >= FEWEST * len(names)
    assert snapshots >= FEWEST_LOOKS
    count_up(store, "last")
    snapshot = store.snapshot()
    for name in TABLES_SEEN:
        assert snapshot.frame(name, columns=["id"])["id"].is_unique().all()
    commits = snapshot.frame("commits").sort("sequence")
    own = snapshot.frame("metadata", "text IS NOT NULL")["id"]
    counted = commits.filter((pl.col("kind") == "count") & (pl.col("run_id") != "first"))["run_id"]
    assert set(acknowledged.read_text().split()) <= set(own)
    assert own.sort().to_list() == counted.sort().to_list()
    assert counters(snapshot) == [len(counted)] * 3
    assert commits["sequence"].to_list() == list(range(1, len(commits) + 1))
    assert examine(store) == ()


@pytest.mark.proof
@pytest.mark.parametrize("large", [LARGE, 0], ids=["compared", "looked up"])
def test_a_writer_that_wakes_up_after_its_lease_is_fenced_wherever_it_slept(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(transactions, "LARGE", large)
    store = new_store()
    with store.commit("first", "test", EPOCH) as tx:
        tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["e"]}))
    with process(doze, store.uri, large=large) as zombie:
        assert zombie.stdin
        assert zombie.stdout
        for number, place in enumerate(PLACES):
            assert number == 0 or zombie.stdout.readline() == "ready\n"
            zombie.send_signal(signal.SIGSTOP)
            assert counters(store.snapshot()) == [number] * 3
            count_up(Store.open(store.uri, retention=BRIEF), f"other {place}")
            zombie.send_signal(signal.SIGCONT)
            zombie.stdin.write("wake up\n")
            zombie.stdin.flush()
            assert zombie.stdout.readline() == "fenced\n"
            assert counters(store.snapshot()) == [number + 1] * 3
    count_up(store, "last")
    assert counters(store.snapshot()) == [4] * 3
    assert store.snapshot().frame("metadata", "id LIKE 'zombie%'").is_empty()
    assert examine(store) == ()
