"""A split in a store: found, proposed, carried out as a whole or not at all, and taken back (S0-07 … S0-16, T33)."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import command
from stores import observation
from talk import NOW, START, assert_same, contents, rows

from inference.embedding import open_embedder
from recall.graphs import graph_of
from recall.proposals import list_proposals, proposal_named
from recall.report import analyze_split, duplicates_of, find_split_candidates, scan_entities, suggest_split
from slowwave.common import frames
from slowwave.common.errors import Refused, SlowwaveError, UnknownName, UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER, SplitSettings
from slowwave.common.text import row_id
from slowwave.entities.mentions import new_id
from slowwave.integrations.python_api import OpenMemory
from slowwave.review.proposals import Person
from slowwave.review.split_plan import SplitPart
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.nightly.groups import refreshed_aspects
from tasks.people.review import decide, propose, propose_split, reject
from tasks.runtime.runs import Counts, Run, new_run, recorded

SEAT = open_embedder(DEFAULT_EMBEDDER)
ATLAS, REDIS, SMALL = (
    new_id(name, kind) for name, kind in (("atlas", "session"), ("redis", "tool"), ("small", "session"))
)
EVE = Person("Eve", "terminal")
EACH = SplitSettings()
CACHE = [f"Atlas warms the redis cache, step {n}" for n in range(7)]
BOOT = [f"Atlas boots the kernel late, step {n}" for n in range(6)]
ALONE = ["Atlas has a logo of brass", "Atlas was named by a cartographer", "Atlas meets on Tuesdays"]


def fact(statement: str, way: int, owner: str = ATLAS, **more: Any) -> dict[str, Any]:
    """A live observation whose vector points along an axis, with a little of its own."""
    vector = np.zeros(SEAT.dims)
    vector[way], vector[100 + len(statement) % 50] = 1.0, 0.1
    about = {
        "predicate": "observed", "edge_type": "semantic", "confidence": 0.9, "message_id": row_id("m", statement),
        "consolidated_at": START, "similarity_flag": way == 1, "vector": (vector / np.linalg.norm(vector)).tolist(),
        **more,
    }  # fmt: skip
    return observation("f_" + row_id("1", statement)[2:], statement, START + timedelta(hours=way), owner, **about)


USES = "Atlas uses Redis for everything"
OBSERVED = [fact(text, 0) for text in CACHE] + [fact(text, 1) for text in BOOT]
OBSERVED += [fact(text, 10 + n) for n, text in enumerate(ALONE)]
OBSERVED += [fact(USES, 0, kind="relation", predicate="uses", object_id=REDIS, object_text="Redis")]
UNCOUNTED = [
    fact("Atlas ran on steam", 0, status="superseded", expired_at=START, replaced_by=OBSERVED[0]["id"]),
    fact("Atlas may fly", 0, status="candidate"),
    fact("Atlas was small", 0, valid_to=START + timedelta(days=1)),
    fact("Atlas is like Redis", 0, kind="similarity", predicate="similar_to", object_id=REDIS),
    fact("Small is beautiful", 3, owner=SMALL),
]
IDS = {each["statement"]: each["id"] for each in [*OBSERVED, *UNCOUNTED]}
CHILDREN = ("Atlas - Redis Cache", "Atlas - Boots Kernel")


def entity(id_: str, name: str, kind: str) -> dict[str, Any]:
    return {"id": id_, "canonical_name": name.lower(), "name": name, "entity_type": kind, "status": "active",
            "first_seen_at": START, "last_seen_at": START, "pinned": False,
            "vector": SEAT.embed([name.lower()])[0].tolist()}  # fmt: skip


def fill(store: Store) -> None:
    """A session that holds 17 observations, of which two topics are clearly apart."""
    told = [*OBSERVED, *UNCOUNTED]
    vector = pl.Array(pl.Float32, SEAT.dims)
    facts = frames.conform(pl.DataFrame(told, infer_schema_length=None), frames.FACTS).cast({"vector": vector})
    known = [entity(ATLAS, "Atlas", "session"), entity(REDIS, "Redis", "tool"), entity(SMALL, "Small", "session")]
    called = [("a1", "atlas", "session", ATLAS), ("a2", "the titan", "session", ATLAS), ("a3", "redis", "tool", REDIS)]
    messages = facts.select(
        "message_id", id="message_id", conversation_id=pl.lit("c"), ordinal=pl.int_range(pl.len(), dtype=pl.Int64),
        role=pl.lit("user"), speaker=pl.lit("Eve"), content="statement", search_text="statement",
        occurred_at="valid_from", scope=pl.lit("global"), has_injection=pl.lit(False), graph_state=pl.lit("done"),
        attempts=pl.lit(0),
    )  # fmt: skip
    evidence = facts.select("message_id", id=pl.col("id").str.replace("f_", "fe_"), fact_id="id", quote="statement",
                            confidence="confidence", occurred_at="valid_from")  # fmt: skip
    with store.commit("made", "test", START) as tx:
        tx.upsert("entities", pl.DataFrame(known).cast({"vector": vector}))
        tx.upsert("entity_aliases", pl.DataFrame(called, schema=dict(frames.ALIASES), orient="row"))
        tx.upsert("messages", messages)
        tx.upsert("facts", facts.with_columns(embed_model=pl.lit(SEAT.name)))
        tx.upsert("fact_evidence", evidence)
        tx.upsert("fact_usage", pl.DataFrame({"id": [OBSERVED[0]["id"]], "hit_count": [7]}))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store before anything is split; only to be looked at and copied."""
    uri = tmp_path_factory.mktemp("split") / "m"
    fill(Store.create(str(uri), "default", (SEAT.name, SEAT.dims)))
    return uri


