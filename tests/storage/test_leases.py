"""The writer lease whatever the clocks do, how long writers waited for it, and commits whose times run backwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import given
from hypothesis import strategies as st

from inference.embedding import open_embedder
from slowwave.common.errors import Fenced, LeaseBusy, Refused, UndoRefused
from storage import lease, row_steps
from storage.connection import HEAD, LEFT
from storage.lease import Clock, HeadRow, Lease, Queue, new_owner, with_time
from storage.store import Store, in_order
from storage.undo import undo
from tasks.runtime.runs import as_run, end_run, existing_run

NewStore = Callable[[], Store]
LEASE_S = 3.0
HOUR = 3600.0
ELSEWHERE = "night|elsewhere,boot,space|1|1|x"


@dataclass
class Watch:
    """A clock that goes only while somebody sleeps; `wall_off` is what somebody set it to, `at` what happens when."""

    steady_s: float = 5000.0
    wall_off: float = 1.8e9
    at: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.steady_s + self.wall_off, lambda: self.steady_s, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.steady_s += seconds
        while self.at and self.at[0][0] <= self.steady_s:
            self.at.pop(0)[1]()


def lend(store: Store, owner: str, until: float) -> None:
    """Give the lease to a holder on another machine, as it would look in the head."""
    values = {"owner": owner, "lease_until": until, "lease_count": store.head.lease_count + 1}
    store.db.open_table(HEAD).update(values=values)


def take(store: Store, watch: Watch, wait_s: float) -> Lease:
    return HeadRow(store.db, watch.clock).acquire("r", LEASE_S, wait_s)


class TestClocks:
    def test_a_holder_elsewhere_is_believed_until_its_time_is_over_and_no_longer(self, new_store: NewStore) -> None:
        store, watch = new_store(), Watch()
        lend(store, ELSEWHERE, watch.clock.wall() + 2)
        began = watch.steady_s
        held = take(store, watch, wait_s=6)
        assert 2 < held.waited_s == watch.steady_s - began < 2.2
        assert held.is_taken_over

    def test_a_clock_set_back_by_an_hour_keeps_nobody_out_for_longer_than_a_lease(self, new_store: NewStore) -> None:
        store, watch = new_store(), Watch()
        lend(store, ELSEWHERE, watch.clock.wall() + LEASE_S)
        watch.wall_off -= HOUR
        assert LEASE_S < take(store, watch, wait_s=6).waited_s < LEASE_S + 0.2

    def test_a_holder_with_a_longer_lease_is_given_its_own_time(self, new_store: NewStore) -> None:
        store, watch = new_store(), Watch()
        lend(store, with_time(ELSEWHERE, 4 * LEASE_S), watch.clock.wall() + HOUR)
        with pytest.raises(LeaseBusy, match="run night"):
            take(store, watch, wait_s=3 * LEASE_S)
        assert take(store, watch, wait_s=5 * LEASE_S).waited_s > 4 * LEASE_S

    def test_a_clock_set_forward_lets_nobody_in_beside_a_holder_of_this_machine(self, new_store: NewStore) -> None:
        store, watch = new_store(), Watch()
        held = take(store, watch, wait_s=0)
        watch.wall_off += HOUR
        with pytest.raises(LeaseBusy):
            take(store, watch, wait_s=LEASE_S - 1)
        assert HeadRow(store.db).is_current(held)

    def test_a_silent_holder_of_this_machine_is_taken_over_though_the_clock_went_back(
        self, new_store: NewStore
    ) -> None:
        store, watch = new_store(), Watch()
        row = HeadRow(store.db, watch.clock)
        held = take(store, watch, wait_s=0)
        watch.wall_off -= HOUR
        taken = take(store, watch, wait_s=6)
        assert LEASE_S < taken.waited_s < LEASE_S + 0.2
        with pytest.raises(Fenced):
            row.publish(held, held.versions)
        assert row.is_current(taken)

    @pytest.mark.parametrize("jump", [-HOUR, 0.0, HOUR])
    def test_a_holder_that_renews_keeps_the_lease_whatever_its_clock_does(
        self, new_store: NewStore, jump: float
    ) -> None:
        store, watch = new_store(), Watch()
        row = HeadRow(store.db, watch.clock)
        last = [row.acquire("holder", LEASE_S, 0)]
        assert not row.is_due(last[0])

        def renew() -> None:
            watch.wall_off += jump
            assert row.is_due(last[0])
            last[0] = row.renew(last[0])

        watch.at = [(watch.steady_s + seconds, renew) for seconds in (1.2, 3, 5.5, 8, 10.5)]
        with pytest.raises(LeaseBusy):
            take(store, watch, wait_s=11)
        assert row.is_current(last[0])
        row.publish(last[0], last[0].versions)

    def test_a_head_that_was_changed_while_the_answer_got_lost_is_known_for_ones_own(self, new_store: NewStore) -> None:
        store = new_store()
        row = HeadRow(store.db)
        held = row.acquire("r", LEASE_S, 0)
        row.publish(held, held.versions)
        row.publish(held, held.versions)  # as LanceDB tries again when it did not hear that it had succeeded
        assert store.head.sequence == held.sequence + 1
        HeadRow(store.db).acquire("s", LEASE_S, 0)
        with pytest.raises(Fenced):
            row.publish(held, held.versions)


class TestWaits:
    def test_a_commit_tells_how_long_it_waited_and_a_run_sums_it_up(self, tmp_path: Path) -> None:
        seat = open_embedder()
        store = Store.create(str(tmp_path), "default", (seat.name, seat.dims))
        run = existing_run("test", str(tmp_path), "default")

        def stand_in_the_way() -> None:
            with store.commit("other", "test", EPOCH):
                time.sleep(0.5)

        with ThreadPoolExecutor(1) as pool:
            others = pool.submit(stand_in_the_way)
            while not store.head.owner:
                time.sleep(0.01)
            as_run(run, {}, lambda: None, lambda _: {})
            others.result()
        snapshot = store.snapshot()
        waits = snapshot.frame("commits", f"run_id = '{run.id}'", ["sequence", "waited_s"]).sort("sequence")["waited_s"]
        assert 0.2 < waits[0] < 30
        assert waits[1] == 0


class TestQueue:
    def test_who_came_first_has_the_lease_first(self, new_store: NewStore) -> None:
        store = new_store()
        queues = [Queue(str(store.db.uri)) for _ in range(2)]
        for queue in reversed(queues):
            queue.wait()
        assert [queue.is_first() for queue in queues] == [True, False]
        with pytest.raises(LeaseBusy, match="one process after another"):
            take(store, Watch(), wait_s=1)
        queues[0].leave()
        assert queues[1].is_first()
        queues[1].leave()
        assert take(store, Watch(), wait_s=0).waited_s == 0

    @pytest.mark.parametrize("age_s", [3.0, -HOUR], ids=["dead", "dead, and the clock was set back"])
    def test_nobody_waits_for_one_that_is_gone(self, new_store: NewStore, age_s: float) -> None:
        store = new_store()
        Queue(str(store.db.uri)).wait()
        (file,) = Path(store.db.uri, Queue.FOLDER).iterdir()
        os.utime(file, (time.time() - age_s,) * 2)
        assert take(store, Watch(), wait_s=0).waited_s == 0
        assert not file.exists()

    def test_small_files_are_not_joined_while_others_wait(
        self, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(row_steps, "AT_ONCE", 3)
        monkeypatch.setattr(row_steps, "_WHILE_AT_IT", 1)
        store = new_store()
        put(store, "r0", 0, 0)
        put(store, "r1", 0, 1)
        with store.commit("r2", "test", EPOCH) as tx:
            tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [2.0]}))
            waiting = Queue(str(store.db.uri))
            waiting.wait()
        assert store.commits()["kind"][-1] == "test"
        waiting.leave()
        for turn in (3, 4):
            put(store, f"r{turn}", 0, turn)
        assert store.commits()["kind"][-1] == "upkeep"

    def test_the_head_that_another_process_left_is_read_only_where_it_is_the_newest(
        self, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, queries = new_store(), list[int]()
        assert store.head.sequence
        real = HeadRow._rows
        monkeypatch.setattr(HeadRow, "_rows", lambda self: queries.append(1) or real(self))
        known, left = dict(lease._last), Path(store.db.uri, LEFT, "head.json")
        put(store, "r0", 0, 0)
        stale = left.read_bytes()
        put(store, "r1", 0, 1)
        newest, expected = left.read_bytes(), store.head
        queries.clear()
        for content, is_asked in ((newest, False), (stale, True), (b"", True)):
            left.write_bytes(content)
            lease._last.clear()
            lease._last.update(known)
            assert store.head == expected
            assert bool(queries) == is_asked

    def test_a_writer_that_goes_on_and_on_lets_those_in_who_wait(self, new_store: NewStore) -> None:
        store, order = new_store(), list[str]()

        def commit(name: str) -> None:
            with store.commit(name, "test", EPOCH) as tx:
                tx.upsert("metadata", pl.DataFrame({"id": [name], "number": [1.0]}))
                order.append(name)

        with ThreadPoolExecutor(1) as pool:
            with store.commit("busy", "test", EPOCH):
                waiting = pool.submit(commit, "waits")
                while not any(Path(store.db.uri).glob(f"{Queue.FOLDER}/*")):
                    time.sleep(0.001)
            commit("busy again")
            waiting.result()
        assert order == ["waits", "busy again"]
        assert not [*Path(store.db.uri, Queue.FOLDER).iterdir()]


def put(store: Store, run: str, hours: float, number: float) -> None:
    """A commit of a run at an hour by the writer's clock."""
    store.clock = lambda: EPOCH + timedelta(days=400, hours=hours)
    with store.commit(run, "test", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["k"], "number": [number]}))


