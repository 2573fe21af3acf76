"""Pages of runs: how they show decisions."""

from __future__ import annotations

from tasks.orchestration.tallies import Tally
from tasks.runtime.run_pages import DecisionSummary, decision_rows


def test_each_fact_of_a_decision_has_a_cell_of_its_own() -> None:
    decisions = [
        DecisionSummary("absorb", "A", "same", ("B", "C ← c")),
        DecisionSummary("wait", "cat x | sort", "cannot tell", ("E",)),
        DecisionSummary("keep", "F · G", "alone"),
    ]
    assert [(row["fact"], row["other fact"]) for row in decision_rows(decisions)] == [
        ("A", "B"), ("A", "C ← c"), ("cat x | sort", "E"), ("F · G", ""),
    ]  # fmt: skip
    assert [*decision_rows(decisions)[0]] == ["decision", "fact", "other fact", "reason"]
    assert decision_rows(decisions[2:]) == [{"decision": "keep", "fact": "F · G", "reason": "alone"}]
    assert [each.cells[1] for each in decisions] == ["A ← B · C ← c", "cat x | sort | E", "F · G"]


def test_a_pair_that_became_a_proposal_is_listed_once_whatever_signs_its_facts_have() -> None:
    tally = Tally("run", decisions=[DecisionSummary("wait", "cat x | sort", "cannot tell", ("cat x",))])
    tally.proposed(["“cat x | sort” says the same as “cat y”"])
    assert [each.action for each in tally.decisions] == ["wait", "propose"]
    tally.proposed(["“cat x | sort” says the same as “cat x”"])
    assert [each.action for each in tally.decisions] == ["propose", "propose"]
