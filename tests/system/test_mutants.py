"""What `make mutants` chooses and counts, and how it tries one."""

from __future__ import annotations

import os
import signal

from scripts.mutant_trials import FAILED, PASSED, UNREACHED, Reached, try_each
from scripts.mutants import counted


def test_a_mutant_survives_where_all_tests_pass_or_none_reaches_it_and_untried_ones_do_not_count() -> None:
    names = {"m": [f"m.x_f__mutmut_{number}" for number in range(1, 6)], "n": ["n.x_g__mutmut_1"]}
    codes = dict(zip(names["m"], (FAILED, PASSED, UNREACHED, -signal.SIGXCPU), strict=False))
    (tried,) = counted(names, codes)
    assert (tried.mutants, tried.tried, tried.killed) == (5, 4, 2)
    assert tried.survivors == ("m.x_f__mutmut_2", "m.x_f__mutmut_3")


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
