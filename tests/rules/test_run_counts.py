"""What runs count, by the labels that people read."""

from __future__ import annotations

from slowwave.common.run_counts import shown_counts


def test_counts_are_shown_in_one_order_and_without_zeros() -> None:
    counts = {"facts learned": 2, "facts merged": 0, "messages extracted": 4, "messages read": 5, "sources": 1}
    assert list(shown_counts(counts).items()) == [
        ("sources found", 1), ("messages read", 5), ("messages searched for facts", 4), ("new facts", 2),
    ]  # fmt: skip
