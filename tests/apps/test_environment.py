"""What is there to work with: packages and readers; what is missing is named with the way out."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from talk import said, started, written
from typer.testing import CliRunner

from apps import ingest_commands as who_reads
from apps.cli import app
from inference.language import Language, has_reader
from inference.providers import Reader, find_readers
from inference.request_batch import MemoryLedger
from slowwave.common.settings import DEFAULT_MODEL, LanguageSettings

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
def test_a_package_that_is_missing_is_named_with_the_way_out(tmp_path: Path) -> None:
    code = BROKEN.format(missing=["polars", "lancedb", "pyarrow", "prefect"])
    with started(code, "stats", cwd=tmp_path) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "No module named 'polars'" in errors
    assert "pip check" in errors
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