def number_at(store: Store, hours: float) -> float:
    found = store.snapshot(at=EPOCH + timedelta(days=400, hours=hours)).frame("metadata", "id = 'k'", ["number"])
    return float(found["number"][0])


class TestTimesOfCommits:
    @pytest.mark.parametrize(
        ("hours", "expected"),
        [
            ((0, 1, 2, 1.5, 3), {0: 0, 1.2: 1, 1.7: 1, 2: 3, 2.9: 3, 3: 4}),  # set back for one commit
            ((0, 1, 9999, 2, 3), {1: 2, 1.5: 2, 2: 3, 3: 4, 9999: 4}),  # ran ahead for one commit
            ((0, 1, 2, -8760, 3), {0: 0, 1: 1, 2: 3, 3: 4}),  # a year back
        ],
    )
    def test_the_state_at_a_time_is_of_the_order_of_the_commits(
        self, new_store: NewStore, hours: tuple[float, ...], expected: dict[float, float]
    ) -> None:
        store = new_store()
        for number, hour in enumerate(hours):
            put(store, f"r{number}", hour, number)
        assert {hour: number_at(store, hour) for hour in expected} == expected

    def test_what_was_written_later_stands_in_the_way_of_undo_however_early_its_clock_was(
        self, new_store: NewStore
    ) -> None:
        store = new_store()
        for number, run in enumerate(("first", "second")):
            store.clock = lambda number=number: EPOCH - timedelta(hours=number)
            with store.commit(run, "test", EPOCH) as tx:
                tx.upsert("facts", pl.DataFrame({"id": ["f"], "statement": [run]}))
        with pytest.raises(UndoRefused, match="second"):
            undo(store, "first", "undo-1", EPOCH)
        undo(store, "second", "undo-2", EPOCH)
        assert store.snapshot().frame("facts", columns=["statement"])["statement"].to_list() == ["first"]

    @given(st.lists(st.integers(0, 12), min_size=1, max_size=12))
    def test_times_in_order_never_fall_and_keep_a_longest_series_that_did_not(self, hours: list[int]) -> None:
        times = pl.Series("at", [EPOCH + timedelta(hours=hour) for hour in hours])
        ordered = in_order(times)
        assert ordered.is_sorted()
        assert (ordered == times).sum() >= _longest(hours)
        assert set(ordered) <= set(times)


