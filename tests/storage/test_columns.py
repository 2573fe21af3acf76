"""Columns hold what a frame holds; texts are scored by their words where no index has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from storage import columns
from storage.columns import Coded, Columns, WordIndex, best_scores, column_of

START = datetime(2025, 1, 6, tzinfo=UTC)
COUNT = 600
FRAME = pl.DataFrame(
    {
        "id": [f"é{n}ß" * (n % 3) for n in range(COUNT)],
        "maybe": [None if n % 7 == 0 else f"text {n}" for n in range(COUNT)],
        "kind": [("a", None, "ü")[n % 3] for n in range(COUNT)],
        "tags": [(["x"], ["x", "y"], [], None)[n % 4] for n in range(COUNT)],
        "lists": [[str(n)] for n in range(COUNT)],
        "at": [START + timedelta(minutes=n) for n in range(COUNT)],
        "then": [None if n % 5 == 0 else START - timedelta(days=400 * n, microseconds=n) for n in range(COUNT)],
        "count": pl.Series([None if n % 9 == 0 else n for n in range(COUNT)], dtype=pl.Int32),
        "never": pl.Series([None] * COUNT, dtype=pl.Datetime("us", "UTC")),
        "number": [n * 0.5 for n in range(COUNT)],
        "is_so": [n % 2 == 0 for n in range(COUNT)],
    }
)


@pytest.mark.parametrize("frame", [FRAME, FRAME[100:500], FRAME[:3], FRAME[:0]], ids=len)
def test_rows_are_those_of_the_frame(frame: pl.DataFrame) -> None:
    held = Columns({name: column_of(frame[name]) for name in frame.columns}, len(frame))
    places = np.random.default_rng(5).integers(0, max(len(frame), 1), min(len(frame), 40))
    assert held.rows(places) == frame[places].rows(named=True)
    assert held.rows(places, ["kind", "elsewhere", "id"]) == frame[places].select("kind", "id").rows(named=True)
    assert held.frame(frame.columns).equals(frame)
    assert len(held) == len(frame)


def test_many_values_need_wider_numbers() -> None:
    column = column_of(pl.Series([f"v{n % 300}" for n in range(300 * 8)]))
    assert isinstance(column, Coded)
    assert column.codes.dtype == np.uint16
    assert column.at(np.array([299, 300, 2399])) == ["v299", "v0", "v299"]


# Scores of texts by words where no index has them


TEXTS = ["我在成都开了一家茶馆", "他在苏州的物流公司上班", "我在苏州", *(f"我在公司{n}" for n in range(40)), None]


def test_of_many_texts_those_with_the_rarest_words_are_taken_apart_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filled = pl.Series([text or "" for text in TEXTS])
    whole = {query: WordIndex(filled).scores(query) for query in ("苏州公司", "茶馆")}
    taken, terms = [], columns.index_terms

    def counted(text: str) -> list[str]:
        taken.append(text)
        return terms(text)

    monkeypatch.setattr(columns, "index_terms", counted)
    found = best_scores(filled, [*whole], len(filled), 3)
    assert len({*taken}) <= 3 + 1 + len(whole)
    for scores, expected in zip(found, whole.values(), strict=True):
        best = np.flatnonzero(scores)
        assert 0 < len(best) <= 3
        assert np.argmax(scores) == np.argmax(expected)
    assert np.flatnonzero(found[0]).tolist()[:2] == [1, 2]
    assert np.flatnonzero(found[1]).tolist() == [0]


def test_a_word_is_as_rare_as_in_all_texts_that_say_it() -> None:
    filled = pl.Series([text or "" for text in TEXTS])
    (found,) = best_scores(filled, ["苏州公司"], len(filled), 3)
    (common,) = best_scores(filled, ["公司"], len(filled), 3)
    assert 0 < 10 * common.max() < found[2]