@pytest.fixture(scope="module")
def parted(template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run, Any]:
    """The store after its split was executed, the run and what it told; only to be looked at and copied."""
    store = Path(shutil.copytree(template, tmp_path_factory.mktemp("parted") / "m"))
    propose(run_of(store, "split-propose"), "Atlas", EACH)
    run = run_of(store)
    return store, run, execute(run)


@pytest.fixture
def store(template: Path, tmp_path: Path) -> Path:
    """A copy of the store before anything is split, to be changed."""
    return Path(shutil.copytree(template, tmp_path / "m"))


@pytest.fixture
def parted_store(parted: tuple[Path, Run, Any], tmp_path: Path) -> Path:
    """A copy of the store after the split, to be changed."""
    return Path(shutil.copytree(parted[0], tmp_path / "m"))


def run_of(store: Path, flow: str = "split", now: datetime = NOW) -> Run:
    return new_run(flow, str(store), "default", DEFAULT_EMBEDDER, now)


def execute(run: Run) -> dict[str, str]:
    """Approve what waits; the names of the new entities by id."""
    (waiting,) = list_proposals(Store.open(run.store).snapshot())
    (done,) = decide(run, [waiting.id], "approve", EVE)
    if done.state != "applied":
        raise Refused(done.outcome, "")
    changes = proposal_named(Store.open(run.store).snapshot(), done.id).changes
    return {each.id: str((each.after or {})["name"]) for each in changes if each.table == "entities" and each.is_new}


def snapshot(store: Path) -> Any:
    return Store.open(str(store)).snapshot()


def row(store: Path, name: str) -> dict[str, Any]:
    return rows(store, "entities", f"name = '{name}'").row(0, named=True)


def whole(*splits: tuple[str, list[str]]) -> list[SplitPart]:
    return [SplitPart(name, "", tuple(IDS.get(text, text) for text in texts)) for name, texts in splits]


def later(store: Path, statement: str = "Atlas grew once more") -> None:
    """Somebody learns one more thing of Atlas."""
    made = pl.DataFrame([fact(statement, 50)], infer_schema_length=None)
    with Store.open(str(store)).commit("later", "test", NOW) as tx:
        tx.upsert("facts", frames.conform(made, frames.FACTS).cast({"vector": pl.Array(pl.Float32, SEAT.dims)}))


# Scan, analyze, suggest


def test_only_live_observations_count_and_topics_are_looked_for_beyond_the_threshold(template: Path) -> None:
    found = scan_entities(snapshot(template), EACH, NOW)
    seen = {each["name"]: each for each in found.iter_rows(named=True)}
    assert list(seen) == ["Atlas", "Small"]
    atlas, small = seen["Atlas"], seen["Small"]
    assert (atlas["count"], atlas["threshold"], atlas["n_apart"], atlas["is_candidate"]) == (17, 15, 2, True)
    assert atlas["split_score"] == pytest.approx(17 / 15 + 5 / 17)
    assert [len(topic["ids"]) for topic in atlas["topics"]] == [8, 6, 1, 1, 1]
    assert (small["count"], small["topics"], small["is_candidate"], small["split_score"]) == (1, [], False, 1 / 15)
    assert [each["entity_name"] for each in find_split_candidates(snapshot(template), EACH, NOW)] == ["Atlas"]
    lax = SplitSettings(thresholds={"Sesion": 17})
    assert scan_entities(snapshot(template), lax, NOW)["is_candidate"].to_list() == [False, False]