def _longest(numbers: list[int]) -> int:
    """By trying each as the last one."""
    best: list[int] = []
    for place, number in enumerate(numbers):
        best.append(1 + max((best[i] for i in range(place) if numbers[i] <= number), default=0))
    return max(best)


def test_a_run_whose_machine_is_gone_can_be_declared_ended_and_no_other(new_store: Callable[[], Store]) -> None:
    store, here = new_store(), new_owner("here")
    elsewhere = here.replace(here.split("|")[1], "worker-7,boot,space")
    with store.commit("r", "run", EPOCH) as tx:
        runs = {
            "here": ("running", here, None),
            "gone": ("running", elsewhere, None),
            "over": ("completed", elsewhere, None),
            "night": ("running", elsewhere, "gone"),
            "phase": ("running", elsewhere, "night"),
            "done": ("completed", elsewhere, "night"),
            "goes on": ("running", here, "night"),
            "another": ("running", elsewhere, "over"),
        }
        columns = ["id", "state", "owner", "parent_id"]
        tx.upsert("runs", pl.DataFrame([(id, *row) for id, row in runs.items()], columns, orient="row"))
    with pytest.raises(Refused, match="alive on this machine"):
        end_run(store, "here", EPOCH)
    with pytest.raises(Refused, match="it is completed"):
        end_run(store, "over", EPOCH)
    assert end_run(store, "gone", EPOCH) == "gone"
    ended = store.snapshot().frame("runs", columns=["id", "state", "ended_at"])
    assert dict(ended.select("id", "state").iter_rows()) == {
        **dict.fromkeys(("gone", "night", "phase"), "interrupted"),
        **dict.fromkeys(("here", "goes on", "another"), "running"),
        **dict.fromkeys(("over", "done"), "completed"),
    }
    assert ended["ended_at"].null_count() == len(ended)  # when that was nobody knows
