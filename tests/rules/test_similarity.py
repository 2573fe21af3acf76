"""Shared words, containment and cosine (S0-02, S0-03; golden values of SEMANTICS §8)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.comparison.similarity import (
    Vectors,
    containment,
    is_similar,
    jaccard,
    similarity,
    top_of,
    word_overlap,
    word_sets,
)
from slowwave.settings import EvaluateSettings
from slowwave.text import tokens

SHORT = "Migrated from Postgres to MySQL."
LONG = "After long talks the whole team migrated the billing data from Postgres over to MySQL on one evening."
TEXTS = st.text(alphabet="ab cé.,!? \n-'", max_size=30)


def unit(rows: object) -> Vectors:
    array = np.asarray(rows, dtype=np.float32)
    return (array / np.linalg.norm(array, axis=1, keepdims=True)).astype(np.float32)


def test_a_short_text_whose_words_all_stand_in_a_long_one_is_contained() -> None:
    assert containment(SHORT, LONG) == 1.0
    assert len(LONG) / len(SHORT) > 3
    assert similarity(SHORT, LONG, 0.1).match_type == "containment"


def test_a_very_short_text_is_contained_in_anything_that_has_it() -> None:
    assert containment("yes", "Yes, we decided to move the office.") == 1.0  # a flag, never a merge


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("Ana prefers TypeScript", "Ana likes TypeScript", 0.5),
        ("She does like fresh cilantro", "She does not like fresh cilantro", 5 / 6),
        ("does like cilantro daily", "does not like cilantro daily", 0.8),
        ("the limit is 100 requests for each new user", "the limit is 1000 requests for each new user", 0.8),
        ("Rust is used for backend services", "Go was chosen for backend services", 1 / 3),
        ("Rex chases Tom", "tom chases rex.", 1.0),
        ("", "", 1.0),
        ("", "words", 0.0),
    ],
)
def test_jaccard_is_shared_words_over_all_words(a: str, b: str, expected: float) -> None:
    assert jaccard(a, b) == pytest.approx(expected)


def test_containment_of_blank_text_is_whole() -> None:
    assert containment("  ", "anything") == 1.0
    assert containment("...", "anything") == 1.0


def test_the_cosine_decides_before_the_words_and_its_bound_is_included() -> None:
    assert similarity("x", "y", 0.85) == ("cosine", 0.85, None)
    assert not is_similar("x", "y", 0.8499)


def test_containment_counts_only_from_twice_the_length_on() -> None:
    assert not is_similar("abcd", "abcd ef", 0.0)
    assert is_similar("abcd", "abcd efg", 0.0)
    assert is_similar("abcd", "abcd ef", 0.0, EvaluateSettings(length_ratio=1.5))
    assert not is_similar("a" * 20, "a" * 20 + " " + "b" * 18, 0.0)
    assert is_similar("a" * 20, "a" * 20 + " " + "b" * 19, 0.0)


def test_seven_tenths_of_the_words_of_the_shorter_text_are_enough() -> None:
    shorter = "a b c d e f g h i j"
    longer = "a b c d e f g and all that was said of something else"
    assert similarity(shorter, longer, 0.0) == ("containment", 0.0, 0.7)
    assert not is_similar(f"{shorter} k l m", longer + " h i", 0.0)  # 9 of 13


def test_of_two_equally_long_texts_the_first_is_the_shorter() -> None:
    assert (containment("aa aa", "bb aa"), containment("bb aa", "aa aa")) == (1.0, 0.5)


@given(TEXTS, TEXTS, st.floats(-1, 1))
def test_similarity_is_symmetric(a: str, b: str, cosine: float) -> None:
    assert jaccard(a, b) == jaccard(b, a)
    if len(a) != len(b):  # of equally long texts the first counts as the shorter
        assert containment(a, b) == containment(b, a)
        assert similarity(a, b, cosine) == similarity(b, a, cosine)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8))
def test_the_columnar_form_agrees_with_the_scalar_one(pairs: list[tuple[str, str]]) -> None:
    a, b = (list(part) for part in zip(*pairs, strict=True))
    overlap = word_overlap(pl.Series(a), pl.Series(b))
    assert overlap["jaccard"].to_list() == pytest.approx([jaccard(*pair) for pair in pairs])
    assert overlap["containment"].to_list() == pytest.approx([containment(*pair) for pair in pairs])
    assert [frozenset(words) for words in word_sets(pl.Series(a))] == [tokens(text) for text in a]


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 30), st.integers(1, 12))
def test_the_largest_of_each_row_agree_with_a_full_sort(seed: int, queries: int, corpus: int, k: int) -> None:
    random = np.random.default_rng(seed)
    a, b = (
        unit(random.integers(-2, 3, (queries, 3)) + 0.5),
        unit(random.integers(-2, 3, (corpus, 3)) + 0.5),
    )
    products = a @ b.T
    places, values = top_of(products, min(k, corpus))
    expected = np.argsort(-products, axis=1, kind="stable")[:, :k]
    assert (places == expected).all()
    assert (values == np.take_along_axis(products, expected, axis=1)).all()
