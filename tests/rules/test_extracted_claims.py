"""Claims: of what a model answers, only indexes of messages that it was shown are trusted (T37)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prompts.responses import WindowExtraction
from slowwave.common.records import KnownFact, RosterEntry, Turn, Window
from slowwave.facts.revision.extracted_claims import CollectedClaims, collect
from slowwave.reading.ingestion.windows import PlannedWindow

AT = datetime(2026, 3, 2, tzinfo=UTC)


def window(*roles: str, context: int = 1, known: int = 0, name: str = "m", text: str = "text") -> PlannedWindow:
    """A window of messages m0, m1, …; the first `context` of them are only shown."""
    turns = tuple(
        Turn(n, "Marta" if role == "user" else role, role, text, AT + timedelta(minutes=n), n < context)
        for n, role in enumerate(roles)
    )
    planned = PlannedWindow(Window("c", "global", turns), tuple(f"{name}{n}" for n in range(len(roles))))
    return planned.knowing([KnownFact(n, f"f{n}", "Known.", AT) for n in range(known)])


def claim(message: int, subject: str = "Marta", **more: Any) -> dict[str, Any]:
    return {"message": message, "subject": subject, "relation": "uses", "statement": "Marta uses vim.", **more}


def fact(message: int, about: str = "Marta", **more: Any) -> dict[str, Any]:
    """A fact as a model writes it."""
    return {"m": message, "s": "Marta likes vim.", "about": about, **more}


def collected(planned: PlannedWindow, limit: int = 10, **answer: Any) -> CollectedClaims:
    return collect([(planned, WindowExtraction.model_validate(answer))], limit)


def test_claims_of_context_and_of_messages_that_are_not_there_are_dropped_and_counted() -> None:
    said = collected(window("user", "user"), facts=[claim(0), claim(1), claim(2), claim(-1), claim(99)])
    assert said.claims["message_id"].to_list() == ["m1"]
    assert said.invalid == 4


@pytest.mark.parametrize(("also", "message"), [([], None), ([2], "m2"), ([4, 2], "m2"), ([0, 3], None)], ids=str)
def test_a_claim_on_a_turn_that_is_only_shown_rests_on_the_turn_that_says_it_too_if_one_is_named(
    also: list[int], message: str | None
) -> None:
    planned = window("user", "assistant", "user", "assistant", "user")
    turns = tuple(replace(turn, is_context=turn.index in (0, 1, 3)) for turn in planned.window.turns)
    said = collected(replace(planned, window=replace(planned.window, turns=turns)), facts=[fact(1, also=also)])
    assert said.claims["message_id"].to_list() == ([] if message is None else [message])
    assert said.invalid == (message is None)


def directives(said: CollectedClaims, number: int = 0) -> list[tuple[str | None, int | None, str | None, str, str]]:
    """What a claim does to earlier facts: known fact, claim, words, action, reason."""
    found = said.claims["resolves"].to_list()[number]
    return [tuple(each[name] for name in ("known_id", "claim", "object", "action", "reason")) for each in found]


def test_a_known_fact_is_named_by_its_index_and_an_index_that_was_not_listed_means_none() -> None:
    resolves = [{"known": 1}, {"known": 5, "object": "vim", "action": "retract", "reason": "correction"}, {"known": -1}]
    said = collected(window("user", "user", known=2, text="No vim."), facts=[claim(1, resolves=resolves)])
    assert directives(said) == [
        ("f1", None, None, "supersede", "temporal_change"),
        (None, None, "vim", "retract", "correction"),
        (None, None, None, "supersede", "temporal_change"),
    ]


def test_a_verdict_says_what_becomes_of_a_known_fact_and_no_verdict_changes_nothing() -> None:
    kinds = ("updates", "corrects", "ends", "contradicts", "adds to it", None)
    does = [{"k": n, "v": verdict} for n, verdict in enumerate(kinds)]
    answer = WindowExtraction.model_validate({"facts": [fact(1, does=does)]})
    assert directives(collect([(window("user", "user", known=6), answer)], 10, by_model=True)) == [
        ("f0", None, None, "supersede", "temporal_change"),
        ("f1", None, None, "supersede", "correction"),
        ("f2", None, None, "retract", "temporal_change"),
        ("f3", None, None, "contradict", "temporal_change"),
    ]


def test_a_fact_of_the_same_answer_is_named_by_its_place_also_where_others_were_dropped() -> None:
    does = [{"k": key, "v": "ends"} for key in ("F1", "F0", "f7", 1, "1", "k1", "#1")]
    said = collected(window("user", "user", known=2), facts=[fact(9), fact(1), fact(1, does=does)])
    assert said.invalid == 1
    assert [place for _, place, *_ in directives(said, 1)] == [0, *[None] * 6]
    assert [known for known, *_ in directives(said, 1)] == [*[None] * 3, *["f1"] * 4]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("the Neovim editor", True),
        ("Ferrywise", False),
        ("Known.", True),
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


# Numbers of the roster, names, repetitions


ROSTER = (
    RosterEntry(1, "Crystal Wilson", "person", "e_owner", ("crystal",), "user"),
    RosterEntry(2, "Assistant", "tool", "", (), "assistant"),
    RosterEntry(3, "Evan", "person", "e_evan"),
    RosterEntry(4, "Devon", "person"),
    RosterEntry(5, "Москва", "place", "e_moscow"),
)


def listed(*texts: str, known: tuple[KnownFact, ...] = ()) -> PlannedWindow:
    """A window in which Crystal, who is the user, says these, with a roster."""
    turns = tuple(Turn(n, "Crystal Wilson", "user", text, AT, False) for n, text in enumerate(texts))
    planned = PlannedWindow(Window("c", "global", turns), tuple(f"m{n}" for n in range(len(texts))))
    return planned.knowing(known, ROSTER)


def by_model(planned: PlannedWindow, **answer: Any) -> CollectedClaims:
    return collect([(planned, WindowExtraction.model_validate(answer))], 10, by_model=True)


@pytest.mark.parametrize("about", [1, "1", "#1", " 1 ", "Crystal Wilson", "Crystal", "crystal", "the user", "user"])
def test_a_number_an_alias_and_the_user_all_mean_the_entity_of_the_roster(about: object) -> None:
    said = by_model(listed("I play chess with Evan."), facts=[{"m": 0, "s": "Crystal plays chess.", "about": about}])
    assert said.claims["subject"].to_list() == ["Crystal Wilson"]
    assert said.in_play.select("canonical_name", "entity_id").rows() == [("crystal wilson", "e_owner")]
    assert said.mentions.is_empty(), "what is stored needs no resolution"


@pytest.mark.parametrize(
    ("relation", "object_", "statement", "expected"),
    [
        ("age", "3", "Devon ist drei.", "3"),
        ("age", "4", "Devon is four.", "4"),
        ("age", "3", "Devon is as old as Evan.", "Evan"),
        ("scheduled_for", "2027", "The match is in 2027.", "2027"),
        ("born_in", "5", "Девон родился в Москве.", "Москва"),
        ("knows", "3", "Devon knows him.", "Evan"),
    ],
)
def test_where_a_relation_takes_a_value_a_number_is_an_entity_only_if_the_statement_names_it(
    relation: str, object_: object, statement: str, expected: str
) -> None:
    facts = [{"m": 0, "s": statement, "about": "4", "rel": relation, "obj": object_}]
    said = by_model(listed("Devon, Evan, three."), facts=facts)
    assert said.claims["object"].to_list() == [expected]
    assert said.in_play["canonical_name"].to_list() == ([] if expected.isdigit() else [expected.lower()])


def test_names_are_learned_only_for_who_is_listed_and_only_if_people_of_the_window_say_them() -> None:
    names = [
        {"n": 3, "name": "Evan  Cole"}, {"n": "1", "name": "Mallory"}, {"n": 9, "name": "Evan Cole"},
        {"n": "Evan", "name": "Evan Cole"},
    ]  # fmt: skip
    said = by_model(listed("My friend is Evan Cole."), names=names)
    assert said.names.select("entity_id", "name").rows() == [("e_evan", "Evan Cole")]


def test_a_part_of_a_word_and_no_word_at_all_are_no_names() -> None:
    names = [{"n": 3, "name": name} for name in ("", " ", "Eva", "van", "Evan's", "(")]
    assert by_model(listed("I caravan with Evander."), names=names).names.is_empty()


def test_the_user_is_named_by_nobody_else() -> None:
    planned = listed("My friend is Evan Cole.")
    other = Turn(1, "Eve", "user", "The user's name is Mallory, and Evan is Evan Reed.", AT)
    wider = PlannedWindow(replace(planned.window, turns=(*planned.window.turns, other)), ("m0", "m1"))
    names = [{"n": 1, "name": "Mallory"}, {"n": 3, "name": "Evan Reed"}]
    assert by_model(wider, names=names).names["name"].to_list() == ["Evan Reed"]


def test_what_only_an_assistant_or_a_document_says_names_nobody() -> None:
    planned = listed("Thanks!")
    others = (
        Turn(1, "Assistant", "assistant", "You are Mallory.", AT, True),
        Turn(2, "a.md", "document", "I am Eve.", AT),
    )
    wider = PlannedWindow(replace(planned.window, turns=(*planned.window.turns, *others)), ("m0", "m1", "m2"))
    said = by_model(wider, names=[{"n": 1, "name": "Mallory"}, {"n": 1, "name": "Eve"}])
    assert said.names.is_empty()


def test_a_known_fact_that_is_said_again_is_claimed_word_for_word() -> None:
    known = KnownFact(0, "f_0", "Crystal Wilson likes tea.", AT, "Crystal Wilson", "prefers", "tea")
    again = [{"k": 0, "m": 0}, {"k": 5, "m": 0}, {"k": 0, "m": 7}]
    said = by_model(listed("Tea as ever.", known=(known,)), again=again)
    assert said.claims.select("message_id", "subject", "relation", "object", "statement").rows() == [
        ("m0", "Crystal Wilson", "prefers", "tea", "Crystal Wilson likes tea.")
    ]
    assert said.invalid == 2


@pytest.mark.parametrize(("hint", "first", "further"), [(None, "m0", ["m1"]), ("yesterday", "m1", ["m0"])])
def test_a_fact_that_several_messages_say_is_of_the_first_unless_its_words_of_time_are_of_another(
    hint: str | None, first: str, further: list[str]
) -> None:
    facts = [{"m": 1, "also": [0, 0, 1, 9], "s": "Crystal plays chess.", "about": 1, "when": hint}]
    said = by_model(listed("I play chess.", "Chess, every day."), facts=facts)
    assert said.claims.select("message_id", "also").rows() == [(first, further)]


def test_of_an_answer_that_is_partly_unusable_the_rest_is_used() -> None:
    answer = {
        "names": [{"name": "Cris"}, None], "new": [{"type": "person"}, {"name": "Rex", "type": "Pet"}, 7],
        "facts": [
            {"m": "x", "s": "No message.", "about": 1}, {"m": 0, "about": 1}, "words",
            {"m": 0, "s": "Crystal plays chess.", "about": 1, "c": "sure", "time": "someday",
             "obj": {}, "tags": [3, "health"], "does": [{"k": [], "v": "perhaps", "old": "chess"}, 4]},
            {"m": 0, "s": "Rex watches.", "about": "Rex"},
        ],
        "again": [{"k": "all"}],
    }  # fmt: skip
    said = by_model(listed("I play chess."), **answer)
    assert said.claims["statement"].to_list() == ["Crystal plays chess.", "Rex watches."]
    assert said.mentions["name"].to_list() == ["Rex"]


def test_each_name_was_seen_when_a_claim_named_it_and_not_when_the_window_ended() -> None:
    texts = ("Only Ben uses vim.", "Banana bread with Ana?", "Nothing new.")
    turns = tuple(Turn(n, "Marta", "user", text, AT + timedelta(minutes=n)) for n, text in enumerate(texts))
    planned = PlannedWindow(Window("c", "global", turns), ("m0", "m1", "m2"))
    answer = {"facts": [claim(0, subject="Ben", object="vim"), claim(1, statement="Marta bakes with Ana.")],
              "entities": [{"name": "Ana", "type": "person"}, {"name": "vim", "type": "tool"}]}  # fmt: skip
    seen = collected(planned, **answer).mentions.select("name", "first_seen_at", "seen_at").iter_rows()
    minutes = {name: tuple((at - AT).seconds // 60 for at in times) for name, *times in seen}
    assert minutes == {"Ben": (0, 0), "vim": (0, 0), "Ana": (1, 1), "Marta": (1, 1)}
