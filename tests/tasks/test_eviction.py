"""Eviction: what moves out of the way, what never does, and that nobody who asks about the past notices."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from stores import entity as an_entity
from stores import observation
from talk import START, assert_same, contents, learn, rows, said, written

from recall.overview import stats
from recall.proposals import list_proposals
from slowwave.common import frames
from slowwave.common.errors import UndoRefused
from slowwave.common.settings import DEFAULT_EMBEDDER, ApprovalSettings, DecaySettings, IngestSettings
from slowwave.common.validity import STATUSES, valid_facts
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.pruning_and_eviction import deletable
from slowwave.review.proposals import Person
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.entities.retirement import delete_facts, plan_purge
from tasks.nightly.eviction import archive_facts, archive_orphans, cap_beliefs, cap_entities
from tasks.people.observations import observe, retire
from tasks.people.review import approve
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, existing_run, new_run
from tasks.runtime.writing import under_approval

Row = dict[str, Any]
NOW = EPOCH + timedelta(days=400)
MOVED, ARCHIVED = "facts moved to the archive", "entities archived"
QUIET = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def fact(key: str, subject: str | None = "e_ana", **more: Any) -> Row:
    """A live relation of Ana's."""
    about = {"kind": "relation", "subject_id": subject, "owner_entity_id": subject, "message_id": None, **more}
    return observation(key, f"says {key}", **about)


def over(key: str, days: float = 200, status: str = "archived", **more: Any) -> Row:
    """A fact that the store stopped believing so many days ago."""
    return fact(key, **{"status": status, "status_reason": "pruned", "expired_at": ago(days), **more})


def entity(key: str, days: float = 200, **more: Any) -> Row:
    """An entity that was last seen so many days ago."""
    return an_entity(key.removeprefix("e_"), **{"id": key, "entity_type": "tool", "last_seen_at": ago(days), **more})


def a_run(uri: Path, now: datetime = NOW, name: str = "decay-1") -> Run:
    run = existing_run("decay", str(uri), "default", now)
    return Run(name, run.flow, run.store, run.namespace, run.now, run.embedder, run.retention)


def how(**more: Any) -> DecaySettings:
    return DecaySettings.model_validate(more)


def ids(uri: Path, table: str, where: str | None = None) -> list[str]:
    return rows(uri, table, where, ["id"])["id"].to_list()


def everything(uri: Path) -> pl.DataFrame:
    """All facts wherever they lie, to the last stamp."""
    snapshot = Store.open(str(uri)).snapshot()
    parts = [pl.DataFrame(pl.from_arrow(snapshot.handle(name).to_arrow())) for name in ("facts", "facts_archive")]
    return pl.concat(parts).sort("id")


def decided(uri: Path, action: str) -> dict[str, str]:
    told = rows(uri, "decisions", f"action = '{action}'", ["id", "subject_id", "reason"])
    return dict(told.select("subject_id", "reason").iter_rows())


@st.composite
def some_facts(draw: st.DrawFn) -> Row:
    key = f"f_{draw(st.integers(0, 10**9)):09d}"
    status = draw(st.sampled_from(STATUSES))
    expired = draw(st.one_of(st.none(), st.sampled_from([10.0, 89.0, 90.0, 90.001, 91.0, 300.0])))
    return fact(
        key,
        subject=draw(st.sampled_from(["e_ana", "e_pin"])),
        status=status,
        expired_at=None if expired is None or status in ("candidate", "active") else ago(expired),
        valid_to=draw(st.sampled_from([None, ago(350), ago(1)])),
        kind=draw(st.sampled_from(["relation", "observation", "structural", "similarity", None])),
        pinned=draw(st.sampled_from([None, False, True])),
        entrenchment=draw(st.sampled_from([None, "user_stated", "user_axiom"])),
    )


