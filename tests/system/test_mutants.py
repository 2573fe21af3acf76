"""What `make mutants` chooses and counts, and how it tries one."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from scripts.mutant_trials import FAILED, PASSED, UNREACHED, BrokenModules, Forks, Reached, empty_caches, try_each
from scripts.mutants import counted


def test_a_mutant_survives_where_all_tests_pass_or_none_reaches_it_and_untried_ones_do_not_count() -> None:
    names = {"m": [f"m.x_f__mutmut_{number}" for number in range(1, 6)], "n": ["n.x_g__mutmut_1"]}
    codes = dict(zip(names["m"], (FAILED, PASSED, UNREACHED, -signal.SIGXCPU), strict=False))
    (tried,) = counted(names, codes)
    assert (tried.mutants, tried.tried, tried.killed) == (5, 4, 2)
    assert tried.survivors == ("m.x_f__mutmut_2", "m.x_f__mutmut_3")


def test_a_module_is_imported_from_the_text_given_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rule_to_break.py").write_text("answer = 1\n")
    monkeypatch.setattr(sys, "meta_path", [BrokenModules({"rule_to_break": "answer = 2\n"}, tmp_path), *sys.meta_path])
    import rule_to_break  # type: ignore[import-not-found]

    assert rule_to_break.answer == 2
    assert rule_to_break.__file__ == str(tmp_path / "rule_to_break.py")
    del sys.modules["rule_to_break"]


def test_a_mutant_runs_in_a_fork_on_the_tests_that_reach_it_fastest_first_but_those_that_failed_before_them() -> None:
    reached = Reached(tests={"m.f": {"slow", "fast"}, "m.g": {"other"}}, seconds={"slow": 9, "fast": 1, "other": 1})
    seen: list[tuple[str, int, str]] = []

    def run(names: object) -> str:
        """Fails on the second mutant with what the fork sees, never ends on the third."""
        mutant = os.environ["MUTANT_UNDER_TEST"]
        if mutant.endswith("3"):
            signal.raise_signal(signal.SIGXCPU)
        return "" if mutant.endswith("1") else "slow"

    mutants = [f"m.f__mutmut_{number}" for number in (1, 2, 3)] + ["m.h__mutmut_1"]
    assert reached.order(mutants[0]) == ["fast", "slow"]
    try_each(mutants, reached, 1, run, lambda *outcome: seen.append(outcome))
    codes = {mutant: code for mutant, code, _ in seen}
    assert codes == dict(zip(mutants, (PASSED, FAILED, -signal.SIGXCPU, UNREACHED), strict=True))
    assert reached.order(mutants[0]) == ["slow", "fast"]


def test_what_one_test_has_computed_is_computed_again_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("ours", "another"):
        (tmp_path / place).mkdir()
        (tmp_path / place / f"caching_{place}.py").write_text(
            "from functools import lru_cache\n@lru_cache\ndef f():\n    return 1\n"
        )
        monkeypatch.syspath_prepend(tmp_path / place)
    import caching_another  # type: ignore[import-not-found]
    import caching_ours  # type: ignore[import-not-found]

    assert (caching_ours.f(), caching_another.f()) == (1, 1)
    empty_caches(tmp_path / "ours")
    assert (caching_ours.f.cache_info().currsize, caching_another.f.cache_info().currsize) == (0, 1)


def test_what_a_fork_changes_or_leaves_behind_stays_there() -> None:
    forks = Forks(1)
    before = dict(os.environ)
    forks.start("m.f__mutmut_1", 60, lambda: os.environ["TMPDIR"])
    assert forks.full
    mutant, code, place = forks.wait()
    assert (mutant, code) == ("m.f__mutmut_1", FAILED)
    assert dict(os.environ) == before
    assert not Path(place).exists()
