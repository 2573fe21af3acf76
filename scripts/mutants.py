"""Breaks the rules one place at a time and sees whether a test fails; run by `make mutants`.

mutmut writes broken copies (mutants) of each function of the modules that [tool.mutants] of pyproject.toml names;
`mutant_trials` tries each on the tests that are named there. Prints what no test noticed and the figures for
docs/mutants.md; exits with 1 where too few were killed. What came of each is noted in mutants/outcomes.jsonl: mutant,
exit code, the test that failed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import pickle
import random
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from scripts.mutant_trials import (
    PASSED,
    UNREACHED,
    BrokenModules,
    function_of,
    try_all,
)

if TYPE_CHECKING:
    from mutmut.mutation.file_mutation import MutatedFile

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]


KEPT = ROOT / "mutants"
NOTED = KEPT / "outcomes.jsonl"
WANTED = 0.85  # of the mutants tried, in each module and in all


@dataclass(frozen=True, slots=True)
class Tried:
    """Of one module: how many mutants there are, how many were tried, and which of these survived."""

    module: str
    mutants: int
    tried: int
    survivors: tuple[str, ...]

    @property
    def killed(self) -> int:
        """How many made a test fail, or never came to an end."""
        return self.tried - len(self.survivors)


def as_module(path: str) -> str:
    """The name under which a file is imported."""
    return path.removesuffix(".py").replace("/", ".")


def mutated(path: str) -> MutatedFile:
    """The file with all its mutants; kept until the file is another, for it takes seconds to write them."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    text = (ROOT / path).read_text(encoding="utf-8")
    kept = KEPT / f"{as_module(path)}-{sha256(text.encode()).hexdigest()[:16]}"
    if not kept.exists():
        KEPT.mkdir(exist_ok=True)
        for old in KEPT.glob(f"{as_module(path)}-*"):
            old.unlink()
        kept.write_bytes(pickle.dumps(mutate_file_contents(path, text)))
    return cast("MutatedFile", pickle.loads(kept.read_bytes()))


def chosen(names: Sequence[str], patterns: Sequence[str], most: int | None, seed: int = 0) -> list[str]:
    """The mutants of a module that fit a pattern; of more than `most`, so many by chance, the same ones for a seed."""
    fits = [name for name in names if any(fnmatchcase(name, each) for each in patterns)]
    if most is None or len(fits) <= most:
        return fits
    picked = set(random.Random(seed).sample(fits, most))
    return [name for name in fits if name in picked]


def counted(names: Mapping[str, Sequence[str]], codes: Mapping[str, int]) -> list[Tried]:
    """The result of each module; `names` are all its mutants, `codes` the exit codes of those that were tried."""
    found = []
    for module, mutants in names.items():
        tried = [name for name in mutants if name in codes]
        survivors = tuple(name for name in tried if codes[name] in (PASSED, UNREACHED))
        found.append(Tried(module, len(mutants), len(tried), survivors))
    return [each for each in found if each.tried]


def in_all(tried: Sequence[Tried]) -> Tried:
    """All modules together."""
    survivors = tuple(name for each in tried for name in each.survivors)
    return Tried("all", sum(each.mutants for each in tried), sum(each.tried for each in tried), survivors)


def table(tried: Sequence[Tried]) -> str:
    """The figures in Markdown, all modules together in the last row."""
    lines = ["| module | mutants | tried | killed | share |", "| --- | ---: | ---: | ---: | ---: |"]
    for each in (*tried, in_all(tried)):
        share = f"{each.killed / each.tried:.0%}"
        lines.append(f"| {each.module} | {each.mutants} | {each.tried} | {each.killed} | {share} |")
    return "\n".join(lines)


def change(file: MutatedFile, mutant: str) -> str:
    """The change of the mutant as a diff."""
    name, lines = mutant.rpartition(".")[2], file.code.splitlines()
    spans = [file.line_span_by_function_name[each] for each in (f"{function_of(name)}__mutmut_orig", name)]
    original, broken = (lines[span.start - 1 : span.end] for span in spans)
    shown = difflib.unified_diff(original, broken, lineterm="", n=2)
    return "\n".join([f"# {mutant}", *(line for line in list(shown)[3:] if "__mutmut_" not in line)])


def main() -> int:
    """Try the mutants that fit, and tell which survived."""
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument(
        "patterns", nargs="*", default=["*"], help="of names, as in 'slowwave.common.comparison.guards.*'"
    )
    about.add_argument("--each", type=int, help="at most so many of each module, drawn by chance; all by default")
    about.add_argument("--seed", type=int, default=0, help="of the draw: another seed draws other mutants")
    about.add_argument("--processes", type=int, default=1, help="mutants tried at once")
    arguments = about.parse_args()
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutants"]
    files = {}
    for path in (path for group in groups for path in group["modules"]):
        files[as_module(path)] = mutated(path)
    names = {module: [f"{module}.{name}" for name in file.mutant_names] for module, file in files.items()}
    drawn = arguments.patterns, arguments.each, arguments.seed
    mutants = {module: chosen(each, *drawn) for module, each in names.items()}
    if not any(mutants.values()):
        raise SystemExit(f"no mutant is called like {' or '.join(arguments.patterns)}")

    NOTED.write_text("", encoding="utf-8")

    def note(mutant: str, code: int, killer: str) -> None:
        with NOTED.open("a", encoding="utf-8") as file:
            file.write(json.dumps([mutant, code, killer]) + "\n")

    sys.meta_path.insert(0, BrokenModules({module: file.code for module, file in files.items()}, ROOT))
    for group in groups:
        wanted = [name for module in map(as_module, group["modules"]) for name in mutants[module]]
        if wanted:
            try_all(wanted, group["tests"], arguments.processes, note)
    codes = {mutant: code for mutant, code, _ in map(json.loads, NOTED.read_text(encoding="utf-8").splitlines())}
    tried = counted(names, codes)
    for each in tried:
        for name in each.survivors:
            print(change(files[each.module], name), end="\n\n")
    print(table(tried))
    return int(any(each.killed < WANTED * each.tried for each in (*tried, in_all(tried))))


if __name__ == "__main__":
    sys.exit(main())
