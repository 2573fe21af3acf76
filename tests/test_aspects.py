"""Fourteen aspects: who is tagged with what, and the golden scores of SEMANTICS §8 (S3-13 … S3-18)."""

from __future__ import annotations

import polars as pl
import pytest

from slowwave import frames
from slowwave.aspects import SLUGS, TAXONOMY, aspect_rows, classify, merge, score, score_aspects, shown


def tagged(**columns: str) -> list[str]:
    return classify(pl.DataFrame({name: [value] for name, value in columns.items()}))[0].to_list()


def lists(*rows: list[str] | None) -> pl.Series:
    return pl.Series(rows, dtype=frames.TEXTS)


def test_the_taxonomy_has_fourteen_aspects_in_five_categories() -> None:
    assert len(set(SLUGS)) == 14
    assert list(dict.fromkeys(aspect.category for aspect in TAXONOMY)) == [
        "Cultural",
        "Identity",
        "Relationships",
        "Worldview",
        "Lifestyle",
    ]
    assert all(aspect.icon and aspect.display_name for aspect in TAXONOMY)


@pytest.mark.parametrize(
    ("statement", "slugs"),
    [
        ("Anna watches a film.", ["film_tv"]),
        ("Ben THINKS aloud.", ["philosophy"]),
        ("Cleo is allergic to nuts.", ["health"]),
        ("Dan rethinks it.", []),
        ("Eve grew up in her parents’ house.", ["childhood", "family"]),
        ("It rained.", []),
    ],
)
def test_words_are_recognised_by_their_start(statement: str, slugs: list[str]) -> None:
    assert tagged(statement=statement) == slugs


def test_predicate_and_types_are_read_too() -> None:
    assert tagged(predicate="works_at", subject_type="person", object_type="company", statement="x") == ["career"]
    assert classify(pl.DataFrame({"predicate": [None], "statement": ["A concert."]}))[0].to_list() == ["music"]


def test_tags_are_the_union_in_taxonomy_order_and_unknown_ones_are_counted() -> None:
    tagging = merge(lists(["health", "music", "cooking"], None, []), lists(["film_tv", "music"], ["career"], []))
    assert tagging.slugs.to_list() == [["film_tv", "music", "health"], ["career"], []]
    assert tagging.unknown == 1


def test_applied_facts_get_one_row_per_slug_that_says_who_found_it() -> None:
    facts = pl.DataFrame(
        {
            "id": ["f1", "f2"],
            "predicate": ["uses", "uses"],
            "statement": ["A concert.", "Nothing."],
            "aspect_slugs": [["music", "health"], []],
        },
        schema_overrides={"aspect_slugs": frames.TEXTS},
    )
    rows = aspect_rows(facts)
    assert rows.select("fact_id", "slug", "via").rows() == [("f1", "music", "regex"), ("f1", "health", "model")]
    assert rows["id"].is_unique().all()


@pytest.mark.parametrize(
    ("counts", "golden"),
    [
        ((1, 1, 1, 0.9), 19.6833),
        ((5, 3, 2, 0.8), 31.25),
        ((25, 12, 8, 1.0), 100.0),
        ((100, 50, 20, 0.7), 95.5),
        ((0, 0, 0, 0.0), 0.0),
    ],
)
def test_scores_are_the_golden_ones(counts: tuple[int, int, int, float], golden: float) -> None:
    assert score(*counts) == pytest.approx(golden, abs=5e-5)


def test_a_score_is_shown_rounded_half_up() -> None:
    assert [shown(value) for value in (0.5, 1.5, 2.5, 31.25)] == [1, 2, 3, 31]


def test_aspects_are_scored_from_facts_ends_and_predicates() -> None:
    facts = pl.DataFrame(
        {
            "id": ["f1", "f2"],
            "subject_id": ["e1", "e2"],
            "object_id": ["e2", None],
            "predicate": ["uses", "uses"],
            "confidence": [1.0, 0.8],
        }
    )
    tags = pl.DataFrame({"fact_id": ["f1", "f2", "f1", "gone"], "slug": ["music", "music", "music", "music"]})
    scores = score_aspects(facts, tags)
    assert scores["slug"].to_list() == list(SLUGS)
    assert scores.row(1, named=True) == {
        "slug": "music",
        "facts": 2,
        "entities": 2,
        "predicates": 1,
        "confidence": 0.9,
        "score": pytest.approx(score(2, 2, 1, 0.9)),
    }
    assert scores["score"].sum() == scores["score"][1]
