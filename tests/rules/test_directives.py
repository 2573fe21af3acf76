"""What a claim says of a known fact: it takes its place, ends it, contradicts it, or says the same (S1-21, S1-22)."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from patchwork import Memory, claim, day

from slowwave.facts.revision.referenced_facts import may_mean

OSLO = claim("Anna lives in Oslo.", relation="lives_in", obj="Oslo", at=1)
NEVER = claim("Anna has never lived in Norway.", relation="denies", at=9)


def about(known: str, action: str, memory: Memory, **more: Any) -> dict[str, Any]:
    """A directive that points at the fact with these words."""
    return {"known_id": memory.fact(known)["id"], "object": "", "action": action, **more}


def disputed(first: dict[str, Any] = OSLO, second: dict[str, Any] = NEVER) -> Memory:
    """A memory in which a second statement says that it contradicts the first."""
    memory = Memory()
    memory.tell(first)
    memory.tell({**second, "resolves": [about(first["statement"], "contradict", memory)]})
    return memory


def flags(memory: Memory) -> list[tuple[str, str]]:
    return memory.pairs.select("kind", "outcome").rows()


def test_what_contradicts_a_fact_stays_beside_it_and_the_pair_is_flagged_for_good() -> None:
    memory = disputed()
    assert memory.live() == [OSLO["statement"], NEVER["statement"]]
    (flag,) = memory.pairs.rows(named=True)
    assert (flag["outcome"], flag["guard"], flag["expires_at"], flag["decided_by"]) == (
        "pending", "contradicts", None, "model",
    )  # fmt: skip
    assert {flag["a_id"], flag["b_id"]} == {*memory.facts["id"]}
    told = memory.decisions.filter(pl.col("action") == "dispute").row(0, named=True)
    assert told["reason"] == "They contradict each other, and nothing tells which holds."


def test_what_is_said_to_contradict_does_not_end_what_recency_alone_would_end() -> None:
    bergen = claim("Anna lives in Bergen now.", relation="lives_in", obj="Bergen", at=9, temporal_hint="2026-01-09")
    assert disputed(second=bergen).live() == [OSLO["statement"], bergen["statement"]]
    plain = Memory()
    plain.tell(OSLO)
    plain.tell(bergen)
    assert plain.live() == [bergen["statement"]]


@pytest.mark.parametrize(
    ("action", "reason", "at", "decided", "sentence", "is_replaced"),
    [
        ("supersede", "temporal_change", 9, "supersede", "A later message replaces it (temporal_change).", True),
        ("supersede", "correction", 9, "supersede", "A later message replaces it (correction).", True),
        ("retract", "correction", 9, "retract", "A later message says that it was never so.", False),
        ("retract", "temporal_change", 9, "close", "A later message says that it is over.", False),
        ("supersede", "temporal_change", 0, "refuse", "What was said earlier cannot end what was said later.", None),
    ],
)
def test_the_ledger_says_what_ended_a_fact_by_which_words_and_when_both_were_said(
    action: str, reason: str, at: int, decided: str, sentence: str, is_replaced: bool | None
) -> None:
    memory = Memory()
    memory.tell(OSLO)
    ends = claim("Anna cleared it up.", relation="explained", at=at)
    memory.tell({**ends, "resolves": [about(OSLO["statement"], action, memory, reason=reason)]})
    old, new = memory.fact(OSLO["statement"]), memory.fact("Anna cleared it up.")
    (told,) = memory.decisions.filter(pl.col("action") == decided).rows(named=True)
    changed = [] if is_replaced is None else [old["id"], new["id"]] if is_replaced else [old["id"]]
    assert (told["subject_id"], told["ids_in"], told["ids_out"]) == (old["id"], [old["id"], new["id"]], changed)
    measures = json.loads(told["measures"])
    assert (told["reason"], measures["said_at"][:10]) == (sentence, f"{day(at):%Y-%m-%d}")
    assert measures["known_said_at"][:10] == f"{day(1):%Y-%m-%d}"
    if is_replaced is not None:
        assert measures["valid_to"] == [None, measures["valid_from"]]
        assert old["valid_to"] == new["valid_from"]


@pytest.mark.parametrize(
    ("known", "stays"),
    [
        (claim("Anna works at Siemens in Munich.", relation="works_at", obj="Siemens"), True),
        (claim("Anna studies physics in Munich.", relation="studies", obj="physics"), True),
        (claim("Anna lives in Munich.", relation="lives_in", obj="Munich"), False),
        (claim("Anna's home is in Munich.", relation="said"), True),  # words alone do not say that it is a home
    ],
)
def test_a_move_ends_the_home_of_the_old_town_and_no_job_there(known: dict[str, Any], stays: bool) -> None:
    memory = Memory()
    memory.tell({**known, "at": 1})
    change = {"known_id": None, "object": "Munich", "action": "supersede"}
    memory.tell(claim("Anna moved from Munich to Vienna.", relation="lives_in", obj="Vienna", at=9, resolves=[change]))
    assert (known["statement"] in memory.live()) is stays


@pytest.mark.proof
@pytest.mark.parametrize("action", ["supersede", "retract"])
@pytest.mark.parametrize("settled", [OSLO["statement"], NEVER["statement"]])
def test_a_later_statement_that_settles_it_closes_the_flag(action: str, settled: str) -> None:
    memory = disputed()
    memory.tell(claim("Anna cleared it up.", relation="explained", at=20, resolves=[about(settled, action, memory)]))
    assert settled not in memory.live()
    assert flags(memory) == [("implicit_conflict", "settled")]


@pytest.mark.proof
@pytest.mark.parametrize("action", ["contradict", "supersede", "retract"])
@pytest.mark.parametrize("guard", [{"pinned": True}, {"entrenchment": "user_axiom"}, {"entrenchment": "user_stated"}])
def test_nothing_is_done_to_a_fact_that_outranks_the_speaker(action: str, guard: dict[str, Any]) -> None:
    memory = Memory()
    memory.tell(OSLO)
    memory.facts = memory.facts.with_columns(**{name: pl.lit(value) for name, value in guard.items()})
    plan = memory.tell({**NEVER, "by": "assistant", "resolves": [about(OSLO["statement"], action, memory)]})
    assert (len(memory.live()), memory.pairs.height, plan.summary()) == (2, 0, {"create": 1, "refuse": 1})


@pytest.mark.proof
@pytest.mark.parametrize("action", ["contradict", "repeat", "supersede", "retract", "rename_the_owner"])
@pytest.mark.parametrize("known", ["f_never_shown", None])
def test_a_directive_at_a_fact_that_nobody_was_shown_does_nothing(action: str, known: str | None) -> None:
    memory = Memory()
    memory.tell(OSLO)
    directive = {"known_id": known, "object": "" if known else "Bergen", "action": action}
    memory.tell({**NEVER, "resolves": [directive]})
    assert (len(memory.live()), memory.pairs.height) == (2, 0)


def test_what_is_said_to_repeat_a_fact_is_evidence_for_it() -> None:
    memory = Memory()
    memory.tell(OSLO)
    again = claim("Oslo is still where Anna has her home.", relation="has_home_in", obj="Oslo", at=9)
    plan = memory.tell({**again, "resolves": [about(OSLO["statement"], "repeat", memory)]})
    assert (memory.live(), plan.summary()) == ([OSLO["statement"]], {"reassert": 1})
    assert memory.fact(OSLO["statement"])["evidence_count"] == 2
    assert memory.evidence["occurred_at"].max() == day(9)


@pytest.mark.parametrize(
    ("known", "again", "reason"),
    [
        ("Anna has 2 cats.", "Anna keeps 3 cats.", "It is said to repeat another number."),
        ("Anna likes Oslo.", "Anna does not like Oslo.", "It is said to repeat what it denies."),
        ("Anna likes it.", "Ben likes it.", "It is said to repeat what is about something else, or holds no longer."),
    ],
)  # fmt: skip
def test_a_repetition_that_says_another_thing_is_a_fact_of_its_own(known: str, again: str, reason: str) -> None:
    memory = Memory()
    memory.tell(claim(known, relation="notes", at=1))
    subject = again.split()[0]
    second = claim(again, subject, "notes", at=9, resolves=[about(known, "repeat", memory)])
    plan = memory.tell(second)
    assert len(memory.live()) == 2
    assert plan.decisions.filter(pl.col("action") == "refuse")["reason"].to_list() == [reason]


def test_a_number_more_says_no_other_thing() -> None:
    memory = Memory()
    memory.tell(claim("Anna has 2 cats.", relation="notes", at=1))
    told = about("Anna has 2 cats.", "repeat", memory)
    memory.tell(claim("Anna has had 2 cats since 2019.", relation="notes", at=9, resolves=[told]))
    assert memory.live() == ["Anna has 2 cats."]


def perhaps(memory: Memory, old: str, *known: dict[str, Any], **more: Any) -> list[str]:
    """Statements of the facts that may be what a new one replaces, as the pairs that wait for a model name them."""
    for each in known:
        memory.tell({"at": 1, **each})
    change = {"known_id": None, "object": old, "action": "supersede"}
    memory.tell(claim("Anna listens to jazz now.", relation="noted", at=9, resolves=[change], **more))
    statements = dict(memory.facts.select("id", "statement").iter_rows())
    pairs = memory.pairs.filter(kind="redundant", outcome="pending").select("a_id", "b_id")
    return sorted(statements[name] for pair in pairs.iter_rows() for name in pair if "jazz now" not in statements[name])


ROCK = claim("Anna loves loud rock concerts.", relation="noted")


def test_what_only_some_words_name_ends_nothing_and_waits_for_a_model() -> None:
    memory = Memory()
    assert perhaps(memory, "rock music", ROCK, claim("Anna has a cat.", relation="noted")) == [ROCK["statement"]]
    assert ROCK["statement"] in memory.live()
    (pair,) = memory.pairs.rows(named=True)
    assert (pair["decided_by"], pair["guard"], pair["expires_at"]) == ("rule", None, None)  # no contradiction to show


@pytest.mark.parametrize(
    "known",
    [
        claim("Anna has a cat.", relation="noted"),  # another matter
        claim("Ben loves loud rock concerts.", "Ben", "noted"),  # another person
        {**ROCK, "to": "other"},  # another scope
        {**ROCK, "at": 20},  # said later
        claim("Anna no longer loves rock.", relation="loves", obj="rock", ended=True),  # over already
    ],
)
def test_what_cannot_be_meant_does_not_wait(known: dict[str, Any]) -> None:
    assert perhaps(Memory(), "rock music", known) == []


def test_what_all_words_name_waits_as_well_because_words_may_mean_another_fact() -> None:
    memory = Memory()
    assert perhaps(memory, "rock concerts", ROCK) == [ROCK["statement"]]
    assert ROCK["statement"] in memory.live()


def test_at_most_two_facts_wait_those_that_say_most_of_the_words() -> None:
    known = [claim(f"Anna loves {what}.", relation="noted") for what in ("rock", "rock and pop", "rock music at night",
             "rock music on long walks in the hills", "music")]  # fmt: skip
    assert perhaps(Memory(), "old rock music", *known) == [
        "Anna loves rock music at night.", "Anna loves rock music on long walks in the hills.",
    ]  # fmt: skip


def test_no_word_means_no_fact_and_the_order_of_the_facts_does_not_matter() -> None:
    facts = [{"id": name, "statement": f"Anna loves rock {name}.", "polarity": "affirmed"} for name in "cab"]
    for order in permutations(facts):
        assert [fact["id"] for fact in may_mean("rock music", order)] == ["a", "b"]
    assert may_mean("", facts) == may_mean("the of", facts) == []
