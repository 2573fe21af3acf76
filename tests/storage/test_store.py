"""What a store promises: commits, snapshots, names, the lease, appending, the embedding check."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest
from conftest import EPOCH, TINY, killed_creation

from slowwave.common.errors import Fenced, LeaseBusy, StoreMismatch, UnknownName, UnusableInput
from slowwave.common.settings import RetentionSettings
from storage import transactions
from storage.connection import HEAD, connect, namespaces, place_for_making
from storage.lease import HeadRow, new_owner
from storage.snapshots import Reading
from storage.store import Store, make_tables
from storage.undo import undo

NewStore = Callable[[], Store]


def put(store: Store, run: str, number: float, name: str = "k", now: datetime = EPOCH) -> None:
    with store.commit(run, "test", now) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": [name], "number": [number]}))


def numbers(reading: Reading) -> dict[str, float]:
    return dict(reading.frame("metadata").select("id", "number").iter_rows())


def impatient(store: Store, wait_s: float = 0.1) -> Store:
    return Store.open(store.uri, store.namespace, retention=RetentionSettings(lease_wait_s=wait_s))


def lend(store: Store, owner: str, seconds: float) -> None:
    """Give the lease to somebody else, as it would look in the head."""
    until = time.time() + seconds
    store.db.open_table(HEAD).update(
        values={"owner": owner, "lease_until": until, "lease_count": store.head.lease_count + 1}
    )


class TestNames:
    @pytest.mark.parametrize("name", ["..", "../other", "a/b", "/etc", ".hidden", "", "a" * 64, "a..b", "ä", "a\n"])
    def test_a_name_that_could_leave_the_store_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(UnusableInput, match="cannot be a namespace"):
            Store.create(str(tmp_path / "store"), name, TINY)
        assert not (tmp_path / "store").exists()
        assert not list(tmp_path.rglob("*.lance"))

    def test_a_store_that_does_not_exist_is_not_made_by_opening_it(self, tmp_path: Path) -> None:
        with pytest.raises(UnusableInput, match="no store at"):
            Store.open(str(tmp_path / "nowhere"))
        assert not (tmp_path / "nowhere").exists()

    def test_namespaces_are_listed_and_apart(self, new_store: NewStore) -> None:
        store = new_store()
        other = Store.create(store.uri, "other-1.b", TINY)
        put(store, "r", 1)
        assert namespaces(store.uri) == ["default", "other-1.b"]
        assert numbers(other.snapshot()) == {}

    def test_a_quote_in_an_id_is_only_a_character(self, new_store: NewStore) -> None:
        store = new_store()
        put(store, "r", 1, name="o'k")
        put(store, "s", 2)
        with store.commit("t", "test") as tx:
            tx.delete("metadata", ["o'k", "' OR 1=1 --"])
        assert numbers(store.snapshot()) == {"k": 2}


class TestCommit:
    def test_one_body_is_one_commit_that_names_the_tables_it_wrote(self, new_store: NewStore) -> None:
        store = new_store()
        before = store.commits()
        store.clock = lambda: EPOCH
        with store.commit("r", "apply", EPOCH) as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["k"]}))
            tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["ana"]}))
            tx.delete("metadata", ["k"])
        made = store.commits().filter(pl.col("sequence") > before["sequence"].max())
        assert made.select("sequence", "kind", "run_id", "at").rows() == [(len(before) + 1, "apply", "r", EPOCH)]
        assert set(json.loads(made["before"][0])) == {"metadata", "entities"}

    def test_a_body_that_writes_nothing_leaves_nothing(self, new_store: NewStore) -> None:
        store = new_store()
        before = store.head
        with store.commit("r", "test") as tx:
            tx.upsert("metadata", pl.DataFrame({"id": []}, schema={"id": pl.String}))
            tx.delete("metadata", [])
        assert (store.head.sequence, store.head.versions, store.head.owner) == (before.sequence, before.versions, "")

    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
    def test_a_body_that_raises_leaves_nothing_and_frees_the_lease(
        self, new_store: NewStore, error: type[BaseException]
    ) -> None:
        store = new_store()
        put(store, "r", 1)
        before = store.head

        def fail() -> None:
            with store.commit("s", "test") as tx:
                tx.upsert("metadata", pl.DataFrame({"id": ["k", "l"], "number": [2.0, 2.0]}))
                tx.delete("commits", ["c_0000000001"])
                raise error

        with pytest.raises(error):
            fail()
        assert store.head.versions == before.versions
        assert store.head.owner == ""
        put(impatient(store), "t", 3, name="m")
        assert numbers(store.snapshot()) == {"k": 1, "m": 3}
        assert store.commits()["sequence"].to_list() == [1, 2, 3]

    def test_the_body_sees_its_own_writes_and_readers_do_not(self, new_store: NewStore) -> None:
        store = new_store()
        put(store, "r", 1)
        reader = Store.open(store.uri)
        early = reader.snapshot()
        with store.commit("s", "test") as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [2.0]}))
            tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["ana"]}))
            assert numbers(tx) == {"k": 2}
            during = reader.snapshot()
            assert (numbers(early), numbers(during), during.count("entities")) == ({"k": 1}, {"k": 1}, 0)
        late = reader.snapshot()
        assert (numbers(late), late.count("entities")) == ({"k": 2}, 1)
        assert (numbers(early), numbers(during), during.count("entities")) == ({"k": 1}, {"k": 1}, 0)

    def test_a_key_given_twice_in_one_write_is_an_error(self, new_store: NewStore) -> None:
        store = new_store()
        with pytest.raises(ValueError, match="'k' occurs more than once"), store.commit("r", "test") as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["k", "k"]}))
        assert store.snapshot().count("metadata") == 0

    def test_an_upsert_replaces_the_whole_row_and_no_other(self, new_store: NewStore) -> None:
        store = new_store()
        with store.commit("r", "test", EPOCH) as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["a", "b"], "number": [1.0, 1.0], "text": ["x", "x"]}))
        with store.commit("s", "test", EPOCH + timedelta(days=1)) as tx:
            old = tx.by_ids("metadata", ["a"], ["id", "created_at"])
            tx.upsert("metadata", old.with_columns(number=2.0))
        rows = store.snapshot().frame("metadata").sort("id").select("number", "text", "created_at", "run_id").rows()
        assert rows == [(2.0, None, EPOCH, "s"), (1.0, "x", EPOCH, "r")]

    def test_many_ids_are_read_and_deleted_in_one_go(self, new_store: NewStore) -> None:
        store = new_store()
        ids = [f"id{number}" for number in range(5000)]
        with store.commit("r", "test") as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ids}))
        assert len(store.snapshot().by_ids("metadata", [*ids, "none"])) == 5000
        with store.commit("s", "test") as tx:
            tx.delete("metadata", ids[1:])
        assert numbers(store.snapshot()) == {"id0": None}

    def test_what_a_dead_writer_left_is_never_seen_and_put_back_by_the_next(self, new_store: NewStore) -> None:
        store = new_store()
        put(store, "r", 1)
        raw = store.db.open_table("metadata")
        raw.delete("true")
        raw.delete("true")
        assert numbers(store.snapshot()) == {"k": 1}
        with store.commit("s", "test") as tx:
            assert set(tx.recovered) == {"metadata"}
            assert numbers(tx) == {"k": 1}
            tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["ana"]}))
        assert numbers(store.snapshot()) == {"k": 1}

    def test_a_missing_table_is_named_with_the_way_out(self, new_store: NewStore) -> None:
        store = new_store()
        store.db.drop_table("episodes")
        with pytest.raises(StoreMismatch, match=r"Table episodes is missing.*doctor --repair"):
            put(store, "r", 1)
        assert store.head.owner == ""


class TestLogs:
    def test_a_state_table_cannot_be_appended_to_nor_a_log_written_in_a_commit(self, new_store: NewStore) -> None:
        store = new_store()
        with pytest.raises(ValueError, match="metadata is not a log"):
            store.append("metadata", pl.DataFrame({"id": ["x"]}))
        with pytest.raises(ValueError, match="entity_access_log is a log"), store.commit("r", "test") as tx:
            tx.upsert("entity_access_log", pl.DataFrame({"id": ["x"], "entity_id": ["e"]}))
        assert store.log("entity_access_log").is_empty()


class TestSnapshots:
    def test_any_state_is_found_by_commit_and_by_time(self, new_store: NewStore) -> None:
        store = new_store()
        start = datetime.now(UTC) + timedelta(days=1)  # after the making of the store
        for day in range(3):
            store.clock = lambda day=day: start + timedelta(days=day)
            put(store, f"r{day}", day)
        first = store.commits().filter(pl.col("run_id") == "r0")["sequence"][0]
        for day in range(3):
            assert numbers(store.snapshot(commit=first + day)) == {"k": day}
            assert numbers(store.snapshot(at=start + timedelta(days=day, hours=1))) == {"k": day}
        assert numbers(store.snapshot(at=start - timedelta(hours=1))) == {}

    def test_a_state_that_never_was_is_an_error(self, new_store: NewStore) -> None:
        store = new_store()
        put(store, "ingest-1", 1)
        with pytest.raises(UnknownName, match="commit 99"):
            store.snapshot(commit=99)
        with pytest.raises(UnknownName, match="1999"):
            store.snapshot(at=datetime(1999, 1, 1, tzinfo=UTC))


class TestEmbedding:
    def test_another_model_or_size_is_an_error_that_names_the_way_out(self, new_store: NewStore) -> None:
        store = new_store()
        for asked in [("test/other", 4), ("test/tiny", 8)]:
            with pytest.raises(StoreMismatch, match=r"test/tiny \(4 dimensions\).*slowwave reembed"):
                Store.open(store.uri, embedding=asked)
            with pytest.raises(StoreMismatch):
                Store.create(store.uri, "default", asked)

    def test_a_vector_of_another_size_is_refused(self, new_store: NewStore) -> None:
        store = new_store()
        with pytest.raises(pl.exceptions.PolarsError), store.commit("r", "test") as tx:
            tx.upsert("facts", pl.DataFrame({"id": ["f"], "vector": [[1.0, 0.0]]}))
        assert store.snapshot().count("facts") == 0


class TestLease:
    def test_a_second_writer_waits_and_is_told_who_writes(self, new_store: NewStore) -> None:
        store = new_store()
        with store.commit("night-shift", "test") as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [1.0]}))
            with pytest.raises(LeaseBusy, match=r"run night-shift \(process \d+\); waited 0.1 s.*lease_wait_s"):
                put(impatient(store), "s", 2)
        assert numbers(store.snapshot()) == {"k": 1}

    @pytest.mark.parametrize("is_buried", [True, False])
    def test_the_lease_of_a_dead_process_is_taken_over_at_once(self, new_store: NewStore, is_buried: bool) -> None:
        store = impatient(new_store())
        with subprocess.Popen(["sleep", "60"]) as process:
            lend(store, _owner(process.pid), 3600)
            with pytest.raises(LeaseBusy):
                put(store, "r", 1)
            process.kill()
            if is_buried:
                process.wait()
            else:
                _wait_for_state(process.pid, "Z")
            put(store, "r", 2)
        assert numbers(store.snapshot()) == {"k": 2}

    def test_a_process_number_used_again_does_not_keep_a_lease(self, new_store: NewStore) -> None:
        store = impatient(new_store())
        parts = new_owner("r").split("|")
        lend(store, "|".join([*parts[:3], "12345", parts[4]]), 3600)
        put(store, "r", 1)
        assert numbers(store.snapshot()) == {"k": 1}

    @pytest.mark.parametrize("is_written", [False, True])
    def test_a_writer_whose_lease_was_taken_cannot_publish(self, new_store: NewStore, is_written: bool) -> None:
        store = new_store()

        def be_slow() -> None:
            with store.commit("slow", "test") as tx:
                if is_written:
                    tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [1.0]}))
                lend(store, "", 0)
                put(store, "quick", 2)
                if not is_written:
                    tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [1.0]}))

        with pytest.raises(Fenced, match="Run it again"):
            be_slow()
        assert numbers(store.snapshot()) == {"k": 2}
        put(store, "next", 3, name="n")
        assert numbers(store.snapshot()) == {"k": 2, "n": 3}

    def test_a_foreign_write_into_a_table_that_was_written_is_noticed(self, new_store: NewStore) -> None:
        store = new_store()

        def write() -> None:
            with store.commit("r", "test") as tx:
                store.db.open_table("metadata").delete("false")
                tx.upsert("metadata", pl.DataFrame({"id": ["k"]}))

        with pytest.raises(Fenced, match="metadata"):
            write()
        assert store.snapshot().count("metadata") == 0

    def test_a_foreign_write_into_a_table_that_was_only_read_is_noticed(self, new_store: NewStore) -> None:
        store = new_store()
        put(store, "r", 1)

        def read_and_write() -> None:
            with store.commit("s", "test") as tx:
                store.db.open_table("metadata").update(values={"number": 7.0})
                tx.upsert("entities", pl.DataFrame({"id": ["e"], "canonical_name": [f"seen {numbers(tx)}"]}))

        with pytest.raises(Fenced, match="metadata"):
            read_and_write()
        assert store.snapshot().count("entities") == 0

    def test_a_foreign_write_during_a_rebuild_is_noticed(self, new_store: NewStore) -> None:
        store = new_store()
        put(store, "r", 1)
        with pytest.raises(Fenced, match="metadata"), store.commit("s", "test") as tx:
            tx.rebuild("metadata", lambda table: table.update(values={"number": 7.0}))
        assert numbers(store.snapshot()) == {"k": 1}


@pytest.mark.usefixtures("making_tables")
class TestMaking:
    def test_several_creators_at_once_make_one_store(self, tmp_path: Path) -> None:
        together = Barrier(3)

        def create(number: int) -> Store:
            together.wait()
            store = Store.create(str(tmp_path / "store"), "default", TINY)
            put(store, f"r{number}", number, name=f"k{number}")
            return store

        with ThreadPoolExecutor(3) as pool:
            stores = list(pool.map(create, range(3)))
        assert numbers(stores[0].snapshot()) == {"k0": 0, "k1": 1, "k2": 2}
        assert stores[0].commits()["kind"].to_list() == ["init", "test", "test", "test"]

    def test_a_maker_that_dies_leaves_no_namespace_and_stands_in_nobodys_way(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def die(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("storage.store.create_head", die)
            with pytest.raises(KeyboardInterrupt):
                Store.create(str(tmp_path), "default", ("test/large", 8))
        assert namespaces(str(tmp_path)) == []
        assert indexed(Store.create(str(tmp_path), "default", TINY)) == {"statement"}
        assert [path.name for path in tmp_path.iterdir()] == ["default"]

    def test_the_next_creation_removes_what_a_killed_one_left_and_nothing_that_is_being_made(
        self, tmp_path: Path
    ) -> None:
        left = killed_creation(tmp_path)
        with place_for_making(str(tmp_path), "slow") as place:
            making = Path(place).name
            assert left.name not in {making, *(path.name for path in tmp_path.iterdir())}
            Store.create(str(tmp_path), "default", TINY)
            assert {path.name for path in tmp_path.iterdir()} == {making, "default"}
            make_tables(connect(place, "slow"), *TINY)
        assert namespaces(str(tmp_path)) == ["default", "slow"]
        assert {path.name for path in tmp_path.iterdir()} == {"default", "slow"}

    def test_a_half_made_namespace_beside_the_others_is_not_listed(self, new_store: NewStore) -> None:
        store = new_store()
        make_tables(connect(f"{store.uri}/.making-x", "other"), *TINY)
        connect(f"{store.uri}/half", "x").create_table("facts", pl.DataFrame({"id": ["a"]}).to_arrow())
        assert namespaces(store.uri) == ["default"]

    def test_indexes_that_the_maker_did_not_come_to_are_made_by_whoever_opens_the_store(self, tmp_path: Path) -> None:
        make_tables(connect(str(tmp_path), "default"), *TINY)
        assert indexed(Store.open(str(tmp_path))) == {"statement"}
        assert Store.open(str(tmp_path)).head.sequence == 1

    def test_a_directory_that_is_no_namespace_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "default").mkdir()
        (tmp_path / "default" / "letter.txt").write_text("dear")
        with pytest.raises(UnusableInput, match="is there already and is no namespace"):
            Store.create(str(tmp_path), "default", TINY)
        assert [path.name for path in tmp_path.rglob("*")] == ["default", "letter.txt"]


def indexed(store: Store) -> set[str]:
    return {column for index in store.db.open_table("facts").list_indices() for column in index.columns}


def _owner(pid: int) -> str:
    parts = new_owner("r").split("|")
    stat = Path(f"/proc/{pid}/stat").read_text()
    return "|".join([*parts[:2], str(pid), stat.rpartition(")")[2].split()[19], parts[4]])


def _wait_for_state(pid: int, state: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        time.sleep(0.01)


def test_in_a_large_table_a_write_replaces_what_has_its_keys_and_undo_puts_it_back(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LARGE", 3)
    store = new_store()

    def put_all(run: str, rows: dict[str, float]) -> None:
        with store.commit(run, "test", EPOCH) as tx:
            tx.upsert("metadata", pl.DataFrame({"id": [*rows], "number": [*rows.values()]}))

    put_all("first", {"a": 1, "b": 2, "c": 3})
    before = store.snapshot().frame("metadata").sort("id")
    put_all("new", {"d": 4})
    put_all("mixed", {"b": 20, "c": 30, "e": 5})
    assert numbers(store.snapshot()) == {"a": 1, "b": 20, "c": 30, "d": 4, "e": 5}
    assert store.snapshot().count("metadata") == 5
    undo(store, "mixed", "x", EPOCH)
    undo(store, "new", "y", EPOCH)
    assert store.snapshot().frame("metadata").sort("id").equals(before)


def test_a_head_that_this_process_moved_is_read_only_after_another_moved_it(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    other = Store.open(store.uri)
    put(store, "first", 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(HeadRow, "_rows", pytest.fail)
        put(store, "second", 2.0)
        assert numbers(store.snapshot()) == {"k": 2.0}
        known = store.head
    assert known == Store.open(store.uri).head
    put(other, "third", 3.0)
    assert numbers(store.snapshot()) == {"k": 3.0}
    put(store, "fourth", 4.0)
    assert numbers(other.snapshot()) == {"k": 4.0}


@pytest.mark.parametrize("large", [0, transactions.LARGE], ids=["looked up", "compared"])
def test_of_vectors_that_are_no_numbers_the_row_is_kept_without_one(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(transactions, "LARGE", large)
    store, dims = new_store(), TINY[1]
    vectors = pl.Series([[1.0] * dims, [float("nan")] * dims, None], dtype=pl.Array(pl.Float32, dims))
    with store.commit("r", "test") as tx:
        tx.upsert("facts", pl.DataFrame({"id": ["whole", "broken", "none"], "vector": vectors}))
    rows = store.snapshot().frame("facts", columns=["id", "vector"])
    assert dict(rows.select("id", pl.col("vector").is_null()).iter_rows()) == {
        "whole": False,
        "broken": True,
        "none": True,
    }
