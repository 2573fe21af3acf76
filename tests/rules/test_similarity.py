"""Shared words, containment and cosine (S0-02, S0-03; golden values of SEMANTICS §8)."""

from __future__ import annotations

import measures
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common.comparison.similarity import FOUND, SimilarityThresholds, similar_pairs, word_overlap
from slowwave.common.words import tokens, word_sets

TEXTS = st.text(alphabet="ab cé.,!? \n-'", max_size=30)


def containment(a: str, b: str) -> float:
    return float(word_overlap(pl.Series([a]), pl.Series([b]))["containment"][0])


def match_type(a: str, b: str, cosine: float, least: SimilarityThresholds | None = None) -> str | None:
    """The measure by which two texts with this cosine are similar, if any."""
    vectors = np.array([[1.0, 0.0], [cosine, (1.0 - cosine**2) ** 0.5]], np.float32)
    none = pl.DataFrame(schema=FOUND)
    found = pl.concat([none, *similar_pairs(pl.Series([a, b]), vectors, least or SimilarityThresholds())])
    return next(iter(found["match_type"]), None)


def test_the_cosine_decides_before_the_words_and_its_bound_is_included() -> None:
    assert match_type("x", "y", 0.85) == "cosine"
    assert match_type("x", "y", 0.8499) is None


def test_containment_counts_only_from_twice_the_length_on() -> None:
    assert match_type("abcd", "abcd ef", 0.0) is None
    assert match_type("abcd", "abcd efg", 0.0) == "containment"
    assert match_type("abcd", "abcd ef", 0.0, SimilarityThresholds(length_ratio=1.5)) == "containment"
    assert match_type("a" * 20, "a" * 20 + " " + "b" * 18, 0.0) is None
    assert match_type("a" * 20, "a" * 20 + " " + "b" * 19, 0.0) == "containment"


def test_seven_tenths_of_the_words_of_the_shorter_text_are_enough() -> None:
    shorter = "a b c d e f g h i j"
    longer = "a b c d e f g and all that was said of something else"
    assert (match_type(shorter, longer, 0.0), containment(shorter, longer)) == ("containment", 0.7)
    assert match_type(f"{shorter} k l m", longer + " h i", 0.0) is None  # 9 of 13


def test_of_two_equally_long_texts_the_first_is_the_shorter() -> None:
    assert (containment("aa aa", "bb aa"), containment("bb aa", "aa aa")) == (1.0, 0.5)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8))
def test_the_overlap_of_columns_is_that_of_its_definition(pairs: list[tuple[str, str]]) -> None:
    a, b = (list(part) for part in zip(*pairs, strict=True))
    overlap = word_overlap(pl.Series(a), pl.Series(b))
    assert overlap["jaccard"].to_list() == pytest.approx([measures.jaccard(*pair) for pair in pairs])
    assert overlap["containment"].to_list() == pytest.approx([measures.containment(*pair) for pair in pairs])
    assert [frozenset(words) for words in word_sets(pl.Series(a))] == [tokens(text) for text in a]