def may_move(row: Row) -> bool:
    """What S2-51 says, row by row."""
    since = row.get("expired_at") or (EPOCH if row["status"] == "rejected" else None)
    is_free = not row.get("pinned") and row.get("entrenchment") != "user_axiom" and row["subject_id"] != "e_pin"
    is_over = row["status"] not in ("candidate", "active") and since is not None and since < ago(90)
    return is_over and is_free and row["kind"] not in ("structural", "similarity")


ONE_CONDITION_EACH = [
    over("f_over"), over("f_edge", 90.0), over("f_past_edge", 90.001), over("f_lately", 10.0, valid_to=ago(350)),
    over("f_superseded", status="superseded", valid_to=ago(1)), over("f_pinned", pinned=True),
    over("f_axiom", entrenchment="user_axiom"), over("f_structure", kind="structural"),
    over("f_alike", kind="similarity"), over("f_of_a_pin", subject="e_pin"),
    over("f_rejected", status="rejected", expired_at=None), fact("f_live"), fact("f_ended", valid_to=ago(350)),
    fact("f_waits", status="candidate"), fact("f_unknown", status="archived"),
]  # fmt: skip


@pytest.mark.proof
@QUIET
@example(ONE_CONDITION_EACH)
@given(st.lists(some_facts(), min_size=1, max_size=40, unique_by=lambda row: row["id"]))
def test_what_is_over_long_enough_moves_as_it_is_and_nothing_else_ever_does(
    keep: Callable[..., Path], facts: list[Row]
) -> None:
    uri = keep(facts=facts, entities=[entity("e_ana"), entity("e_pin", pinned=True)])
    before, moving = everything(uri), sorted(row["id"] for row in facts if may_move(row))
    done = archive_facts(a_run(uri), how())
    assert (done.counts.get(MOVED, 0), ids(uri, "facts_archive")) == (len(moving), moving)
    assert everything(uri).equals(before)
    commits = Store.open(str(uri)).head.sequence
    assert archive_facts(a_run(uri, name="decay-2"), how()) == TaskResult()
    assert Store.open(str(uri)).head.sequence == commits


QUESTIONS = ("Where does Devon work?",)
MOMENTS = [START + timedelta(days=n) for n in (1, 45)]


