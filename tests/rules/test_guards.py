"""What keeps two like statements apart (§6.2 G1, G2; T29)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.guards import CHANGES, changed
from slowwave.comparison.guards import (
    guards_pass,
    is_same_identity,
    is_time_bound,
    may_yield,
    polarity,
    quantities,
    read_times,
)
from slowwave.comparison.normal_forms import stem
from slowwave.lexicon.statement_words import ENDS
from slowwave.text import sentences

APART = [
    ("polarity", "Ana likes cilantro", "Ana does not like cilantro"),
    ("polarity", "The job runs on the server", "The job no longer runs on the server"),
    ("polarity", "He eats meat", "He never eats meat"),
    ("polarity", "She smokes", "She stopped smoking"),
    ("polarity", "Tea with sugar", "Tea without sugar"),
    ("polarity", "Ana trinkt Kaffee", "Ana trinkt keinen Kaffee"),
    ("polarity", "Ana come carne", "Ana no come carne"),
    ("polarity", "It does not work and does not start", "It does not work and does start"),
    ("quantity", "The limit is 100 requests", "The limit is 1000 requests"),
    ("quantity", "It takes 5 minutes", "It takes 5 hours"),
    ("quantity", "We use Python 3.11", "We use Python 3.12"),
    ("quantity", "It costs $5", "It costs €5"),
    ("quantity", "It is -5 outside", "It is 5 outside"),
    ("quantity", "The flag is `verbose`", "The flag is `quiet`"),
    ("quantity", 'She named it "Luna"', 'She named it "Nova"'),
    ("quantity", "Settings are in config.yaml", "Settings are in config.json"),
    ("quantity", "It is written in C++", "It is written in C"),
    ("time", "She travels in May", "She travels in June"),
    ("time", "The backup runs daily", "The backup runs weekly"),
    ("time", "Call before lunch", "Call after lunch"),
    ("person", "I like his dog", "I like her dog"),
    ("person", "My sister lives in Rome", "Your sister lives in Rome"),
    ("modality", "She will move to Rome", "She moves to Rome"),
    ("modality", "He may take the job", "He takes the job"),
    ("name", "Ana works at Acme", "Ben works at Acme"),
    ("name", "The code is in R", "The code is in Rust"),
    ("owner", "Ana's brother likes tea", "Ana likes tea"),
    ("question", "You moved to Rome", "You moved to Rome?"),
    ("antonym", "The user prefers dark roast coffee", "The user prefers light roast coffee"),
    ("antonym", "The man turns on the light", "The man turns off the light"),
    ("polarity", "The flag is enabled", "The flag is disabled"),
    ("antonym", "Ana is happy with the plan", "Ana is unhappy with the plan"),
    ("antonym", "Ana finds the tool useful", "Ana finds the tool useless"),
    ("antonym", "Ana drinks tea and milk", "Ana drinks tea or milk"),
    ("antonym", "All servers run Linux", "Some servers run Linux"),
    ("time", "Ana works at Acme", "Ana works at Acme until June"),
    ("modality", "Ana wants to learn Rust", "Ana learns Rust"),
    ("list", "Ana eats apples and pears", "Ana eats apples and plums"),
    ("list", "Ana eats apples, pears and nuts", "Ana eats apples and pears"),
    ("word", "Ana eats apples and pears", "Ana eats apples"),
    ("word", "A man is singing", "A man is singing in the rain"),
    ("word", "Only Ana knows the key", "Ana knows the key"),
    ("word", "The man likes pines", "The man likes pins"),
    ("word", "She ate at least one apple", "She ate an apple and a pear"),
    ("list", "Ana likes tea and does not like milk", "Ana does not like tea and likes milk"),
    ("list", "She has 2 dogs and 3 cats", "She has 3 dogs and 2 cats"),
    ("order", "I told you", "You told me"),
    ("list", "A dog and a cat are held by a man", "A dog and a man hold a cat"),
    ("order", "A man on a horse which is white", "A white man on a horse"),
    ("word", "The book was read by Ana", "Ana reads the book"),
    ("word", "He let the dog out", "He lets the dog out"),
    ("word", "Ana is going to Rome", "Ana goes to Rome"),
    ("order", "The cat is chased by the dog", "The cat chases the dog"),
    ("order", "The dog that bites the man sleeps", "The dog bites the man that sleeps"),
    ("order", "Ana moved from Rome to Paris", "Ana moved from Paris to Rome"),
    ("word", "A glass of wine", "A wine glass"),
    ("word", "Ana lives in Rome", "Ana lived in Rome"),
    ("order", "She slowly reads because he sings", "She reads because he slowly sings"),
]
TOGETHER = [
    ("The road is crossed by Ana", "Ana crosses the road"),
    ("Ana likes tea.", "ana likes  tea"),
    ("The limit is 1,000 requests", "The limit is 1000 requests"),
    ("It takes five minutes", "It takes 5 mins"),
    ("It doesn't start", "It does not start"),
    ("It can't start", "It cannot start"),
    ("She plays the piano", "She is playing the piano"),
    ("Ana has a dog", "Ana has got a dog"),
    ("Load is at 20%", "Load is at twenty percent"),
    ("The cats sleep", "The cat sleeps"),
    ("A man is playing the guitar", "The man plays a guitar"),
    ("There is a man who is playing the guitar", "A man is playing the guitar"),
    ("One man is riding a horse", "A man is riding a horse"),
    ("The horse is ridden by a man", "A man rides the horse"),
    ("The API is used by 3 teams", "3 teams use the API"),
    ("Ben was hired by Ana from Acme", "Ana hired Ben from Acme"),
    ("The report was written by Ana", "Ana wrote the report"),
    ("The man is singing and playing the guitar", "The man sings and plays the guitar"),
    ("Dough is being put into a bowl by the woman", "The woman is putting dough into a bowl"),
    ("The door was opened by a man with a key", "A man with a key opened the door"),
    ("The man drives carefully", "The man carefully drives"),
    ("A dog, which is brown, is asleep", "A brown dog is asleep"),
    ("Grass which is tall and green is cut", "Tall green grass is cut"),
    ("The lens of the camera is broken", "The camera lens is broken"),
    ("A house made of stone stands here", "A stone house stands here"),
    ("Ana buys oil for cooking", "Ana buys cooking oil"),
    ("A lady talks to kids", "A woman speaks to children"),
    ("The colour is grey", "The color is gray"),
    ("In May, Ana moved to Rome", "Ana moved to Rome in May"),
]
WORDS = st.sampled_from(
    [
        "Ana",
        "Ben",
        "likes",
        "like",
        "not",
        "n't",
        "no",
        "longer",
        "never",
        "5",
        "five",
        "minutes",
        "min",
        "3.11",
        "May",
        "monday",
        "I",
        "she",
        "will",
        "'s",
        "?",
        "the",
        "on",
        "off",
        "cats",
        "cat",
        "`x`",
        "C++",
        "a.b",
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


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("hop hops", "hop"),
        ("hope hopes", "hope"),
        ("city cities", "city"),
        ("wash washes", "wash"),
        ("ate eaten", "eat+ed"),
        ("stopped", "stop+ed"),
        ("called", "call+ed"),
        ("added", "add+ed"),
        ("calling'v", "call"),
        ("hoped", "hope+ed"),
        ("hopping'v", "hop"),
        ("hoping'v", "hope"),
        ("writing'v", "write"),
        ("operating'v", "operate"),
        ("children kids", "child"),
        ("building", "building"),
        ("tried", "try+ed"),
        ("died", "die+ed"),
        ("ties tie", "tie"),
        ("crosses cross", "cross"),
        ("boxes box", "box"),
        ("horses horse", "horse"),
        ("class", "class"),
        ("bed", "bed"),
        ("used", "use+ed"),
        ("sing'v", "sing"),
        ("42ed", "42ed"),
    ],
)
def test_forms_of_one_word_have_one_spelling(forms: str, expected: str) -> None:
    assert {stem(form) for form in forms.split()} == {expected}


def test_every_scale_has_two_ends_with_no_word_at_both() -> None:
    for ends in ENDS.values():
        scales = [end[:-1] for end in ends.split()]
        assert len(scales) == len(set(scales))
    assert {end[-1] for ends in ENDS.values() for end in ends.split()} == {"+", "-"}


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


def test_months_that_are_also_words_count_when_written_large() -> None:
    texts = pl.Series(["She may march on", "in May or March", "on friday"])
    assert read_times(texts).to_list() == [[], ["mar", "may"], ["fri"]]


def test_words_that_depend_on_the_day_are_seen() -> None:
    texts = pl.Series(["I fly tomorrow", "We met last week", "He left two days ago", "Ana likes tea", "I live in Rome"])
    assert is_time_bound(texts).to_list() == [True, True, True, False, False]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(STATEMENTS, STATEMENTS), min_size=1, max_size=6))
def test_guards_are_symmetric_and_pass_a_text_with_itself(pairs: list[tuple[str, str]]) -> None:
    a, b = (pl.Series(list(side), dtype=pl.String) for side in zip(*pairs, strict=True))
    assert guards_pass(a, b).equals(guards_pass(b, a))
    assert guards_pass(a, a)["passes"].all()


@pytest.mark.proof
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(STATEMENTS, STATEMENTS), min_size=1, max_size=6))
def test_a_pair_is_judged_the_same_whatever_stands_beside_it(pairs: list[tuple[str, str]]) -> None:
    a, b = (pl.Series(list(side), dtype=pl.String) for side in zip(*pairs, strict=True))
    assert guards_pass(a, b).rows() == [verdict(*pair) for pair in pairs]


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
