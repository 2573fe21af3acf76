"""What is there to work with: packages, stores, keys, readers; what is missing is named with the way out."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from console import console
from stores import fact, remembered
from talk import said, started, written
from typer.testing import CliRunner

from apps import ingest_commands as who_reads
from apps.cli import app
from apps.configuration import Place
from apps.runs_commands import check_environment
from inference.language import Language, has_reader
from inference.providers import Reader, find_readers
from inference.request_batch import MemoryLedger
from slowwave.common.settings import DEFAULT_MODEL, LanguageSettings, Settings
from storage import tables

PLACE = Place("", "default", Settings())


def checked(place: Place, check: str, **environ: str) -> str:
    """The state of a check."""
    (row,) = (row for row in check_environment(place, environ) if row.check == check)
    assert "sk-" not in repr(row)
    return row.state


def test_a_package_that_is_missing_or_does_not_fit_is_named_with_its_range(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = ["polars>=1", "fastapi<0.1", "winreg>=1; sys_platform == 'win32'", 'openai>=99; extra == "openai"']
    monkeypatch.setattr(metadata, "requires", lambda name: [*lines, "no-such-package>=1"])
    place = replace(PLACE, uri=str(tmp_path / "memory"))
    remedy = "pip install 'fastapi<0.1' 'no-such-package>=1'"
    assert [row.remedy for row in check_environment(place, {}) if row.remedy] == [remedy]


def test_keys_are_asked_for_the_models_of_the_settings_and_never_shown(tmp_path: Path) -> None:
    llm = {"model": "openai/gpt-5", "answer_model": "auto", "judge_model": "quotes", "resolve_model": "ollama/qwen3"}
    place = Place(str(tmp_path / "memory"), "default", Settings.model_validate({"ingest": {"llm": llm}}))
    assert checked(place, "language model") == "problem"
    assert checked(place, "language model", OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY="sk-2") == "ok"


def test_a_store_that_cannot_be_made_is_a_problem_and_one_of_a_later_schema_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert checked(replace(PLACE, uri=str(tmp_path / "file" / "memory")), "store") == "problem"
    assert checked(replace(PLACE, uri=str(tmp_path / "memory")), "store") == "ok"
    assert not (tmp_path / "memory").exists()
    made = replace(PLACE, uri=str(remembered(tmp_path / "made", [fact("a", "Marta works at Ferrywise.")])))
    version = tables.SCHEMA_VERSION
    for known, state in ((version + 1, "ok"), (version, "ok"), (version - 1, "problem")):
        monkeypatch.setattr(tables, "SCHEMA_VERSION", known)
        assert checked(made, "store") == state


def test_the_command_ends_with_one_where_something_needed_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = console(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    ready = run("doctor", "--environment", "--json")
    assert (ready.code, ready.json["is_ready"]) == (0, True)
    rows = [row["check"] for row in ready.json["checks"]]
    assert rows == ["packages", "language model", "embedding model", "store"]
    (tmp_path / "slowwave.toml").write_text('[ingest.llm]\nmodel = "mistral/large"\n')
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    missing = run("doctor", "--environment")
    assert missing.code == 1
    assert "MISTRAL_API_KEY" in missing.out
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
    assert any("No module named 'polars'" in row["found"] for row in document["checks"])
    with started(code, "stats", cwd=tmp_path) as process:
        told, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "slowwave doctor --environment" in errors
    assert "Traceback" not in errors


# Who reads is asked once; without a yes nobody's key or subscription is used


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: an empty PATH and home, and a folder to work in."""
    for name in ("bin", "home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CI", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "OLLAMA_HOST", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def install(machine: Path, program: str) -> None:
    path = machine / "bin" / program
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)


def shown() -> dict[str, str]:
    return {reader.model: reader.missing for reader in find_readers()}


def test_what_could_read_is_found_with_what_is_missing(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown() == {}
    install(machine, "claude")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    found = shown()
    assert found["claude-code"] == found[DEFAULT_MODEL] == ""
    assert found["ollama/MODEL"] == "it does not answer: ollama serve"
    assert found["openai/MODEL"] == "--model openai/MODEL"
    assert list(found)[:2] == ["claude-code", DEFAULT_MODEL]  # what is ready comes first


def test_a_key_alone_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    settings = LanguageSettings()
    assert settings.model == who_reads.AUTO
    assert not has_reader(settings)
    assert Language(settings, MemoryLedger()).is_keyless("extract")


READY = [Reader("claude-code", "Claude Code", "your subscription"), Reader("codex", "Codex", "", "not logged in")]


@pytest.mark.parametrize(
    ("typed", "model"), [("1", "claude-code"), ("0", "quotes"), ("", "quotes"), ("quotes", "quotes")]
)
def test_the_answer_stands_in_the_settings_for_all_that_asks_a_model(
    machine: Path, monkeypatch: pytest.MonkeyPatch, typed: str, model: str
) -> None:
    monkeypatch.setattr("inference.providers.find_readers", lambda: READY)
    done = CliRunner().invoke(app, ["init", "--graph"], input=f"{typed}\n\n")
    assert done.exit_code == 0, done.output
    assert "1  Claude Code: your subscription" in done.output
    assert "(Codex: not logged in)" in done.output
    kept = tomllib.loads(Path("slowwave.toml").read_text(encoding="utf-8"))
    assert {name: table["llm"]["model"] for name, table in kept.items() if "llm" in table} == {"ingest": model}


@pytest.mark.parametrize("typed", ["7", "cladue-code", "rules"])
def test_what_nobody_can_be_is_refused_and_nothing_is_written(machine: Path, typed: str) -> None:
    done = CliRunner().invoke(app, ["init", "--graph"], input=f"{typed}\n\n")
    assert done.exit_code != 0
    assert not Path("slowwave.toml").exists()


def test_an_ingest_that_nobody_reads_says_how_to_choose(machine: Path) -> None:
    talk = written(Path("talk.jsonl"), said([("Marta", "I keep bees on the roof.")]))
    done = CliRunner().invoke(app, ["ingest", str(talk)])
    assert done.exit_code == 0, done.output
    assert "No model reads yet" in done.output
    assert "slowwave init" in done.output
