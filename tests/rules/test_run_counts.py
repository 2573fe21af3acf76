"""What runs count, by the labels that people read."""

from __future__ import annotations

from slowwave.lifecycle.run_counts import RunCount, shown_counts


def test_counts_are_shown_in_one_order_and_without_zeros() -> None:
    counts = {"facts learned": 2, "facts merged": 0, "messages extracted": 4, "messages read": 5, "sources": 1}
    assert list(shown_counts(counts).items()) == [
        ("sources found", 1), ("messages read", 5), ("messages searched for facts", 4), ("new facts", 2),
    ]  # fmt: skip


def test_one_event_has_one_label_at_every_door() -> None:
    same = [
        (RunCount.FACTS_MOVED, RunCount.OBSERVATIONS_MOVED),
        (RunCount.PROPOSALS, RunCount.CHANGES_PROPOSED),
        (RunCount.FACTS_RETIRED, RunCount.FACTS_ARCHIVED),
        (RunCount.CANDIDATES, RunCount.CANDIDATE_FACTS),
    ]
    assert all(one.label == other.label for one, other in same)
    assert shown_counts({RunCount.FACTS_MOVED: 2, RunCount.OBSERVATIONS_MOVED: 3}) == {
        "facts moved to another entity": 5
    }
