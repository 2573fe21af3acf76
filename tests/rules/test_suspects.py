"""What leans on a fact that stopped being true: marked, shown why, and trusted again when it is said again."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from patchwork import Memory, claim, day

from slowwave.common import frames
from slowwave.facts.revision.revision_state import RETIRED
from slowwave.facts.revision.supersession import find_derived

ACME = claim("Anna works at Acme.", relation="works_at", obj="Acme", at=1)
GLOBEX = claim("Anna works at Globex now.", relation="works_at", obj="Globex", at=10)
TEAM = claim("Anna leads the Acme data team.", relation="leads", obj="Acme data team", at=2)
LEFT = claim("Anna left Acme.", relation="left", obj="Acme", at=10, ended=True)
MISTAKE = claim(
    "Anna never worked at Acme.", relation="denies", obj="Globex", at=10,
    resolves=[{"object": "Acme", "action": "retract", "reason": "correction"}],
)  # fmt: skip


def told(*first: dict[str, Any], then: dict[str, Any] = GLOBEX) -> Memory:
    """A memory that heard some things, and then, in another batch, what ends one of them."""
    memory = Memory()
    memory.tell(*first)
    memory.tell(then)
    return memory


@pytest.mark.parametrize("end", [GLOBEX, LEFT, MISTAKE])
def test_what_leans_on_a_fact_is_suspect_when_that_ends(end: dict[str, Any]) -> None:
    memory = told(ACME, TEAM, then=end)
    team, job = memory.fact("Anna leads the Acme data team."), memory.fact("Anna works at Acme.")
    assert (team["status"], team["suspect_of"]) == ("active", job["id"])
    decision = memory.decisions.filter(pl.col("action") == "suspect").row(0, named=True)
    assert (decision["subject_id"], decision["ids_in"], decision["ids_out"]) == (team["id"], [job["id"]], [team["id"]])
    assert memory.facts["suspect_of"].drop_nulls().len() == 1


@pytest.mark.parametrize(
    "other",
    [
        claim("Anna likes the Acme coffee.", relation="likes", obj="Acme coffee", at=2),
        claim("Anna joined Acme in January.", relation="joined", obj="Acme", at=2),
        claim("Anna leads the Acmeville choir.", relation="leads", obj="Acmeville choir", at=2),
        claim("Ben leads the Acme data team.", subject="Ben", relation="leads", obj="Acme data team", at=2),
        claim("Anna works part-time at Initech, next to Acme.", relation="works_at", obj="Initech", at=2),
        {**TEAM, "to": "kestrel"},
        {**TEAM, "at": 10},
    ],
)
def test_what_does_not_lean_on_it_is_left_alone(other: dict[str, Any]) -> None:
    memory = Memory()
    memory.tell(ACME, other, GLOBEX)
    assert memory.facts["suspect_of"].drop_nulls().is_empty()


def test_a_mistake_makes_suspect_even_what_would_outlive_a_change() -> None:
    badge = claim("Anna noted the number of the Acme badge.", relation="noted", at=2)
    assert told(ACME, badge).facts["suspect_of"].drop_nulls().is_empty()
    assert told(ACME, badge, then=MISTAKE).fact(badge["statement"])["suspect_of"] is not None


def test_it_is_trusted_again_when_it_is_said_after_the_end_and_not_by_what_comes_late() -> None:
    memory = told(ACME, TEAM)
    memory.tell({**TEAM, "at": 5})
    assert memory.fact(TEAM["statement"], 2)["suspect_of"] is not None
    plan = memory.tell({**TEAM, "at": 20})
    assert memory.fact(TEAM["statement"], 2)["suspect_of"] is None
    assert plan.summary() == {"reassert": 1, "trust": 1}


def test_what_was_made_of_a_retired_fact_is_suspect_and_what_followed_it_is_not() -> None:
    retired = pl.DataFrame([{"id": "a", "ended_at": day(3)}], schema=RETIRED)
    lineage = pl.DataFrame(
        [("1", "a", "b", "consolidated"), ("2", "a", "c", "conflict"), ("3", "a", "d", "dedup")],
        schema=dict(frames.LINEAGE), orient="row",
    )  # fmt: skip
    staying = frames.conform(pl.DataFrame({"id": ["b", "c"]}), frames.FACTS).select("id")
    assert find_derived(retired, lineage, staying).rows() == [("b", "a")]
