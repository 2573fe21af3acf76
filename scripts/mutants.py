"""Breaks the rules one place at a time and sees whether a test fails; run by `make mutants`.

The tool is mutmut; [tool.mutmut] of pyproject.toml says which modules and tests. It writes broken copies (mutants) of
each function to `mutants/` and runs, for each, the tests that reach the function. There are thousands, so those are
tried whose name fits one of the patterns, by default the fifth of each function. Prints what no test noticed, and
the figures for docs/mutants.md; exits with 1 where too few were killed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIES = ROOT / "mutants"
WANTED = 0.85  # of the mutants tried in all modules together
FIFTHS = "*__mutmut_5"  # the mutants of each function are numbered from 1
SURVIVED = frozenset({0, 33})  # exit codes: all tests passed, no test reaches it


@dataclass(frozen=True, slots=True)
class Tried:
    """Of one module: how many mutants there are, how many were tried, and which of these survived."""

    module: str
    mutants: int
    tried: int
    survivors: tuple[str, ...]

    @property
    def killed(self) -> int:
        """How many made a test fail, or never come to an end."""
        return self.tried - len(self.survivors)


def counted(module: str, codes: Mapping[str, int | None], patterns: Sequence[str]) -> Tried:
    """What came of the mutants of one module that fit a pattern; `codes` are exit codes, None: not tried."""
    done = {
        name: code
        for name, code in codes.items()
        if code is not None and any(fnmatchcase(name, each) for each in patterns)
    }
    return Tried(module, len(codes), len(done), tuple(name for name, code in done.items() if code in SURVIVED))


def results(patterns: Sequence[str]) -> list[Tried]:
    """What came of each module of which any mutant was tried."""
    found = []
    for noted in sorted(COPIES.rglob("*.py.meta")):
        codes = json.loads(noted.read_text(encoding="utf-8"))["exit_code_by_key"]
        found.append(counted(noted.relative_to(COPIES).as_posix().removesuffix(".meta"), codes, patterns))
    return [each for each in found if each.tried]


def table(tried: Sequence[Tried]) -> str:
    """The figures in Markdown, all modules together in the last row."""
    every = Tried("all", sum(each.mutants for each in tried), sum(each.tried for each in tried),
                  tuple(name for each in tried for name in each.survivors))  # fmt: skip
    lines = ["| module | mutants | tried | killed | share |", "| --- | ---: | ---: | ---: | ---: |"]
    for each in (*tried, every):
        share = f"{each.killed / each.tried:.0%}"
        lines.append(f"| {each.module} | {each.mutants} | {each.tried} | {each.killed} | {share} |")
    return "\n".join(lines)


def _mutmut(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "mutmut", *words], cwd=ROOT, check=False).returncode


def main() -> int:
    """Try the mutants that fit, and tell which survived."""
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("patterns", nargs="*", default=[FIFTHS], help="of names, as in 'slowwave.merging.guards.*'")
    about.add_argument("--processes", type=int, default=1, help="mutants tried at once")
    asked = about.parse_args()
    if _mutmut("run", "--max-children", str(asked.processes), *asked.patterns):
        raise SystemExit("mutmut could not try the mutants")
    tried = results(asked.patterns)
    if not tried:
        raise SystemExit(f"no mutant is called like {' or '.join(asked.patterns)}")
    for name in (name for each in tried for name in each.survivors):
        _mutmut("show", name)
    print(table(tried))
    return 0 if sum(each.killed for each in tried) >= WANTED * sum(each.tried for each in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
