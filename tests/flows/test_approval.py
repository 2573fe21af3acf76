"""What a person decides: pairs that a guard kept apart, what rank refused, and everything where that is required."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patchwork import Memory, claim
from talk import STAMPS, START, assert_same, contents, learn, rows, said, written
from test_consolidate import APART, LATE, NOW, TEA, consolidated, fact, live, numbered, remembered

from flows.nights import sleep
from recall.proposals import Proposal, list_proposals
from slowwave.common import frames
from slowwave.common.settings import (
    ConsolidateSettings,
    IngestSettings,
    MergeSettings,
    ReviseSettings,
    SleepSettings,
)
from slowwave.common.text import row_id
from slowwave.facts.deduplication.duplicates import CandidateSet, Merges
from slowwave.facts.deduplication.pairs_for_a_model import JudgedPair
from slowwave.facts.deduplication.reconciliation_plan import plan_reconciliation
from slowwave.facts.revision.application import Surroundings
from slowwave.review import open_questions
from slowwave.review.open_questions import (
    OverrideRows,
    open_pairs,
    plan_open_pairs,
    plan_overrides,
    refused_by_rank,
)
from slowwave.review.proposals import Person
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.nightly.open_questions import propose_overrides
from tasks.people.review import approve, reject
from tasks.runtime.runs import Run, existing_run

ANA = Person("ana", "python")
SAYS = ("facts", "fact_evidence", "fact_aspects", "lineage", "entities")
LOOKED_AT = (*STAMPS, "consolidated_at")
SAME = "Marta keeps the keys of the boat house in a blue tin"
Fact = dict[str, Any]


def waiting(place: Path, state: str | None = "pending") -> tuple[Proposal, ...]:
    return list_proposals(Store.open(str(place)).snapshot(), state)


def review(place: Path) -> Run:
    return existing_run("review", str(place), "default", NOW)


def what_it_says(place: Path, tables: Sequence[str] = SAYS) -> dict[str, pl.DataFrame]:
    """The rows that make up what memory says, without what the night notes down for itself."""
    found = contents(place, drop=LOOKED_AT)
    return {name: found[name] for name in tables}


@pytest.fixture(scope="module")
def facts_known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three spellings of a fact, two that differ in a number, two that deny each other, and a twin."""
    told = [*numbered(TEA), *numbered(APART, 3, subject="Gateway"), *numbered([SAME, SAME], 7)]
    return remembered(tmp_path_factory.mktemp("approval") / "m", told)


@pytest.fixture
def place(facts_known: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(facts_known, tmp_path / "m"))


# What a guard kept apart


@pytest.mark.proof
def test_a_pair_that_a_guard_kept_apart_is_put_to_a_person_once_and_a_yes_can_be_undone(place: Path) -> None:
    summary = consolidated(place)
    (found,) = waiting(place)
    assert (found.action, found.title) == (
        "merge",
        f"Merge “{APART[1]}” into “{APART[0]}”? They differ in a number.",
    )
    assert "They differ in a number." in found.reason
    assert summary["counts"]["changes proposed"] == 1
    assert found.title in [row["fact"] for row in summary["decisions"]]
    assert not [row for row in summary["decisions"] if row["decision"] == "wait" and APART[0] in row["fact"]]
    assert {*APART} <= {*live(place)}
    before = contents(place)
    assert "changes proposed" not in consolidated(place)["counts"]
    assert_same(contents(place), before)
    run = review(place)
    (done,) = approve(run, [found.id], ANA)
    assert done.state == "applied"
    kept, gone = (rows(place, "facts", f"id = '{id_}'").row(0, named=True) for id_ in ("f_0003", "f_0004"))
    assert (gone["status"], gone["replaced_by"], gone["valid_to"], gone["expired_at"]) == (
        "superseded", "f_0003", None, NOW,
    )  # fmt: skip
    assert (kept["status"], kept["evidence_count"], kept["supersedes_id"]) == ("active", 2, "f_0004")
    (pair,) = rows(place, "pair_decisions", "decided_by = 'person'").to_dicts()
    (told,) = rows(place, "decisions", "decided_by = 'person' AND action = 'absorb'").to_dicts()
    assert pair["outcome"] == "supersede"
    assert (told["approved_by"], told["ids_out"]) == ("ana", ["f_0003", "f_0004"])
    assert examine(Store.open(str(place))) == ()
    undo(Store.open(str(place)), run.id, "undo-1", NOW)
    assert_same(contents(place), before)


