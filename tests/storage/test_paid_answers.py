"""The ledger of paid answers in a store, and what it tells of their cost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from conftest import EPOCH

from recall.overview import costs_by_day
from slowwave.common.records import LedgerEntry, SubmittedBatch, Usage
from storage.paid_answers import StoredAnswers
from storage.store import Store
from storage.undo import undo


def entry(key: str, response: str = "{}") -> LedgerEntry:
    return LedgerEntry(
        id=key, provider="anthropic", model="m", role="extract", prompt_name="extract_facts", prompt_hash="p",
        schema_hash="s", response=response, error="", tokens_in=100, tokens_out=20, usd=0.25, latency_s=1.5, attempts=2,
    )  # fmt: skip


def test_what_was_recorded_is_found_as_it_was_and_nothing_else(new_store: Callable[[], Store]) -> None:
    answers = StoredAnswers(new_store(), "ingest-1")
    answers.record([entry("a", '{"text": "it\'s \\u0000 ü"}'), entry("b"), entry("c")])
    found = answers.lookup(["a", "c", "never asked"])
    assert found == {"a": entry("a", '{"text": "it\'s \\u0000 ü"}'), "c": entry("c")}


def test_the_later_answer_counts_although_the_clock_was_set_back_before_it(new_store: Callable[[], Store]) -> None:
    store, now = new_store(), datetime.now(UTC)
    failed = replace(entry("a", ""), error="invalid: x", attempts=1)
    store.append("llm_calls", pl.DataFrame([asdict(failed)]), now + timedelta(hours=1), "ahead")
    store.append("llm_calls", pl.DataFrame([asdict(replace(entry("a"), usd=0.75, calls=2))]), now, "one")
    assert StoredAnswers(store).lookup(["a"])["a"].is_final
    assert StoredAnswers(store).spent_since(now).usd == 0.75
    answers = StoredAnswers(store, "two")
    answers.keep_batch(batch("b1", now))
    row = store.log("llm_batches").with_columns(state=pl.lit("submitting"), created_at=now + timedelta(hours=1))
    store.append("llm_batches", row, now, "one")
    answers.keep_batch(batch("b1", now, "collected"))
    assert [each.state for each in answers.batches()] == ["collected"]


def test_answers_outlive_a_failed_commit_and_an_undo(new_store: Callable[[], Store]) -> None:
    store = new_store()
    answers = StoredAnswers(store, "r")
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["k"]}))
        answers.record([entry("inside")])
    undo(store, "r", "u", EPOCH)

    def fail() -> None:
        with store.commit("s", "test", EPOCH):
            answers.record([entry("failed")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(answers.lookup(["inside", "failed"])) == {"inside", "failed"}


def batch(key: str, begun_at: datetime, state: str = "submitted") -> SubmittedBatch:
    return SubmittedBatch(
        key, "anthropic", "m", "extract", "s", state, (f"llm_{key}",), ("p",), ("1",), begun_at, usd=5.0
    )  # fmt: skip


def test_a_batch_that_nobody_came_back_for_is_expected_to_cost_something_for_two_days_only(
    new_store: Callable[[], Store],
) -> None:
    store, now = new_store(), datetime.now(UTC)
    StoredAnswers(store, "old").keep_batch(batch("b1", now - timedelta(days=40)))
    assert StoredAnswers(store, "new").spent_since(now) == Usage()
    StoredAnswers(store, "late").keep_batch(batch("b2", now - timedelta(hours=23)))
    assert StoredAnswers(store, "new").spent_since(now).usd == 5.0


def test_a_batch_that_a_live_process_is_about_to_hand_over_is_its_own_however_long_that_takes(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = StoredAnswers(new_store(), "run")
    answers.keep_batch(batch("b1", datetime.now(UTC), "submitting"))
    monkeypatch.setattr("storage.paid_answers.ABANDONED_AFTER", timedelta(0))
    assert [each.is_abandoned for each in answers.batches()] == [False]
    monkeypatch.setattr("storage.paid_answers.is_surely_alive", lambda _: False)  # elsewhere: nobody can tell
    assert [each.is_abandoned for each in answers.batches()] == [True]


def test_threads_record_at_once_and_nothing_is_lost(new_store: Callable[[], Store]) -> None:
    answers = StoredAnswers(new_store())
    keys = [f"k{number}" for number in range(24)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: answers.record([entry(key)]), keys))
    assert set(answers.lookup(keys)) == set(keys)


def test_costs_are_summed_by_day_and_model_and_an_entry_that_was_written_again_counts_once(
    new_store: Callable[[], Store],
) -> None:
    store = new_store()
    paid = [("l1", "a", 0.5, 0), ("l1", "a", 0.75, 1), ("l2", "a", 1.0, 2), ("l3", "b", 2.0, 0), ("l4", "a", 4.0, 24)]
    for key, model, usd, hour in paid:
        row = asdict(replace(entry(key), model=model, usd=usd))
        store.append("llm_calls", pl.DataFrame([row]), EPOCH + timedelta(hours=hour), "r")
    costs = [(str(each["day"]), each["model"], each["calls"], each["usd"]) for each in costs_by_day(store)]
    assert costs == [
        ("2026-01-02", "anthropic/a", 1, 4.0), ("2026-01-01", "anthropic/a", 2, 1.75),
        ("2026-01-01", "anthropic/b", 1, 2.0),
    ]  # fmt: skip
