"""A store on S3: made once by several, written by several, moved by conditional puts, and its life from end to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from threading import Barrier
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH, TINY
from stores import another_process
from talk import learn, said, written

from bench.loopback_storage import CONDITIONAL, LoopbackStorage, loopback_storage
from inference.embedding import open_embedder
from slowwave.common.errors import Fenced, NoStoreYet, UnknownName, UnusableInput
from slowwave.common.settings import RetentionSettings
from slowwave.integrations.python_api import OpenMemory
from storage import following
from storage.connection import HEAD, connect, files, has_namespace, namespaces
from storage.doctor import examine
from storage.following import Residents
from storage.handles import WarmTables
from storage.lease import Clock, make_once
from storage.residents import ResidentSpec
from storage.store import Store

pytestmark = pytest.mark.proof

TALK = (("Marta", "I work at Ferrywise as the backend lead and I live in Lisbon."), ("assistant", "Ok."))
URI = "s3://memory/our/house"
Learned = dict[str, Any]
_fresh = count()


@pytest.fixture(scope="module")
def s3() -> Iterator[LoopbackStorage]:
    """An S3 on loopback that the environment names."""
    with loopback_storage() as storage:
        yield storage


@pytest.fixture(scope="module")
def made(s3: LoopbackStorage) -> list[Store]:
    """One namespace as two processes made it at once, each of which wrote a number as its run `made…`."""
    together, seat = Barrier(2), open_embedder()

    def make(number: int) -> Store:
        together.wait()
        store = Store.create(URI, "default", (seat.name, seat.dims), retention=RetentionSettings(lease_wait_s=60))
        put(store, f"made{number}", number, name=f"made{number}")
        return store

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(make, range(2)))


@pytest.fixture(scope="module")
def learned(made: list[Store], tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """The summary of a run that ingested into the namespace."""
    source = written(tmp_path_factory.mktemp("s3") / "a.jsonl", said(TALK))
    return learn(source, URI)  # type: ignore[arg-type]


@pytest.fixture
def house(learned: Learned) -> Store:
    """The namespace, opened anew."""
    return Store.open(URI, retention=RetentionSettings(lease_wait_s=30))


def put(store: Store, run: str, number: float, name: str = "k") -> None:
    with store.commit(run, "test", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": [name], "number": [number]}))


def numbers(store: Store) -> dict[str, float]:
    rows = store.snapshot().frame("metadata", "number IS NOT NULL AND id NOT LIKE 'count%'", ["id", "number"])
    return dict(rows.iter_rows())


def new_key() -> str:
    return f"k{next(_fresh)}"


class TestLife:
    @pytest.mark.proof
    def test_what_was_ingested_is_recalled_and_the_doctor_finds_nothing(self, house: Store, learned: Learned) -> None:
        assert learned["counts"]["facts learned"] > 0
        with OpenMemory.open(URI) as memory:
            assert "Lisbon" in memory.recall("Where does Marta live?").facts[0].statement
        assert house.log("retrieval_events").height > 0
        assert examine(house) == ()
        assert sum(files(f"{URI}/default").values()) > 10_000

    def test_the_namespaces_are_those_with_a_head_and_unknown_ones_are_named(self, house: Store) -> None:
        connect(URI, "half").create_table("facts", pl.DataFrame({"id": ["a"]}).to_arrow())
        assert namespaces(URI) == ["default"]
        assert [has_namespace(URI, name) for name in ("default", "defaul", "half")] == [True, False, False]
        with pytest.raises(UnknownName, match="Did you mean 'default'"):
            Store.open(URI, "defaul")
        with pytest.raises(NoStoreYet):
            Store.open("s3://memory/elsewhere")


class TestReaders:
    def test_what_another_process_wrote_is_read_from_one_file(
        self, house: Store, s3: LoopbackStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        specs = {"metadata": ResidentSpec(("id", "number"))}
        warm = WarmTables(house, [*specs], residents=Residents(house, specs, 1 << 30))
        loop, key = asyncio.new_event_loop(), new_key()

        def seen() -> list[str]:
            return loop.run_until_complete(warm.newest(is_eager=True)).residents["metadata"].column("id").to_list()

        assert key not in seen()
        with another_process():
            put(Store.open(URI), "other", 5, name=key)
        monkeypatch.setattr(following, "read_step", None)
        s3.taken()
        assert key in seen()
        assert s3.taken().total() < 12
        loop.close()


class TestSettings:
    def test_a_bucket_that_is_not_there_and_a_server_that_does_not_answer_are_named(
        self, s3: LoopbackStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(UnusableInput, match="no bucket 'nowhere'"):
            Store.create("s3://nowhere/house", "default", TINY)
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(UnusableInput, match=r"does not answer.*AWS_ENDPOINT_URL"):
            Store.open(URI)


class TestWriters:
    def test_writers_at_once_lose_no_update(self, house: Store) -> None:
        together = Barrier(3)

        def count_up(who: int) -> None:
            store = Store.open(URI, retention=RetentionSettings(lease_wait_s=60))
            together.wait()
            for turn in range(2):
                with store.commit(f"w{who}-{turn}", "test", EPOCH) as tx:
                    rows = tx.frame("metadata", "id = 'count'", ["number"])["number"]
                    number = (rows[0] if len(rows) else 0.0) + 1
                    own = f"count-{who}-{turn}"
                    tx.upsert("metadata", pl.DataFrame({"id": ["count", own], "number": [number, 0.0]}))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(count_up, range(3)))
        rows = house.snapshot().frame("metadata", "id LIKE 'count%'", ["id", "number"])
        assert rows.filter(pl.col("id") == "count")["number"].to_list() == [6.0]
        assert len(rows) == rows["id"].n_unique() == 7

    def test_the_head_is_moved_by_a_conditional_put_that_one_of_two_wins(
        self, house: Store, s3: LoopbackStorage
    ) -> None:
        first, second = (Store.open(URI)._row for _ in range(2))
        seen = house.head
        s3.taken()
        taken = [row._take(seen, f"w|elsewhere|1|1|{n}", 30.0) for n, row in enumerate((first, second))]
        assert [held is not None for held in taken] == [True, False]
        assert s3.taken()[CONDITIONAL] >= 1
        held = taken[0]
        assert held is not None
        first.release(held)

    def test_a_version_once_written_is_not_written_over(self, house: Store, s3: LoopbackStorage) -> None:
        put(house, "r", 1, name := new_key())
        newest = house.db.open_table("metadata").version
        s3.taken()
        stale = house.db.open_table("metadata", version=newest - 1)
        stale.checkout_latest()
        put(house, "r", 2, name)
        assert house.db.open_table("metadata").version == newest + 1
        asked = s3.taken()
        assert asked[CONDITIONAL] == 4  # the lease, the table, the row of the commit, the head

    def test_a_stalled_writer_is_fenced_and_what_it_left_is_put_back(self, house: Store) -> None:
        name = new_key()

        def be_slow() -> None:
            with house.commit("slow", "test", EPOCH) as tx:
                tx.upsert("metadata", pl.DataFrame({"id": [name], "number": [1.0]}))
                values = {"owner": "", "lease_until": 0.0, "lease_count": house.head.lease_count + 1}
                house.db.open_table(HEAD).update(values=values)
                put(Store.open(URI), "quick", 2, name)

        with pytest.raises(Fenced, match="Run it again"):
            be_slow()
        assert numbers(house)[name] == 2
        put(house, "next", 3, other := new_key())
        assert {key: numbers(house)[key] for key in (name, other)} == {name: 2, other: 3}

    @pytest.mark.proof
    @pytest.mark.parametrize("is_clean", [True, False])
    def test_what_a_dead_writer_left_is_put_back_before_a_table_is_used(self, house: Store, is_clean: bool) -> None:
        put(house, "r", 1, name := new_key())
        house.db.open_table("metadata").delete(f"id = '{name}'")
        owner = "" if is_clean else "dead|elsewhere|1|1|x"
        house.db.open_table(HEAD).update(values={"owner": owner, "lease_until": 0.0})
        with house.commit("s", "test", EPOCH) as tx:
            assert ("metadata" in tx.recovered) is not is_clean  # after a clean end only what is used is looked at
            assert tx.count("metadata", f"id = '{name}'") == 1
            assert tx.was_ahead("metadata")
            tx.keep_recovered()
        assert numbers(house)[name] == 1
        assert house.db.open_table("metadata").version == house.head.versions["metadata"]

    def test_an_answer_that_gets_lost_is_no_lost_lease(self, house: Store, s3: LoopbackStorage) -> None:
        lost: list[str] = []

        def loses(method: str, path: str) -> bool:
            is_head = method == "PUT" and f"{HEAD}.lance/_versions/" in path
            if is_head and path not in lost:
                lost.append(path)
                return True
            return False

        before, name = house.head.sequence, new_key()
        s3.loses = loses
        try:
            put(house, "r", 7, name)
        finally:
            s3.loses = lambda method, path: False
        assert len(lost) >= 2  # the lease was taken and given back, and neither was heard
        assert house.head.sequence == before + 1
        assert house.head.owner == ""
        assert numbers(house)[name] == 7


class TestMaking:
    def test_several_makers_at_once_make_one_namespace(self, made: list[Store]) -> None:
        found = numbers(made[0])
        assert {name: found[name] for name in ("made0", "made1")} == {"made0": 0, "made1": 1}
        assert made[1].commits()["kind"].to_list()[:3] == ["init", "test", "test"]

    def test_a_maker_that_died_or_fell_silent_is_followed_by_another(self, s3: LoopbackStorage) -> None:
        db, made = connect("s3://memory/claims", "default"), []
        db.create_table("_making_0", pl.DataFrame({"owner": ["making|elsewhere|1|1|x"]}).to_arrow())
        seconds = count(step=5)
        clock = replace(Clock(), steady=lambda: float(next(seconds)), sleep=lambda _: None)
        make_once(db, lambda: made.append(1), lambda: bool(made), lease_s=30, clock=clock)
        make_once(db, lambda: made.append(2), lambda: bool(made), lease_s=30, clock=clock)
        assert made == [1]