def change(place: Path, fact_id: str, **values: pl.Expr) -> None:
    store = Store.open(str(place))
    with store.commit("other-1", "test", NOW) as tx:
        tx.upsert("facts", tx.by_ids("facts", [fact_id], with_vector=True).with_columns(**values))


def known(*facts: Fact) -> pl.DataFrame:
    schema = {**frames.FACTS, "created_at": frames.TIME}
    told = [{**row, "created_at": row["valid_from"], "subject": None} for row in facts]
    return frames.conform(pl.DataFrame(told, infer_schema_length=None).drop("subject"), schema)


def pair(a: str, b: str, cosine: float = 0.95, guard: str | None = "quantity", **more: Any) -> Fact:
    return {
        "id": row_id("pd", a, b, "redundant"), "a_id": a, "b_id": b, "kind": "redundant", "outcome": "pending",
        "cosine": cosine, "jaccard": 0.8, "guard": guard, "decided_by": "rule", "prompt_version": "", **more,
    }  # fmt: skip


def pairs(*given_rows: Fact) -> pl.DataFrame:
    return frames.conform(pl.DataFrame(given_rows, infer_schema_length=None), frames.PAIR_DECISIONS)


def relation(number: int, obj: str, **more: Any) -> Fact:
    return fact("Marta leads the team in Lisbon.", number, kind="relation", predicate="leads", object_text=obj, **more)


@pytest.mark.parametrize(
    ("a", "b", "row"),
    [
        (fact("It runs.", 0), fact("It runs.", 1, subject="Devon"), pair("f_0000", "f_0001")),
        (fact("It runs.", 0), fact("It runs.", 1, polarity="negated"), pair("f_0000", "f_0001")),
        (relation(0, "the team"), relation(1, "Lisbon"), pair("f_0000", "f_0001", guard="identity")),
        (fact("It runs.", 0), fact("It runs.", 1), pair("f_0000", "f_0001", cosine=0.87)),
        (fact("It runs.", 0), fact("It runs.", 1), pair("f_0000", "f_0001", guard="likeness")),
        (fact("It runs.", 0), fact("It runs.", 1), pair("f_0000", "f_0001", outcome="keep_all")),
        (fact("Ana's boat has 3 oars.", 0), fact("Bea's boat has 4 oars.", 1), pair("f_0000", "f_0001")),
        (fact("He owns 3 oars.", 0), fact("She owns 3 oars.", 1), pair("f_0000", "f_0001", guard="person")),
    ],
)
def test_what_cannot_be_one_thing_is_put_to_nobody(a: Fact, b: Fact, row: Fact) -> None:
    assert open_pairs(pairs(row), known(a, b), frozenset(), ConsolidateSettings()).is_empty()


EIGHT = known(*numbered([f"It runs {n} times." for n in range(8)]))
ENDS = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda two: two[0] < two[1])


@given(
    met=st.dictionaries(ENDS, st.integers(80, 100), min_size=1),
    busy=st.frozensets(st.integers(0, 7), max_size=3),
    limit=st.integers(0, 3),
)
def test_no_fact_is_asked_about_twice_and_the_nearest_come_first(
    met: dict[tuple[int, int], int], busy: frozenset[int], limit: int
) -> None:
    rows_ = [pair(f"f_{a:04d}", f"f_{b:04d}", cosine / 100) for (a, b), cosine in met.items()]
    taken = frozenset(f"f_{n:04d}" for n in busy)
    with patch.object(open_questions, "PAIRS_AT_A_TIME", limit):
        found = open_pairs(pairs(*rows_), EIGHT, taken, ConsolidateSettings())
    ends = [*found["a_id"], *found["b_id"]]
    assert len(found) <= limit
    assert len(ends) == len({*ends})
    assert not taken & {*ends}
    assert found["cosine"].to_list() == sorted(found["cosine"], reverse=True)
    if len(found) < limit:  # whatever else is near has a fact that is busy
        left = [row for row in rows_ if row["cosine"] >= 0.88 and row["a_id"] not in ends]
        assert all({row["a_id"], row["b_id"]} & {*ends, *taken} for row in left)