def test_an_analysis_names_the_topics_with_what_they_hold(template: Path) -> None:
    told = analyze_split(snapshot(template), EACH, NOW, "the titan")
    assert (told["entity_name"], told["entity_type"], told["observation_count"], told["threshold"]) == (
        "Atlas", "session", 17, 15,
    )  # fmt: skip
    assert told["needs_split"] is True
    assert set(told["topics"]["Redis Cache"]) == {*CACHE, USES}
    assert set(told["topics"]["Boots Kernel"]) == {*BOOT}
    with pytest.raises(UnknownName, match="Nobody"):
        analyze_split(snapshot(template), EACH, NOW, "Nobody")
    small = analyze_split(snapshot(template), EACH, NOW, "Small")
    assert (small["topics"], small["needs_split"]) == ({}, False)


def test_a_suggestion_leaves_what_is_alone_on_the_parent_and_names_what_it_would_create(template: Path) -> None:
    told = suggest_split(snapshot(template), EACH, NOW, "Atlas").as_json()
    plan = told["proposal"]
    assert [(each["name"], each["entity_type"], len(each["observations"])) for each in plan["suggested_splits"]] == [
        (CHILDREN[0], "session", 8), (CHILDREN[1], "session", 6),
    ]  # fmt: skip
    assert {"id": IDS[BOOT[0]], "content": BOOT[0]} in plan["suggested_splits"][1]["observations"]
    assert plan["relations_to_create"][:2] == [
        {"from": "Atlas", "relation_type": "contains", "to": CHILDREN[0]},
        {"from": CHILDREN[0], "relation_type": "part_of", "to": "Atlas"},
    ]
    assert len(plan["relations_to_create"]) == 4
    assert plan["analysis"]["original_observations_remaining"] == 3
    none = suggest_split(snapshot(template), EACH, NOW, "Small").as_json()
    assert none["proposal"] is None
    assert "need not be split" in none["message"]


def test_what_is_nearly_full_is_split_early_if_its_topics_are_clearly_apart(template: Path) -> None:
    early = suggest_split(snapshot(template), SplitSettings(thresholds={"session": 21}), NOW, "Atlas")
    assert (early.analysis["needs_split"], len(early.splits)) == (False, 2)
    assert early.analysis["split_score"] == round(early.analysis["observation_count"] / 21, 4)
    not_yet = suggest_split(snapshot(template), SplitSettings(thresholds={"session": 22}), NOW, "Atlas")
    assert not_yet.splits == ()
    alike = suggest_split(snapshot(template), SplitSettings(min_topic_size=7), NOW, "Atlas")
    assert (alike.splits, "not of several topics" in alike.message) == ((), True)


@pytest.mark.proof
def test_a_suggested_name_is_free_and_the_hash_follows_what_is_known(store: Path) -> None:
    first = suggest_split(snapshot(store), EACH, NOW, "Atlas").analysis["plan_hash"]
    with Store.open(str(store)).commit("named", "test", NOW) as tx:
        tx.upsert("entity_aliases", pl.DataFrame([("a9", CHILDREN[0].lower(), "tool", REDIS)],
                                                 schema=dict(frames.ALIASES), orient="row"))  # fmt: skip
    again = suggest_split(snapshot(store), EACH, NOW, "Atlas")
    assert ([each.name for each in again.splits], again.analysis["plan_hash"]) == (
        [f"{CHILDREN[0]}_2", CHILDREN[1]],
        first,
    )
    later(store)
    assert suggest_split(snapshot(store), EACH, NOW, "Atlas").analysis["plan_hash"] != first


# Carried out


@pytest.mark.proof
def test_observations_move_by_id_and_keep_everything_but_their_owner(
    template: Path, parted: tuple[Path, Run, Any]
) -> None:
    store, _, done = parted
    assert sorted(done.values()) == sorted(CHILDREN)
    before, after = contents(template)["facts"], contents(store)["facts"]
    stamps = ("owner_entity_id", "updated_at", "run_id")
    kept = after.filter(pl.col("id").is_in(before["id"].implode()))
    assert kept.drop(stamps).equals(before.drop(stamps), null_equal=True)
    owners = dict(kept.select("statement", "owner_entity_id").iter_rows())
    assert {owners[text] for text in (*CACHE, USES)} == {id_ for id_, name in done.items() if name == CHILDREN[0]}
    assert {owners[text] for text in ALONE} == {ATLAS}
    assert sum(owner in done for owner in kept["owner_entity_id"]) == 14
    assert rows(store, "fact_usage")["hit_count"].to_list() == [7]
    assert examine(Store.open(str(store))) == ()


