"""Scores of texts by words where no index has them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from storage import columns
from storage.columns import WordIndex, best_scores

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