def test_a_yes_writes_what_a_models_verdict_would_have_written() -> None:
    both = known(fact("Devon has a small dog.", 0, evidence_count=2), fact("Devon has a little dog.", 1))
    heard = [
        {"id": f"v_{n}", "fact_id": f"f_000{n}", "message_id": f"m_000{n}", "occurred_at": LATE, "confidence": 0.8}
        for n in (0, 1)
    ]  # fmt: skip
    evidence = frames.conform(pl.DataFrame(heard), frames.FACT_EVIDENCE)
    met = pairs(pair("f_0000", "f_0001", guard="word"))
    aspects = frames.empty(frames.FACT_ASPECTS)
    asked = plan_open_pairs(open_pairs(met, both, frozenset(), ConsolidateSettings()), both, evidence, aspects, NOW)
    said_so = JudgedPair("f_0000", "f_0001", "same", 1)
    pool = CandidateSet(
        both.with_columns(is_seed=pl.lit(True)), met.select("a_id", "b_id", "cosine", "jaccard"), met, "v1"
    )
    told = plan_reconciliation(
        pool, Merges(), [said_so], evidence, aspects, MergeSettings(), prompt_version="v1", model="m",
        now=NOW, marks=False,
    )  # fmt: skip
    assert len(asked.lineage) == 1
    for name in ("facts", "evidence", "lineage", "aspects"):
        assert getattr(asked, name).equals(getattr(told, name)), name


# What rank refused


def job(company: str, at: float, **more: Any) -> Fact:
    return claim(f"Anna works at {company} now.", relation="works_at", obj=company, at=at, **more)


VIM = claim("Anna uses vim.", obj="vim", at=1, by="assistant")
CHANGES: dict[str, tuple[Fact, Fact]] = {
    "replaced": (VIM, claim("Anna uses neovim.", obj="neovim", at=20, by="assistant", resolves=[{"object": "vim"}])),
    "ended": (VIM, claim("Anna gave up vim.", relation="gave_up", obj="vim", at=20, by="assistant", ended=True)),
    "mistaken": (
        VIM,
        claim(
            "Anna never used vim.", relation="denies", at=20, by="assistant",
            resolves=[{"object": "vim", "action": "retract", "reason": "correction"}],
        ),
    ),
    "contradicted": (job("Acme", 1, by="assistant"), job("Globex", 20, by="assistant")),
}  # fmt: skip
STRONG: dict[str, tuple[str, Any]] = {
    "stated": ("entrenchment", "user_stated"),
    "axiom": ("entrenchment", "user_axiom"),
    "pinned": ("pinned", True),
}
ENDED = ["statement", "status", "status_reason", "valid_to", "expired_at", "replaced_by", "supersedes_id"]


def overruled(memory: Memory, decisions: pl.DataFrame | None = None) -> OverrideRows:
    refused = refused_by_rank(memory.decisions if decisions is None else decisions)
    near = Surroundings(memory.facts, memory.evidence, entities=memory.entities(), aliases=memory.aliases)
    return plan_overrides(refused, near, ReviseSettings(), memory.now)


def keep(memory: Memory, plan: OverrideRows) -> None:
    for name in ("facts", "lineage", "decisions"):
        merged = pl.concat([getattr(memory, name), getattr(plan, name)], how="diagonal")
        setattr(memory, name, merged.unique("id", keep="last", maintain_order=True))


