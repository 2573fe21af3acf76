"""What is in memory follows the store: after any history it answers as a fresh process does."""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import tracemalloc
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from errno import ENOSPC
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from conftest import EPOCH
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import another_process, as_another_process, fact

from recall.search import RESIDENT
from slowwave.common.errors import Fenced
from storage import following, residents, row_steps, snapshots, vectors
from storage.connection import LEFT, all_left
from storage.following import Residents, State
from storage.handles import WarmTables
from storage.lease import HeadRow
from storage.residents import Condition, Resident, ResidentSpec
from storage.rows import id_filters
from storage.search import near_rows
from storage.snapshots import read_rows
from storage.store import Store
from storage.transactions import Transaction
from storage.undo import undo
from storage.upkeep import tend
from storage.warm import Tables
from tasks.runtime.runs import vector_column

SPECS = {
    "facts": ResidentSpec(
        ("id", "statement", "subject_id", "status", "valid_to", "confidence", "message_id"),
        words="statement", has_vectors=True, end="valid_to",
    ),
    "fact_evidence": ResidentSpec(("id", "fact_id", "message_id", "occurred_at")),
}  # fmt: skip
WORDS = ("violin", "boat", "honey", "orchestra", "harbour")
LIVE = Condition("status = 'active'")


def vectors_of(texts: list[str]) -> np.ndarray:
    """A unit vector of the width of the test stores for each text."""
    raw = np.array([[text.count(letter) for letter in "aonb"] for text in texts], np.float32) + 0.1
    return raw / np.linalg.norm(raw, axis=1, keepdims=True)


def rows_of(numbers: list[int], turn: int) -> pl.DataFrame:
    texts = [f"{WORDS[n % 5]} {WORDS[(n + turn) % 5]} {WORDS[turn % 5]}" for n in numbers]
    made = [
        fact(f"f{n}", text, subject_id=f"e{n % 3}", status="active" if (n + turn) % 4 else "superseded")
        for n, text in zip(numbers, texts, strict=True)
    ]
    return pl.DataFrame(made, infer_schema_length=None).with_columns(vector_column(vectors_of(texts)))


def evidence_of(numbers: list[int], turn: int) -> pl.DataFrame:
    rows = [{"id": f"v{n}-{turn}", "fact_id": f"f{n}", "message_id": f"m{turn}", "occurred_at": EPOCH} for n in numbers]
    return pl.DataFrame(rows)


def answers(state: State) -> dict[str, Any]:
    """All that is answered, by ids."""
    facts, evidence = state["facts"], state["fact_evidence"]
    ids = facts.column("id").to_list()
    found: dict[str, Any] = {"ids": sorted(ids), "size": (len(facts), len(evidence))}
    places = facts.places("id", sorted(ids))
    columns = ("id", "statement", "subject_id", "status", "confidence")
    rows = [{name: row[name] for name in columns} for row in facts.rows(places, columns)]
    found["rows"] = sorted(rows, key=lambda row: row["id"])
    found["values"] = sorted(facts.values("statement", places))
    vectors = dict(zip(facts.values("id", places), facts.vectors(places), strict=True))
    found["vectors"] = [vectors[name].tolist() for name in sorted(vectors)]
    found["met"] = sorted(facts.values("id", np.flatnonzero(facts.mask(LIVE))))
    for subject in ("e0", "e1", "e2"):
        found[subject] = sorted(facts.values("id", facts.places("subject_id", [subject], LIVE)))
    for query in ("violin honey", "boat boat", "harbour"):
        scores = facts.matching(query, 100, LIVE)
        found[query] = sorted(zip(np.round(scores[1], 9), facts.values("id", scores[0]), strict=True))
        vector = vectors_of([query])[0]
        near = facts.nearest(vector, 100, LIVE)
        found[query, "near"] = sorted(zip(np.round(near[1], 9), facts.values("id", near[0]), strict=True))
    found["evidence"] = sorted(evidence.values("id", evidence.places("fact_id", [f"f{n}" for n in range(12)])))
    return found


