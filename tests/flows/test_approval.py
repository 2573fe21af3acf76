"""What a person decides: what rank refused, and everything where that is required."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from patchwork import Memory, claim
from talk import STAMPS, START, assert_same, contents, learn, rows, said, written
from test_consolidate import APART, NOW, TEA, consolidated, numbered, remembered

from flows.nights import sleep
from recall.proposals import Proposal, list_proposals
from slowwave.common.settings import (
    IngestSettings,
    ReviseSettings,
    SleepSettings,
)
from slowwave.facts.revision.application import Surroundings
from slowwave.review.overrides import OverrideRows, plan_overrides, refused_by_rank
from slowwave.review.proposals import Person
from storage.store import Store
from storage.undo import undo
from tasks.nightly.overrides import propose_overrides
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


def change(place: Path, fact_id: str, **values: pl.Expr) -> None:
    store = Store.open(str(place))
    with store.commit("other-1", "test", NOW) as tx:
        tx.upsert("facts", tx.by_ids("facts", [fact_id], with_vector=True).with_columns(**values))


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
    assert (told["state"], told["counts"]["consolidate: changes proposed"]) == ("completed", 2)
    assert "2 changes wait for a person" in told["notes"][-1]
    assert "consolidate: facts merged" not in told["counts"]
    again = consolidated(place, require_approval=True)
    assert ("changes proposed" not in again["counts"], len(waiting(place, None))) == (True, 2)
    assert consolidated(free)["counts"]["facts merged"] == 3
    said_yes = approve(review(place), sorted(each.id for each in waiting(place)), ANA)
    assert {each.state for each in said_yes} == {"applied"}
    assert_same(what_it_says(place), what_it_says(free))