def test_the_new_entities_know_their_parent_and_are_tied_to_it_from_both_ends(parted: tuple[Path, Run, Any]) -> None:
    store, _, done = parted
    child = row(store, CHILDREN[0])
    assert (child["parent_entity_id"], child["entity_type"], child["status"]) == (ATLAS, "session", "active")
    aliases = rows(store, "entity_aliases", f"entity_id = '{child['id']}'")["alias_name"].to_list()
    assert aliases == [CHILDREN[0].lower()]
    structure = rows(store, "facts", "kind = 'structural'").sort("subject_id", "object_id")
    ends = set(structure.select("subject_id", "predicate", "object_id").rows())
    assert ends == {pair for id_ in done for pair in
                    ((ATLAS, "contains", id_), (id_, "part_of", ATLAS))}  # fmt: skip
    assert set(structure["edge_type"]) == {"hierarchical"}
    vectors = rows(store, "entities", columns=["id", "vector"]).filter(pl.col("id") == child["id"])["vector"]
    assert vectors[0].to_list() == pytest.approx(SEAT.embed([CHILDREN[0].lower()])[0].tolist())
    profiles = dict(rows(store, "entity_profiles").select("id", "text").iter_rows())
    assert CACHE[0] in profiles[child["id"]]
    assert ALONE[0] in profiles[ATLAS]
    assert CACHE[0] not in profiles[ATLAS]


def test_one_commit_makes_it_and_the_ledger_names_who_said_yes(parted: tuple[Path, Run, Any]) -> None:
    store, run, _ = parted
    told = rows(store, "decisions", f"run_id = '{run.id}'")
    counts = dict(told.group_by("action").len().iter_rows())
    assert counts == {"split": 1, "create": 2 + 4, "move": 14, "approve": 1}
    assert set(told["approved_by"]) == {"Eve"}
    commits = Store.open(str(store)).commits().filter(pl.col("run_id") == run.id)["kind"].to_list()
    assert [kind for kind in commits if kind != "run"] == ["review", "profiles"]
    proposal = list_proposals(snapshot(store), "applied")[0]
    assert (proposal.action, proposal.subject_id, proposal.decider, proposal.door) == (
        "split",
        ATLAS,
        "Eve",
        "terminal",
    )
    with OpenMemory.open(str(store), is_logged=False) as memory:
        assert "move" in [step[1] for step in memory.why(IDS[CACHE[0]]).decisions]
        assert "split" in [step[1] for step in memory.why(ATLAS).decisions]


def recalled(store: Path) -> list[list[tuple[str, float]]]:
    with OpenMemory.open(str(store), is_logged=False) as memory:
        asked = ("What does Atlas cache?", "Tuesdays", "Redis", "When does the kernel boot?")
        return [[(each.statement, each.score) for each in memory.recall(q, now=NOW).facts] for q in asked]


@pytest.mark.proof
def test_undo_puts_every_row_back_and_recall_never_notices(
    template: Path, parted: tuple[Path, Run, Any], parted_store: Path
) -> None:
    assert recalled(parted_store) == recalled(template)
    undo(Store.open(str(parted_store)), parted[1].id, "undo", NOW)
    drop = ("proposals", "decisions")
    assert_same(contents(parted_store, but=drop), contents(template, but=drop))
    assert [each.state for each in list_proposals(snapshot(parted_store), None)] == ["pending"]
    assert recalled(parted_store) == recalled(template)
    assert sorted(execute(run_of(parted_store, "again")).values()) == sorted(CHILDREN)


@pytest.mark.proof
def test_without_approval_nothing_but_the_proposal_is_written(template: Path, store: Path) -> None:
    made = propose_split(run_of(store), "Atlas", EACH)
    assert_same(contents(store, but=["proposals"]), contents(template, but=["proposals"]))
    assert propose_split(run_of(store, "again"), "Atlas", EACH).id == made.id
    proposal = list_proposals(snapshot(store))[0]
    assert (proposal.title, proposal.risks) == ("Split Atlas into 2 (14 observations)", ("large",))
    assert [each["name"] for each in proposal.ask["splits"]] == [*CHILDREN]
    reject(run_of(store, "no"), [made.id], EVE)
    with pytest.raises(Refused, match="Eve said no"):
        propose_split(run_of(store, "once-more"), "Atlas", EACH)
    mine = propose(run_of(store, "mine", NOW + timedelta(days=1)), "Atlas", EACH)
    assert [each.id for each in list_proposals(snapshot(store))] == [mine.id] != [made.id]