class Reader:
    """Reads the tables of a store into memory, on a loop of its own."""

    def __init__(self, store: Store, specs: Mapping[str, ResidentSpec] = SPECS) -> None:
        self.loop = asyncio.new_event_loop()
        self.warm = WarmTables(store, [*specs], residents=Residents(store, specs, 1 << 30))

    def state(self) -> State:
        return self.loop.run_until_complete(self.warm.newest(is_eager=True)).residents

    async def renewed(self) -> None:
        """What is read anew is there."""
        assert self.warm._residents is not None
        await asyncio.gather(*self.warm._residents._renewed.values())

    def close(self) -> None:
        self.loop.run_until_complete(self.renewed())
        self.loop.close()


def looked_up(store: Store, *, in_memory: bool = True) -> Any:
    """Whole rows by their ids, and how many there are: what this process wrote last is not read again."""
    ids, seen = [f"f{n}" for n in range(12)], store.snapshot()
    if not in_memory:
        rows = seen.frame("facts", next(id_filters(ids)))
        return rows.sort("id").to_dicts(), len(rows)
    rows = pl.concat([seen.by_ids("facts", [each]) for each in ids])
    return rows.sort("id").to_dicts(), sum(seen.count_ids("facts", [each]) for each in ids)


numbers = st.lists(st.integers(0, 11), min_size=1, max_size=6, unique=True)
deeds = st.one_of(
    st.tuples(st.just("put"), numbers),
    st.tuples(st.just("remove"), numbers),
    st.tuples(st.just("say"), numbers),
    st.tuples(st.just("undo"), numbers),
    st.tuples(st.just("tend"), numbers),
    st.tuples(st.just("fail"), numbers),
)


def do(store: Store, deed: str, chosen: list[int], turn: int) -> None:
    run = f"r{turn}"
    if deed == "undo":
        done = [row["run_id"] for row in store.commits().iter_rows(named=True) if row["kind"] == "test"]
        undone = {name for names in store.commits()["undoes"].drop_nulls() for name in names}
        left = [name for name in done if name not in undone]
        if left:
            undo(store, left[-1], run, EPOCH, cascade=True)
        return
    if deed == "tend":
        tend(store, run, EPOCH, thorough=True)
        return
    try:
        with store.commit(run, "test", EPOCH) as tx:
            if deed in ("put", "fail"):
                tx.upsert("facts", rows_of(chosen, turn))
            if deed == "remove":
                tx.delete("facts", [f"f{n}" for n in chosen])
            if deed == "say":
                tx.upsert("fact_evidence", evidence_of(chosen, turn))
                tx.upsert("facts", rows_of(chosen[:1], turn))
            if deed == "fail":
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass


def rows_are_gone(place: Path) -> None:
    """What was left for other processes is not there."""
    for file in (place / "default" / LEFT).glob("*"):
        file.unlink()


GONE = "another, whose files are gone"


@pytest.mark.parametrize("writer", ["own", "another", pytest.param(GONE, marks=pytest.mark.proof)])
@given(history=st.lists(st.tuples(deeds, st.booleans()), min_size=1, max_size=8))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_memory_answers_as_a_fresh_process_does(
    empty_store: Path, tmp_path_factory: pytest.TempPathFactory, writer: str, history: list[Any]
) -> None:
    place = tmp_path_factory.mktemp("following") / "store"
    shutil.copytree(empty_store, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residents, "LAST", 2)
        patch.setattr(residents, "NEWEST", 4)
        patch.setattr(residents, "NEWER", 6)
        patch.setattr(row_steps, "AT_ONCE", 2)
        patch.setattr(row_steps, "_WHILE_AT_IT", 1)
        store = Store.open(str(place))
        do(store, "put", [*range(12)], 0)
        reader = Reader(store)
        reader.state()
        for turn, ((deed, chosen), is_looked_at) in enumerate(history, 1):
            with nullcontext() if writer == "own" else another_process():
                do(store, deed, chosen, turn)
            if writer == GONE:
                rows_are_gone(place)
            if is_looked_at or turn == len(history):
                fresh = Reader(Store.open(str(place)))
                assert answers(reader.state()) == answers(fresh.state())
                fresh.close()
            assert looked_up(store) == looked_up(store, in_memory=False)
        reader.close()


