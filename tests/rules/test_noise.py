"""What is refused, by which gate, and what never may be (SEMANTICS §5.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common.settings import NoiseSettings
from slowwave.common.text import cut_long, strip_thinking
from slowwave.reading.filters.noise import (
    ContentScorer,
    Vectors,
    group_topics,
    plan_gates,
    plan_prototypes,
    prototype_texts,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG = " The pool is closed before the last query returns, which is why the fixture has to wait for it every time."
SCHEMA = {
    "id": pl.String,
    "conversation_id": pl.String,
    "ordinal": pl.Int64,
    "role": pl.String,
    "speaker": pl.String,
    "content": pl.String,
    "occurred_at": pl.Datetime("us", "UTC"),
    "scope": pl.String,
    "has_injection": pl.Boolean,
}
OUT = ["gate", "reason", "measure", "threshold", "content_score", "similar_to_id", "teaches"]
NONE = np.empty((0, 3), np.float32)


def unit(*rows: list[float]) -> Vectors:
    array = np.array(rows, dtype=np.float32)
    return (array / np.linalg.norm(array, axis=1, keepdims=True)).astype(np.float32)


def said(content: str, role: str = "user", **other: Any) -> dict[str, Any]:
    row = {
        "conversation_id": "c",
        "role": role,
        "speaker": role,
        "content": content,
        "scope": "global",
        "has_injection": False,
    }
    return {**row, **other}


def talk(*rows: dict[str, Any], start: int = 0) -> pl.DataFrame:
    """A conversation of one message a minute."""
    filled = [
        {"id": f"m{start + at}", "ordinal": start + at, "occurred_at": NOON + timedelta(minutes=start + at), **row}
        for at, row in enumerate(rows)
    ]
    return pl.DataFrame(filled, schema=SCHEMA)


def plan(
    *rows: dict[str, Any],
    vectors: Vectors | None = None,
    past: pl.DataFrame | None = None,
    past_vectors: Vectors = NONE,
    scorer: ContentScorer | None = None,
    **settings: Any,
) -> pl.DataFrame:
    frame = talk(*rows, start=0 if past is None else len(past))
    # Unless told otherwise all messages point into different directions of a wide space.
    own = np.eye(len(rows), 64, dtype=np.float32) if vectors is None else vectors
    before = talk() if past is None else past
    return plan_gates(
        frame,
        own,
        past_vectors if past is not None else np.empty((0, own.shape[1]), np.float32),
        before,
        scorer,
        NoiseSettings(**settings),
    )


def gates(*rows: dict[str, Any], **other: Any) -> list[str | None]:
    return plan(*rows, **other)["gate"].to_list()


def same(count: int) -> Vectors:
    return np.tile(unit([1, 0, 0]), (count, 1))


def test_a_go_ahead_and_the_announcement_of_a_step_are_refused_together_and_teach() -> None:
    planned = plan(said("Go ahead."), said("I’ll update the file now." + LONG, "assistant"))
    assert planned["gate"].to_list() == ["pre_filter", "pre_filter"]
    assert planned["teaches"].to_list() == [True, True]


OPENERS = (
    "i'll |i will |i've |i have |i looked at|i made|i updated|i changed|i added|i removed|i fixed|i created|i modified|"
    "i implemented|i wrote|i ran|let me look|let me check|let me read|let me see|sure! |sure, i|sure, let|of course|"
    "done! |done.|absolutely"
)
ACKNOWLEDGEMENTS = (
    "ok|ok.|ok,|ok!|okay|okay!|thanks|thank you!|sounds good|great|perfect.|go ahead.|yes|yes!|yep.|sure.|please|"
    "please do|continue|proceed|got it.|good.|👍|lgtm"
)


@pytest.mark.parametrize("opener", [*OPENERS.split("|"), "Done.", "I’ve fixed it"])
def test_every_procedural_opener_counts(opener: str) -> None:
    assert gates(said("ok"), said(opener + LONG, "assistant")) == ["pre_filter", "pre_filter"]


def test_every_acknowledgement_counts() -> None:
    kept = [text for text in ACKNOWLEDGEMENTS.split("|") if gates(said(text)) != ["pre_filter"]]
    assert kept == []


def test_a_finding_passes_the_pre_filter_the_length_gate_and_the_content_gate() -> None:
    low = ContentScorer(unit([0, 1, 0]), unit([1, 0, 0]))
    assert gates(
        said("go ahead"), said("I've found the root cause" + LONG, "assistant"), scorer=low, vectors=same(2)
    ) == [None, None]
    assert gates(said("Why?"), said("Turns out: DNS.", "assistant"), scorer=low, vectors=same(2)) == [None, None]
    for start, gate in ((490, None), (491, "content")):  # of 500 characters the last ten are "root cause"
        late = said("Why?"), said("x" * (start - 1) + " root cause", "assistant")
        assert gates(*late, scorer=low, vectors=same(2)) == [None, gate]


@pytest.mark.parametrize("phrase", ["root cause", "turns out", "found it", "the real issue", "gotcha", "surprisingly"])
def test_every_phrase_of_a_finding_counts(phrase: str) -> None:
    assert gates(said("Why?"), said(f"{phrase.capitalize()}: DNS.", "assistant")) == [None, None]


def test_the_two_halves_are_found_in_the_order_of_the_conversation() -> None:
    rows = [
        said("I'll do that." + LONG, "assistant", ordinal=1),
        said("yes", ordinal=5, conversation_id="d"),
        said("yes", ordinal=0),
    ]
    assert gates(*rows) == ["pre_filter", "pre_filter", "pre_filter"]
    assert gates(said("I'll do that." + LONG, "assistant", ordinal=1), said("Mind the gap", ordinal=0))[0] is None


@pytest.mark.parametrize(
    "text", ["ok", "Thanks!!", "👍", "ok, thanks 🙏", "Sounds good!", "", "   ", "…", "¡Gracias!", "Alles klar, danke"]
)
def test_a_lone_acknowledgement_or_an_empty_message_is_refused(text: str) -> None:
    assert gates(said(text, speaker="Ana")) == ["pre_filter"]


@pytest.mark.parametrize(
    "text",
    [
        "ok, I moved to Rome",
        "No",
        "thanks to Ben I got the job",
        "好的，我搬到罗马了",
    ],
)
def test_a_message_that_says_anything_is_kept(text: str) -> None:
    assert gates(said(text, speaker="Ana")) == [None]


def test_yes_that_answers_another_persons_question_is_kept_and_thanks_is_not() -> None:
    asked = said("Do you still live in Rome?", speaker="Ben")
    assert gates(asked, said("Yes!", speaker="Ana")) == [None, None]
    assert gates(asked, said("Thanks!", speaker="Ana")) == [None, "pre_filter"]


def test_a_short_answer_is_refused_measured_without_its_code() -> None:
    code = "```\n" + "x = 1\n" * 50 + "```"
    planned = plan(
        said("Show me"), said("Here it is:" + code, "assistant"), said("And?"), said("ok then ```" + LONG, "assistant")
    )
    assert planned["gate"].to_list() == [None, "length", None, "length"]
    assert planned.row(1, named=True)["measure"] == len("Here it is:")
    assert planned.row(1, named=True)["threshold"] == 80
    assert gates(said("Show me"), said("Here it is:" + code, "assistant"), min_assistant_chars=0) == [None, None]


def test_limits_of_length_of_letters_and_of_worth_are_within() -> None:
    assert gates(said("Why?"), said("x" * 80, "assistant")) == [None, None]
    assert gates(said("Why?"), said("x" * 79, "assistant")) == [None, "length"]
    passages = ("x" * 40, "x" * 39, "x" * 20 + "-" * 30, "x" * 20 + "-" * 31)
    assert gates(*[said(text, "document") for text in passages]) == [None, "length", None, "content"]
    neither = ContentScorer(unit([0, 1, 0]), unit([0, 0, 1]))  # a half
    told = said("Why?"), said("Happy to help you with this." + LONG, "assistant")
    assert gates(*told, scorer=neither, vectors=same(2), content_gate=0.5) == [None, None]
    assert gates(*told, scorer=neither, vectors=same(2), content_gate=0.5001) == [None, "content"]


def test_a_long_text_is_cut_at_a_line_end_past_half_and_thinking_goes_with_what_never_ends() -> None:
    assert cut_long("aaaaaa\nbbb\ncccc", 12) == "aaaaaa\nbbb"
    assert cut_long("aaaa\nbbbbbbbbbbb", 12) == "aaaa\nbbbbbbb"
    assert cut_long("a\nb", 3) == "a\nb"
    assert strip_thinking("So <think>is it?</think>it is.<think>Or") == "So it is."


def test_the_content_gate_refuses_assistants_only_and_does_not_teach() -> None:
    low = ContentScorer(unit([0, 1, 0]), unit([1, 0, 0]))
    planned = plan(
        said("I like this a lot"), said("Happy to help you with this." + LONG, "assistant"), scorer=low, vectors=same(2)
    )
    assert planned["gate"].to_list() == [None, "content"]
    assert planned["teaches"].to_list() == [False, False]
    assert planned["content_score"].to_list() == [0.0, 0.0]


def test_an_answer_in_another_language_is_neither_too_short_nor_small_talk() -> None:
    told = {
        "旧木板要注意防潮，成都夏天湿度高，最好先做一层防潮膜，再铺地板。": None,
        "Dann würde ich die Hochbeete erst danach aufstellen, damit niemand darüber klettert und alles hält.": None,
        "I would only set up the raised beds after that, so that nobody climbs over them at all.": "content",
        "好的。": "length",
    }
    answers = [said(text, "assistant", conversation_id=text[:4]) for text in told]
    low = ContentScorer(unit([0, 1, 0]), unit([1, 0, 0]))
    assert gates(*answers, scorer=low, vectors=same(4)) == list(told.values())


def test_what_was_said_a_moment_ago_is_a_repetition_that_names_its_original() -> None:
    planned = plan(said("I prefer dark roast."), said("i prefer  dark roast"), vectors=same(2))
    assert planned["gate"].to_list() == [None, "repeat"]
    assert planned["similar_to_id"].to_list() == [None, "m0"]
    assert planned["measure"].to_list()[1] == pytest.approx(1.0)


@pytest.mark.parametrize(("cosine", "gate"), [(0.86, "repeat"), (0.84, None)])
def test_the_same_words_repeat_only_from_a_likeness_on(cosine: float, gate: str | None) -> None:
    vectors = unit([1, 0, 0], [cosine, (1 - cosine**2) ** 0.5, 0])
    assert gates(said("I prefer dark roast."), said("i prefer  dark roast"), vectors=vectors) == [None, gate]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "My sister lives in Rome with her two cats and the dog",
            "My sister lived in Rome with her two cats and the dog",
        ),
        ("You live in Rome", "You live in Rome?"),
    ],
)
def test_a_changed_statement_is_never_a_repetition_however_like(first: str, second: str) -> None:
    assert gates(said(first), said(second), vectors=same(2)) == [None, None]


def test_only_the_same_person_in_the_same_scope_repeats() -> None:
    text = "I live in Rome with my dog"
    assert gates(said(text, speaker="Ana"), said(text, speaker="Ben"), vectors=same(2)) == [None, None]
    assert gates(said(text), said(text, scope="work"), vectors=same(2)) == [None, None]


def test_the_same_words_on_another_day_are_another_fact_when_they_speak_of_their_day() -> None:
    later = {"occurred_at": NOON + timedelta(days=9)}
    assert gates(said("I fly to Rome tomorrow"), said("I fly to Rome tomorrow", **later), vectors=same(2)) == [
        None,
        None,
    ]
    assert gates(said("I fly to Rome tomorrow"), said("I fly to Rome tomorrow"), vectors=same(2)) == [None, "repeat"]
    assert gates(said("I live in Rome"), said("I live in Rome", **later), vectors=same(2)) == [None, "repeat"]


def test_vim_after_neovim_is_a_change_and_no_repetition() -> None:
    rows = said("My editor is vim"), said("My editor is neovim"), said("My editor is vim")
    assert gates(*rows, vectors=unit([1, 0, 0], [1, 1, 0], [1, 0, 0])) == [None, None, None]
    apart = said("My editor is vim"), said("It rains"), said("My editor is vim")
    assert gates(*apart, vectors=unit([1, 0, 0], [0, 1, 0], [1, 0, 0])) == [None, None, "repeat"]


def test_an_exchange_repeats_whole_or_not_at_all() -> None:
    ask, tell, fail = (
        said("Run the tests"),
        said("All of them pass." + LONG, "assistant"),
        said("Two of them fail." + LONG, "assistant"),
    )
    a, b, c = [1.0, 0, 0], [0.0, 1, 0], [0.0, 0, 1]
    assert gates(ask, tell, ask, tell, vectors=unit(a, b, a, b)) == [None, None, "repeat", "repeat"]
    assert gates(ask, tell, ask, fail, vectors=unit(a, b, a, c)) == [None] * 4


def test_only_the_last_exchanges_are_compared() -> None:
    rows = [said("I live in Rome"), *(said(f"It is number {n}") for n in range(3)), said("I live in Rome")]
    vectors = np.eye(5, 8, dtype=np.float32)
    vectors[4] = vectors[0]
    assert gates(*rows, vectors=vectors, exchange_window=2)[-1] == "repeat"
    assert gates(*rows, vectors=vectors, exchange_window=1)[-1] is None
    assert gates(*rows, vectors=vectors, exchange_window=0)[-1] is None


MESSAGES = st.lists(
    st.builds(
        said,
        st.sampled_from(["ok", "I'll do it", "", "I live in Rome", "I live in Bonn", "root cause", "x" * 90, "Why?"])
        | st.text(max_size=20).filter(lambda text: text.encode("utf-8", "ignore").decode() == text),
        st.sampled_from(["user", "assistant", "tool", "system", "document"]),
        conversation_id=st.sampled_from("ab"),
        ordinal=st.integers(0, 5),
        has_injection=st.booleans(),
    ),
    max_size=12,
)


@given(MESSAGES, st.integers(0, 2**16))
def test_every_message_gets_one_row_in_its_place(rows: list[dict[str, Any]], seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = unit(*random.integers(-1, 3, (len(rows), 3)) + 0.5) if rows else NONE
    planned = plan(*rows, vectors=vectors, scorer=ContentScorer(unit([0, 1, 0]), unit([1, 0, 0])))
    assert planned.columns == OUT
    assert len(planned) == len(rows)
    assert (planned["gate"].is_null() == planned["reason"].is_null()).all()
    assert ((planned["gate"] == "repeat").fill_null(False) == planned["similar_to_id"].is_not_null()).all()
    must = [
        "role" if row["role"] in ("tool", "system") else "injection" if row["has_injection"] else None for row in rows
    ]
    assert all(gate == expected for gate, expected in zip(planned["gate"], must, strict=True) if expected)
    people = {gate for row, gate in zip(rows, planned["gate"], strict=True) if row["role"] == "user"}
    assert people <= {None, "injection", "pre_filter", "repeat"}


def test_the_score_is_worth_over_worth_and_nearest_noise() -> None:
    quality, noise = unit([1, 0, 0], [0, 1, 0]), unit([1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1])
    score = ContentScorer(quality, noise, top_k=2).score(unit([1, 0, 0], [0, 0, 1], [0, 0, -1]))
    assert score.tolist() == pytest.approx([0.5 / (0.5 + 0.5), 0.0, 0.0])


def test_without_likeness_to_either_the_score_is_a_half_and_it_stays_within_its_range() -> None:
    scorer = ContentScorer(unit([1, 0, 0]), unit([0, 1, 0]))
    assert scorer.score(unit([0, 0, 1], [-1, -1, 0], [-1, 3, 0], [3, -1, 0])).tolist() == [0.5, 0.5, 0.0, 1.0]
    assert ContentScorer(NONE, NONE).score(same(2)).tolist() == [0.5, 0.5]


def test_prototypes_are_the_settings_own_where_given() -> None:
    own = prototype_texts(NoiseSettings(noise_prototypes=("hm",)))
    assert (own.noise, own.quality) == (("hm",), prototype_texts().quality)
    assert len(own.quality) >= 3


def refusals(*rows: tuple[str, str, list[float]]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "text": [text for text, _, _ in rows],
            "gate": [gate for _, gate, _ in rows],
            "created_at": [NOON + timedelta(minutes=at) for at in range(len(rows))],
            "vector": [unit(vector)[0].tolist() for *_, vector in rows],
        }
    )


def test_only_what_may_teach_is_learned_and_near_equals_once() -> None:
    ring = refusals(
        ("old", "pre_filter", [1, 0, 0]),
        ("score", "content", [0, 0, 1]),
        ("short", "length", [0, 1, 1]),
        ("judged", "durability", [1, 1, 0]),
        ("new", "pre_filter", [1, 0.01, 0]),
        ("default", "pre_filter", [0, 1, 0.01]),
    )
    learned = plan_prototypes(ring.reverse(), unit([0, 1, 0]), NoiseSettings())
    assert learned.texts == ("new", "judged")
    assert learned.vectors.shape == (2, 3)


def test_a_new_topic_begins_where_the_text_turns_or_gets_too_long() -> None:
    vectors = unit([1, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0])
    assert group_topics(vectors, np.array([10] * 5), NoiseSettings()).tolist() == [0, 0, 1, 1, 1]
    assert group_topics(vectors, np.array([1000, 1000, 1000, 1048, 1]), NoiseSettings()).tolist() == [0, 0, 1, 1, 2]
    near = unit([1, 0, 0], [0.66, (1 - 0.66**2) ** 0.5, 0]), unit([1, 0, 0], [0.64, (1 - 0.64**2) ** 0.5, 0])
    assert [group_topics(pair, np.array([9, 9]), NoiseSettings()).tolist() for pair in near] == [[0, 0], [0, 1]]
    assert group_topics(vectors[:1], np.array([9000]), NoiseSettings()).tolist() == [0]
    assert group_topics(NONE, np.array([], dtype=np.int64), NoiseSettings()).tolist() == []
