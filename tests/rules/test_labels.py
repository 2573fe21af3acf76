"""Labels: the words of types and relations are understood in two languages, stored in one, shown as one likes (C8)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import fact, remembered

from apps.cli import main
from slowwave import frames
from slowwave.api import OpenMemory
from slowwave.errors import UnknownName
from slowwave.lexicon.labels import (
    TYPES,
    canonical_relation,
    canonical_type,
    label_key,
    relation_forms,
    shown_relation,
    shown_type,
)
from slowwave.revision.predicates import DEFAULT, canonicalise
from tasks.ingest.statements import new_target

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


def test_a_person_may_name_the_type_of_a_new_entity_in_spanish_but_not_make_one_up() -> None:
    target = new_target("Reunión del lunes", "Sesión", datetime(2026, 1, 1, tzinfo=UTC))
    assert target.resolution.entities["entity_type"].to_list() == ["session"]
    with pytest.raises(UnknownName, match=r"entity type 'sesiones'.*session"):
        new_target("Reunión del lunes", "sesiones", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def ferry(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a project that is part of another one."""
    parts = fact("f_part", "Ferry redesign is part of Harbour.", predicate="part_of", kind="relation",
                 subject_id="e_ferry", object_id="e_harbour", edge_type="hierarchical")  # fmt: skip
    entities = [
        {"id": f"e_{name}", "canonical_name": name, "name": name.title(), "entity_type": "project"}
        for name in ("ferry", "harbour")
    ]
    return str(remembered(tmp_path_factory.mktemp("ferry") / "memory", [parts], more={"entities": entities}))


@pytest.mark.proof
def test_entities_and_histories_are_asked_for_in_either_language(ferry: str) -> None:
    with OpenMemory.open(ferry, is_logged=False) as memory:
        for word in ("Proyecto", "project", "PROYECTO"):
            assert memory.entities(type=word)[0] == 2
        assert memory.facts_of("Ferry (Proyecto)")[0].id == "e_ferry"
        for word in ("parte_de", "Parte de", "part_of"):
            assert [version.fact.id for version in memory.history("ferry", relation=word)[1]] == ["f_part"]
            assert [version.fact.id for version in memory.history("ferry", word)[1]] == ["f_part"]
        assert memory.history("ferry", relation="contiene")[1] == ()


@pytest.mark.proof
@pytest.mark.parametrize("command", [["facts", "ferry"], ["neighbours", "ferry"], ["path", "ferry", "harbour"]])
@pytest.mark.parametrize(("locale", "shown", "other"), [("en", "part_of", "parte_de"), ("es", "parte_de", "part_of")])
def test_tables_show_relations_in_the_language_of_the_settings_and_json_does_not(
    ferry: str, command: list[str], locale: str, shown: str, other: str, run: Callable[..., str]
) -> None:
    Path("slowwave.toml").write_text(f'[labels]\nlocale = "{locale}"\n')
    told = run(*command, "--store", ferry)
    assert shown in told
    assert other not in told
    assert "parte_de" not in run(*command, "--store", ferry, "--json")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Run a command line in an empty folder; what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def start(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["slowwave", *words])
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        told = capsys.readouterr()
        assert not code, told.err
        return told.out

    return start
