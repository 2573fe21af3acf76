"""Where Prefect cannot be the engine it is not imported; where it may be, it is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prefect.settings import Settings, sources
from talk import ROOT, said, written

from tasks.runtime.engine import may_be_prefect

COMMANDS = """
import asyncio, sys

class NoPrefect:
    def find_spec(self, name, *more):
        if name == "prefect":
            raise AssertionError("Prefect is imported.")

sys.meta_path.insert(0, NoPrefect())
from slowwave.launcher import main

for line in sys.argv[1].splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
from flows.review import review

assert asyncio.run(review(store="./memory"))["state"] == "completed"
"""


@pytest.mark.proof
def test_a_memory_learns_sleeps_and_is_reviewed_without_an_import_of_prefect(tmp_path: Path) -> None:
    written(tmp_path / "talk.jsonl", said())
    commands = (
        "ingest talk.jsonl --llm quotes", "sleep --llm quotes --require-approval", "fleet --llm quotes", "review list",
        "report", "doctor", "backfill talk.jsonl --llm quotes --dry-run", "recall Redis", "context Redis",
    )  # fmt: skip
    home = {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path / ".prefect"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, "\n".join(commands)],
        cwd=tmp_path, env=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


URL = "http://127.0.0.1:4200/api"


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        ({}, {}, False),
        ({}, {"PREFECT_API_URL": URL}, True),
        ({}, {"prefect_api_url": URL}, True),  # names of settings have no case
        ({}, {"PREFECT_LOGGING_LEVEL": "DEBUG"}, False),
        ({".env": f"PREFECT_API_URL={URL}"}, {}, True),
        ({".env": "OPENAI_API_KEY=none"}, {}, False),
        ({".env": "PREFECT_PROFILES_PATH=other.toml"}, {}, True),
        ({"prefect.toml": f"[api]\nurl = '{URL}'"}, {}, True),
        ({"prefect.toml": f"api.url = '{URL}'"}, {}, True),
        ({"prefect.toml": "[logging.to_api]\nenabled = true"}, {}, False),
        ({"prefect.toml": "profiles_path = 'other.toml'"}, {}, True),
        ({"prefect.toml": "[broken"}, {}, True),
        ({"pyproject.toml": f"[tool.prefect.api]\nurl = '{URL}'"}, {}, True),
        ({"pyproject.toml": f"[tool.other.api]\nurl = '{URL}'"}, {}, False),
        ({".prefect/profiles.toml": f"active = 'x'\n[profiles.x]\nPREFECT_API_URL = '{URL}'"}, {}, True),
        ({".prefect/profiles.toml": "active = 'x'\n[profiles.x]\nPREFECT_LOGGING_LEVEL = 'INFO'"}, {}, False),
        ({"p.toml": f"[profiles.x]\nPREFECT_API_URL = '{URL}'"}, {"PREFECT_PROFILES_PATH": "p.toml"}, True),
        ({}, {"PREFECT_PROFILE": "local"}, True),  # a profile that Prefect brings along
        ({}, {"PREFECT_PROFILE": ""}, False),
    ],
)
def test_prefect_is_asked_wherever_its_settings_may_name_an_api(
    files: dict[str, str], environ: dict[str, str], expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILES_PATH", "PREFECT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sources, "DEFAULT_PREFECT_HOME", tmp_path / ".prefect")  # as it would be with this HOME
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    try:
        url = Settings().api.url
    except Exception:
        url = "whatever Prefect says of it"
    assert expected or not url, "this Prefect finds an API here"
    monkeypatch.delitem(sys.modules, "prefect")
    assert may_be_prefect() is expected


def test_where_prefect_is_imported_before_flows_they_are_its_own() -> None:
    assert may_be_prefect()
