"""Tries mutants in forks of one process that has imported the modules, with all their mutants, and collected the tests.

A mutant then costs no more than the tests that reach its function, the fastest first. Mutants of functions that run
when a module is imported are tried in forks of the process as it was before it imported anything of ours.

No file of tests may compute with polars when it is imported: the threads of polars do not outlive a fork.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

import pytest

PASSED, FAILED, UNREACHED = 0, 1, 33  # exit codes; below 0 are signals: it never came to an end, or crashed
SECONDS, TIMES, WAIT = 10, 5, 8  # processor time that each may use, and so often what its tests use; so often in all
MEMORY = 8 << 30  # bytes that each may have
_Cached = type(lru_cache(int))
Done = Callable[[str, int, str], None]  # takes a mutant, its exit code and the test that failed


def function_of(mutant: str) -> str:
    """The function that is broken: "a.b.x_f" of "a.b.x_f__mutmut_3"."""
    return mutant.rpartition("__mutmut_")[0]


class BrokenModules:
    """Imports modules from other source text; goes to `sys.meta_path`."""

    def __init__(self, code: Mapping[str, str], root: Path) -> None:
        self.code, self.root = code, root

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Where the module comes from; None: as usual."""
        if name not in self.code:
            return None
        file, code = self.root / f"{name.replace('.', '/')}.py", self.code[name]

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(code, str(file), "exec")

        return spec_from_file_location(name, file, loader=Loader(name, str(file)))