def answers(uri: Path) -> dict[str, Any]:
    """All that the read road says about the past and the present of a store."""
    told: dict[str, Any] = {}
    with OpenMemory.open(str(uri), is_logged=False) as memory:
        for question in QUESTIONS:
            for when in ({}, *({kind: at} for kind in ("as_of", "known_as_of") for at in MOMENTS)):
                # so many that no tail is cut: there a fact that is over takes the place of one that is not
                told[f"{question} {when}"] = memory.recall(question, k=200, now=LATER, **when).facts
        for one in memory.entities(2)[1]:
            told[one.name] = memory.facts_of(one.name, everything=True, now=LATER)
            told[f"{one.name} was"] = [memory.facts_of(one.name, as_of=at, now=LATER) for at in MOMENTS]
            told[f"{one.name} around"] = memory.neighbours(one.name, as_of=MOMENTS[0], now=LATER)
            told[f"{one.name} since"] = memory.history(one.name, now=LATER)
        retired = everything(uri).filter(pl.col("status") == "superseded")
        for row in retired[:: max(1, len(retired) // 2)].iter_rows(named=True):
            told[row["id"]] = memory.why(row["id"]).as_json()
            told[f"{row['id']} chain"] = memory.chain(row["id"], now=LATER).as_json()
            told[row["message_id"]] = memory.why(row["message_id"]).as_json()
    told["stats"] = {key: value for key, value in stats(Store.open(str(uri)), LATER).items() if key != "commits"}
    return told


LATER = datetime(2027, 3, 1, tzinfo=START.tzinfo)
CHANGE = (
    ("Devon", "I live in Porto."),
    ("Devon", "I moved from Porto to Lisbon."),
    ("Devon", "I switched from vim to neovim."),
)


@pytest.fixture(scope="module")
def moved(
    learned: tuple[Path, dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, dict[str, pl.DataFrame]]:
    """A store that has read the examples, before and after all that is over was moved; and its tables before."""
    folder = tmp_path_factory.mktemp("moved")
    before, after = folder / "before", folder / "after"
    shutil.copytree(learned[0], before)
    shutil.copytree(before, after)
    held = contents(after)
    assert archive_facts(a_run(after, LATER), how()).counts[MOVED] > 20
    return before, after, held


@pytest.mark.proof
def test_nobody_who_asks_notices_that_facts_were_moved(
    moved: tuple[Path, Path, dict[str, pl.DataFrame]],
) -> None:
    before, after, _ = moved
    was, now = answers(before), answers(after)
    assert was.keys() == now.keys()
    assert [name for name in was if was[name] != now[name]] == []
    assert {"rejected"} <= {*rows(after, "facts_archive", None, ["status"])["status"]}
    assert examine(Store.open(str(after))) == ()


@pytest.mark.proof
def test_undo_of_a_move_brings_every_row_back_and_an_earlier_run_waits_for_it(
    moved: tuple[Path, Path, dict[str, pl.DataFrame]], tmp_path: Path
) -> None:
    uri = Path(shutil.copytree(moved[1], tmp_path / "copy"))
    store = Store.open(str(uri))
    first = store.commits().filter(pl.col("kind") == "ingest.apply")["run_id"][0]
    with pytest.raises(UndoRefused, match="decay-1"):
        undo(store, first, "undo-0", LATER)
    undo(store, "decay-1", "undo-1", LATER)
    assert_same(contents(uri), moved[2])
    undo(store, "undo-1", "undo-2", LATER)
    assert {"decay-1", first} <= {*undo(store, first, "undo-3", LATER, cascade=True).runs}
    assert ids(uri, "facts") == ids(uri, "facts_archive") == []
    assert examine(store) == ()


@pytest.mark.proof
@pytest.mark.usefixtures("reads_relations")
def test_what_is_said_again_is_heard_in_the_archive_as_among_the_facts_in_use(tmp_path: Path) -> None:
    stays, moves = tmp_path / "stays", tmp_path / "moves"
    learn(written(tmp_path / "a.jsonl", said(CHANGE)), stays)
    shutil.copytree(stays, moves)
    assert archive_facts(a_run(moves, LATER), how()).counts[MOVED] == 1
    late = [("Devon", "I live in Porto."), ("Ana", "I live in Oslo."), ("Devon", "I moved from Lisbon to Faro.")]
    told = [*said(late[:2], "c2", START + timedelta(seconds=10)), *said(late[2:], "c3", START + timedelta(days=9))]
    for uri in (stays, moves):
        learn(written(tmp_path / "b.jsonl", told), uri, now=LATER)
    columns = [name for name in everything(stays).columns if name not in ("created_at", "updated_at", "run_id")]
    assert everything(moves).select(columns).equals(everything(stays).select(columns))
    assert rows(moves, "fact_evidence", None, ["id"]).equals(rows(stays, "fact_evidence", None, ["id"]))
    assert "Devon lives in Porto." in {*rows(moves, "facts_archive", "evidence_count = 2")["statement"]}


HANGING: Mapping[str, Sequence[Row]] = {
    "messages": [{"id": "m", "message_id": "m", "conversation_id": "c"}],
    "fact_evidence": [{"id": f"v_{n}", "fact_id": f"f_{n}", "message_id": "m"} for n in ("gone", "live")],
    "fact_aspects": [{"id": "a", "fact_id": "f_gone", "slug": "work"}],
    "fact_directives": [{"id": "d", "candidate_id": "f_gone", "action": "retract"}],
    "lineage": [{"id": "l", "old_id": "f_gone", "new_id": "f_live", "reason": "dedup"}],
    "pair_decisions": [{"id": "p", "a_id": "f_gone", "b_id": "f_live", "kind": "redundant", "outcome": "supersede"}],
    "fact_usage": [
        {"id": "f_gone", "hit_count": 3, "cosine_sum": 1.5, "cosine_count": 3, "link_count": 2.0},
        {"id": "f_live", "hit_count": 1, "cosine_sum": 0.5, "cosine_count": 1, "link_count": 1.0},
    ],
    "fact_scores": [{"id": "f_gone", "quality_score": 0.1}],
    "artifacts": [{"id": "art", "title": "notes", "linked_fact_ids": ["f_gone", "f_live"]}],
    "entities": [entity("e_ana")],
}


@pytest.mark.proof
def test_a_fact_that_goes_for_good_takes_all_that_hangs_on_it_and_undo_brings_it_back(
    keep: Callable[..., Path],
) -> None:
    facts = [
        fact("f_live", supersedes_id="f_gone", similar_to_id="f_gone", similarity_flag=True, similarity_score=0.9),
        over("f_gone", replaced_by="f_live", status="superseded", supersedes_id="f_kept"),
        over("f_kept", replaced_by="f_gone2", status="superseded", days=10),
        over("f_gone2", replaced_by="f_live", status="superseded"),
    ]
    uri = keep(facts=facts, **HANGING)
    before = contents(uri)
    with Store.open(str(uri)).commit("decay-1", "purge", NOW) as tx:
        purge = plan_purge(tx, pl.Series("id", ["f_gone", "f_gone2"]))
        delete_facts(tx, purge, purge.ids)
    assert ids(uri, "facts") == ["f_gone2", "f_kept", "f_live"]  # what a staying fact was replaced by stays with it
    live = rows(uri, "facts", "id = 'f_live'").row(0, named=True)
    assert (live["supersedes_id"], live["similar_to_id"], live["similarity_flag"]) == (None, None, False)
    for name in ("fact_aspects", "fact_directives", "lineage", "pair_decisions", "fact_scores"):
        assert ids(uri, name) == [], name
    assert ids(uri, "fact_evidence") == ["v_live"]
    used = rows(uri, "fact_usage").select("id", "hit_count", "cosine_sum", "cosine_count", "link_count").rows()
    assert used == [("f_live", 4, 2.0, 4, 3.0)]
    assert rows(uri, "artifacts")["linked_fact_ids"].to_list() == [["f_live"]]
    assert examine(Store.open(str(uri))) == ()
    undo(Store.open(str(uri)), "decay-1", "undo-1", NOW)
    assert_same(contents(uri), before)


@given(st.data())
def test_deleting_what_nothing_needs_changes_no_answer_about_what_stays(data: st.DataObject) -> None:
    days = st.integers(0, 20).map(lambda n: EPOCH + timedelta(days=n))
    names = [f"f{n}" for n in range(data.draw(st.integers(1, 7)))]
    facts = pl.DataFrame(
        [
            {
                "id": name, "status": data.draw(st.sampled_from(["active", "superseded", "retracted", "archived"])),
                "valid_from": data.draw(days), "valid_to": data.draw(st.one_of(st.none(), days)),
                "replaced_by": data.draw(st.sampled_from([None, *names])),
            }
            for name in names
        ],
        schema={"id": pl.String, "status": pl.String, "valid_from": frames.TIME, "valid_to": frames.TIME}
        | {"replaced_by": pl.String},
    )  # fmt: skip
    wanted = pl.Series("id", data.draw(st.lists(st.sampled_from(names), unique=True)), dtype=pl.String)
    gone = deletable(wanted, facts.drop_nulls("replaced_by").select("id", "replaced_by"))
    left = facts.filter(~pl.col("id").is_in(gone.implode()))
    assert set(gone) <= set(wanted)
    moment = data.draw(days)
    staying = valid_facts(facts, moment).join(left, on="id", how="semi")
    assert valid_facts(left, moment)["id"].to_list() == staying["id"].to_list()


def test_an_entity_of_which_anything_is_known_is_no_orphan(keep: Callable[..., Path]) -> None:
    facts = [
        fact("f_1", "e_seen", kind="observation"), fact("f_2", "e_other", object_id="e_object"),
        fact("f_3", "e_other", owner_entity_id="e_owner"), fact("f_4", "e_waits", status="candidate"),
        fact("f_5", "e_other", mentions=["e_named"]),
    ]  # fmt: skip
    people = [entity(key) for key in ("e_seen", "e_object", "e_owner", "e_waits", "e_guessed", "e_named")]
    kept = [
        entity("e_other", 1), entity("e_pinned", pinned=True), entity("e_part", parent_entity_id="e_other"),
        entity("e_whole"), entity("e_bit", 1, parent_entity_id="e_whole"), entity("e_recent", 90),
        entity("e_paused", status="paused"),
    ]  # fmt: skip
    belief = {"id": "b", "subject_id": "e_other", "object_id": "e_guessed", "probability": 0.5}
    uri = keep(facts=facts, entities=[*people, *kept], pending_beliefs=[belief])
    assert archive_orphans(a_run(uri), how()) == TaskResult()


def test_orphans_are_archived_and_leave_the_lists_but_not_the_store(keep: Callable[..., Path]) -> None:
    past = [over("f_1", subject="e_gone"), fact("f_2", "e_gone", valid_to=ago(1))]
    alike = fact("f_3", "e_like", object_id="e_ana", kind="similarity")
    people = [entity("e_gone"), entity("e_like"), entity("e_ana", 1)]
    uri = keep(facts=[*past, alike], entities=people)
    before = contents(uri)
    done = archive_orphans(a_run(uri), how())
    assert (done.counts[ARCHIVED], [each.statement for each in done.decisions]) == (2, ["Gone", "Like"])
    assert ids(uri, "entities", "status = 'archived'") == ["e_gone", "e_like"]
    assert decided(uri, "archive").keys() == {"e_gone", "e_like"}
    with OpenMemory.open(str(uri), is_logged=False) as memory:
        assert [one.id for one in memory.entities()[1]] == ["e_ana"]
        assert memory.entities(everything=True)[0] == 3
        assert memory.facts_of("gone", everything=True, now=NOW)[0].id == "e_gone"
    assert stats(Store.open(str(uri)), NOW)["entities"] == 1
    assert archive_orphans(a_run(uri, name="decay-2"), how()) == TaskResult()
    undo(Store.open(str(uri)), "decay-1", "undo-1", NOW)
    assert_same(contents(uri), before)


def test_an_entity_was_last_seen_when_something_was_last_stated_of_it(tmp_path: Path) -> None:
    uri = tmp_path / "stated"

    def run(name: str, days: float) -> Run:
        return new_run(name, str(uri), "default", DEFAULT_EMBEDDER, ago(days))

    observe(run("observe-1", 200), "Ferry", ["The ferry runs at night."], IngestSettings(), create=True)
    added = observe(run("observe-2", 10), "Ferry", ["The crew has nine people."], IngestSettings())
    with OpenMemory.open(str(uri), is_logged=False) as memory:
        assert (memory.entities()[1][0].last_seen_at, memory.facts_of("Ferry")[0].last_seen_at) == (ago(10), ago(10))
    retire(run("retire-1", 9), added.entity_id, ids(uri, "facts"))
    assert archive_orphans(a_run(uri), how()) == TaskResult()
    done = archive_orphans(a_run(uri, NOW + timedelta(days=81), "decay-2"), how())
    assert [each.statement for each in done.decisions] == ["Ferry"]


def test_what_a_person_approved_was_stated_when_it_was_said(keep: Callable[..., Path]) -> None:
    said = {"status": "retracted", "created_at": ago(10), "owner_entity_id": "e_ferry", "patch_batch_id": "p"}
    uri = keep(facts=[fact("f_1", "e_ferry", **said)], entities=[entity("e_ferry")])
    assert archive_orphans(a_run(uri), how()) == TaskResult()
    talked = keep(facts=[fact("f_1", "e_ferry", episode_id="ep", **said)], entities=[entity("e_ferry")])
    assert archive_orphans(a_run(talked), how()).counts[ARCHIVED] == 1


@pytest.mark.proof
@pytest.mark.usefixtures("reads_relations")
def test_an_archived_entity_comes_back_with_the_next_mention(tmp_path: Path) -> None:
    uri = tmp_path / "m"
    learn(written(tmp_path / "a.jsonl", said(CHANGE)), uri)
    with Store.open(str(uri)).commit("gone", "made", START) as tx:
        facts, people = tx.frame("facts"), tx.frame("entities")
        tx.upsert("facts", facts.with_columns(status=pl.lit("archived"), expired_at=pl.lit(START)))
        tx.upsert("entities", people)
    known = ids(uri, "entities")
    assert archive_orphans(a_run(uri, LATER), how()).counts[ARCHIVED] == len(known)
    learn(written(tmp_path / "b.jsonl", said([("Devon", "I live in Lisbon.")], "c2", LATER)), uri, now=LATER)
    back = set(rows(uri, "entities", "status = 'active'")["canonical_name"])
    assert {"devon", "lisbon"} <= back
    assert len(back) < len(known)
    assert ids(uri, "entities") == known
    assert len(decided(uri, "revive")) == len(back)


@pytest.mark.proof
def test_the_cap_takes_the_least_related_and_counts_each_relation_once_for_each_end(keep: Callable[..., Path]) -> None:
    facts = [
        fact("f_1", "e_a", object_id="e_a"), fact("f_2", "e_b", object_id="e_c"), fact("f_3", "e_c", object_id="e_b"),
        fact("f_4", "e_d", kind="observation"), fact("f_5", "e_d", kind="observation"),
        fact("f_6", "e_e", object_id="e_b", kind="similarity"), over("f_7", subject="e_e"),
    ]  # fmt: skip
    people = [entity("e_a", 1), entity("e_b"), entity("e_c"), entity("e_d", 5), entity("e_e", 9), entity("e_z", 5)]
    uri = keep(facts=facts, entities=people)
    before = contents(uri)
    assert cap_entities(a_run(uri), how()) == cap_entities(a_run(uri), how(max_entities=6)) == TaskResult()
    done = cap_entities(a_run(uri), how(max_entities=2))
    # relations: a 1, b 2, c 2, d 0, e 0, z 0; seen longest ago first, then by id
    assert [each.statement for each in done.decisions] == ["E", "D", "Z", "A"]
    assert done.counts == {ARCHIVED: 4, "facts archived": 3}
    assert ids(uri, "entities", "status = 'active'") == ["e_b", "e_c"]
    gone = rows(uri, "facts", "status_reason = 'evicted'").select("id", "status", "expired_at").rows()
    assert gone == [(key, "archived", NOW) for key in ("f_1", "f_4", "f_5")]
    assert decided(uri, "archive").keys() == {"e_a", "e_d", "e_e", "e_z", "f_1", "f_4", "f_5"}
    assert '"relations":1' in rows(uri, "decisions", "subject_id = 'f_1'")["measures"][0]
    assert cap_entities(a_run(uri, name="decay-2"), how(max_entities=2)) == TaskResult()
    undo(Store.open(str(uri)), "decay-1", "undo-1", NOW)
    assert_same(contents(uri), before)


def belief(key: str, subject: str, probability: float, days: float) -> Row:
    return {
        "id": key, "subject_id": subject, "predicate": "uses", "statement": key, "probability": probability,
        "first_at": ago(days), "last_at": ago(days),
    }  # fmt: skip


@pytest.mark.proof
def test_too_many_beliefs_go_with_their_evidence_and_conflicts_end_with_their_time(keep: Callable[..., Path]) -> None:
    beliefs = [
        belief("b_faded", "e_ana", 0.7, 300), belief("b_sure", "e_ana", 0.6, 1), belief("b_weak", "e_ana", 0.5, 1),
        belief("b_old", "e_bo", 0.8, 200), belief("b_new", "e_bo", 0.4, 2),
        {**belief("b_fact", "e_ana", 0.1, 300), "promoted_at": EPOCH},
    ]  # fmt: skip
    pair = {"a_id": "f_1", "b_id": "f_2", "kind": "implicit_conflict", "outcome": "pending"}
    pairs = [
        {"id": "p_past", **pair, "expires_at": NOW}, {"id": "p_open", **pair, "expires_at": ago(-1)},
        {"id": "p_kept", **pair, "outcome": "keep_all", "expires_at": ago(9)},
    ]  # fmt: skip
    uri = keep(
        facts=[fact("f_1"), fact("f_2")], entities=[entity("e_ana"), entity("e_bo")], pending_beliefs=beliefs,
        belief_evidence=[{"id": f"h_{b['id']}", "belief_id": b["id"], "message_id": "m"} for b in beliefs],
        pair_decisions=pairs,
    )  # fmt: skip
    caps = how(beliefs={"max_per_group": 2, "max_pending": 3, "decay_rate": 0.01})
    before = contents(uri)
    done = cap_beliefs(a_run(uri), caps)
    # after 300 days .7 is .175: the least of three about Ana; of the four that are left the oldest goes
    assert done.counts == {"beliefs dropped": 2, "conflicts expired": 1}
    left = ["b_fact", "b_new", "b_sure", "b_weak"]
    assert ids(uri, "pending_beliefs") == left
    assert ids(uri, "belief_evidence") == [f"h_{key}" for key in left]
    assert ids(uri, "pair_decisions") == ["p_kept", "p_open"]
    assert decided(uri, "evict").keys() == {"b_faded", "b_old"}
    assert decided(uri, "expire").keys() == {"p_past"}
    assert cap_beliefs(a_run(uri, name="decay-2"), caps) == TaskResult()
    undo(Store.open(str(uri)), "decay-1", "undo-1", NOW)
    assert_same(contents(uri), before)


@pytest.mark.proof
def test_a_dry_run_says_what_would_go_and_changes_nothing(keep: Callable[..., Path]) -> None:
    uri = keep(
        facts=[over("f_1"), fact("f_2", "e_bo")],
        entities=[entity("e_ana"), entity("e_bo"), entity("e_cy", 1)],
        pending_beliefs=[belief("b_1", "e_bo", 0.5, 9), belief("b_2", "e_bo", 0.5, 8)],
    )
    chosen = how(max_entities=1, beliefs={"max_pending": 1})
    for evict in (archive_facts, archive_orphans, cap_entities, cap_beliefs):
        head = Store.open(str(uri)).head.sequence
        planned = evict(a_run(uri), chosen, dry_run=True)
        assert Store.open(str(uri)).head.sequence == head
        assert planned == evict(a_run(uri), chosen)
        assert planned.counts, evict.fn.__name__
        assert planned.decisions


# What waits for a person


def asked(uri: Path, **approval: Any) -> Run:
    """A run by which everything that moves waits, or with `mode` only what is always a person's."""
    settings = ApprovalSettings.model_validate(approval)
    return under_approval(a_run(uri), "decay", settings, require="mode" not in approval)


def titles(uri: Path) -> list[str]:
    return sorted(each.title for each in list_proposals(Store.open(str(uri)).snapshot()))


def decide(uri: Path, act: Callable[..., Any] = approve) -> Run:
    run = existing_run("review", str(uri), "default", NOW)
    act(run, [each.id for each in list_proposals(Store.open(str(uri)).snapshot())], Person("Ana", "python"))
    return run
