"""Calls that wait for the same work: order, answers and errors stay those of each caller."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from slowwave.common import grouped_calls
from slowwave.common.grouped_calls import GroupedCalls


def _part(whole: list[str], where: slice) -> list[str]:
    return whole[where]


def _all_at_once(
    calls: GroupedCalls[str, list[str]], lock: threading.Lock, given: Sequence[Sequence[str]]
) -> tuple[list[object], list[list[str]]]:
    """What each call gets when all of them waited, and the items of each work."""
    done: list[list[str]] = []

    def work(items: Sequence[str]) -> list[str]:
        done.append([*items])
        if "bad" in items:
            raise ValueError(f"bad among {len(items)}")
        return [item.upper() for item in items]

    with ThreadPoolExecutor(len(given)) as pool:
        with lock:
            futures = []
            for items in given:
                futures.append(pool.submit(calls.call, "one", items, work, _part))
                while calls.waiting() < len(futures):
                    time.sleep(0.001)
        return [future.exception() or future.result() for future in futures], done


def test_those_that_wait_are_done_at_once_in_the_order_of_their_arrival() -> None:
    lock = threading.Lock()
    answers, done = _all_at_once(GroupedCalls(lock), lock, [["a"], ["b", "c"], ["d"]])
    assert answers == [["A"], ["B", "C"], ["D"]]
    assert done == [["a", "b", "c", "d"]]


def test_where_it_fails_each_gets_its_own_answer_or_error() -> None:
    lock = threading.Lock()
    answers, done = _all_at_once(GroupedCalls(lock), lock, [["a"], ["bad"], ["c"]])
    assert (answers[0], answers[2]) == (["A"], ["C"])
    assert str(answers[1]) == "bad among 1"
    assert done == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]


def test_what_is_more_than_goes_together_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_calls, "MOST", 2)
    lock = threading.Lock()
    answers, done = _all_at_once(GroupedCalls(lock), lock, [["a"], ["b"], ["c", "d", "e"]])
    assert answers == [["A"], ["B"], ["C", "D", "E"]]
    assert sorted(item for items in done for item in items) == ["a", "b", "c", "d", "e"]
    assert ["a", "b"] in done or [*"abcde"] in done


class _Interrupt(BaseException):
    """As Ctrl-C: no error of the work."""


def test_an_interrupt_of_one_call_leaves_the_others_their_own_work() -> None:
    lock = threading.Lock()
    calls = GroupedCalls[str, list[str]](lock)
    done: list[list[str]] = []

    def work(items: Sequence[str]) -> list[str]:
        done.append([*items])
        if len(done) == 1:
            raise _Interrupt
        return [*items]

    def call(item: str) -> object:
        try:
            return calls.call("one", [item], work, _part)
        except _Interrupt:
            return "interrupted"

    with ThreadPoolExecutor(3) as pool:
        with lock:
            futures = [pool.submit(call, item) for item in "abc"]
            while calls.waiting() < 3:
                time.sleep(0.001)
        answers = [future.result() for future in futures]
    assert answers.count("interrupted") == 1
    assert [answer for answer in answers if answer != "interrupted"] == [
        [item] for item, answer in zip("abc", answers, strict=True) if answer != "interrupted"
    ]
