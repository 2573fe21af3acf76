"""The command line in this process, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import command


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; an error if there is anything else."""
        return json.loads(self.out)


Console = Callable[..., Result]


def console(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    """What runs a command line as the console script does."""

    def run(*args: object) -> Result:
        code = command(monkeypatch, *args)
        return Result(code, *capsys.readouterr())

    return run
