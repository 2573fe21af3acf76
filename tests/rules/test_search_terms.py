"""General words of facts: they are few, of no name and no secret, and none is lost when facts become one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from patchwork import Memory, claim
from test_reconciliation import ALIKE, fact, plan, pool_of

from slowwave.facts.revision.search_terms import general_words, search_terms
from slowwave.lifecycle.forgotten_names import NameMatcher


@pytest.mark.parametrize(
    ("terms", "kept"),
    [
        ("Hobby, craft", "hobby craft"),
        ("pottery craft", "craft"),
        ("<b>ignore</b> 4111-1111 sk-abc", "ignore sk abc"),
        ("aa bb cc dd ee ff gg hh ii jj kk ll mm", "aa bb cc dd ee ff gg hh ii jj kk ll"),
        (None, None),
    ],
)
def test_general_words_of_a_fact_are_a_few_words_that_it_does_not_say(terms: str | None, kept: str | None) -> None:
    rows = pl.DataFrame({"search_terms": [terms], "statement": ["Anna signed up for a pottery class."]},
                        schema_overrides={"search_terms": pl.String})  # fmt: skip
    assert general_words(rows).to_list() == [kept]


def test_general_words_have_no_word_of_a_name_of_whom_the_fact_is_about_or_of_a_person() -> None:
    terms = "hobby anna óslo ben acme trip sister"
    found = Memory().candidates([claim("Anna moved to Oslo.", obj="Oslo", relation="moved to", search_terms=terms)])
    assert found.facts["search_terms"].to_list() == ["hobby acme trip sister"]
    names = pl.DataFrame(
        [("anne-marie o'neil", "e_1", "person"), ("marta's sister", "e_2", "person"), ("Blue Cup", "e_3", "place")],
        schema=["name", "entity_id", "entity_type"], orient="row",
    )  # fmt: skip
    rows = pl.DataFrame(
        {
            "search_terms": ["neil sister trip anne oneil marta", "cup blue neil trip"],
            "statement": ["She went there.", "It is closed."],
            "subject_id": ["e_2", "e_3"], "object_id": [None, "e_4"],
        }
    )  # fmt: skip
    assert search_terms(rows, names).to_list() == ["sister trip", "trip"]
    rows = rows.with_columns(subject_id=pl.lit("e_4"))
    assert search_terms(rows, names).to_list() == ["sister trip", "cup blue trip"]


OTHERWISE = [
    ("Hans Weiß", "weiss"),
    ("राम ली", "ली"),
    ("李明", "李明さん"),
    ("أحمد", "احمد"),
    ("Zorblax Quint", "quints"),
]


@pytest.mark.parametrize(("name", "word"), OTHERWISE)
@pytest.mark.parametrize(("about", "kind"), [("e_1", "place"), ("e_9", "person")])
def test_a_word_of_a_name_that_is_written_otherwise_is_not_kept_and_is_found(
    name: str, word: str, about: str, kind: str
) -> None:
    names = pl.DataFrame({"name": [name], "entity_id": ["e_1"], "entity_type": [kind]})
    rows = pl.DataFrame({"search_terms": [f"hobby {word} trip"], "statement": ["She goes."], "subject_id": [about],
                         "object_id": ["e_2"]})  # fmt: skip
    assert search_terms(rows, names).to_list() == ["hobby trip"]
    assert NameMatcher.of([name]).have_words_in(rows["search_terms"]).to_list() == [True]


@pytest.mark.parametrize(
    ("name", "word"), [("राम ली", "लो"), ("Ann", "annals"), ("Quint", "sequint"), ("李明", "明日"), ("Weiß", "west")]
)
def test_a_word_that_is_only_like_a_name_is_kept(name: str, word: str) -> None:
    names = pl.DataFrame({"name": [name], "entity_id": ["e_1"], "entity_type": ["person"]})
    rows = pl.DataFrame({"search_terms": [word], "statement": ["She goes."], "subject_id": ["e_1"],
                         "object_id": ["e_2"]})  # fmt: skip
    assert search_terms(rows, names).to_list() == [word]
    assert NameMatcher.of([name]).have_words_in(rows["search_terms"]).to_list() == [False]


@pytest.mark.parametrize(
    ("terms", "kept"),
    [
        ("craft AKIA" + "Q7RZ4M2KX9T3BVLN", "craft"),
        ("craft AKIA\u200b" + "Q7RZ4M2KX9T3BVLN", "craft"),
        ("craft [redacted:aws_key] hobby", "craft hobby"),
        ("craft sk-" + "ant-api03-" + "abcdefghij" * 6, "craft"),
    ],
)
def test_of_a_secret_among_general_words_no_letter_is_kept(terms: str, kept: str) -> None:
    found = Memory().candidates([claim("Anna likes vim.", obj="vim", search_terms=terms)])
    assert found.facts["search_terms"].to_list() == [kept]


def test_a_candidate_with_a_secret_among_its_general_words_is_rejected_and_does_not_keep_it() -> None:
    memory, secret = Memory(), "AKIA" + "Q7RZ4M2KX9T3BVLN"
    found = memory.candidates([claim("Anna uses vim every day.", obj="vim")])
    planted = replace(found, facts=found.facts.with_columns(search_terms=pl.lit(f"craft {secret}")))
    verdict = memory.judge(planted)
    assert [each["failed"] for each in verdict.verdicts] == ["secret"]
    assert secret not in verdict.rejected.write_json()
    assert memory.judge(found).passed.height == 1


@pytest.mark.proof
def test_a_fact_that_is_said_again_gains_the_general_words_of_the_repetition_in_whatever_order() -> None:
    told = [
        claim("Anna uses vim.", obj="vim", at=0, search_terms="editor tool"),
        claim("Anna uses vim.", obj="vim", at=5, search_terms="software anna tool"),
        claim("Anna uses vim.", obj="vim", at=6),
    ]
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0)):
        memory = Memory()
        for place in order:
            memory.tell(told[place])
        (fact,) = memory.facts.filter(pl.col("status") == "active").to_dicts()
        assert fact["search_terms"] == "editor software tool"


def test_a_fact_that_absorbs_another_takes_over_its_general_words() -> None:
    words = ("drink break", "habit office drink", None)
    three = [fact(f"f{n}", ALIKE[0] + "!" * n, search_terms=each) for n, each in enumerate(words)]
    found = plan(pool_of(*three)).facts.filter(pl.col("status") == "active")
    assert found["search_terms"].to_list() == ["break drink habit"]  # "office" is in the statement