def test_what_is_published_is_no_failure_where_small_files_cannot_be_joined(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    shutil.copytree(empty_store, tmp_path / "store")
    store = Store.open(str(tmp_path / "store"))
    monkeypatch.setattr(row_steps, "AT_ONCE", 2)
    monkeypatch.setattr(Transaction, "rewrite", full)
    for turn in range(4):
        do(store, "put", [turn], turn)
    assert len(Store.open(str(tmp_path / "store")).snapshot().frame("facts")) == 4
    assert "what follows a commit was not done" in caplog.text


CONDITIONS = ("status = 'active'", "status = 'active' AND message_id IS NULL", "confidence > 0.5 OR subject_id = 'e1'")


def read_in(tx: Transaction, *, by_engine: bool = False) -> list[Any]:
    """What a transaction finds: rows by id, by another key and a condition, all that meet one, and their numbers."""
    ids = [f"f{n}" for n in range(14)]

    def frame(where: str) -> pl.DataFrame:
        return read_rows(tx.handle("facts"), where, ["id", "statement", "status"])

    found: list[Any] = [
        frame(next(id_filters(ids))) if by_engine else tx.by_ids("facts", ids, ["id", "statement", "status"])
    ]
    for where in CONDITIONS:
        about = "subject_id IN ('e0', 'e2')"
        columns = ["id", "statement", "status"]
        found.append(frame(f"({where}) AND {about}") if by_engine
                     else tx.by_ids("facts", ["e0", "e2"], columns, key="subject_id", where=where))  # fmt: skip
        found.append(frame(where) if by_engine else tx.frame("facts", where, columns))
        found.append(len(frame(where)) if by_engine else tx.count("facts", where))
    whole = tx.whole_rows("facts", ids) if by_engine else tx.by_ids("facts", ids, with_vector=True)
    found.append(whole.select("id", "statement", "vector"))
    return [each.sort("id").to_dicts() if isinstance(each, pl.DataFrame) else each for each in found]


@given(
    st.lists(st.tuples(st.sampled_from(["put", "insert", "remove"]), numbers, st.booleans()), min_size=1, max_size=6)
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_transaction_reads_what_it_wrote_from_memory_as_from_the_table(
    empty_store: Path, tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, list[int], bool]]
) -> None:
    place = tmp_path_factory.mktemp("following") / "store"
    shutil.copytree(empty_store, place)
    store = Store.open(str(place))
    do(store, "put", [*range(9)], 0)
    reader = Reader(store)
    reader.state()
    with store.commit("r", "test", EPOCH) as tx:
        for turn, (deed, chosen, is_compared) in enumerate(writes, 1):
            if deed == "put":
                tx.upsert("facts", rows_of(chosen, turn))
            elif deed == "insert":
                tx.insert("facts", rows_of([20 * turn + n for n in chosen], turn))
            else:
                tx.delete("facts", [f"f{n}" for n in chosen])
            assert tx.resident("facts") is not None
            from_memory = read_in(tx)
            if is_compared:
                assert from_memory == read_in(tx, by_engine=True)
        assert read_in(tx) == read_in(tx, by_engine=True)
    fresh = Reader(Store.open(str(place)))
    assert answers(reader.state()) == answers(fresh.state())
    for each in (reader, fresh):
        each.close()


