"""What keeps two like statements apart (§6.2 G1, G2; T29)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.guards import CHANGES, changed
from slowwave.common.comparison.guards import (
    guards_pass,
    is_same_identity,
    is_time_bound,
    may_yield,
    polarity,
    quantities,
)
from slowwave.common.text import sentences

APART = [
    ("polarity", "Ana likes cilantro", "Ana does not like cilantro"),
    ("polarity", "The job runs on the server", "The job no longer runs on the server"),
    ("polarity", "Ana trinkt Kaffee", "Ana trinkt keinen Kaffee"),
    ("polarity", "It does not work and does not start", "It does not work and does start"),
    ("quantity", "The limit is 100 requests", "The limit is 1000 requests"),
    ("quantity", 'She named it "Luna"', 'She named it "Nova"'),
    ("quantity", "It is written in C++", "It is written in C"),
    ("time", "She travels in May", "She travels in June"),
    ("word", "My sister lives in Rome", "Your sister lives in Rome"),
    ("word", "She will move to Rome", "She moves to Rome"),
    ("name", "Ana works at Acme", "Ben works at Acme"),
    ("name", "The code is in R", "The code is in Rust"),
    ("word", "Ana's brother likes tea", "Ana likes tea"),
    ("question", "You moved to Rome", "You moved to Rome?"),
    ("word", "The user prefers dark roast coffee", "The user prefers light roast coffee"),
    ("word", "Ana drinks tea and milk", "Ana drinks tea or milk"),
    ("word", "All servers run Linux", "Some servers run Linux"),
    ("time", "Ana works at Acme", "Ana works at Acme until June"),
    ("word", "Ana wants to learn Rust", "Ana learns Rust"),
    ("word", "Ana eats apples and pears", "Ana eats apples and plums"),
    ("word", "Ana eats apples and pears", "Ana eats apples"),
    ("word", "The man likes pines", "The man likes pins"),
    ("word", "She ate at least one apple", "She ate an apple and a pear"),
    ("word", "Ana is going to Rome", "Ana goes to Rome"),
    ("word", "The dog that bites the man sleeps", "The dog bites the man that sleeps"),
    ("word", "Ana lives in Rome", "Ana lived in Rome"),
    ("word", "The road is crossed by Ana", "Ana crosses the road"),
]
TOGETHER = [
    ("Ana likes tea.", "ana likes  tea"),
    ("The limit is 1,000 requests", "The limit is 1000 requests"),
    ("It takes five minutes", "It takes 5 mins"),
    ("It isn't open", "It is not open"),
    ("One man plays the guitar", "A man plays a guitar"),
    ("The house costs 1,000,000 dollars", "The house costs 1000000 dollars"),
]
WORDS = st.sampled_from(
    [
        "Ana",
        "likes",
        "not",
        "n't",
        "no",
        "5",
        "minutes",
        "I",
        "'s",
        "?",
        "`x`",
        "é",
    ]
)
STATEMENTS = st.lists(WORDS, max_size=7).map(" ".join) | st.text(max_size=12)


def verdict(a: str, b: str) -> tuple[bool, str | None]:
    passes, failed = guards_pass(pl.Series([a]), pl.Series([b])).row(0)
    return passes, failed


@pytest.mark.parametrize(("guard", "a", "b"), APART)
def test_statements_that_differ_in_what_matters_stay_apart(guard: str, a: str, b: str) -> None:
    assert verdict(a, b) == (False, guard)


@pytest.mark.parametrize(("a", "b"), TOGETHER)
def test_statements_that_differ_in_form_alone_may_merge(a: str, b: str) -> None:
    assert verdict(a, b) == (True, None)


CONVERSATION = """
I moved to Lisbon on 12 March 2024 and I do not miss the rain. My sister Greta visits every Friday. We have three cats.
The server in Toronto runs Python 3.11 and needs 16 GB of memory. Hugo never drinks coffee after Monday's meeting.
The release is planned for October 7, but Priya was not told. Ana and Ben were married for nine years. The rent is $950.
Our team at Globex has twelve people. Nadia is allergic to peanuts. They will not sell the house before December.
Farid bought two tickets to Kyoto for 1,200 euros. The backup job starts at 02:30 and takes 45 minutes. I can swim.
""".replace("\n", " ").strip()


@pytest.mark.parametrize("seed", range(5))
def test_a_sentence_never_merges_with_itself_after_one_change(seed: int) -> None:
    made = changed(sentences(CONVERSATION), 60, seed)
    assert {kind for kind, _, _ in made} == set(CHANGES)
    verdicts = guards_pass(pl.Series([a for _, a, _ in made]), pl.Series([b for _, _, b in made]))
    assert [pair for pair, passes in zip(made, verdicts["passes"], strict=True) if passes] == []


def test_markers_are_counted_under_one_name() -> None:
    assert polarity("I don't, I cannot, he isn't any more") == ("no longer", "not", "not")
    assert polarity("Nothing here") == ("no",)
    assert polarity("A notable knot") == ()


def test_quantities_have_one_spelling() -> None:
    assert quantities("ten miles, 3.5 kg, $5, 20 percent, v1.2.3, 1,000 and `main`") == (
        "$5",
        "1000",
        "10mi",
        "20%",
        "3.5kg",
        "main",
        "v1.2.3",
    )


def test_words_that_depend_on_the_day_are_seen() -> None:
    texts = pl.Series(["I fly tomorrow", "We met last week", "He left two days ago", "Ana likes tea", "I live in Rome"])
    assert is_time_bound(texts).to_list() == [True, True, True, False, False]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(STATEMENTS, STATEMENTS), min_size=1, max_size=6))
def test_guards_are_symmetric_and_pass_a_text_with_itself(pairs: list[tuple[str, str]]) -> None:
    a, b = (pl.Series(list(side), dtype=pl.String) for side in zip(*pairs, strict=True))
    assert guards_pass(a, b).equals(guards_pass(b, a))
    assert guards_pass(a, a)["passes"].all()


def facts(**other: Any) -> pl.DataFrame:
    """One pair of equal relation facts, but for what is said otherwise; `_b` is the second side."""
    fact = {
        "scope": "global",
        "kind": "relation",
        "subject_id": "e1",
        "predicate": "likes",
        "object_id": "e2",
        "object_text": "tea",
        "polarity": "affirmed",
        "pinned": False,
        "entrenchment": "user_stated",
    }
    pair = {**fact, **{f"{name}_b": value for name, value in fact.items()}, **other}
    return pl.DataFrame([pair], schema_overrides={"object_id": pl.String, "object_id_b": pl.String})


@pytest.mark.parametrize("column", ["scope", "kind", "subject_id", "predicate", "object_id", "polarity"])
def test_relations_that_differ_in_any_part_are_not_one(column: str) -> None:
    assert facts().select(is_same_identity()).item()
    assert not facts(**{column: "other"}).select(is_same_identity()).item()


def test_objects_that_are_no_entities_are_compared_by_their_text() -> None:
    none = {"object_id": None, "object_id_b": None}
    assert facts(**none, object_text=" Tea").select(is_same_identity()).item()
    assert not facts(**none, object_text="coffee").select(is_same_identity()).item()
    assert not facts(object_id=None).select(is_same_identity()).item()


def test_observations_need_no_predicate_but_one_subject() -> None:
    seen = {"kind": "observation", "kind_b": "observation"}
    assert facts(**seen, predicate="other").select(is_same_identity()).item()
    assert not facts(**seen, subject_id="e9").select(is_same_identity()).item()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, True),
        ({"pinned": True}, False),
        ({"entrenchment": "user_axiom", "entrenchment_b": "user_axiom"}, False),
        ({"entrenchment_b": "system_inferred"}, False),
        ({"entrenchment": "system_inferred"}, True),
        ({"pinned_b": True}, True),
    ],
)
def test_only_a_fact_that_is_not_better_founded_yields(other: dict[str, Any], expected: bool) -> None:
    assert facts(**other).select(may_yield()).item() is expected
