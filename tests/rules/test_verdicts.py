"""A model's word is not enough: what a verdict must not merge, and whose sentence stays (S1-05, S1-22, G1-G4, T37)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from prompts.rendering import render_pairs
from prompts.responses import Reconciliation
from slowwave.common import frames
from slowwave.common.records import PairFact, PairQuestion
from slowwave.facts.deduplication.pairs_for_a_model import JudgedPair, with_merges

DAY = datetime(2026, 1, 1, tzinfo=UTC)
MANAGED = ("Marta manages Devon at the office.", "At the office Devon is managed by Marta.")
SERVER = (
    "Marta runs a billing service on the small server in Lisbon.",
    "The billing service is run by Marta on a small Lisbon server.",
)


def facts_of(*statements: str, **columns: list[Any]) -> pl.DataFrame:
    """Rows f0, f1 …, all about Marta; a column may be given, a value for each fact."""
    rows = pl.DataFrame(
        {
            "id": [f"f{number}" for number in range(len(statements))],
            "statement": list(statements),
            "scope": "global",
            "subject_id": "e_marta",
            "polarity": "affirmed",
            "entrenchment": "user_stated",
            "kind": "relation",
            "status": "active",
            "valid_from": DAY,
            **columns,
        }
    )
    return frames.conform(rows, frames.FACTS)


def merged(*statements: str, keep: int = 1, **columns: list[Any]) -> JudgedPair:
    """What becomes of a model's verdict that the first two say the same."""
    return with_merges([JudgedPair("f0", "f1", "same", keep)], facts_of(*statements, **columns))[0]


@pytest.mark.parametrize(
    ("one", "other", "guard"),
    [
        ("The gateway allows 1000 requests per minute.", "The gateway allows 100 requests per minute.", "words"),
        ("Marta does not like coffee.", "Marta likes tea.", "polarity"),
        ("Marta keeps it in `stock_view`.", "Marta keeps it in `order_view`.", "words"),
    ],
)
def test_what_contradicts_the_other_or_would_lose_words_of_both_is_not_merged(one: str, other: str, guard: str) -> None:
    for keep in (1, 2):
        assert merged(one, other, keep=keep) == JudgedPair("f0", "f1", "same", keep, guard=guard)


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize(
    "pair",
    [
        SERVER,
        MANAGED,
        ("Marta and Sam plan a hike together soon.", "Marta wants to plan a hike with Sam soon."),
    ],
)
def test_of_two_that_say_the_same_the_sentence_stays_that_the_model_chose(pair: tuple[str, str], keep: int) -> None:
    done = merged(*pair, keep=keep)
    assert (done.representative, done.duplicate) == (("f0", "f1") if keep == 1 else ("f1", "f0"))


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("Marta went to Oslo.", "Marta went to Oslo on Monday."),
        ("The gateway allows 100 requests.", "The gateway allows 100 requests and 5 retries."),
    ],
)
def test_the_one_that_says_more_stays_whichever_the_model_chose(less: str, more: str, keep: int) -> None:
    assert merged(less, more, keep=keep).representative == "f1"


@pytest.mark.parametrize(
    ("columns", "guard"),
    [
        ({"subject_id": ["e_marta", "e_devon"]}, "identity"),
        ({"scope": ["global", "p1"]}, "scope"),
        ({"polarity": ["affirmed", "negated"]}, "polarity"),
        ({"valid_to": [None, DAY]}, "validity"),
        ({"pinned": [True, True]}, "rank"),
        ({"entrenchment": ["user_axiom", "user_axiom"]}, "rank"),
    ],
)
def test_facts_of_two_subjects_scopes_ends_or_both_fixed_are_not_merged(columns: dict[str, Any], guard: str) -> None:
    assert merged(*MANAGED, **columns).guard == guard


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize(
    "columns",
    [
        {"pinned": [True, False]},
        {"entrenchment": ["user_axiom", "user_stated"]},
    ],
)
def test_s1_22_what_is_pinned_an_axiom_or_better_entrenched_stays(columns: dict[str, Any], keep: int) -> None:
    done = merged(*MANAGED, keep=keep, **columns)
    assert (done.representative, done.duplicate) == ("f0", "f1")


# What is read of an answer, and what is shown


@pytest.mark.parametrize("newer", ["works_at Acme", "works_at Globex", "said", "likes Acme"])
def test_a_relation_is_covered_only_by_the_same_relation(newer: str) -> None:
    relation, _, object_ = newer.partition(" ")
    rows = facts_of(
        "Marta works at Acme.",
        "Marta works at Acme as an engineer.",
        kind=["relation", "relation" if object_ else "observation"],
        predicate=["works_at", relation],
        object_text=["Acme", object_ or None],
    )
    (judged,) = with_merges([JudgedPair("f0", "f1", "covers", 2)], rows)
    assert (judged.representative, judged.guard) == (("f1", "") if newer == "works_at Acme" else ("", "relation"))


@pytest.mark.parametrize(
    ("older", "newer", "becomes"),
    [
        ("Marta swims.", "Marta swims in the Tejo with Devon.", {"duplicate": "f0", "representative": "f1"}),
        ("Marta swims in the Tejo with Devon.", "Marta swims.", {"guard": "words"}),
        ("Marta swims.", "Marta does not swim in winter.", {"guard": "polarity"}),
    ],
)
def test_what_covers_another_takes_it_up_and_is_never_taken_up_by_it(
    older: str, newer: str, becomes: dict[str, str]
) -> None:
    judged = JudgedPair("f0", "f1", "covers", 2)
    assert with_merges([judged], facts_of(older, newer)) == (replace(judged, **becomes),)


def test_the_rest_of_an_answer_is_used() -> None:
    told = [{"n": 1, "v": "perhaps"}, {"n": 2, "v": " Same ", "keep": 2, "why": "x"}, {"n": 3, "v": "details"}]
    read = Reconciliation.model_validate({"verdicts": told}).verdicts
    assert [(each.n, each.v, each.keep) for each in read] == [(2, "same", 2), (3, "details", 0)]


def test_a_pair_is_shown_with_who_said_it_when_and_what_it_relates() -> None:
    old = PairFact("Marta lives in Oslo.", "Marta", "lives_in", "Oslo", "Ben", DAY, None, None, None, True)
    later = datetime(2026, 3, 1, tzinfo=UTC)
    new = PairFact("Marta moved to Bergen.", "Marta", "lives_in", "Bergen", "Marta", later, DAY, later, "2026-01-01")
    text = render_pairs((PairQuestion(1, (old, new)), PairQuestion(2, (old, new), 1))).text
    assert "1 [2026-01-01 Ben; fixed] Marta | lives_in | Oslo || Marta lives in Oslo.\n" in text
    assert (
        "2 [2026-03-01 Marta; from 2026-01-01; until 2026-03-01; on 2026-01-01] Marta | lives_in | Bergen || "
        "Marta moved to Bergen.\n"
    ) in text
    assert "\n#1\n" in text
    assert "\n#2 (attempt 2)\n" in text
