"""Truth maintenance: conflicts, their order in time, strategies, revision, what is flagged (S2-55 … S2-62, S2-75)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from messages_api import MessagesApi
from patchwork import NOW, Memory, claim, day
from talk import CLAUDE, learn, rows, said, verdict, written

from slowwave.common import frames
from slowwave.common.validity import MAX_CHAIN, successors
from slowwave.facts.revision.conflicts import is_one_domain
from slowwave.facts.revision.mutual_exclusion import Forms, exclude
from slowwave.facts.revision.revision_state import RevisionState
from slowwave.facts.revision.supersession import KNOWN

SINGLE = ("rate_limit",)


def single_valued_too(memory: Memory) -> Memory:
    """A memory that has learned of some relations that they allow one object."""
    learned = [(name, name, name, "1", "llm") for name in SINGLE]
    columns = ["id", "alias", "canonical", "cardinality", "source"]
    memory.predicates = frames.conform(pl.DataFrame(learned, schema=columns, orient="row"), frames.PREDICATES)
    return memory


def job(place: str, at: float, **more: Any) -> dict[str, Any]:
    """She works there now: that says by itself that it is new."""
    return claim(more.pop("statement", f"Anna works at {place} now."), relation="works_at", obj=place, at=at, **more)


def intervals(memory: Memory) -> list[tuple[str, str, Any, Any, str | None]]:
    """Object, status, beginning, end and the object that followed, of everything that was believed."""
    names = dict(memory.facts.select("id", "object_text").iter_rows())
    told = memory.facts.filter(pl.col("status") != "rejected").sort("valid_from", "object_text")
    columns = ("object_text", "status", "valid_from", "valid_to", "replaced_by")
    return [(o, s, a, b, names.get(r or "")) for o, s, a, b, r in told.select(columns).iter_rows()]


# --- which facts exclude each other

RETIRES = [
    ("works_at", "Anna works at Acme.", "Acme", "Anna joined Globex.", "Globex"),
    ("married_to", "Anna is married to Ben.", "Ben", "Anna married Carl in June.", "Carl"),
    ("has_manager", "Anna's manager is Ben.", "Ben", "Anna's new manager is Carl.", "Carl"),
    ("rate_limit", "It is at 100 per minute.", "100 per minute", "It is at 500 per minute.", "500 per minute"),
]  # fmt: skip
DOUBTFUL = [
    ("lives_in", "Anna lives in Oslo.", "Oslo", "Anna lives in Bergen.", "Bergen"),
    ("lives_in", "Anna lives in Oslo.", "Oslo", "Anna lives in Grünerløkka.", "Grünerløkka"),
    ("lives_in", "Anna lives in Berlin.", "Berlin", "Anna lives in Kreuzberg since it is cheap.", "Kreuzberg"),
    ("born_in", "Anna was born in Oslo.", "Oslo", "Anna was born in Bergen.", "Bergen"),
]  # fmt: skip
KEEPS = [
    ("lives_in", "Anna lives in Berlin.", "Berlin", "Anna lives in Berlin, Germany.", "Berlin, Germany"),
    ("lives_in", "Anna lives in Oslo.", "Oslo", "Anna does not live in Paris.", "Paris"),
    ("works_at", "Anna works at Acme.", "Acme", "Anna works at Acme Robotics GmbH.", "Acme Robotics GmbH"),
    ("born_in", "Anna was born in Oslo.", "Oslo", "Anna was born in 1990.", "1990"),
    ("rate_limit", "It is at 100 per minute.", "100 per minute", "It is at 5000 per hour.", "5000 per hour"),
    ("part_of", "Anna is part of Acme.", "Acme", "Anna is part of Globex.", "Globex"),
]  # fmt: skip


@pytest.mark.proof
@pytest.mark.parametrize(
    ("relation", "first", "one", "second", "other", "is_retired"),
    [*((*case, True) for case in RETIRES), *((*case, False) for case in [*KEEPS, *DOUBTFUL])],
)
def test_only_what_cannot_hold_beside_it_retires_a_fact(
    relation: str, first: str, one: str, second: str, other: str, is_retired: bool
) -> None:
    memory = single_valued_too(Memory())
    memory.tell(claim(first, relation=relation, obj=one, at=1))
    memory.tell(claim(second, relation=relation, obj=other, at=30))
    assert (memory.fact(first)["status"], memory.fact(second)["status"]) == (
        "superseded" if is_retired else "active",
        "active",
    )


@pytest.mark.proof
@pytest.mark.parametrize(("relation", "first", "one", "second", "other"), DOUBTFUL)
@pytest.mark.parametrize("times", [(1, 30), (30, 1)])
def test_what_may_hold_together_stays_and_waits_for_somebody_who_knows(
    relation: str, first: str, one: str, second: str, other: str, times: tuple[int, int]
) -> None:
    memory = single_valued_too(Memory())
    told = [claim(first, relation=relation, obj=one, at=1), claim(second, relation=relation, obj=other, at=30)]
    for each in told if times[0] < times[1] else reversed(told):
        plan = memory.tell(each)
    expected = [("implicit_conflict", "pending", NOW + timedelta(days=30), "rule")]
    assert plan.pairs.select("kind", "outcome", "expires_at", "decided_by").rows() == expected
    assert {*plan.pairs.select("a_id", "b_id").row(0)} == {*memory.facts["id"]}
    refused = plan.decisions.filter(pl.col("action") == "refuse")
    reasons = {
        "lives_in": "One may be a part of the other, and nothing says that it changed: both stay.",
        "born_in": "It never changes, so one of the two is wrong: both stay.",
    }
    assert refused["reason"].to_list() == [reasons[relation]]
    assert (memory.facts["valid_to"].null_count(), len(memory.live())) == (2, 2)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("speakers", "live"),
    [
        (("Anna", "Anna"), ["Globex"]),
        (("Anna", "Devon"), ["Acme", "Globex"]),
        (("Devon", "Devon"), ["Globex"]),
        (("Devon", "Anna"), ["Globex"]),
    ],
)
def test_nobody_else_ends_what_a_subject_said_of_itself(speakers: tuple[str, str], live: list[str]) -> None:
    for order in ((0, 1), (1, 0)):
        memory = Memory()
        told = [job("Acme", 1, speaker=speakers[0]), job("Globex", 10, speaker=speakers[1])]
        for number in order:
            memory.tell(told[number])
        assert memory.live() == [f"Anna works at {name} now." for name in live]
        assert memory.pairs.height == len(live) - 1


def test_exclusion_is_symmetrical() -> None:
    words = ["oslo", "bergen", "norway", "berlin, germany", "berlin", "nyc", "new york city", "oslo norway"]
    for one in words:
        for other in words:
            pair = Forms(frozenset({one})), Forms(frozenset({other}))
            assert exclude(*pair, ("name", "name")) == exclude(pair[1], pair[0], ("name", "name"))
            assert one != other or not exclude(*pair, ("name", "name"))
    apart = Forms(frozenset({"oslo"})), Forms(frozenset({"bergen"}))
    assert exclude(*apart, ("name", "name"))
    assert not exclude(*apart, ("name", "description"))  # "Oslo" and "a bergen" need not be of one kind


def test_a_plan_retires_nothing_until_it_is_said_to_hold() -> None:
    memory = Memory()
    memory.tell(job("Acme", 1))
    memory.tell(job("Globex", 5, statement="Anna starts at Globex on 1 March 2026.", temporal_hint="2026-03-01"))
    assert [row[1] for row in intervals(memory)] == ["active", "active"]
    memory.tell(job("Globex", 70))
    assert memory.fact("Anna works at Acme now.")["status"] == "superseded"


def test_what_is_said_in_one_message_stands_together() -> None:
    memory = Memory()
    memory.tell(job("Acme", 1, message="m"), job("Globex", 1, message="m"))
    assert len(memory.live()) == 2
    memory.tell(job("Acme", 9, message="n"), job("Initech", 9, message="n"))
    assert "Anna works at Acme now." in memory.live()


@pytest.mark.parametrize("other", [{"to": "kestrel"}, {"subject": "Ben"}])
def test_other_scopes_and_subjects_are_no_rivals(other: dict[str, Any]) -> None:
    memory = Memory()
    memory.tell(job("Acme", 1))
    memory.tell(job("Globex", 9, **other))
    assert len(memory.live()) == 2


def test_s2_60_a_relation_that_allows_several_keeps_all_of_them() -> None:
    memory = Memory()
    for tool, at in (("vim", 1), ("Postgres", 10), ("Kubernetes", 20)):
        plan = memory.tell(claim(f"Anna uses {tool} now.", relation="uses", obj=tool, at=at))
        assert plan.pairs.is_empty()
    assert len(memory.live()) == 3


# --- what becomes of them


def test_the_loser_of_a_conflict_ends_where_the_winner_begins_and_the_decision_holds_both_values() -> None:
    memory = Memory()
    memory.tell(job("Acme", 1))
    plan = memory.tell(job("Globex", 10))
    old, new = memory.fact("Anna works at Acme now."), memory.fact("Anna works at Globex now.")
    assert (old["status"], old["valid_to"], old["expired_at"], old["replaced_by"]) == (
        "superseded",
        day(10),
        NOW,
        new["id"],
    )
    assert (new["supersedes_id"], memory.valid(5)) == (old["id"], ["Anna works at Acme now."])
    assert plan.lineage.select("old_id", "new_id", "reason").rows() == [(old["id"], new["id"], "conflict")]
    decision = plan.decisions.filter(pl.col("action") == "supersede").row(0, named=True)
    seen = json.loads(decision["measures"])
    assert (seen["strategy"], seen["objects"], seen["confidence"]) == ("recency", ["Acme", "Globex"], [0.8, 0.8])
    assert (decision["ids_in"], decision["decided_by"]) == ([old["id"], new["id"]], "rule")


@pytest.mark.parametrize(
    ("strategy", "confidences", "live"),
    [
        ("recency", (0.95, 0.8), "Globex"),
        ("confidence", (0.95, 0.8), "Acme"),
        ("confidence", (0.8, 0.95), "Globex"),
    ],
)
def test_strategies(strategy: str, confidences: tuple[float, float], live: str) -> None:
    memory = Memory(revise={"strategy": strategy})
    memory.tell(job("Acme", 1, confidence=confidences[0]))
    plan = memory.tell(job("Globex", 10, confidence=confidences[1]))
    assert memory.live() == [f"Anna works at {live} now."]
    is_surer = strategy == "confidence" and confidences[0] != confidences[1]
    why = "the other one is surer." if is_surer else "the other one began later."
    assert plan.decisions.filter(pl.col("action") == "supersede")["reason"].to_list() == [
        f"Its relation allows one object at a time, and {why}"
    ]
    assert all(row[3] is None or row[3] >= row[2] for row in intervals(memory))


def test_s2_56_of_two_that_began_at_once_the_one_that_was_said_last_holds() -> None:
    memory = Memory()
    for place, at in (("Acme", 1), ("Globex", 10)):
        memory.tell(job(place, at, statement=f"Anna works at {place} since 2021.", temporal_hint="since 2021"))
    assert memory.live() == ["Anna works at Globex since 2021."]


# --- time


def test_what_is_said_later_and_began_earlier_leaves_both() -> None:
    memory = Memory()
    memory.tell(job("Acme", 10))
    plan = memory.tell(job("Globex", 20, statement="Anna has worked at Globex since 2021.", temporal_hint="since 2021"))
    assert (len(memory.live()), plan.summary()) == (2, {"create": 1, "refuse": 1})


def test_a_chain_is_cut_at_its_cap_and_the_cut_fact_still_ends() -> None:
    memory = Memory()
    told = [job(f"Depot {n}", n) for n in range(MAX_CHAIN + 3)]
    memory.tell(*told)
    assert len(memory.live()) == 1
    steps = dict(memory.facts.filter(pl.col("replaced_by").is_not_null()).select("id", "replaced_by").iter_rows())
    assert max(len(successors(start, steps)) for start in steps) == MAX_CHAIN - 1
    assert memory.decisions.filter(pl.col("action") == "refuse").height == 1


def test_s2_55_a_circle_of_replacements_is_refused() -> None:
    rows = {
        name: dict.fromkeys(KNOWN) | {"id": name, "status": "active", "is_live": True, "valid_from": day(at)}
        | {"entrenchment": "user_stated", "pinned": False, "confidence": 0.8}
        for at, name in enumerate(("Acme", "Globex", "Initech"))
    }  # fmt: skip
    acme, globex, initech = rows.values()
    state = RevisionState(NOW, rows)
    assert state.supersede(acme, globex, "conflict", "", ends=day(1))
    assert state.supersede(globex, initech, "conflict", "", ends=day(2))
    assert "circle" in state.refusal(acme, acme, initech)
    assert "circle" in state.refusal(globex, globex, initech)
    assert state.refusal(initech, initech, globex) == ""
    assert state.override_request("conflict", acme, acme, initech) == {}  # nor may a person permit it


# --- belief revision

LIKES, TIRED = "Anna enjoys the old town of Oslo.", "Anna no longer enjoys the old town of Oslo."


def about_oslo(statement: str, at: float, **more: Any) -> dict[str, Any]:
    return claim(statement, **{"relation": "enjoys", "obj": "Oslo", "at": at, **more})


def revised(second: dict[str, Any], cosine: float, **revise: Any) -> Memory:
    memory = Memory(revise={"belief_revision": True, **revise})
    memory.tell(about_oslo(LIKES, 1))
    memory.tell(second, cosines={(second["statement"], LIKES): cosine})
    return memory


def test_what_says_the_same_two_things_differently_retires_the_old_if_asked_for() -> None:
    memory = revised(about_oslo(TIRED, 9), 0.85)
    assert memory.live() == [TIRED]
    assert memory.lineage["reason"].to_list() == ["belief_revision"]
    assert revised(about_oslo(TIRED, 9), 0.99, belief_revision=False).live() == [LIKES, TIRED]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("other", "cosine"),
    [({}, 0.8499), ({"relation": "hates"}, 0.9), ({"obj": "Bergen"}, 0.9), ({"edge_type": "causal"}, 0.9),
     ({"to": "kestrel"}, 0.9)],
)  # fmt: skip
def test_revision_needs_the_pair_the_domain_the_type_and_the_cosine(other: dict[str, Any], cosine: float) -> None:
    assert len(revised(about_oslo(TIRED, 9, **other), cosine).live()) == 2


def test_reinforcement_comes_first() -> None:
    again = "Anna enjoys old town of Oslo."
    memory = revised(about_oslo(again, 9), 0.86)
    assert memory.live() == [LIKES]
    assert (memory.fact(LIKES)["evidence_count"], memory.fact(again)["status"]) == (2, "rejected")
    numbers = "Anna enjoys the 3 old town of Oslo."
    assert revised(about_oslo(numbers, 9), 0.99).live() == [numbers]


@pytest.mark.parametrize(
    ("a", "b", "one"),
    [
        ("use", "uses", True),
        ("works_at", "works_on", True),
        ("", "uses", False),
        ("abcd", "abxy", True),
        ("abcde", "abxyz", False),
    ],
)
def test_a_domain_is_equal_inside_or_half_alike(a: str, b: str, one: bool) -> None:
    assert is_one_domain(a, b) == is_one_domain(b, a) == one


# --- implicit conflicts


def test_relations_spelt_almost_alike_are_flagged_for_some_days_and_nothing_else() -> None:
    told = [claim("Anna responds to Ben.", relation="responds_to", obj="Ben", at=1)]
    more = [
        claim("Anna respond to Carl.", relation="respond_to", obj="Carl", at=2),
        claim("Anna respects Carl.", relation="respects", obj="Carl", at=2),
        claim("Anna codes daily.", relation="codes", obj="daily", at=2),
        claim("Anna nodes weekly.", relation="nodes", obj="weekly", at=2),  # four letters of five are the same
        claim("Anna responds to Acme.", relation="responds_to", obj="Acme", at=2),
    ]
    memory = Memory(revise={"implicit_conflicts": True})
    memory.tell(*told)
    plan = memory.tell(*more)
    rows_ = plan.pairs.select("kind", "outcome", "at", "expires_at", "decided_by").unique().rows()
    assert rows_ == [("implicit_conflict", "pending", NOW, NOW + timedelta(days=30), "rule")]
    odd, codes, nodes = (memory.fact(f"Anna {it}.")["id"] for it in ("respond to Carl", "codes daily", "nodes weekly"))
    pairs = plan.pairs.select("a_id", "b_id").rows()
    assert (min(codes, nodes), max(codes, nodes)) in pairs
    assert all(odd in pair for pair in pairs if not {*pair} & {codes, nodes})
    unasked = Memory()
    unasked.tell(*told)
    assert unasked.tell(*more).pairs.is_empty()
    assert (plan.pairs.height, (plan.pairs["a_id"] < plan.pairs["b_id"]).all(), len(memory.live())) == (3, True, 6)


# --- through the flow

JOBS = (
    ("2026-01-05", "I work at Acme as the data lead, and I like the people."),
    ("2026-03-05", "I work at Globex now, the commute is short."),
    ("2026-05-05", "I work at Acme again, they asked me back."),
)


def at(when: str) -> datetime:
    return datetime.fromisoformat(when).replace(tzinfo=UTC)


def heard(store: Path) -> list[tuple[Any, ...]]:
    found = rows(store, "facts", "predicate = 'works_at' AND status != 'rejected'").sort("valid_from")
    dates = [pl.col(name).dt.date().cast(pl.String) for name in ("valid_from", "valid_to")]
    return found.select("object_text", "status", *dates).rows()


def ask_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, **how: Any) -> tuple[Path, int]:
    """Two runs, the second with a model that gives every pair this verdict; the store and how often it was asked."""
    store = tmp_path / "m"
    learn(written(tmp_path / "a.jsonl", said([("Ben", JOBS[0][1])], "c1", at(JOBS[0][0]))), store)
    talk = written(tmp_path / "b.jsonl", said([("Ben", JOBS[1][1])], "c2", at(JOBS[1][0])))
    llm = {"model": CLAUDE, "extract_model": "quotes", "transient_retries": 0, "validation_retries": 0}
    with MessagesApi(lambda request: verdict(request, kind)) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        learn(talk, store, llm=llm, **how)
        return store, len(api.requests)


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "states"), [("updates", ["superseded", "active"]), ("unrelated", ["active"] * 2)])
@pytest.mark.usefixtures("reads_relations")
def test_a_model_that_is_to_decide_is_asked_by_ingest_and_its_verdict_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, states: list[str]
) -> None:
    store, asked = ask_model(tmp_path, monkeypatch, kind, revise={"strategy": "llm"})
    assert asked == 1
    assert [(o, s) for o, s, *_ in heard(store)] == list(zip(("Acme", "Globex"), states, strict=True))
    flags = rows(store, "pair_decisions", "kind = 'implicit_conflict'").select("outcome", "decided_by").rows()
    assert flags == [("supersede" if kind == "updates" else "keep_all", "model")]


@pytest.mark.proof
@pytest.mark.parametrize("consolidate", [{"ask_model": False}, {"enabled": False}])
@pytest.mark.usefixtures("reads_relations")
def test_a_model_that_may_not_be_asked_leaves_it_to_recency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consolidate: dict[str, Any]
) -> None:
    how = {"revise": {"strategy": "llm"}, "consolidate": consolidate}
    store, asked = ask_model(tmp_path, monkeypatch, "unrelated", **how)
    assert asked == 0
    assert [(o, s) for o, s, *_ in heard(store)] == [("Acme", "superseded"), ("Globex", "active")]
