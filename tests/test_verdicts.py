"""A model's word is not enough: what a verdict must not merge, and which new wording is none (S1-05, G1-G3, T37)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from slowwave import frames
from slowwave.merging.absorption import Absorption, absorb
from slowwave.merging.merges import Merges, Pool, merge_alike
from slowwave.merging.verdicts import Cluster, ClusterFact, Judged, Verdict, check_verdict, check_verdicts, new_wording
from slowwave.merging.wordings import lost
from slowwave.settings import MergeSettings

DAY = datetime(2026, 1, 1, tzinfo=UTC)
MANAGED = ("Marta manages Devon at the office.", "At the office Devon is managed by Marta.")
SWAPPED = "Devon manages Marta at the office."
SERVER = (
    "Marta runs a billing service on the small server in Lisbon.",
    "The billing service is run by Marta on a small Lisbon server.",
)


def cluster_of(*statements: str) -> Cluster:
    return Cluster(
        0,
        tuple(
            ClusterFact(index, f"f{index}", text, "global", DAY, 0.8, "user_stated", 1)
            for index, text in enumerate(statements)
        ),
    )


def facts_of(cluster: Cluster, **columns: list[Any]) -> pl.DataFrame:
    """Their rows, all about Marta; a column may be given, a value for each fact."""
    rows = pl.DataFrame(
        {
            "id": cluster.ids(),
            "statement": [fact.statement for fact in cluster.facts],
            "scope": "global",
            "subject_id": "e_marta",
            "polarity": "affirmed",
            "entrenchment": "user_stated",
            "kind": "relation",
            "status": "active",
            "valid_from": [fact.valid_from for fact in cluster.facts],
            **columns,
        }
    )
    return frames.conform(rows, frames.FACTS)


def superseded(survivor: int = 0, *absorbed: int, reworded: str | None = None) -> Verdict:
    return Verdict(0, "supersede", survivor, absorbed or (1,), reworded, "They say the same.")


def wrong(*statements: str, reworded: str | None = None, **columns: list[Any]) -> str:
    """What is wrong with the first absorbing the second."""
    cluster = cluster_of(*statements)
    return check_verdict(cluster, superseded(reworded=reworded), facts_of(cluster, **columns))


def carried_out(cluster: Cluster, verdict: Verdict) -> Absorption:
    facts = facts_of(cluster)
    pool = Pool(facts.with_columns(created_at=pl.col("valid_from"), is_seed=True), _no_pairs(), prompt_version="v1")
    merges: Merges = merge_alike(pool, MergeSettings(resolve_cosine=0.60, merge_cosine=0.92))
    return absorb(facts, merges, [Judged(cluster, verdict)])


def _no_pairs() -> pl.DataFrame:
    return pl.DataFrame(schema={"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64})


# What must not be absorbed


@pytest.mark.parametrize(
    ("survivor", "absorbed", "why"),
    [
        ("The gateway allows 1000 requests per minute.", "The gateway allows 100 requests per minute.", "'100'"),
        ("The gateway allows 100 requests.", "The gateway allows 100 requests and 5 retries.", "'5'"),
        ("Marta does not like coffee.", "Marta likes tea.", "polarity"),
        ("Marta likes tea.", "Marta no longer likes tea.", "polarity"),
        ("Marta may move to Oslo.", "Marta moves to Oslo.", "modality"),
        ("You like tea.", "I like tea.", "person"),
        ("Does Marta like tea?", "Marta likes tea.", "question"),
        ("Marta drinks cold milk.", "Marta drinks hot milk.", "antonym"),
        ("Marta swims in July.", "Marta swims in June.", "'jun'"),
        ("Marta went to Oslo.", "Marta went to Oslo on Monday.", "'mon'"),
        ("Marta lives in Oslo.", "Marta lives in Bergen.", "'bergen'"),
        ("Marta keeps it in `stock_view`.", "Marta keeps it in `order_view`.", "'order_view'"),
    ],
)
def test_what_contradicts_the_survivor_or_would_be_lost_with_it_stays(survivor: str, absorbed: str, why: str) -> None:
    said = wrong(survivor, absorbed).lower()
    assert said.startswith("fact 1 must stay as it is")
    assert why in said


@pytest.mark.parametrize(
    ("survivor", "absorbed"),
    [
        SERVER,
        MANAGED,
        ("The gateway allows 100 requests and 5 retries.", "100 requests are what the gateway allows."),
        ("Each morning Marta has a cup of tea.", "Marta likes tea."),
        ("Marta went to Oslo on Monday with Devon.", "Marta went to Oslo."),
        ("Marta waits two days.", "Marta waits 2 days."),
    ],
)
def test_a_survivor_that_says_as_much_or_more_absorbs(survivor: str, absorbed: str) -> None:
    assert wrong(survivor, absorbed) == ""


def test_facts_about_two_subjects_are_never_merged_whatever_they_say() -> None:
    assert "is about somebody" in wrong(*MANAGED, subject_id=["e_marta", "e_devon"])
    assert "is about somebody" in wrong(*MANAGED, subject_id=["e_marta", None])


def test_relations_to_two_objects_are_never_merged_but_one_may_have_none() -> None:
    assert "relates to somebody" in wrong(*MANAGED, object_id=["e_devon", "e_ben"])
    assert wrong(*MANAGED, object_id=["e_devon", "e_devon"]) == ""
    assert wrong(*MANAGED, object_id=["e_devon", None]) == ""


def test_one_absorbed_fact_that_must_stay_spoils_the_verdict_and_is_named() -> None:
    cluster = cluster_of("Marta likes tea.", "Tea is liked by Marta.", "Marta likes 3 teas.")
    assert "fact 2" in check_verdict(cluster, superseded(0, 1, 2), facts_of(cluster))
    assert check_verdict(cluster, superseded(0, 1), facts_of(cluster)) == ""


def test_verdicts_that_are_checked_together_are_judged_as_they_are_alone() -> None:
    clusters = [cluster_of(*MANAGED), cluster_of("Marta likes 2 teas.", "Marta likes 3 teas."), cluster_of(*SERVER)]
    verdicts = [superseded(reworded=SWAPPED), superseded(), Verdict(0, "keep_all")]
    facts = facts_of(clusters[0])
    together = check_verdicts(list(zip(clusters, verdicts, strict=True)), facts)
    assert together == [check_verdict(c, v, facts) for c, v in zip(clusters, verdicts, strict=True)]
    assert [bool(each) for each in together] == [False, True, False]


def test_nothing_is_lost_of_no_texts() -> None:
    none = pl.Series([], dtype=pl.String)
    assert lost(none, none).is_empty()
    assert check_verdicts([], facts_of(cluster_of(*MANAGED))) == []


# New wordings


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (MANAGED, SWAPPED),
        (
            ("Marta moved the data from Oslo to Bergen.", "The data went from Oslo to Bergen with Marta."),
            "Marta moved the data from Bergen to Oslo.",
        ),
    ],
)
def test_a_wording_that_turns_the_fact_round_is_left_out_and_the_survivor_keeps_its_own(
    members: tuple[str, str], words: str
) -> None:
    cluster, verdict = cluster_of(*members), superseded(reworded=words)
    assert check_verdict(cluster, verdict, facts_of(cluster)) == ""
    assert new_wording(cluster, verdict) == ""
    done = carried_out(cluster, verdict)
    assert done.steps == {"f1": "f0"}
    assert done.reworded().is_empty()
    (taken,) = done.taken
    assert taken.verdict is not None
    assert taken.verdict.reason.startswith("They say the same. (The new wording was left out")


def test_a_wording_in_the_words_of_one_of_the_facts_is_taken() -> None:
    better = "Marta runs the billing service on a small server in Lisbon."
    done = carried_out(cluster_of(*SERVER), superseded(reworded=better))
    assert done.reworded()["statement"].to_list() == [better]
    assert [each.verdict.reason for each in done.taken if each.verdict] == ["They say the same."]


def test_a_wording_may_be_that_of_the_fact_that_is_absorbed() -> None:
    cluster = cluster_of(SERVER[1], SERVER[0])
    assert new_wording(cluster, superseded(reworded=SERVER[0])) == SERVER[0]


def test_a_wording_that_joins_what_no_fact_says_alone_is_refused_and_not_half_carried_out() -> None:
    members = ("Marta manages the billing service.", "The billing service of Marta is on a small server.")
    said = wrong(*members, reworded="Marta manages the billing service on a small server.")
    assert "joins 'server'" in said
    assert "keep_all" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("Marta manages Devon at the office in Oslo.", "adds 'oslo'"),
        ("Marta manages Devon at 3 offices.", "quantity"),
        ("Marta never manages Devon at the office.", "polarity"),
    ],
)
def test_a_wording_with_a_name_number_or_denial_of_its_own_makes_the_verdict_unusable(words: str, why: str) -> None:
    assert why in wrong(*MANAGED, reworded=words)


def test_a_wording_keeps_the_names_of_all_that_it_replaces() -> None:
    members = ("Marta lives by the sea near Oslo.", "Marta lives by the sea.")
    assert "'oslo'" in wrong(*members, reworded="Marta lives by the sea.")
    assert wrong(*members) == ""