@pytest.mark.proof
@pytest.mark.parametrize(
    ("change_", "strong", "asked"),
    [
        ("replaced", "stated", "Replace “Anna uses vim.” by “Anna uses neovim.”? The old one was stated by a person, "),
        ("replaced", "axiom", "Replace “Anna uses vim.” by “Anna uses neovim.”? The old one is an axiom."),
        ("ended", "pinned", "End “Anna uses vim.”, as “Anna gave up vim.” says? The old one is pinned."),
        ("mistaken", "stated", "Take “Anna uses vim.” back, because of “Anna never used vim.”? The old one was stated"),
        ("contradicted", "pinned", "Replace “Anna works at Acme now.” by “Anna works at Globex now.”? The old one is"),
    ],
)
def test_a_yes_does_what_application_would_have_done_but_for_rank(change_: str, strong: str, asked: str) -> None:
    old, new = CHANGES[change_]
    column, value = STRONG[strong]
    free, memory = Memory(), Memory()
    for one in (free, memory):
        one.tell(old)
    memory.facts = memory.facts.with_columns(pl.lit(value).alias(column))
    for one in (free, memory):
        one.tell(new)
    assert len(memory.live()) == 2
    plan = overruled(memory)
    (told,) = plan.titles
    assert told.title.startswith(asked)
    assert told.risks == (() if strong == "pinned" else ("override",))
    keep(memory, plan)
    by_id = [one.facts.sort("id").select("id", *ENDED) for one in (memory, free)]
    assert by_id[0].equals(by_id[1])
    assert memory.lineage.sort("id").equals(free.lineage.sort("id"))
    assert set(plan.decisions["decided_by"]) == {"person"}
    assert overruled(memory).titles == ()  # both hold no more


HOME = [("Devon", "I live in Porto."), ("Devon", "I work at Ferrywise.")]
MOVED = [("Devon", "I moved from Porto to Lisbon in April 2026."), ("Devon", "I no longer work at Ferrywise.")]


@pytest.mark.proof
@pytest.mark.usefixtures("reads_relations")
def test_a_pinned_fact_that_is_contradicted_stays_until_a_person_says_yes(tmp_path: Path) -> None:
    place = tmp_path / "m"
    second = written(tmp_path / "b.jsonl", said(MOVED, "c2", START + timedelta(days=60)))
    learn(written(tmp_path / "a.jsonl", said(HOME)), place)
    for id_ in rows(place, "facts")["id"]:
        change(place, id_, pinned=pl.lit(True))
    told = learn(second, place)
    assert told["counts"]["changes proposed"] == len(waiting(place)) == 2
    assert all(each.action == "override" and "is pinned" in each.title for each in waiting(place))
    assert len(rows(place, "facts", "status = 'active'")) == 4
    before, run = contents(place), review(place)
    no, yes = sorted(waiting(place), key=lambda each: each.title)  # End …, Replace …
    approve(run, [yes.id], ANA)
    reject(run, [no.id], ANA)
    assert len(rows(place, "facts", "status = 'superseded'")) == 1
    assert propose_overrides(existing_run("ingest", str(place), "default", NOW), IngestSettings()) == 0
    assert {each.state for each in waiting(place, None)} == {"applied", "rejected"}
    undo(Store.open(str(place)), run.id, "undo-1", NOW)
    assert_same(contents(place), before)


# Where a person has to approve everything


def recalled(place: Path) -> None:
    """Somebody recalled something, so that the steward has learned enough."""
    store = Store.open(str(place))
    event = {"id": "r_1", "fact_id": "f_0005", "cosine": 0.5, "rank": 1, "query_hash": "q", "at": NOW}
    store.append("retrieval_events", pl.DataFrame([event]))


@pytest.mark.proof
def test_a_night_in_which_all_waits_goes_through_and_after_a_yes_it_is_as_if_nothing_had_waited(
    place: Path, tmp_path: Path
) -> None:
    recalled(place)
    free, before = Path(shutil.copytree(place, tmp_path / "free")), what_it_says(place)
    chosen = SleepSettings.model_validate({"steward": {"learning_events": 1}, "gate": {"enabled": False}})
    told = asyncio.run(sleep(store=str(place), settings=chosen, now=NOW, require_approval=True))
    assert_same(what_it_says(place), before)
    assert (told["state"], told["counts"]["consolidate: changes proposed"]) == ("completed", 3)
    assert "3 changes wait for a person" in told["notes"][-1]
    assert "consolidate: facts merged" not in told["counts"]
    again = consolidated(place, require_approval=True)
    assert ("changes proposed" not in again["counts"], len(waiting(place, None))) == (True, 3)
    assert consolidated(free)["counts"]["facts merged"] == 3
    (guarded,) = (each.id for each in waiting(place) if "differ" in each.title)
    said_yes = approve(review(place), sorted({each.id for each in waiting(place)} - {guarded}), ANA)
    assert {each.state for each in said_yes} == {"applied"}
    assert_same(what_it_says(place), what_it_says(free))
