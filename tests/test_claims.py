"""Claims: of what a model answers, only indexes of messages that it was shown are trusted (T37)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.responses import WindowExtraction
from slowwave.intake.windows import PlannedWindow
from slowwave.reading.claims import Said, collect
from slowwave.records import Turn, Window

AT = datetime(2026, 3, 2, tzinfo=UTC)


def window(*roles: str, context: int = 1, known: int = 0, name: str = "m", text: str = "text") -> PlannedWindow:
    """A window of messages m0, m1, …; the first `context` of them are only shown."""
    turns = tuple(
        Turn(n, "Marta" if role == "user" else role, role, text, AT + timedelta(minutes=n), n < context)
        for n, role in enumerate(roles)
    )
    planned = PlannedWindow(Window("c", "global", turns), tuple(f"{name}{n}" for n in range(len(roles))))
    return planned.knowing([(f"f{n}", "Known.", AT) for n in range(known)])


def claim(message: int, subject: str = "Marta", **more: Any) -> dict[str, Any]:
    return {"message": message, "subject": subject, "relation": "uses", "statement": "Marta uses vim.", **more}


def collected(planned: PlannedWindow, limit: int = 10, **answer: Any) -> Said:
    return collect([(planned, WindowExtraction.model_validate(answer))], limit)


def test_a_claim_belongs_to_the_message_it_points_at() -> None:
    said = collected(window("user", "user", "user"), facts=[claim(2), claim(1)])
    assert said.claims["message_id"].to_list() == ["m2", "m1"]
    assert said.invalid == 0


def test_claims_of_context_and_of_messages_that_are_not_there_are_dropped_and_counted() -> None:
    said = collected(window("user", "user"), facts=[claim(0), claim(1), claim(2), claim(-1), claim(99)])
    assert said.claims["message_id"].to_list() == ["m1"]
    assert said.invalid == 4


def test_judgements_of_context_and_of_messages_that_are_not_there_are_ignored_and_the_first_one_counts() -> None:
    judged = [{"message": n, "durable": n == 1, "reason": str(n)} for n in (0, 1, 7)]
    said = collected(window("user", "user"), messages=[*judged, {"message": 1, "durable": False, "reason": "again"}])
    assert said.judgements.rows() == [("m1", True, "1")]


def test_a_known_fact_is_named_by_its_index_and_an_index_that_was_not_listed_means_none() -> None:
    resolves = [{"known": 1}, {"known": 5, "object": "vim", "action": "retract", "reason": "correction"}, {"known": -1}]
    said = collected(window("user", "user", known=2, text="No vim."), facts=[claim(1, resolves=resolves)])
    assert said.claims["resolves"].to_list()[0] == [
        {"known_id": "f1", "object": None, "action": "supersede", "reason": "temporal_change"},
        {"known_id": None, "object": "vim", "action": "retract", "reason": "correction"},
        {"known_id": None, "object": None, "action": "supersede", "reason": "temporal_change"},
    ]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("the Neovim editor", True),
        ("NEOVIM", True),
        ("Ferrywise", False),
        ("the a of", False),
        ("Known.", True),
        ("7", False),
    ],
)
def test_what_was_never_shown_is_not_done_away_with(asked: str, kept: bool) -> None:
    planned = window("user", "user", known=1, text="I gave up neovim.")
    said = collected(planned, facts=[claim(1, resolves=[{"object": asked, "action": "retract"}])])
    assert said.claims["resolves"][0][0]["object"] == (asked if kept else None)


def test_the_subject_of_a_claim_is_a_mention_even_if_it_is_not_listed() -> None:
    entities = [{"name": "vim", "type": "Tool", "summary": "An editor."}]
    facts = [claim(1), claim(1), claim(1, "Kestrel"), claim(1, "vim"), claim(9, "Nobody")]
    said = collected(window("user", "user"), entities=entities, facts=facts)
    assert said.mentions.select("name", "entity_type", "summary").rows() == [
        ("vim", "tool", "An editor."), ("Marta", "person", None), ("Kestrel", "concept", None),
    ]  # fmt: skip
    assert set(said.mentions["seen_at"]) == {AT + timedelta(minutes=1)}


def test_entities_beyond_the_limit_for_each_message_are_dropped() -> None:
    entities = [{"name": f"thing {n}"} for n in range(9)]
    said = collected(window("user", "user", "user"), limit=2, entities=entities)
    assert said.mentions["name"].to_list() == [f"thing {n}" for n in range(4)]


def test_windows_are_told_apart() -> None:
    answer = WindowExtraction.model_validate({"facts": [claim(1)], "entities": [{"name": "vim"}]})
    said = collect([(window("user", "user", name="a"), answer), (window("user", "user", name="b"), answer)], 10)
    assert said.claims.select("window", "message_id").rows() == [(0, "a1"), (1, "b1")]
    assert said.mentions["window"].to_list() == [0, 0, 1, 1]


def test_no_answer_gives_frames_with_all_their_columns() -> None:
    said, full = collect([], 10), collected(window("user", "user"), facts=[claim(1)])
    assert said.claims.is_empty()
    assert said.claims.schema == full.claims.schema
    assert said.mentions.schema == full.mentions.schema
    assert said.judgements.schema == full.judgements.schema


@settings(deadline=None)
@given(st.lists(st.integers(-3, 6), max_size=12), st.integers(0, 3))
def test_nothing_is_ever_said_of_a_message_that_was_not_to_be_extracted(indexes: list[int], context: int) -> None:
    planned = window("user", "user", "user", "user", context=context)
    said = collected(
        planned, facts=[claim(n) for n in indexes], messages=[{"message": n, "durable": False} for n in indexes]
    )
    assert set(said.claims["message_id"]) | set(said.judgements["message_id"]) <= set(planned.new_ids)
    assert len(said.claims) + said.invalid == len(indexes)
    assert said.judgements["message_id"].n_unique() == len(said.judgements)
    assert pl.Series(said.claims["message_id"]).null_count() == 0
