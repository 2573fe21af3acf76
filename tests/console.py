"""The command line in this process, for tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from apps.cli import main


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

    def command(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["slowwave", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return command
