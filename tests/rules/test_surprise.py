"""Messages that tell nothing new are skipped, but never too many in a row (S2-72)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common.settings import SurpriseSettings
from slowwave.reading.filters.novelty import SurpriseState, plan_surprise, score_surprise

ON = SurpriseSettings(enabled=True)
SAME = np.array([1, 0], dtype=np.float32)
OTHER = np.array([0, 1], dtype=np.float32)


def messages(*rows: tuple[str, int, str]) -> pl.DataFrame:
    """Rows of conversation, place and names."""
    schema = {"conversation_id": pl.String, "ordinal": pl.Int64, "names": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("names").str.extract_all(r"\S+"))


@pytest.mark.parametrize(
    ("turns", "seen", "names", "expected"),
    [
        ([], (), (), 1.0),
        ([SAME], (), (), 0.0),
        ([OTHER], (), (), 0.5),
        ([-SAME], (), (), 0.5),  # the cosine counts from zero on
        ([SAME], (), ("ana",), 0.5),
        ([SAME], ("ana",), ("ana", "ben"), 0.25),
    ],
)
def test_surprise_is_half_distance_and_half_new_names(
    turns: list[np.ndarray], seen: tuple[str, ...], names: tuple[str, ...], expected: float
) -> None:
    past = np.array(turns, dtype=np.float32).reshape(-1, 2) if turns else np.empty((0, 0), np.float32)
    assert score_surprise(SAME, names, SurpriseState(seen, past)) == pytest.approx(expected)


def test_after_five_skips_in_a_row_the_next_is_forced() -> None:
    plan = plan_surprise(messages(*[("c", n, "") for n in range(14)]), np.tile(SAME, (14, 1)), {}, ON)
    assert plan.decisions["extract"].to_list() == ([True] + [False] * 5) * 2 + [True, False]
    assert plan.states["c"].consecutive_skips == 1


def test_s2_72_the_threshold_itself_is_enough() -> None:
    state = {"c": SurpriseState((), OTHER.reshape(1, 2))}
    for threshold, extracted in ((0.5, True), (0.51, False)):  # as far as can be, and without a name
        chosen = SurpriseSettings(enabled=True, threshold=threshold)
        plan = plan_surprise(messages(("c", 0, "")), SAME.reshape(1, 2), state, chosen)
        assert plan.decisions["extract"].to_list() == [extracted]


def test_conversations_are_apart_and_each_in_its_own_order() -> None:
    vectors = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    plan = plan_surprise(messages(("a", 2, ""), ("b", 0, ""), ("a", 1, ""), ("a", 3, "")), vectors, {}, ON)
    assert plan.decisions["extract"].to_list() == [False, True, True, True]


def test_memory_holds_ten_turns_and_two_hundred_names() -> None:
    rows = [("c", n, " ".join(f"name{n}x{k}" for k in range(30))) for n in range(12)]
    state = plan_surprise(messages(*rows), np.tile(SAME, (12, 1)), {}, ON).states["c"]
    assert len(state.recent_turns) == 10
    assert len(state.recent_names) == 200
    assert state.recent_names[-1] == "name11x29"


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 3)), max_size=20),
    st.integers(0, 20),
)
def test_two_runs_decide_like_one(rows: list[tuple[str, str, int]], cut: int) -> None:
    frame = messages(*[(conversation, at, word) for at, (conversation, word, _) in enumerate(rows)])
    directions = np.array([[1, 0], [0, 1], [-1, 0], [0.8, 0.6]], dtype=np.float32)
    vectors = directions[[turn for *_, turn in rows]].reshape(-1, 2)
    whole = plan_surprise(frame, vectors, {}, ON)
    first = plan_surprise(frame.head(cut), vectors[:cut], {}, ON)
    second = plan_surprise(frame.slice(cut), vectors[cut:], first.states, ON)
    assert pl.concat([first.decisions, second.decisions]).equals(whole.decisions)
