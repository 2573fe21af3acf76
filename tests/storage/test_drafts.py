"""Drafts: what belongs together waits together, what is risky is seen, and what is approved holds from then on."""

from __future__ import annotations

import shutil
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import NOW, START, learn, rows, said, say_yes, written
from test_review import ANA, IDS, T1, T2, T3, drafted, made, run_at

from recall.proposals import list_proposals
from slowwave.common.settings import ApprovalSettings
from slowwave.integrations.python_api import OpenMemory
from slowwave.review.changes import RowChange, decoded, encoded, hash_of, repeat_key
from slowwave.review.proposals import NODES, TIES, Proposing, group_rows, risks_of
from storage.store import Store
from tasks.people.review import approve, reject
from tasks.runtime.runs import existing_run, store_of
from tasks.runtime.writing import proposing

__all__ = ["made"]  # the store of test_review, made once for this file

ROWS = "abcdefgh"


@pytest.fixture
def memory(made: Path, tmp_path: Path) -> Path:
    """A copy of the store with five observations of Marta."""
    return Path(shutil.copytree(made, tmp_path / "memory"))


def _reached(speaking: set[str], ties: list[tuple[str, str]]) -> set[frozenset[str]]:
    """The same by walking: what is connected with a row that speaks."""
    near = defaultdict(set)
    for a, b in ties:
        near[a].add(b)
        near[b].add(a)
    groups = set()
    for start in speaking:
        seen, todo = {start}, [start]
        while todo:
            fresh = near[todo.pop()] - seen
            seen |= fresh
            todo += fresh
        groups.add(frozenset(seen))
    return groups


@given(
    speaking=st.sets(st.sampled_from(ROWS)),
    ties=st.lists(st.tuples(st.sampled_from(ROWS), st.sampled_from(ROWS)), max_size=10),
)
def test_groups_are_what_hangs_together_with_something_that_speaks(
    speaking: set[str], ties: list[tuple[str, str]]
) -> None:
    nodes = pl.DataFrame({"row": list(ROWS), "speaks": [row in speaking for row in ROWS]}, schema=NODES)
    found = group_rows(nodes, pl.DataFrame(ties, schema=TIES, orient="row"))
    groups = {frozenset(part["row"]) for part in found.partition_by("group")} if len(found) else set()
    assert groups == _reached(speaking, ties)
    assert found["row"].n_unique() == len(found)


STATED, INFERRED = "user_stated", "system_inferred"
GONE = {"was": "active", "becomes": "superseded", "entrenchment": STATED, "winner": INFERRED}
BYSTANDER = {"was": "active", "becomes": "active", "entrenchment": STATED}
LEARNED = {"was": "candidate", "becomes": "active", "entrenchment": INFERRED}
TEXTS, BOOLEANS = ("was", "becomes", "entrenchment", "winner", "source"), ("moves", "pinned")
CHANGED = {"group": pl.UInt32} | dict.fromkeys(TEXTS, pl.String) | dict.fromkeys(BOOLEANS, pl.Boolean)


@pytest.mark.parametrize(
    ("facts", "risks"),
    [
        ([LEARNED], []),
        ([GONE, LEARNED, BYSTANDER], ["override", "user_stated"]),
        ([GONE | {"winner": STATED}, BYSTANDER], ["user_stated"]),
        ([GONE | {"becomes": "retracted", "winner": None}, LEARNED], ["override", "user_stated"]),
        ([GONE | {"becomes": "retracted", "winner": None}, LEARNED | {"entrenchment": STATED}], ["user_stated"]),
        ([GONE | {"becomes": "archived", "winner": None, "entrenchment": INFERRED, "pinned": True}], ["pinned"]),
        ([GONE | {"entrenchment": INFERRED}] * 3, ["large"]),
        ([{"was": "active", "becomes": "active", "moves": True}] * 3, ["large"]),
        ([{"was": "superseded", "becomes": None}], ["erasure"]),
        ([LEARNED | {"source": "s1"}, LEARNED | {"source": "s2"}], ["cross_source"]),
    ],
)
def test_risks_are_read_off_the_rows(facts: list[dict[str, object]], risks: list[str]) -> None:
    frame = pl.DataFrame([{"group": 0, **row} for row in facts], schema=CHANGED)
    assert risks_of(frame, ApprovalSettings(large=3))["risks"].to_list() == [risks]