# All or nothing


@pytest.mark.parametrize(
    ("splits", "error"),
    [
        (whole(("Atlas - A", CACHE[:2]), ("Atlas - B", ["Small is beautiful"])), UnusableInput),
        (whole(("Atlas - A", CACHE[:2]), ("Atlas - B", ["Atlas ran on steam"])), UnusableInput),
        (whole(("Atlas - A", CACHE[:2]), ("The Titan", BOOT[:2])), Refused),
    ],
)
def test_a_plan_with_one_thing_wrong_changes_nothing(
    template: Path, splits: list[SplitPart], error: type[SlowwaveError]
) -> None:
    before = Store.open(str(template)).head.sequence
    with pytest.raises(error, match="Nothing was split"):
        propose_split(run_of(template), ATLAS, EACH, splits)
    assert Store.open(str(template)).head.sequence == before
    with pytest.raises(UnknownName):
        propose_split(run_of(template), "Nobody", EACH, whole(("A thing", CACHE[:1])))


@pytest.mark.proof
def test_a_plan_that_has_grown_stale_is_refused(store: Path) -> None:
    propose_split(run_of(store, "propose"), "Atlas", EACH)
    later(store)
    before = contents(store, but=["proposals", "decisions"])
    with pytest.raises(Refused, match="Changed since it was proposed"):
        execute(run_of(store, "one"))
    assert_same(contents(store, but=["proposals", "decisions"]), before)
    assert [each.state for each in list_proposals(snapshot(store), None)] == ["stale"]


# What others make of it (T33, C17)


@pytest.mark.proof
def test_structure_is_no_knowledge(template: Path, parted: tuple[Path, Run, Any], parted_store: Path) -> None:
    store, _, done = parted
    child = next(iter(done))
    graphs = [graph_of(snapshot(place), NOW) for place in (template, store)]
    assert graphs[0].edges.equals(graphs[1].edges)
    assert child not in {*graphs[1].edges["subject_id"], *graphs[1].edges["object_id"]}
    counts = {each["name"]: each["count"] for each in scan_entities(snapshot(store), EACH, NOW).iter_rows(named=True)}
    assert counts == {"Atlas": 3, CHILDREN[0]: 8, CHILDREN[1]: 6, "Small": 1}
    assert duplicates_of(snapshot(store), NOW, CHILDREN[0]).total_observations == 8
    with OpenMemory.open(str(store), is_logged=False) as memory:
        listed = {each.name: each.facts for each in memory.entities()[1]}
        assert (listed["Atlas"], listed[CHILDREN[0]], listed[CHILDREN[1]]) == (4, 8, 6)
        assert memory.recall(f"{CHILDREN[0]} part of Atlas contains", now=NOW).facts
        told = [each.statement for each in memory.recall("What does Atlas contain?", k=50, now=NOW).facts]
    assert [text for text in told if "contains" in text or "is a part of" in text] == []
    run = run_of(parted_store, "aspects")
    with recorded(run, Counts(run.id), {}, last=refreshed_aspects):
        pass
    assert rows(parted_store, "aspect_scores").filter(pl.col("facts") > 0).is_empty()


# The commands


@pytest.mark.proof
def test_a_person_may_bring_a_plan_of_their_own(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"approved_splits": [{"name": "Atlas - Mine", "observations": [IDS[CACHE[0]], CACHE[1]]}]})
    )
    said = ("Atlas", "--plan", plan, "--store", store)
    assert command(monkeypatch, "split", "propose", *said, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told["proposal"]["ask"]["splits"]] == ["Atlas - Mine"]
    approved = ("review", "approve", told["proposal"]["id"], "--by", "Ana", "--yes", "--store", store)
    assert command(monkeypatch, *approved) == 0
    assert list_proposals(snapshot(store), "applied")[0].decider == "Ana"
    plan.write_text("not json")
    assert command(monkeypatch, "split", "propose", *said) == 2
    plan.write_text("{}")
    assert command(monkeypatch, "split", "propose", *said) == 2
