"""Windows: which messages are extracted together, and what they are shown besides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.common.settings import ExtractSettings, NoiseSettings
from slowwave.reading.ingestion.windows import (
    COLUMNS,
    PERSON_CHARS,
    PlannedWindow,
    answered_part,
    brief_windows,
    first_of_each,
    plan_windows,
    speakers_of,
    with_topics,
)

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
    limits = ExtractSettings(window_messages=messages, window_tokens=tokens, context_messages=context)
    return plan_windows(new, said([]) if earlier is None else earlier, limits)


def shape(windows: Sequence[PlannedWindow]) -> list[tuple[list[str], list[str]]]:
    """Context and new messages of each window."""
    return [([row for row in each.message_ids if row not in each.new_ids], list(each.new_ids)) for each in windows]


def test_earlier_messages_are_context_and_end_a_window_where_they_stand_between_new_ones() -> None:
    assert shape(planned(said([2, 3, 5]), said([0, 1, 4]))) == [(["c0", "c1"], ["c2", "c3"]), (["c3", "c4"], ["c5"])]


def test_s2_17_four_earlier_messages_are_context_unless_asked_otherwise() -> None:
    assert shape(plan_windows(said([6]), said(range(6)), ExtractSettings())) == [(["c2", "c3", "c4", "c5"], ["c6"])]


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


def test_what_has_no_vector_turns_nothing_and_conversations_have_topics_of_their_own() -> None:
    both = pl.concat([about(" a b"), about("ba a", "d")]).sample(fraction=1.0, shuffle=True, seed=3)
    parted = with_topics(both, NoiseSettings())
    assert parted["id"].to_list() == ["c0", "c1", "c2", "c3", "d0", "d1", "d2", "d3"]
    assert parted["topic"].to_list() == [0, 0, 0, 1, 0, 1, 1, 1]
    assert with_topics(about(""), NoiseSettings())["topic"].to_list() == []


@settings(deadline=None)
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


# What a model reads of them


QUESTION = "Which city do you live in these days?"
LONG = " ".join(
    [
        "Happy to help you move house.",
        *(f"Sentence number {n} tells about nothing special." for n in range(40)),
        "The deposit for the Lisbon apartment is usually two months.",
        "Do you need anything else?",
    ]
)


def talk(*turns: tuple[str, str, str], conversation: str = "c", start: int = 0, scope: str = "global") -> pl.DataFrame:
    """Messages as (role, speaker, text), one minute apart."""
    rows = [
        (f"{conversation}{n}", conversation, n, role, who, text, START + timedelta(minutes=start + n), scope)
        for n, (role, who, text) in enumerate(turns)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").select(COLUMNS)


def user(text: str, who: str = "Marta") -> tuple[str, str, str]:
    return ("user", who, text)


def assistant(text: str) -> tuple[str, str, str]:
    return ("assistant", "assistant", text)


def brief(*parts: pl.DataFrame, messages: int = 8, tokens: int = 3000) -> list[PlannedWindow]:
    limits = ExtractSettings(window_messages=messages, window_tokens=tokens)
    return brief_windows(plan_windows(pl.concat(parts), said([]), limits), limits)


def lines(each: PlannedWindow) -> list[tuple[str, bool]]:
    return [(turn.text, turn.is_context) for turn in each.window.turns]


def test_messages_of_an_assistant_are_context_that_is_settled_with_the_window_and_not_extracted() -> None:
    [window] = brief(talk(assistant(QUESTION), user("In Lisbon."), assistant("How lovely!")))
    assert lines(window) == [(QUESTION, True), ("In Lisbon.", False)]
    assert (window.speaking_ids, window.new_ids) == (("c1",), ("c0", "c1", "c2"))
    assert [turn.index for turn in window.window.turns] == [0, 1]


def test_a_window_counts_only_what_people_say() -> None:
    chat = [turn for n in range(6) for turn in (user(f"Sentence {n} of mine."), assistant(LONG))]
    assert [len(each.speaking_ids) for each in brief(talk(*chat), messages=3)] == [3, 3]
    assert [len(each.speaking_ids) for each in brief(talk(*chat), tokens=100)] == [6]


def test_a_window_in_which_no_person_says_anything_extracts_nothing_and_still_settles_its_messages() -> None:
    [window] = brief(talk(assistant(LONG), assistant("Are you there?")))
    assert (window.speaking_ids, window.new_ids) == ((), ("c0", "c1"))
    assert speakers_of(window) == frozenset()


def test_of_an_assistant_the_first_and_last_sentence_remain_and_what_the_answer_speaks_of() -> None:
    part = answered_part(LONG, "The apartment in Lisbon wants no deposit.")
    assert part.split(" … ") == [
        "Happy to help you move house.",
        "The deposit for the Lisbon apartment is usually two months.",
        "Do you need anything else?",
    ]
    assert answered_part(LONG, "Thanks a lot.").split(" … ") == [
        "Happy to help you move house.", "Do you need anything else?",
    ]  # fmt: skip
    assert answered_part(LONG, "") == ""
    assert answered_part("", "An answer.") == ""
    assert "x = 1" not in answered_part("```\nx = 1\n```", "An answer.")


def test_code_and_the_middle_of_a_long_paste_are_left_out_of_what_a_person_says() -> None:
    code = "My importer fails.\n```python\nprint(secret)\n```"
    long = f"Here it begins. {'x' * 9000} Here it ends."
    [window] = brief(talk(user(code), user(long)))
    (first, _), (second, _) = lines(window)
    assert first.startswith("My importer fails.")
    assert "secret" not in first
    assert second.startswith("Here it begins.")
    assert second.endswith("Here it ends.")
    assert len(second) < PERSON_CHARS + 20


def test_short_conversations_of_the_same_people_share_a_window_in_the_order_of_time() -> None:
    parts = [
        talk(user("Third."), conversation="a", start=200),
        talk(user("First."), conversation="b"),
        talk(assistant(QUESTION), user("Second."), conversation="c", start=100),
    ]
    [window] = brief(*parts)
    assert lines(window) == [("First.", False), (QUESTION, True), ("Second.", False), ("Third.", False)]
    assert window.new_ids == ("b0", "c0", "c1", "a0")
    assert [turn.index for turn in window.window.turns] == [0, 1, 2, 3]
    assert dict(zip(window.message_ids, (turn.text for turn in window.window.turns), strict=True)) == {
        "b0": "First.", "c0": QUESTION, "c1": "Second.", "a0": "Third.",
    }  # fmt: skip


def test_conversations_of_other_people_or_another_scope_and_what_would_be_too_much_are_not_joined() -> None:
    marta, devon = talk(user("One.")), talk(user("Two.", "Devon"), conversation="d", start=10)
    atlas = talk(user("Three."), conversation="e", start=20, scope="atlas")
    assert [each.new_ids for each in brief(marta, devon, atlas)] == [("c0",), ("d0",), ("e0",)]
    more = talk(user("Four."), user("Five."), conversation="f", start=30)
    assert [each.new_ids for each in brief(marta, more, messages=2)] == [("c0",), ("f0", "f1")]
    full, over = (talk(user("y" * chars), conversation="g", start=40) for chars in (388, 392))
    assert [each.new_ids for each in brief(marta, full, tokens=100)] == [("c0", "g0")]
    assert [each.new_ids for each in brief(marta, over, tokens=100)] == [("c0",), ("g0",)]


def test_of_those_who_share_a_speaker_one_window_is_read_at_a_time_and_of_others_beside_it() -> None:
    parts = [
        talk(user("Marta, first."), conversation="a"),
        talk(user("Devon, first.", "Devon"), conversation="b", start=10),
        talk(user("To you, Devon."), user("Yes?", "Devon"), conversation="c", start=20),
        talk(user("Priya.", "Priya"), conversation="d", start=30),
        talk(user("Marta elsewhere."), conversation="e", start=40, scope="atlas"),
    ]
    planned = brief(*parts, messages=1)
    ready = first_of_each(planned)
    assert [each.new_ids for each in ready] == [("a0",), ("b0",), ("d0",), ("e0",)]
    left = [each for each in planned if each not in ready]
    assert [each.new_ids for each in first_of_each(left)] == [("c0",)], "what Devon answers shows what Marta said"


def test_documents_wait_for_nobody_but_the_earlier_passages_of_their_own() -> None:
    parts = [
        talk(("document", "a.md", "One."), ("document", "a.md", "Two."), conversation="a"),
        talk(("document", "b.md", "Three."), conversation="b", start=10),
    ]
    assert [each.new_ids for each in first_of_each(brief(*parts, messages=1))] == [("a0",), ("b0",)]