def test_near_rows_are_found_in_memory_as_without(new_store: Callable[[], Store]) -> None:
    random = np.random.default_rng(7)
    texts = [" ".join(random.choice([*WORDS, "Lisbon", "Porto", "tea"], 3)) for _ in range(80)]
    made = [
        fact(
            f"f{n}",
            text,
            scope=("a", "b", None)[n % 3],
            status="active" if n % 4 else "superseded",
            search_terms="boat",
        )
        for n, text in enumerate(texts)
    ]
    vectors = random.normal(size=(80, 4)).astype(np.float32)
    rows = pl.DataFrame(made, infer_schema_length=None).with_columns(
        vector_column(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    )
    store, columns = new_store(), ["id", "scope", "statement", "vector"]
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", rows)
    questions = rows.select("scope", "vector", text="statement")[:30]

    def near() -> list[Any]:
        found = near_rows(store.snapshot(), "facts", questions, 3, "status = 'active'", columns)
        return found.sort("id").to_dicts()

    from_disk = near()
    reader = Reader(store, RESIDENT)
    reader.state()
    assert near() == from_disk
    assert 20 < len(from_disk) < 60
    reader.close()


@pytest.mark.parametrize(
    "where", ["true", "false", "vector IS NOT NULL", "statement = 'a IS NOT TRUE'", "id LIKE 'f1%'"]
)
def test_what_memory_cannot_judge_is_left_to_the_engine(filled: Store, where: str) -> None:
    expected = filled.snapshot().count("facts", where), len(filled.snapshot().frame("facts", where, ["id"]))
    reader = Reader(filled)
    reader.state()
    seen = filled.snapshot()
    assert (seen.count("facts", where), len(seen.frame("facts", where, ["id"]))) == expected
    assert len(seen.by_ids("facts", [f"f{n}" for n in range(12)], ["id"], where=where)) == expected[0]
    reader.close()


@pytest.fixture
def filled(new_store: Callable[[], Store]) -> Store:
    store = new_store()
    do(store, "put", [*range(12)], 0)
    return store


def test_a_small_table_is_read_by_one_query_and_a_large_one_column_by_column(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = list[str]()
    read = Tables.all_rows

    async def counted(self: Tables, name: str, columns: Any) -> pl.DataFrame:
        queries.append(name)
        return await read(self, name, columns)

    monkeypatch.setattr(Tables, "all_rows", counted)
    small = Reader(filled)
    whole = answers(small.state())
    assert sorted(queries) == sorted(SPECS)
    small.close()
    monkeypatch.setattr(following, "PART", 5)
    large = Reader(Store.open(str(filled.uri)))
    assert answers(large.state()) == whole
    assert len(queries) > 2 * len(SPECS) + len(SPECS["facts"].columns)
    large.close()


@pytest.mark.parametrize("is_own", [True, False])
def test_what_is_written_is_taken_over_and_not_read_again(
    filled: Store, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    reader = Reader(filled)
    reader.state()
    with monkeypatch.context() as patch:
        patch.setattr(Residents, "_loaded", None)  # nothing may be read whole any more
        patch.setattr(following, "read_step", None)
        for turn, (deed, chosen, left) in enumerate(
            [("put", [0, 30], 13), ("remove", [0, 5], 11), ("say", [0], 12)], 1
        ):
            with nullcontext() if is_own else another_process():
                do(filled, deed, chosen, turn)
            assert len(reader.state()["facts"]) == left
    fresh = Reader(Store.open(str(filled.uri)))
    assert answers(reader.state()) == answers(fresh.state())
    for each in (reader, fresh):
        each.close()


@pytest.mark.parametrize("harm", ["cut off", "of another store", "nonsense"])
def test_what_another_process_left_is_not_believed_where_it_does_not_fit(filled: Store, harm: str) -> None:
    reader, before = Reader(filled), filled.head.versions["facts"]
    reader.state()
    with another_process():
        do(filled, "put", [0, 30], 1)
    for file in [*(Path(filled.uri) / "default" / LEFT).glob("*")]:
        content = file.read_bytes()
        other = re.sub(rb'("place": |^\[)\[\d+, \d', lambda found: found[0][:-1] + b"0", content)  # file of a manifest
        made = {"cut off": content[: len(content) // 2], "nonsense": b"{}", "of another store": other}
        file.write_bytes(made[harm])
    fresh = Reader(Store.open(str(filled.uri)))
    assert answers(reader.state()) == answers(fresh.state())
    assert row_steps.kept_steps(str(filled.db.uri), "facts", before, filled.head.versions["facts"]) is None
    for each in (reader, fresh):
        each.close()


def test_a_commit_stands_though_the_disk_takes_nothing_for_other_processes(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    reader = Reader(filled)
    reader.state()
    with another_process():
        monkeypatch.setattr(Path, "write_bytes", full)  # nothing is left
        do(filled, "put", [0, 30], 1)
    assert len(reader.state()["facts"]) == 13
    reader.close()


def test_only_the_newest_of_what_is_left_for_other_processes_stays(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(filled.uri) / "default" / LEFT
    for turn in range(1, 9):
        do(filled, "put", [turn % 7], turn)
    newest = filled.head.sequence
    monkeypatch.setattr(row_steps, "KEPT_FILES", 3)
    row_steps.tidy_steps(str(filled.db.uri))
    assert {file.name for file in folder.glob("*.arrow")} == {f"{newest - before}.arrow" for before in range(3)}
    size = (folder / f"{newest}.arrow").stat().st_size
    monkeypatch.setattr(row_steps, "MOST_BYTES", int(2.5 * size))
    row_steps.tidy_steps(str(filled.db.uri))
    assert {file.name for file in folder.glob("*.arrow")} == {f"{newest - before}.arrow" for before in range(2)}
    monkeypatch.setattr(row_steps, "LARGE_FILE", 1)
    monkeypatch.setattr(row_steps, "KEPT_FILES", 1)
    monkeypatch.setattr(row_steps, "MOST_BYTES", 1 << 20)
    do(filled, "put", [1], 9)
    assert [file.name for file in folder.glob("*.arrow")] == [f"{newest + 1}.arrow"]


def test_whole_rows_are_found_by_number_until_a_compaction_moves_them(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_number = list[int]()
    read = snapshots.numbered_rows

    def counted(table: Any, numbers: Any, columns: Any) -> pl.DataFrame:
        by_number.append(len(numbers))
        return read(table, numbers, columns)

    monkeypatch.setattr(snapshots, "numbered_rows", counted)
    as_another_process(monkeypatch)
    ids = [f"f{n}" for n in range(12)]
    expected = filled.snapshot().by_ids("facts", ids).sort("id")
    reader = Reader(filled)
    reader.state()
    assert filled.snapshot().by_ids("facts", ids).sort("id").equals(expected)
    assert by_number == [12]
    with monkeypatch.context() as moved:  # as if a compaction had given the numbers to other rows
        others = expected.with_columns(id=pl.lit("another"))
        moved.setattr(snapshots.Snapshot, "by_numbers", lambda *given: others)
        assert filled.snapshot().by_ids("facts", ids).sort("id").equals(expected)
    do(filled, "put", [40], 1)
    do(filled, "tend", [], 2)
    reader.state()
    assert filled.snapshot().by_ids("facts", ids).sort("id").equals(expected)
    reader.close()


def test_a_commit_of_many_rows_is_searched_like_those_that_were_read(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "IN_MEMORY", 64)
    reader = Reader(filled)
    reader.state()
    do(filled, "put", [*range(4, 60)], 1)
    state = reader.state()
    query = vectors_of(["violin honey"])[0]
    fresh = Reader(Store.open(str(filled.uri)))
    found, expected = (each["facts"].nearest(query, 5, LIVE)[1] for each in (state, fresh.state()))
    assert np.allclose(found, expected)
    fresh.close()
    reader.close()


def test_of_the_commits_of_others_only_the_difference_is_read(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(filled)
    reader.state()
    do(filled, "put", [0], 1)
    reader.state()
    monkeypatch.setattr(Residents, "_loaded", None)
    sizes: list[int] = []
    real = following.read_step

    async def measured(*given: Any, **how: Any) -> Any:
        step = await real(*given, **how)
        sizes.append(step.size)
        return step

    monkeypatch.setattr(following, "read_step", measured)
    as_another_process(monkeypatch)
    do(filled, "put", [0, 31], 2)
    do(filled, "remove", [5], 3)
    assert len(reader.state()["facts"]) == 12
    assert sizes == [3]
    reader.close()


def test_a_table_of_which_much_changed_is_read_anew_beside_the_old_one(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residents, "NEWER", 2)
    reader = Reader(filled)
    reader.state()
    do(filled, "put", [40, 41, 42, 43], 1)
    assert reader.state()["facts"].is_ragged
    do(filled, "put", [44], 2)
    expected = answers(reader.state())
    reader.loop.run_until_complete(reader.renewed())
    assert not reader.state()["facts"].is_ragged
    assert answers(reader.state()) == expected
    reader.close()


def test_another_store_in_the_same_folder_is_read_anew(filled: Store, empty_store: Path) -> None:
    reader = Reader(filled)
    reader.state()
    shutil.rmtree(filled.uri)
    shutil.copytree(empty_store, filled.uri)
    other = Store.open(filled.uri)
    do(other, "put", [1, 2], 5)
    fresh = Reader(Store.open(filled.uri))
    assert answers(reader.state()) == answers(fresh.state())
    for each in (reader, fresh):
        each.close()


@pytest.mark.parametrize("is_moved", [True, False], ids=["moved there", "copied over it"])
def test_after_a_backup_was_restored_nothing_of_the_lost_state_is_read(
    filled: Store, tmp_path: Path, is_moved: bool
) -> None:
    place, backup = Path(filled.uri), tmp_path / "backup"
    reader = Reader(filled)
    reader.state()
    shutil.copytree(place, backup)
    for turn in (1, 2):
        do(filled, "put", [0, 20 + turn], turn)
        reader.state()
    if is_moved:
        shutil.rmtree(place)
        backup.rename(place)
    else:
        known = {file.relative_to(backup) for file in backup.rglob("*")}
        for file in [each for each in place.rglob("*") if each.is_file() and each.relative_to(place) not in known]:
            file.unlink()
        for file in known:
            if (backup / file).is_file():
                shutil.copy2(backup / file, place / file)
    with another_process():
        other = Store.open(filled.uri)
        for turn in range(3, 9):
            do(other, "put", [30 + turn], turn)
    fresh = Reader(Store.open(filled.uri))
    lost = ["f21", "f22"]
    assert filled.snapshot().by_ids("facts", lost).is_empty()
    with filled.commit("r", "test", EPOCH) as tx:
        assert tx.by_ids("facts", lost).is_empty()
    assert answers(reader.state()) == answers(fresh.state())
    for each in (reader, fresh):
        each.close()


def test_what_a_writer_would_have_left_goes_where_it_could_not_publish(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise Fenced("Another writer took over.", "Run it again.")

    monkeypatch.setattr(HeadRow, "publish", refused)
    with pytest.raises(Fenced):
        do(filled, "put", [30], 1)
    assert f"{filled.head.sequence + 1}.arrow" not in all_left(str(filled.db.uri))


def test_rows_with_other_columns_are_not_taken_from_another_process(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, write = Reader(filled), row_steps._write
    reader.state()

    def of_an_older_version(file: Any, change: Any, about: Any) -> None:
        has_quotes = isinstance(change, pa.Table) and "quote" in change.column_names
        write(file, change.drop_columns(["quote"]) if has_quotes else change, about)

    with another_process(), monkeypatch.context() as patch:
        patch.setattr(row_steps, "_write", of_an_older_version)
        do(filled, "put", [30], 1)
    with filled.commit("r", "test", EPOCH) as tx:
        assert tx.by_ids("facts", ["f30"])["quote"].null_count() == 0
    assert len(reader.state()["facts"]) == 13
    reader.close()


def test_a_row_that_another_process_wrote_keeps_only_itself_in_memory(filled: Store) -> None:
    address = str(filled.db.uri)
    row_steps.follow(address, ["runs"])
    before = filled.head.versions["runs"]
    with another_process(), filled.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", rows_of([*range(100, 400)], 1))
        tx.upsert("runs", pl.DataFrame({"id": ["r"]}))
    assert max(size for size, _ in all_left(address).values()) > 100_000
    tracemalloc.start()
    after = filled.head.versions["runs"]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (step,) = row_steps.kept_steps(address, "runs", before, after) or ()
    assert step.ids == {"r"}
    assert kept < 100_000


def test_what_cannot_be_taken_over_is_read_anew(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(filled)
    reader.state()

    def fails(self: Resident, step: object) -> Resident:
        raise ZeroDivisionError

    monkeypatch.setattr(Resident, "after", fails)
    do(filled, "put", [0, 30], 1)
    assert len(reader.state()["facts"]) == 13
    reader.close()


def test_who_stays_at_a_commit_sees_no_later_rows_and_disturbs_nobody(filled: Store) -> None:
    reader, pinned = Reader(filled), filled.snapshot()
    expected = answers(reader.state())
    do(filled, "put", [0, 1], 1)
    tables = Residents(filled, SPECS, 1 << 30, is_pinned=True)
    warm = WarmTables(filled, [*SPECS], (pinned.versions, pinned.embed_model), tables)
    seen = reader.loop.run_until_complete(warm.newest(is_eager=True)).residents
    do(filled, "put", [2, 3], 2)
    assert answers(reader.loop.run_until_complete(warm.newest(is_eager=True)).residents) == answers(seen) == expected
    assert answers(reader.state()) != expected
    assert snapshots.IN_MEMORY[str(filled.db.uri)] is reader.warm._residents
    reader.close()


# Several reads of a question together: where one fails, none of the others is left behind


async def nothing(name: str, version: int) -> Any:
    raise AssertionError(name)


QUERIES = Tables({}, {}, nothing)
IN_MEMORY = Tables({}, {}, nothing, residents={"facts": cast(Resident, None)})


class Failed(Exception):
    """What a read ends with here."""


async def fails() -> None:
    await asyncio.sleep(0)
    raise Failed


@pytest.fixture(params=[QUERIES, IN_MEMORY], ids=["queries", "in memory"])
def tables(request: pytest.FixtureRequest) -> Tables:
    return cast(Tables, request.param)


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """What it gives, if nothing warns of work that nobody waited for."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            return asyncio.run(work)
        finally:
            gc.collect()
            warned = [str(each.message) for each in found]  # what other tests left behind may warn, too
            assert [each for each in warned if "never awaited" in each or "was destroyed" in each] == []


def test_no_read_goes_on_after_another_failed(tables: Tables) -> None:
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("never")

    async def ask() -> None:
        with suppress(Failed):
            await tables.together(fails(), never(), never())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    finished(ask())
    assert ended == ([] if tables.residents else ["never", "never"])


def test_who_is_no_longer_waited_for_leaves_nothing_behind(tables: Tables) -> None:
    async def ask() -> None:
        asked = asyncio.create_task(tables.together(asyncio.Event().wait(), asyncio.sleep(0), asyncio.sleep(0)))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert asyncio.all_tasks() == {asyncio.current_task()}

    finished(ask())