@dataclass(slots=True)
class Reached:
    """Which tests reach each function, and the seconds that each test takes."""

    tests: dict[str, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    at_import: set[str] = field(default_factory=set)  # functions
    killers: dict[str, set[str]] = field(default_factory=dict)  # tests that failed for a function

    def order(self, mutant: str) -> list[str]:
        """The tests that may see it: first those that saw others of its function, then the fastest."""
        function = function_of(mutant)
        names = set(self.seconds) if function in self.at_import else self.tests.get(function, set())
        first = self.killers.get(function, set())
        return sorted(names, key=lambda name: (name not in first, self.seconds[name]))

    def time(self, tests: Sequence[str]) -> int:
        """Seconds of processor time after which a mutant is one that never comes to an end."""
        return SECONDS + TIMES * int(sum(self.seconds[name] for name in tests))


def empty_caches(root: Path) -> None:
    """Empty the caches of functions of this project: what one test has computed, another reaches nonetheless."""
    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").startswith(f"{root}/"):
            for function in vars(module).values():
                if isinstance(function, _Cached):
                    function.cache_clear()


class Measuring:
    """A plugin that fills in what is reached; `now` are the functions since the test or fixture began."""

    def __init__(self, root: Path) -> None:
        self.root, self.reached = root, Reached()
        self.now: set[str] = set()
        self.by_fixture: dict[tuple[str, str], set[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """What a fixture reaches is reached by each test that uses it, though it is made once."""
        before, self.now = self.now, set()
        empty_caches(self.root)
        try:
            return (yield)
        finally:
            self.by_fixture.setdefault((fixturedef.baseid, fixturedef.argname), set()).update(self.now)
            self.now |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Function) -> Generator[None, object, object]:
        """What the test reaches, by itself and by its fixtures."""
        self.now = set()
        empty_caches(self.root)
        result = yield
        made = [(each.baseid, name) for name, all_ in item._fixtureinfo.name2fixturedefs.items() for each in all_]
        for function in self.now.union(*(self.by_fixture.get(key, ()) for key in made)):
            self.reached.tests.setdefault(function, set()).add(item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How long it took."""
        self.reached.seconds[report.nodeid] = self.reached.seconds.get(report.nodeid, 0.0) + report.duration


class InOrder:
    """A plugin that runs the named tests, in their order, until one fails."""

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names, self.failed = names, ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note failures."""
        if report.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported has failed too."""
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running all tests: run these."""
        found = {item.nodeid: item for item in session.items}
        items = list(found.values()) if self.names is None else [found[name] for name in self.names if name in found]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if self.failed:
                break
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return True


class Warm:
    """A plugin that tries mutants in forks of the process that has collected the tests."""

    def __init__(self, mutants: Sequence[str], processes: int, done: Done) -> None:
        self.mutants, self.processes, self.done = mutants, processes, done
        self.measuring = Measuring(Path.cwd())

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests: see what they reach, then try the mutants."""
        reached = self.measuring.reached
        reached.at_import = set(self.measuring.now)

        def run(names: Sequence[str] | None) -> str:
            plugin = InOrder(names)
            session.config.pluginmanager.register(plugin)
            session.config._tmp_path_factory._basetemp = Path(tempfile.mkdtemp())  # type: ignore[attr-defined]
            plugin.pytest_runtestloop(session)
            return plugin.failed

        def measure() -> str:
            session.config.pluginmanager.register(self.measuring)
            failed = run(None)
            found = {"tests": {key: list(tests) for key, tests in reached.tests.items()}, "seconds": reached.seconds}
            return failed or json.dumps(found)

        forks = Forks(1)
        forks.start("stats", 3600, measure)
        _, code, text = forks.wait()
        if code != FAILED or not text.startswith("{"):
            raise pytest.UsageError(f"without a mutant a test fails: {text or code}")
        found = json.loads(text)
        reached.tests, reached.seconds = {key: set(tests) for key, tests in found["tests"].items()}, found["seconds"]
        print(f"{len(reached.seconds)} tests, {sum(reached.seconds.values()):.0f} seconds", file=sys.stderr, flush=True)
        try_each([each for each in self.mutants if function_of(each) not in reached.at_import],
                 reached, self.processes, run, self.done)  # fmt: skip
        return True


def try_each(
    mutants: Sequence[str], reached: Reached, processes: int, run: Callable[[Sequence[str]], str], done: Done
) -> None:
    """Run the tests of each mutant in a fork."""
    forks = Forks(processes)

    def ended() -> None:
        mutant, code, killer = forks.wait()
        if code == FAILED and killer:
            reached.killers.setdefault(function_of(mutant), set()).add(killer)
        done(mutant, code, killer)

    for mutant in mutants:
        if names := reached.order(mutant):
            if forks.full:
                ended()
            forks.start(mutant, reached.time(names), lambda names=names: run(names))  # type: ignore[misc]
        else:
            done(mutant, UNREACHED, "")
    while forks.running:
        ended()


class Forks:
    """Children of this process, so many at once; each does one piece of work that returns what failed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.running: dict[int, tuple[str, int, str]] = {}  # by process: mutant, end of a pipe, folder

    @property
    def full(self) -> bool:
        """Whether all places are taken."""
        return len(self.running) >= self.most

    def start(self, mutant: str, seconds: int, work: Callable[[], str]) -> None:
        """Begin; the child has a folder for its temporary files and `seconds` of processor time."""
        reading, writing = os.pipe()
        place = tempfile.mkdtemp(prefix="mutant-")
        if child := os.fork():
            os.close(writing)
            self.running[child] = mutant, reading, place
            return
        code = FAILED
        try:
            os.environ["MUTANT_UNDER_TEST"] = mutant
            os.environ["TMPDIR"] = tempfile.tempdir = place
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            signal.alarm(seconds * WAIT)
            failures = work()
            with os.fdopen(writing, "w") as pipe:
                pipe.write(failures)
            code = FAILED if failures else PASSED
        finally:
            os._exit(code)

    def wait(self) -> tuple[str, int, str]:
        """The next that ends: its mutant, exit code and failures."""
        ready, _, _ = select.select([reading for _, reading, _ in self.running.values()], [], [])
        child = next(each for each, (_, reading, _) in self.running.items() if reading in ready)
        mutant, reading, place = self.running.pop(child)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            failures = pipe.read()
        _, status = os.waitpid(child, 0)
        shutil.rmtree(place, ignore_errors=True)
        return mutant, os.waitstatus_to_exitcode(status), failures


def try_all(mutants: Sequence[str], tests: Sequence[str], processes: int, done: Done) -> None:
    """Try mutants of modules that `sys.meta_path` imports broken; `tests` are arguments of pytest."""
    from mutmut.mutation import trampoline

    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    os.environ["MUTANT_UNDER_TEST"] = "stats"
    args = ["-p", "no:xdist", "-p", "no:cacheprovider", "-s", "-q", "--tb=no", *tests]
    warm = Warm(mutants, processes, done)
    vars(trampoline)["record_trampoline_hit"] = lambda name, caller=None: warm.measuring.now.add(name)
    handle, kept = tempfile.mkstemp()

    def cold(names: Sequence[str]) -> str:
        plugin = InOrder(names)
        code = pytest.main(args, plugins=[plugin])
        return plugin.failed or ("" if code in (0, 5) else f"pytest ended with {code}")

    forked = os.fork()
    if not forked:
        code = 1
        try:
            code = int(pytest.main(args, plugins=[warm]))
            reached = warm.measuring.reached
            with os.fdopen(handle, "w") as file:
                json.dump([reached.seconds, sorted(reached.at_import)], file)
        finally:
            os._exit(code)
    _, status = os.waitpid(forked, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 5):
        raise SystemExit("the tests could not be run")
    reached = Reached()
    os.close(handle)
    reached.seconds, functions = json.loads(Path(kept).read_text(encoding="utf-8"))
    os.unlink(kept)
    reached.at_import = set(functions)
    try_each([each for each in mutants if function_of(each) in functions], reached, processes, cold, done)
