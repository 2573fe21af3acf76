"""`slowwave doctor --environment`: what is missing, too old or broken is named with the way out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from stores import fact, remembered
from talk import started

from apps.cli import main
from apps.configuration import Place
from apps.environment import (
    Check,
    examine,
    language_models,
    packages,
    schema,
    store,
)
from slowwave.common.settings import Settings

REQUIRED = [
    Requirement(line)
    for line in ("fastapi>=0.139,<0.151", "polars>=1.30", "winreg>=1; sys_platform == 'win32'",
                 'openai>=1.50; extra == "openai"')
]  # fmt: skip


@pytest.mark.parametrize(
    ("installed", "wrong"),
    [
        ({"fastapi": "0.139.2", "polars": "1.30"}, {}),
        ({"fastapi": "0.150.0rc1", "polars": "2.0"}, {}),
        ({"fastapi": "0.151", "polars": "1.30"}, {"fastapi": "0.151 does not fit; needed is <0.151,>=0.139."}),
        ({"fastapi": "0.100", "polars": "1.30"}, {"fastapi": "0.100 does not fit; needed is <0.151,>=0.139."}),
        ({"fastapi": "0.140"}, {"polars": "It is not installed."}),
    ],
)
def test_a_package_that_is_missing_too_old_or_too_new_is_named_with_its_range(
    installed: Mapping[str, str], wrong: Mapping[str, str]
) -> None:
    counted, *rows = packages(REQUIRED, installed.get)
    assert counted.found == f"{2 - len(wrong)} of 2 as needed"
    assert {row.check: row.found for row in rows} == wrong
    for row in rows:
        assert row.state == "problem"
        assert row.remedy.startswith(f"pip install '{row.check}")


def test_keys_are_asked_for_the_models_of_the_settings_and_never_shown() -> None:
    llm = {"model": "openai/gpt-5", "answer_model": "auto", "judge_model": "quotes", "resolve_model": "ollama/qwen3"}
    settings = Settings.model_validate({"ingest": {"llm": llm}}).model_dump()

    def found(**environ: str) -> dict[str, str]:
        rows = list(language_models(settings, environ))
        assert "sk-" not in repr(rows)
        return {row.found.split()[0].rstrip(","): row.state for row in rows}

    assert found() == {"auto:": "ok", "ollama/qwen3": "ok", "openai/gpt-5": "problem", "quotes": "ok"}
    assert found(OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY="sk-2")["openai/gpt-5"] == "ok"


def test_what_a_check_cannot_find_out_is_a_row_without_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Check:
        raise RuntimeError("no such server: pnu_a_hidden_key")

    monkeypatch.setenv("PREFECT_API_KEY", "pnu_a_hidden_key")
    monkeypatch.setattr("apps.environment.embedding_model", broken)
    place = Place(str(tmp_path / "memory"), "default", Settings())
    row = next(row for row in examine(place) if row.check == "embedding model")
    assert row.found == "Not checked, RuntimeError: no such server: [secret]"


def test_a_store_that_cannot_be_made_is_a_problem_and_one_of_a_later_schema_too(tmp_path: Path) -> None:
    def states(uri: Path) -> dict[str, tuple[str, str]]:
        return {row.check: (row.state, row.found) for row in store(replace(place, uri=str(uri)))}

    place = Place("", "default", Settings())
    (tmp_path / "file").write_text("")
    assert states(tmp_path / "file" / "memory")["store"][0] == "problem"
    assert states(tmp_path / "memory")["schema"][1].endswith("is not made yet")
    assert not (tmp_path / "memory").exists()
    made = states(remembered(tmp_path / "made", [fact("a", "Marta works at Ferrywise.")]))
    assert {name: state for name, (state, _) in made.items()} == dict.fromkeys(("store", "disk", "schema"), "ok")
    assert [schema(version, 10).state for version in (9, 10, 11)] == ["note", "ok", "problem"]


def test_the_command_ends_with_one_where_something_needed_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(*more: str) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", ["slowwave", "doctor", "--environment", *more])
        try:
            main()
        except SystemExit as end:
            return end.code, capsys.readouterr().out
        raise AssertionError

    monkeypatch.chdir(tmp_path)
    code, told = ended("--json")
    document = json.loads(told)
    assert (code, document["is_ready"]) == (0, True)
    assert {"packages", "store", "schema", "embedding model"} <= {row["check"] for row in document["checks"]}
    (tmp_path / "slowwave.toml").write_text('[ingest.llm]\nmodel = "mistral/large"\n')
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    code, told = ended()
    assert code == 1
    assert "Set MISTRAL_API_KEY" in told
    assert ended("--repair")[0] == 2
    assert not (tmp_path / "memory").exists()


BROKEN = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from slowwave.__main__ import main
main()
"""


@pytest.mark.proof
def test_the_checks_run_without_the_packages_that_they_are_about(tmp_path: Path) -> None:
    code = BROKEN.format(missing=["polars", "lancedb", "pyarrow", "prefect"])
    with started(code, "doctor", "--environment", "--json", cwd=tmp_path) as process:
        told, errors = process.communicate(timeout=60)
    document = json.loads(told)
    assert (process.returncode, document["is_ready"], errors) == (1, False, "")
    assert any("polars does not load" in row["found"] for row in document["checks"])
    with started(code, "stats", cwd=tmp_path) as process:
        told, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "slowwave doctor --environment" in errors
    assert "Traceback" not in errors
