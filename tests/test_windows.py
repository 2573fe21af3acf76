"""Windows: which messages are extracted together, and what they are shown besides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slowwave.intake.windows import COLUMNS, PlannedWindow, plan_windows, with_topics
from slowwave.settings import ExtractSettings, NoiseSettings

START = datetime(2026, 3, 2, tzinfo=UTC)
SCHEMA = {
    "id": pl.String, "conversation_id": pl.String, "ordinal": pl.Int64, "role": pl.String, "speaker": pl.String,
    "content": pl.String, "occurred_at": pl.Datetime("us", "UTC"), "scope": pl.String,
}  # fmt: skip


def said(
    numbers: Sequence[int], conversation: str = "c", text: str = "words", scope: str | None = "global"
) -> pl.DataFrame:
    rows = [
        (f"{conversation}{n}", conversation, n, "user", "Marta", text, START + timedelta(minutes=n), scope)
        for n in numbers
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").select(COLUMNS)


def planned(
    new: pl.DataFrame, earlier: pl.DataFrame | None = None, messages: int = 3, tokens: int = 3000, context: int = 2
) -> list[PlannedWindow]:
    settings = ExtractSettings(window_messages=messages, window_tokens=tokens, context_messages=context)
    return plan_windows(new, said([]) if earlier is None else earlier, settings)


def shape(windows: Sequence[PlannedWindow]) -> list[tuple[list[str], list[str]]]:
    """Context and new messages of each window."""
    return [([row for row in each.message_ids if row not in each.new_ids], list(each.new_ids)) for each in windows]


def test_a_window_is_full_by_count_and_shows_the_messages_before_it() -> None:
    assert shape(planned(said(range(7)))) == [
        ([], ["c0", "c1", "c2"]), (["c1", "c2"], ["c3", "c4", "c5"]), (["c4", "c5"], ["c6"]),
    ]  # fmt: skip


def test_a_window_is_full_by_tokens_but_a_long_message_is_never_lost() -> None:
    short, long = said([0, 1, 3], text="x" * 160), said([2], text="y" * 4000)
    assert [each.new_ids for each in planned(pl.concat([short, long]), tokens=100)] == [("c0", "c1"), ("c2",), ("c3",)]


def test_earlier_messages_are_context_and_end_a_window_where_they_stand_between_new_ones() -> None:
    assert shape(planned(said([2, 3, 5]), said([0, 1, 4]))) == [(["c0", "c1"], ["c2", "c3"]), (["c3", "c4"], ["c5"])]


def test_conversations_are_never_mixed() -> None:
    windows = planned(pl.concat([said([0, 1], "a"), said([0, 1], "b")]), said([0], "z"), messages=10)
    assert shape(windows) == [([], ["a0", "a1"]), ([], ["b0", "b1"])]
    assert [each.window.conversation_id for each in windows] == ["a", "b"]


def test_without_context_only_new_messages_are_shown() -> None:
    assert shape(planned(said([1, 2]), said([0]), context=0)) == [([], ["c1", "c2"])]


def test_the_order_is_that_of_the_conversation_whatever_the_order_of_the_rows() -> None:
    assert planned(said([4, 0, 2])) == planned(said([0, 2, 4]))


# Where the topic turns


def about(topics: str, conversation: str = "c", chars: int = 5) -> pl.DataFrame:
    """Messages with the vector of the topic of this letter, or without one for a space."""
    meant = {"a": [1.0, 0.0], "b": [0.0, 1.0], " ": None}
    vectors = pl.Series("vector", [meant[letter] for letter in topics], dtype=pl.Array(pl.Float32, 2))
    return said(range(len(topics)), conversation, "x" * chars).with_columns(vectors)


def test_a_window_ends_where_the_topic_turns_and_the_next_one_still_shows_what_was_said_before() -> None:
    parted = with_topics(about("aabba"), NoiseSettings())
    assert shape(planned(parted, messages=10)) == [
        ([], ["c0", "c1"]), (["c0", "c1"], ["c2", "c3"]), (["c2", "c3"], ["c4"]),
    ]  # fmt: skip
    assert shape(planned(about("aabba"), messages=10)) == [([], [f"c{n}" for n in range(5)])]


def test_a_window_ends_where_its_topic_gets_too_long() -> None:
    long = with_topics(about("aaaaa", chars=1000), NoiseSettings())
    assert [len(each.new_ids) for each in planned(long, messages=10)] == [2, 2, 1]
    silent = with_topics(about("   ", chars=1000), NoiseSettings())
    assert [len(each.new_ids) for each in planned(silent, messages=10)] == [2, 1]


def test_what_has_no_vector_turns_nothing_and_conversations_have_topics_of_their_own() -> None:
    both = pl.concat([about(" a b"), about("ba a", "d")]).sample(fraction=1.0, shuffle=True, seed=3)
    parted = with_topics(both, NoiseSettings())
    assert parted["id"].to_list() == ["c0", "c1", "c2", "c3", "d0", "d1", "d2", "d3"]
    assert parted["topic"].to_list() == [0, 0, 0, 1, 0, 1, 1, 1]
    assert with_topics(about(""), NoiseSettings())["topic"].to_list() == []


def test_turns_are_numbered_from_zero_and_name_their_speaker_or_role() -> None:
    nameless = said([1]).with_columns(
        speaker=pl.lit(None, pl.String), content=pl.lit(None, pl.String), scope=pl.lit(None, pl.String)
    )
    [window] = planned(nameless, said([0]))
    assert [(turn.index, turn.speaker, turn.text, turn.is_context) for turn in window.window.turns] == [
        (0, "Marta", "words", True), (1, "user", "", False),
    ]  # fmt: skip
    assert window.window.scope == "global"


def test_known_facts_are_numbered_and_change_nothing_else() -> None:
    [window] = planned(said([0]))
    knowing = window.knowing([("f_b", "B.", START), ("f_a", "A.", None)])
    assert [(fact.index, fact.fact_id, fact.statement) for fact in knowing.window.known] == [
        (0, "f_b", "B."),
        (1, "f_a", "A."),
    ]
    assert (knowing.window.turns, knowing.message_ids) == (window.window.turns, window.message_ids)
    assert window.window.known == ()


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 600)), max_size=25),
    st.integers(1, 6), st.integers(100, 400), st.integers(0, 4),
)  # fmt: skip
def test_every_new_message_is_in_exactly_one_window_within_its_limits(
    drawn: list[tuple[str, bool, int]], messages: int, tokens: int, context: int
) -> None:
    frames = [(is_new, said([n], name, "x" * length)) for n, (name, is_new, length) in enumerate(drawn)]
    new = pl.concat([said([]), *(frame for is_new, frame in frames if is_new)])
    earlier = pl.concat([said([]), *(frame for is_new, frame in frames if not is_new)])
    windows = planned(new, earlier, messages, tokens, context)
    assert sorted(row for each in windows for row in each.new_ids) == sorted(new["id"])
    for each in windows:
        turns = each.window.turns
        fresh = [turn for turn in turns if not turn.is_context]
        assert 1 <= len(fresh) <= messages
        assert len(fresh) == 1 or sum(len(turn.text) // 4 + 1 for turn in fresh) <= tokens
        assert len(turns) - len(fresh) <= context
        assert [turn.occurred_at for turn in turns] == sorted(turn.occurred_at for turn in turns)
        assert all(row.startswith(each.window.conversation_id) for row in each.message_ids)
