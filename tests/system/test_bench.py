"""The benchmarks' own tools: seeded text, and metrics against values computed by hand."""

from __future__ import annotations

from importlib import import_module

import pytest

from bench.ingest import STAGES
from bench.metrics import evidence_recall, is_pair_found, named_messages
from bench.probe import Stopwatch
from slowwave.common.types import Provenance, RecalledFact


def fact(*messages: str) -> RecalledFact:
    said = tuple(Provenance("c", message, "", None) for message in messages)
    return RecalledFact("f", "S.", "S", "p", None, 1.0, 1.0, "active", None, None, (), said)


def test_a_fact_with_three_sources_names_three_messages_and_a_repeated_one_counts_once() -> None:
    assert named_messages([fact("m1", "m2", "m3"), fact("m2"), fact("m4", "m1")]) == ["m1", "m2", "m3", "m4"]


@pytest.mark.parametrize(
    ("ranked", "evidence", "k", "expected"),
    [
        (["a", "b", "c"], ["a"], 1, 1.0),
        (["a", "b", "c"], ["c"], 2, 0.0),
        (["a", "a", "c"], ["c"], 2, 1.0),
        (["a", "b", "c", "d"], ["b", "d", "x"], 4, 2 / 3),
        ([], ["b"], 10, 0.0),
    ],
)
def test_evidence_recall_is_the_share_of_evidence_among_the_first_distinct_messages(
    ranked: list[str], evidence: list[str], k: int, expected: float
) -> None:
    assert evidence_recall(ranked, evidence, k) == pytest.approx(expected)


def test_a_pair_is_found_when_any_earlier_message_is_among_the_first() -> None:
    assert is_pair_found(["5", "5", "7"], ["9", "7"], 2)
    assert not is_pair_found(["5", "6", "7"], ["7"], 2)


class Work:
    clock = 0.0

    def outer(self) -> None:
        Work.clock += 2.0
        self.inner()
        Work.clock += 3.0

    def inner(self) -> None:
        Work.clock += 4.0


def test_time_in_a_nested_stage_belongs_to_that_stage_alone() -> None:
    watched = {"outer": [f"{__name__}:Work.outer"], "inner": [f"{__name__}:Work.inner"]}
    with Stopwatch(lambda: Work.clock).watching(watched) as stages, stages.stage("rest"):
        Work().outer()
        Work.clock += 1.0
    assert stages.seconds == {"outer": 5.0, "inner": 4.0, "rest": 1.0}


@pytest.mark.parametrize("target", [target for targets in STAGES.values() for target in targets])
def test_every_stage_names_something_that_exists(target: str) -> None:
    module, _, path = target.partition(":")
    found: object = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    assert callable(found)