def test_a_plan_says_the_same_whenever_it_is_made() -> None:
    def plan(now: object) -> list[RowChange]:
        return [
            RowChange(
                "facts", "f_1", {"status": "active", "expired_at": None}, {"status": "archived", "expired_at": now}
            )
        ]

    assert repeat_key("delete", plan(T1)) == repeat_key("delete", plan(T3))
    assert encoded(plan(T1), T1) == encoded(plan(T3), T3)
    assert decoded(encoded(plan(T1), T1))[0].after == {"status": "archived", "expired_at": "@now"}
    assert hash_of({"f_1": ["active"], "facts f_9": None}) == hash_of({"f_1": ["active"]})
    assert hash_of({"f_1": ["active"]}) != hash_of({"f_1": ["archived"]})


def test_what_was_approved_is_known_from_then_on(tmp_path: Path) -> None:
    talk = written(tmp_path / "talk.jsonl", said([("Marta", "I live in Lisbon.")]))
    learn(talk, tmp_path / "m", approval={"mode": "manual"}, now=NOW)
    say_yes(tmp_path / "m", now=NOW + timedelta(days=3))
    with OpenMemory.open(str(tmp_path / "m"), is_logged=False) as asked:
        then = {
            day: asked.recall("Where does Marta live?", known_as_of=NOW + timedelta(days=day)).facts for day in (1, 4)
        }
    assert (len(then[1]), len(then[4])) == (0, 1)
    assert then[4][0].valid_from is not None
    assert then[4][0].valid_from < START + timedelta(days=1)


@pytest.mark.proof
def test_what_a_person_was_asked_about_is_no_evidence_before_they_said_yes(tmp_path: Path) -> None:
    line = [("Marta", "We decided to use Redis Streams because the server is already there and Tomás can run it.")]
    store = tmp_path / "m"
    learn(written(tmp_path / "1.jsonl", said(line)), store)
    for number in (2, 3):
        learn(written(tmp_path / f"{number}.jsonl", said(line, f"c{number}")), store, approval={"mode": "manual"})
    first, second = list_proposals(Store.open(str(store)).snapshot())
    assert not {row.id for row in first.changes if row.is_new} & {row.id for row in second.changes if row.is_new}
    reject(existing_run("review", str(store), "default", NOW), [first.id], ANA)
    learn(written(tmp_path / "4.jsonl", said([("Devon", "I prefer rooibos tea.")], "c4")), store)
    told = set(rows(store, "fact_evidence")["id"])
    assert not {row.id for row in first.changes if row.table == "fact_evidence"} & told
    say_yes(store)
    assert {row.id for row in second.changes if row.table == "fact_evidence"} <= set(rows(store, "fact_evidence")["id"])


@pytest.mark.proof
def test_a_fact_that_has_run_out_meanwhile_makes_a_plan_stale(memory: Path) -> None:
    run = run_at(memory, T1, "end")
    with store_of(run).commit(run.id, "end", run.now) as tx:
        whole = tx.by_ids("facts", [IDS[2]], with_vector=True)
        tx.upsert("facts", whole.with_columns(valid_to=pl.lit(T2, dtype=whole.schema["valid_to"])))
    found = drafted(memory, 1, replaced_by=IDS[2], status="superseded")
    (done,) = approve(run_at(memory, T3), [found.id], ANA)
    assert done.state == "stale"


def test_rows_that_only_move_keep_their_stamps(memory: Path) -> None:
    run = proposing(run_at(memory, T1, "decay"), Proposing("decay"))
    before = rows(memory, "facts", f"id = '{IDS[2]}'")
    with store_of(run).commit(run.id, "decay.facts", run.now) as tx:
        moving = tx.by_ids("facts", [IDS[2]], with_vector=True)
        tx.put_back("facts_archive", moving)
        tx.delete("facts", [IDS[2]])
    (found,) = list_proposals(store_of(run).snapshot(), action="decay")
    (done,) = approve(run_at(memory, T3), [found.id], ANA)
    assert done.state == "applied"
    assert rows(memory, "facts_archive", f"id = '{IDS[2]}'").equals(before)
