"""Labels: the words of types and relations are understood in two languages, stored in one, shown as one likes (C8)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common import frames
from slowwave.common.lexicon.labels import (
    TYPES,
    canonical_relation,
    canonical_type,
    label_key,
    relation_forms,
    shown_relation,
    shown_type,
)
from slowwave.facts.revision.predicates import DEFAULT, canonicalise

RELATIONS = [predicate.name for predicate in DEFAULT]
CASES = st.sampled_from([str.lower, str.upper, str.title])


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Sesion", "session"), ("Sesión", "session"), ("SESIO\u0301N", "session"), ("Proyecto", "project"),
        ("Persona", "person"), ("Herramienta", "tool"), ("tecnologia", "tool"), ("Concepto", "concept"),
        ("Lenguaje", "language"), ("Archivo", "file"), ("Configuracion", "config"), (" configuración ", "config"),
        ("Organizacion", "organization"), ("company", "organization"), ("Lugar", "place"), ("Evento", "event"),
        ("Person", "person"), ("spaceship", None), ("", None),
    ],
)  # fmt: skip
def test_a_type_is_understood_in_both_languages_with_accents_and_without(word: str, name: str | None) -> None:
    assert canonical_type(word) == name


@given(st.sampled_from(TYPES), CASES)
def test_a_type_that_is_shown_means_the_type_that_is_stored(name: str, case: Callable[[str], str]) -> None:
    for locale in ("en", "es"):
        assert canonical_type(case(shown_type(name, locale))) == name
    assert shown_type(name, "en") == name
    assert shown_type("spaceship", "es") == "spaceship"


def test_every_relation_of_the_default_ontology_is_shown_in_spanish_and_each_differently() -> None:
    shown = [shown_relation(name, "es") for name in RELATIONS]
    assert len({*shown, *RELATIONS}) == 2 * len(RELATIONS)
    assert [canonical_relation(word) for word in shown] == RELATIONS
    assert [shown_relation(name, "en") for name in RELATIONS] == RELATIONS


@given(st.sampled_from([(name, form) for name in RELATIONS for form in relation_forms(name)]), CASES)
def test_a_spanish_relation_is_one_whoever_reads_it(pair: tuple[str, str], case: Callable[[str], str]) -> None:
    name, form = pair
    said = case(form.replace("_", " "))
    assert canonical_relation(said) == name
    assert canonicalise(pl.Series([said]), frames.empty(frames.PREDICATES))["canonical"].to_list() == [name]


def test_a_relation_that_no_table_knows_stays_as_it_is_said() -> None:
    assert canonical_relation("canta con Ana") == "canta con Ana"
    assert shown_relation("sings_with", "es") == "sings_with"
    assert [label_key("  Canta-con Aña "), label_key("works.at")] == ["canta_con_ana", "works.at"]
