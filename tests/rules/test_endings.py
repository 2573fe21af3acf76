"""What verdicts end: the older fact, when the newer began or was said, in whatever order they come (S2-14, S1-22)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import polars as pl
import pytest

from slowwave.common import frames
from slowwave.facts.deduplication.pairs_for_a_model import JudgedPair
from slowwave.facts.deduplication.reconciliation_plan import Endings, end_by_verdicts
from slowwave.facts.revision.application import Surroundings

T0 = datetime(2026, 1, 1, 9, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    return T0 + timedelta(days=number)


def fact(id_: str, said: float, **more: Any) -> dict[str, Any]:
    """A live fact about Ana, said on a day, from which it holds unless `since` says otherwise."""
    row = {
        "id": id_, "kind": "relation", "subject_id": "e_ana", "predicate": "lives_in", "object_text": id_,
        "statement": f"Ana lives in {id_}.", "scope": "global", "polarity": "affirmed", "status": "active",
        "valid_from": day(more.pop("since", said)), "entrenchment": "user_stated", "pinned": False,
        "message_id": f"m_{id_}", "said": said, "again": more.pop("again", None), **more,
    }  # fmt: skip
    return row


def near(*facts: dict[str, Any]) -> Surroundings:
    said = [
        (f"v_{each['id']}_{kind}", each["id"], day(each[kind]))
        for each in facts
        for kind in ("said", "again")
        if each[kind] is not None
    ]
    evidence = pl.DataFrame(said, schema=["id", "fact_id", "occurred_at"], orient="row")
    rows = pl.DataFrame(facts, infer_schema_length=None).drop("said", "again")
    return Surroundings(frames.conform(rows, frames.FACTS), frames.conform(evidence, frames.FACT_EVIDENCE))


def ended(around: Surroundings, *judged: JudgedPair, roots: dict[str, str] | None = None) -> Endings:
    return end_by_verdicts(judged, roots or {}, around, "some/model", NOW)


def closed(found: Endings) -> dict[str, tuple[str, datetime]]:
    rows = found.supersessions.facts.select("id", "replaced_by", "valid_to").iter_rows()
    return {id_: (by, until) for id_, by, until in rows}


@pytest.mark.parametrize(("said", "until"), [(1, 7), (8, 9)])  # what began before the older was said ends it when told
def test_what_is_updated_ends_when_the_newer_began_or_was_told(said: int, until: int) -> None:
    found = ended(near(fact("Oslo", said), fact("Bergen", 9, since=7)), JudgedPair("Oslo", "Bergen", "updates"))
    assert closed(found) == {"Oslo": ("Bergen", day(until))}
    assert found.supersessions.lineage["reason"].to_list() == ["temporal_change"]
    assert found.clashes == frozenset()


def test_nobody_is_born_twice_an_update_of_it_is_a_correction() -> None:
    born = {"predicate": "born_in"}
    found = ended(near(fact("Oslo", 1, **born), fact("Bergen", 9, **born)), JudgedPair("Oslo", "Bergen", "updates"))
    assert found.supersessions.lineage["reason"].to_list() == ["correction"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_verdicts_come_each_state_ends_with_the_next(order: tuple[int, ...]) -> None:
    verdicts = [JudgedPair(a, b, "updates") for a, b in (("Oslo", "Bergen"), ("Oslo", "Porto"), ("Bergen", "Porto"))]
    found = ended(near(fact("Oslo", 1), fact("Bergen", 9), fact("Porto", 20)), *(verdicts[n] for n in order))
    assert closed(found) == {"Oslo": ("Bergen", day(9)), "Bergen": ("Porto", day(20))}


def test_an_absorbed_fact_stands_for_its_survivor() -> None:
    around = near(fact("Oslo", 1), fact("Oslo town", 2), fact("Bergen", 9))
    found = ended(around, JudgedPair("Oslo", "Bergen", "updates"), roots={"Oslo": "Oslo town"})
    assert closed(found) == {"Oslo town": ("Bergen", day(9))}
    both = {"Oslo": "Oslo town", "Bergen": "Oslo town"}
    assert closed(ended(around, JudgedPair("Oslo", "Bergen", "updates"), roots=both)) == {}


def test_what_a_survivor_said_again_since_clashes_and_is_not_closed() -> None:
    around = near(fact("Oslo", 1), fact("Oslo town", 2, again=15), fact("Bergen", 9))
    found = ended(around, JudgedPair("Oslo", "Bergen", "updates"), roots={"Oslo": "Oslo town"})
    assert (closed(found), found.clashes) == ({}, {("Bergen", "Oslo town")})
    assert [(each["action"], each["model"]) for each in found.decisions] == [("contradict", "some/model")]


@pytest.mark.parametrize(
    ("old", "new"),
    [({"pinned": True}, {}), ({"entrenchment": "user_axiom"}, {}), ({}, {"entrenchment": "system_inferred"})],
)
def test_s1_22_what_rank_protects_clashes_and_a_person_can_be_asked(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = ended(near(fact("Oslo", 1, **old), fact("Bergen", 9, **new)), JudgedPair("Oslo", "Bergen", "corrects"))
    assert (closed(found), found.clashes) == ({}, {("Bergen", "Oslo")})
    (refused,) = found.decisions
    assert (refused["action"], refused["decided_by"], "would" in str(refused["measures"])) == ("refuse", "rule", True)


def test_a_clash_is_told_by_a_model_and_closes_nothing() -> None:
    found = ended(near(fact("Oslo", 1), fact("Bergen", 9)), JudgedPair("Oslo", "Bergen", "contradicts"))
    assert (closed(found), found.clashes) == ({}, {("Bergen", "Oslo")})
    assert [(each["action"], each["model"]) for each in found.decisions] == [("contradict", "some/model")]
