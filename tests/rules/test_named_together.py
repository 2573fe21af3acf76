"""Which entities are near each other because one fact names them."""

from __future__ import annotations

import polars as pl
import pytest

from slowwave.graph.graph import MOST, NAMED_WITH, SHARE, named_together

FACTS = {
    "id": pl.String, "subject_id": pl.String, "object_id": pl.String, "predicate": pl.String, "edge_type": pl.String,
    "weight": pl.Float64, "mentions": pl.List(pl.String),
}  # fmt: skip


def edges(*facts: tuple[str, str, str | None, list[str]], heirs: dict[str, str] | None = None) -> dict[str, float]:
    """Pair of names by id of the fact, with the weight."""
    rows = [(name, subject, other, "said", "semantic", 0.8, named) for name, subject, other, named in facts]
    found = named_together(pl.DataFrame(rows, schema=FACTS, orient="row"), heirs or {})
    assert found.columns == list(FACTS)
    assert set(found["predicate"]) <= {NAMED_WITH}
    shown = found.select(pl.format("{}: {} {}", "id", "subject_id", "object_id"), "weight")
    return dict(shown.iter_rows())


def test_all_that_one_fact_names_are_pairs_that_share_its_weight() -> None:
    found = edges(("f", "ana", None, ["oslo", "bo"]))
    assert set(found) == {"f: ana bo", "f: ana oslo", "f: bo oslo"}
    assert sum(found.values()) == pytest.approx(0.8 * SHARE)


def test_a_relation_has_its_edge_and_only_the_others_are_added() -> None:
    assert set(edges(("f", "bo", "ana", ["oslo"]))) == {"f: ana oslo", "f: bo oslo"}
    assert edges(("f", "bo", "ana", [])) == {}


def test_who_was_merged_into_another_is_the_other_and_no_pair_of_one() -> None:
    assert set(edges(("f", "ana", None, ["anna", "oslo"]), heirs={"anna": "ana"})) == {"f: ana oslo"}


def test_a_list_of_names_ties_only_the_first() -> None:
    found = edges(("f", "ana", None, [f"x{n:02}" for n in range(20)]))
    assert len(found) == (MOST + 1) * MOST // 2
