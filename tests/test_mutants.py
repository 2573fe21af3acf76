"""What `make mutants` counts of the mutants that were tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import mutants
from scripts.mutants import Tried, counted, results, table


def test_a_mutant_survives_where_all_tests_pass_or_none_reaches_it_and_untried_ones_do_not_count() -> None:
    codes = {"m.x_f__mutmut_1": 1, "m.x_f__mutmut_2": 0, "m.x_f__mutmut_3": 33, "m.x_f__mutmut_4": None,
             "m.x_f__mutmut_5": 36}  # fmt: skip
    tried = counted("m.py", codes, ["*"])
    assert (tried.mutants, tried.tried, tried.killed) == (5, 4, 2)
    assert tried.survivors == ("m.x_f__mutmut_2", "m.x_f__mutmut_3")
    assert counted("m.py", codes, ["*1", "*2"]).tried == 2


def test_the_figures_of_each_module_and_of_all_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, codes in (("a", {"a.x_f__mutmut_1": 1, "a.x_f__mutmut_2": 0}), ("b", {"b.x_g__mutmut_1": 1}), ("c", {})):
        (tmp_path / f"{name}.py.meta").write_text(json.dumps({"exit_code_by_key": codes}), encoding="utf-8")
    monkeypatch.setattr(mutants, "COPIES", tmp_path)
    found = results(["*"])
    assert found == [Tried("a.py", 2, 2, ("a.x_f__mutmut_2",)), Tried("b.py", 1, 1, ())]
    assert table(found).splitlines()[2:] == [
        "| a.py | 2 | 2 | 1 | 50% |", "| b.py | 1 | 1 | 1 | 100% |", "| all | 3 | 3 | 2 | 67% |",
    ]  # fmt: skip
