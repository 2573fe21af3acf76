"""Candidates for contradiction and update: the same matter, whatever is said of it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.facts.revision.referenced_facts import CANDIDATES, claims_of, find_counterparts

SAID = {
    "a": "I have completed five coin toss problems.",
    "b": "We deployed the billing service to Oslo.",
    "c": "My sister keeps bees near the lake.",
    "d": "The retry limit of the gateway is 100.",
    "e": "I baked bread with my neighbour.",
}


def facts(said: dict[str, str], scope: str = "global") -> pl.DataFrame:
    return pl.DataFrame(
        {"id": list(said), "scope": scope, "statement": list(said.values())},
        schema_overrides={"id": pl.String, "statement": pl.String},
    )


def no_meaning(count: int) -> np.ndarray:
    return np.zeros((count, 2), dtype=np.float32)


def named(asked: pl.DataFrame, pool: pl.DataFrame, k: int = 20) -> list[str]:
    found = find_counterparts(asked, no_meaning(len(asked)), pool, no_meaning(len(pool)), k)
    assert dict(found.schema) == CANDIDATES
    return found["candidate_id"].to_list()


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("I've never completed any coin toss problem before.", "a"),
        ("The gateway's retry limits are 250 now.", "d"),
        ("My sister does not keep any bees.", "c"),
    ],
)
def test_a_denial_or_another_number_finds_what_it_denies_or_changes(later: str, earlier: str) -> None:
    assert named(facts({"x": later}), facts(SAID), 1) == [earlier]


def test_a_fact_is_no_candidate_of_itself_nor_of_another_scope() -> None:
    pool = pl.concat([facts(SAID), facts({"z": SAID["a"]}, "work")])
    assert named(facts({"a": SAID["a"]}), pool) == ["b", "c", "d", "e"]


def test_meaning_decides_where_no_word_is_shared() -> None:
    vectors = np.eye(5, dtype=np.float32)
    found = find_counterparts(facts({"x": "Honey comes at dawn"}), vectors[2:3], facts(SAID), vectors, 1)
    assert found["candidate_id"].to_list() == ["c"]


def test_claims_are_the_sentences_that_do_not_ask() -> None:
    text = "I've never used Flask here. Can you show me a route? What is it? I recently moved to Oslo.\n```\nx=1\n```"
    assert claims_of(text) == ["I've never used Flask here.", "I recently moved to Oslo."]
    assert claims_of("Where is it?") == ["Where is it?"]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(list(SAID.values())), max_size=6), st.permutations(list(SAID)), st.integers(1, 7))
def test_at_most_k_each_once_in_order_whatever_the_order_of_the_pool(
    asked: list[str], order: list[str], k: int
) -> None:
    questions = facts({f"q{place}": text for place, text in enumerate(asked)})
    vectors = np.eye(5, dtype=np.float32)
    places = [list(SAID).index(name) for name in order]
    asking = vectors[: len(asked)] if len(asked) <= 5 else np.vstack([vectors, vectors[:1]])
    straight = find_counterparts(questions, asking, facts(SAID), vectors, k)
    turned = find_counterparts(questions, asking, facts({name: SAID[name] for name in order}), vectors[places], k)
    assert straight.equals(turned)
    assert not straight.select("id", "candidate_id").is_duplicated().any()
    for part in straight.partition_by("id"):
        assert part["place"].to_list() == list(range(1, len(part) + 1))
        assert part["score"].is_sorted(descending=True)
        assert len(part) == min(k, 5)


def test_a_few_words_about_one_fact_count_beside_long_claims_that_are_a_little_like_many() -> None:
    words = "amber basil cedar daisy ember flint grain hazel ivory jasper kelp".split()
    plans = {f"p{n}": " ".join(["Fair", "needs", *words[n % 5 : n % 5 + 6]]) + f" {n}." for n in range(15)}
    pool = facts({**plans, "h": "Ola leads the choir."})
    long = f"The fair needs {', '.join(words)}."
    asked = pl.DataFrame({"id": "w", "scope": "global", "statement": [long, f"{long} Soon.", "Ola left."]})
    assert "h" in named(asked, pool, 10)
