"""Relations get one form, and the table says which are the same and how many objects each allows (S2-61)."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common import frames
from slowwave.facts.revision.predicates import canonicalise, domain_of, unmapped

NOTHING = frames.empty(frames.PREDICATES)


def canonical(*raw: str, learned: pl.DataFrame = NOTHING) -> dict[str, tuple[str, str, str]]:
    rows = canonicalise(pl.Series(raw, dtype=pl.String), learned).iter_rows()
    return {said: (name, cardinality, source) for said, name, cardinality, source in rows}


def learned(alias: str, name: str, cardinality: str, source: str) -> pl.DataFrame:
    return pl.DataFrame([("p1", alias, name, cardinality, source)], schema=frames.PREDICATES, orient="row")


@pytest.mark.parametrize(
    ("raw", "name", "cardinality"),
    [
        ("employed_by", "works_at", "1"),
        ("birthplace", "born_in", "1"),
        ("likes", "prefers", "n"),
        ("contiene", "contains", "n"),
        ("parte_de", "part_of", "1"),
        ("switched-to", "replaces", "n"),
    ],
)
def test_the_default_table_maps_each_alias(raw: str, name: str, cardinality: str) -> None:
    assert canonical(raw)[raw] == (name, cardinality, "default")


def test_an_unknown_relation_stays_as_it_is_allows_many_objects_and_is_counted() -> None:
    table = canonicalise(pl.Series(["Sang   With", "sang with", "uses"]), NOTHING)
    assert canonical("Sang   With")["Sang   With"] == ("sang_with", "n", "raw")
    assert unmapped(table.iter_rows()) == ["sang_with"]


def test_the_default_table_outranks_a_model() -> None:
    assert canonical("likes", learned=learned("likes", "enjoys", "n", "llm"))["likes"] == ("prefers", "n", "default")


def test_only_lasting_relations_and_their_denials_have_a_domain() -> None:
    assert [domain_of(name) for name in ("uses", "does_not_use", "wrote", "born_in", "sang_with")] == [
        "use",
        "use",
        "",
        "",
        "",
    ]


@given(st.lists(st.text(max_size=400), max_size=20))
def test_the_normal_form_is_short_idempotent_and_one_row_per_relation(raw: list[str]) -> None:
    table = canonicalise(pl.Series(raw, dtype=pl.String), NOTHING)
    assert sorted(table["raw"]) == sorted(set(raw))
    assert all(len(form.encode()) <= 256 for form in table["canonical"])
    unknown = table.filter(pl.col("source") == "raw")["canonical"]
    assert canonicalise(unknown, NOTHING)["canonical"].to_list() == unknown.unique(maintain_order=True).to_list()


def test_only_an_event_has_one_date_at_a_time() -> None:
    names = ["wedding_date", "heron_roll_out_date", "went_on_a_date", "first_date", "up_to_date", "due_date"]
    counts = canonicalise(pl.Series(names), NOTHING).select("raw", "cardinality").rows()
    assert counts == [(name, "1" if place in (0, 1, 5) else "n") for place, name in enumerate(names)]
