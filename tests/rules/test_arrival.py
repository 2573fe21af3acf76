"""The order of arrival does not matter: the same messages, in any order, give the same memory (§6.3, S1-21, S3-04)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from patchwork import NOW, Memory, claim, day

from slowwave.common.validity import is_live

Told = tuple[str, str, Any, Any, str | None]


def job(place: str, at: float, statement: str = "", **more: Any) -> dict[str, Any]:
    return claim(statement or f"Anna works at {place}.", relation="works_at", obj=place, at=at, **more)


def tool(name: str, at: float, **more: Any) -> dict[str, Any]:
    return claim(f"Anna uses {name}.", relation="uses", obj=name, at=at, **more)


def switch(old: str, new: str, at: float) -> dict[str, Any]:
    """She says herself what takes the place of what."""
    said = f"Anna switched from {old} to {new}."
    return claim(said, relation="uses", obj=new, at=at, resolves=[{"object": old}])


def over(name: str, at: float, relation: str = "uses") -> dict[str, Any]:
    return claim(f"Anna has no more to do with {name}.", relation=relation, obj=name, at=at, ended=True)


def state(memory: Memory) -> list[Told]:
    """Statement, whether it holds, since when, until when and what replaced it, of everything that was believed."""
    says = dict(memory.facts.select("id", "statement").iter_rows())
    rows = memory.facts.filter(pl.col("status").is_in(["active", "superseded", "retracted"]))
    rows = rows.with_columns(holds=is_live(NOW)).sort("valid_from", "statement", "valid_to")
    columns = ("statement", "holds", "valid_from", "valid_to", "replaced_by")
    return [(s, h, a, b, says.get(r or "")) for s, h, a, b, r in rows.select(columns).iter_rows()]


def heard(batches: Sequence[Sequence[dict[str, Any]]]) -> list[Told]:
    memory = Memory()
    for batch in batches:
        memory.tell(*batch)
    return state(memory)


CASES = {
    "a directive is remembered for what arrives after it": [tool("vim", 1), switch("vim", "neovim", 10)],
    "so is an end": [tool("vim", 1), over("vim", 10)],
    "and the first of two ends counts": [tool("vim", 1), over("vim", 10), over("vim", 20)],
    "what ended twice ended with the first": [job("Acme", 1), job("Globex", 10), over("Acme", 20, "works_at")],
    "a told end is no later than what followed": [
        job("Acme", 1), job("Globex", 10), job("Initech", 20, "Anna went from Acme to Initech.",
                                                resolves=[{"object": "Acme"}]),
    ],
    "what came back is a second stretch": [job("Acme", 1), job("Globex", 10), job("Acme", 20)],
    "so is what came back after an end": [tool("vim", 1), over("vim", 10), tool("vim", 20)],
    "what was said twice holds since the first time": [tool("vim", 1), tool("vim", 10), tool("vim", 20)],
    "three jobs follow each other": [job("Acme", 1), job("Globex", 10), job("Initech", 20)],
    "a mere mention in between changes nothing": [job("Acme", 1), tool("vim", 5), job("Acme", 10)],
    "one who speaks of another ends nothing": [job("Acme", 1), job("Globex", 10, speaker="Devon")],
    "there and back again": [tool("vim", 1), switch("vim", "neovim", 10), switch("neovim", "vim", 20)],
    "a job of long ago is over": [job("Acme", 10), job("Globex", 20, "Anna joined Globex in 2021.",
                                                       temporal_hint="in 2021")],
}  # fmt: skip


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_whatever_the_order_it_comes_to_the_same(case: str) -> None:
    told = CASES[case]
    expected = heard([[each] for each in told])
    for order in permutations(told):
        assert heard([[each] for each in order]) == expected
        assert heard([order[:2], order[2:]] if len(order) > 2 else [order]) == expected


def test_what_was_said_again_after_a_late_end_is_evidence_of_the_second_stretch_alone() -> None:
    memory = Memory()
    memory.tell(tool("vim", 1))
    memory.tell(tool("vim", 20))
    assert memory.facts.filter(statement="Anna uses vim.", status="active")["evidence_count"].to_list() == [2]
    plan = memory.tell(over("vim", 10))
    first, second = memory.facts.filter(statement="Anna uses vim.", status="active").sort("valid_from").rows(named=True)
    assert [(row["valid_from"], row["valid_to"]) for row in (first, second)] == [(day(1), day(10)), (day(20), None)]
    assert (first["evidence_count"], second["evidence_count"]) == (1, 1)
    assert plan.again == ((second["id"], first["id"]),)
    said = memory.evidence.filter(pl.col("fact_id").is_in([first["id"], second["id"]])).sort("occurred_at")
    assert said.select("fact_id", "occurred_at").rows() == [(first["id"], day(1)), (second["id"], day(20))]


@pytest.mark.parametrize("together", [True, False])
def test_what_its_subject_says_again_ends_what_somebody_else_said_in_between(together: bool) -> None:
    memory = Memory()
    told = [job("Initech", 4), job("Umbrella", 5, speaker="Devon"), job("Initech", 6)]
    for batch in [told] if together else [[each] for each in told]:
        memory.tell(*batch)
    assert [(s, holds) for s, holds, *_ in state(memory)] == [
        ("Anna works at Initech.", True),
        ("Anna works at Umbrella.", False),
    ]
    assert memory.fact("Anna works at Umbrella.")["valid_to"] == day(6)


def test_only_what_changes_is_decided_again_where_one_comes_late() -> None:
    memory = Memory()
    for place, at in (("Acme", 1), ("Globex", 10), ("Initech", 20)):
        memory.tell(job(place, at))
    plan = memory.tell(job("Umbrella", 15))
    globex, initech, umbrella = (memory.fact(f"Anna works at {name}.") for name in ("Globex", "Initech", "Umbrella"))
    assert set(plan.facts["id"]) == {globex["id"], initech["id"], umbrella["id"]}
    assert initech["supersedes_id"] == umbrella["id"]
    assert set(plan.decisions["subject_id"]) == {globex["id"], umbrella["id"]}
    assert (globex["valid_to"], globex["replaced_by"]) == (day(15), umbrella["id"])
    measures = plan.decisions.filter(action="supersede", subject_id=globex["id"])["measures"]
    assert measures.str.json_path_match("$.valid_to[0]").to_list() == [str(day(20))]  # what was known until then


def test_a_doubt_that_somebody_settled_is_not_raised_again_by_what_comes_late() -> None:
    memory = Memory()
    memory.tell(job("Acme", 1))
    assert memory.tell(job("Globex", 10, speaker="Devon")).pairs.height == 1
    plan = memory.tell(job("Initech", 0))
    assert (memory.fact("Anna works at Initech.")["valid_to"], plan.pairs.height) == (day(1), 0)


def test_what_outranks_a_remembered_directive_stays() -> None:
    memory = Memory()
    memory.tell({**switch("vim", "neovim", 10), "by": "assistant"})
    memory.tell(tool("vim", 1))
    assert "Anna uses vim." in memory.live()


def test_a_remembered_pointer_at_a_fact_means_what_arrives_later_and_says_the_same() -> None:
    memory = Memory()
    memory.tell(tool("vim", 5))
    pointer = {"known_id": memory.fact("Anna uses vim.")["id"], "object": "", "action": "retract"}
    memory.tell(
        {**claim("Anna gave up her old editor.", relation="gave_up", obj="editor", at=10), "resolves": [pointer]}
    )
    early = claim("Anna writes everything in vim.", relation="uses", obj="vim", at=1)
    other = claim("Anna likes vim.", relation="likes", obj="vim", at=2)
    memory.tell(early)
    memory.tell(other)
    assert early["statement"] not in memory.live()
    assert other["statement"] in memory.live()


NAMES, TOOLS = ("Acme", "Globex", "Initech"), ("vim", "neovim", "emacs")
RUMOUR = "one and the same employer"
sentences = st.one_of(
    st.builds(lambda name: (job, (name,), {}), st.sampled_from(NAMES)),
    st.just((job, (RUMOUR,), {"speaker": "Devon"})),
    st.builds(lambda name: (tool, (name,), {}), st.sampled_from(TOOLS)),
    st.builds(lambda pair: (switch, tuple(pair), {}), st.permutations(TOOLS).map(lambda names: names[:2])),
    st.builds(lambda name: (over, (name,), {}), st.sampled_from(TOOLS)),
)


@st.composite
def talks(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Some sentences, one a day, and the same in any order, in batches of any size.

    Whoever speaks of another knows of one employer: what hearsay has ended stays so, even if the person confirms it.
    """
    rumour = draw(st.sampled_from((*NAMES, "Umbrella")))
    said = [
        make(*(rumour if word == RUMOUR else word for word in words), at + 1, **more)
        for at, (make, words, more) in enumerate(draw(st.lists(sentences, max_size=6)))
    ]
    mixed = draw(st.permutations(said))
    cuts = sorted(draw(st.sets(st.integers(1, 5), max_size=3)))
    parts = [mixed[a:b] for a, b in zip([0, *cuts], [*cuts, len(mixed)], strict=True)]
    return said, [part for part in parts if part]


@pytest.mark.proof
@given(talks())
@example(
    (
        [job("Umbrella", 4), job("Globex", 5, speaker="Devon"), job("Globex", 6)],
        [[job("Globex", 5, speaker="Devon")], [job("Globex", 6), job("Umbrella", 4)]],
    )
)
@settings(max_examples=15, deadline=None)
def test_the_same_talk_in_any_order_and_in_any_batches_is_the_same_memory(
    talk: tuple[list[dict[str, Any]], list[list[dict[str, Any]]]],
) -> None:
    said, mixed = talk
    assert heard(mixed) == heard([[each] for each in said])
