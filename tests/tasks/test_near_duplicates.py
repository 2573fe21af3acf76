"""What the steward finds to say the same becomes one, the one of more use; nothing is guessed (S4-08 … S4-10)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import EPOCH
from messages_api import Body, MessagesApi, Reply
from stores import observation
from talk import CLAUDE, overtaken, rows, verdict

from inference.embedding import open_embedder
from slowwave.common import frames
from slowwave.common.settings import MergeSettings, StewardSettings
from slowwave.facts.deduplication.duplicates import CandidateSet, Merges, by_use, find_pairs, merge_by
from slowwave.lifecycle.usage_scores import usage_of
from storage.doctor import examine
from storage.search import unit_matrix
from storage.store import Store
from tasks.nightly import fact_reconciliation
from tasks.nightly.scoring_and_pruning import merge_duplicates
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, existing_run, language_of

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
T0 = datetime(2026, 5, 1, 9, tzinfo=UTC)
TEA = "Marta drinks green tea in the kitchen of the office."
SPELLINGS = (
    TEA,
    TEA.removesuffix("."),
    "By the way: " + TEA,
    "Marta drinks the green tea in the kitchen of the office.",
)
PLAIN = "Backups run at night on the old server in Porto."
FRAMED = "By the way: " + PLAIN

Fact = dict[str, Any]


def fact(id_: str, statement: str = TEA, day: int = 0, **more: Any) -> Fact:
    """One live observation about Marta that nobody compared yet; its vector is the first axis unless `axis` says."""
    return observation(id_, statement, T0 + timedelta(days=day), "e_marta", **more)


def apart(cosine: float, axis: int = 1) -> list[float]:
    """A unit vector with this cosine to the first axis."""
    vector = np.zeros(256)
    vector[0], vector[axis] = cosine, np.sqrt(1 - cosine**2)
    return [float(number) for number in vector]


# Who survives, without a store


def pool_of(*facts: Fact, is_seed: bool = True) -> CandidateSet:
    """Facts of which every pair has cosine 1."""
    schema = {**frames.FACTS, "created_at": frames.TIME, "hit_count": pl.Int64, "avg_retrieval_score": pl.Float64}
    frame = pl.DataFrame(list(facts), schema=schema).with_columns(is_seed=pl.lit(is_seed))
    return CandidateSet(frame, find_pairs(frame, ones(len(frame)), MergeSettings(), 0.88))


def ones(count: int) -> np.ndarray:
    return np.eye(1, 4, dtype=np.float32).repeat(count, axis=0)


def merged(pool: CandidateSet) -> Merges:
    return merge_by(pool, by_use(StewardSettings()))


def winners(pool: CandidateSet) -> dict[str, str]:
    return dict(merged(pool).duplicates.select("loser_id", "winner_id").iter_rows())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pinned": True}, {"hit_count": 9, "entrenchment": "user_axiom"}),
        ({"entrenchment": "user_axiom"}, {"hit_count": 9}),
        ({"hit_count": 2}, {"hit_count": 1, "avg_retrieval_score": 0.9, "day": -9}),
        ({"hit_count": 1}, {"evidence_count": 9, "confidence": 1.0, "day": -9}),
        ({"hit_count": 1, "avg_retrieval_score": 0.7}, {"hit_count": 1, "avg_retrieval_score": 0.6, "day": -9}),
        ({"hit_count": 1, "avg_retrieval_score": 0.1}, {"hit_count": 1, "day": -9}),
        ({}, {"day": 1}),
        ({"id_": "e"}, {"id_": "f"}),
    ],
)
def test_s4_08_what_is_fixed_then_what_was_recalled_more_then_better_then_earlier_survives(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = ({"id_": "k", **one}, {"id_": "l", **other})
    expected = {} if "entrenchment" in other and "pinned" in one else {second["id_"]: first["id_"]}
    for facts in ((first, second), (second, first)):
        assert winners(pool_of(*(fact(**each) for each in facts))) == expected


def test_s4_08_the_threshold_itself_is_enough() -> None:
    pool = pool_of(fact("a"), fact("b", SPELLINGS[1], 1))
    rule = by_use(StewardSettings(merge_threshold=1.0))
    assert len(merge_by(pool, rule).duplicates) == 1


@pytest.mark.parametrize(
    ("statement", "more"),
    [
        ("Marta does not drink green tea in the kitchen of the office.", {}),
        ("Marta drinks green tea in the kitchen of the office twice.", {}),
        ("Marta drinks black tea in the kitchen of the office.", {}),
        ("Devon drinks green tea in the kitchen of the office.", {}),
        (TEA, {"scope": "ferrywise"}),
        (TEA, {"subject_id": "e_devon"}),
        (TEA, {"polarity": "negated"}),
        (TEA, {"kind": "note"}),
        (TEA, {"valid_to": datetime(2027, 1, 1, tzinfo=UTC)}),
        ("yes", {}),
    ],
)
def test_t29_guards_stand_in_front_even_of_equal_vectors(statement: str, more: dict[str, Any]) -> None:
    assert winners(pool_of(fact("a"), fact("b", statement, **more))) == {}


def test_t04_what_holds_another_statement_is_not_merged_with_it() -> None:
    longer = PLAIN + " Tomás looks after them."
    for other in (longer, "yes", "Backups"):
        found = merged(pool_of(fact("a", PLAIN), fact("b", other)))
        assert found.duplicates.is_empty()
        assert len(found.undecided) == 1


def nearby(vectors: np.ndarray, *facts: Fact) -> tuple[CandidateSet, Merges]:
    """The pairs of facts with these vectors, and their merges."""
    schema = {**frames.FACTS, "created_at": frames.TIME, "hit_count": pl.Int64, "avg_retrieval_score": pl.Float64}
    frame = pl.DataFrame(list(facts), schema=schema).with_columns(is_seed=pl.lit(True))
    pool = CandidateSet(frame, find_pairs(frame, vectors, MergeSettings(), 0.88))
    return pool, merge_by(pool, by_use(StewardSettings()))


LEFT, MIDDLE, RIGHT = (0.9, float(np.sqrt(1 - 0.81))), (1.0, 0.0), (0.9, -float(np.sqrt(1 - 0.81)))
"""The first and the last are both near the one between, and not near each other."""


def test_s4_10_who_was_absorbed_absorbs_nobody() -> None:
    vectors = np.array([LEFT, MIDDLE, RIGHT], dtype=np.float32)
    pool, found = nearby(vectors, fact("a", hit_count=3), fact("b", hit_count=2), fact("c", hit_count=1))
    assert set(pool.pairs.select("a_id", "b_id").iter_rows()) == {("a", "b"), ("b", "c")}
    assert found.duplicates.select("loser_id", "winner_id").rows() == [("b", "a")]
    assert found.undecided.is_empty()


def test_s4_10_what_two_could_absorb_goes_to_the_better_one() -> None:
    vectors = np.array([LEFT, RIGHT, MIDDLE], dtype=np.float32)
    _, found = nearby(vectors, fact("a", hit_count=3), fact("b", hit_count=2), fact("c", hit_count=1))
    assert found.duplicates.select("loser_id", "winner_id").rows() == [("c", "a")]


def test_s4_10_what_was_near_to_one_that_was_absorbed_is_left_alone_where_neither_is_new() -> None:
    all_three = pool_of(fact("a", hit_count=3), fact("b", hit_count=2), fact("c", hit_count=1)).facts
    facts = all_three.with_columns(is_seed=pl.col("id") == "b")
    assert winners(CandidateSet(facts, find_pairs(facts, ones(3), MergeSettings(), 0.88))) == {"b": "a"}


# In a store


Made = Callable[..., Path]


@pytest.fixture
def remember(empty_memory: Path, tmp_path: Path) -> Made:
    """Make a store that holds these facts, what they were recalled, and a message for each."""

    def make(*facts: Fact, hits: Mapping[str, int] | None = None) -> Path:
        place = Path(shutil.copytree(empty_memory, tmp_path / "store"))
        write(place, facts, hits or {})
        return place

    return make


def write(place: Path, facts: Sequence[Fact], hits: Mapping[str, int], run: str = "said-1") -> None:
    store = Store.open(str(place))
    store.clock = lambda: NOW
    vectors = [each.get("vector", apart(1.0)) for each in facts]
    frame = frames.conform(
        pl.DataFrame([{k: v for k, v in each.items() if k != "vector"} for each in facts], infer_schema_length=None),
        frames.FACTS,
    ).with_columns(embed_model=pl.lit(open_embedder().name), vector=pl.Series(vectors, dtype=pl.Array(pl.Float32, 256)))
    messages = frame.select(
        "scope", id="message_id", message_id="message_id", content="statement", search_text="statement",
        occurred_at="valid_from", conversation_id=pl.lit("c"), role=pl.lit("user"), graph_state=pl.lit("done"),
    )  # fmt: skip
    evidence = frame.select(
        "message_id", "confidence", fact_id="id", quote="statement", occurred_at="valid_from",
        id=pl.format("v_{}", "id"),
    )  # fmt: skip
    aspects = frame.select(id=pl.format("as_{}", "id"), fact_id="id", slug=pl.lit("preference"), via=pl.lit("regex"))
    people = [
        {"id": f"e_{name.lower()}", "name": name, "canonical_name": name.lower(), "entity_type": "person",
         "status": "active"}
        for name in ("Marta", "Devon")
    ]  # fmt: skip
    used = [
        {"id": id_, "hit_count": count, "cosine_sum": 0.5 * count, "cosine_count": count, "last_retrieved_at": T0}
        for id_, count in hits.items()
    ]
    with store.commit(run, "test", NOW) as tx:
        tx.upsert("entities", pl.DataFrame(people))
        tx.upsert("messages", messages)
        tx.upsert("facts", frame)
        tx.upsert("fact_evidence", evidence)
        tx.upsert("fact_aspects", aspects)
        tx.upsert("fact_usage", pl.DataFrame(used))


def swept(place: Path, model: str = "quotes", *, dry_run: bool = False, **settings: Any) -> TaskResult:
    """One merge phase."""
    chosen = StewardSettings.model_validate({"llm": {"model": model, **settings.pop("llm", {})}, **settings})
    run = existing_run("steward", str(place), "default", NOW)

    async def work() -> TaskResult:
        async with language_of(run, chosen.llm) as language:
            return await merge_duplicates(run, chosen, language, dry_run=dry_run)

    return asyncio.run(work())


def live(place: Path) -> list[str]:
    return rows(place, "facts", "status = 'active' AND expired_at IS NULL")["id"].to_list()


@pytest.mark.proof
def test_the_fact_that_was_recalled_more_takes_over_everything_of_the_others(remember: Made) -> None:
    place = remember(
        fact("a", day=3),
        fact("b", SPELLINGS[1], 1),
        fact("c", SPELLINGS[2], 2, confidence=0.9),
        fact("d", PLAIN, vector=apart(0)),
        hits={"b": 2, "c": 5},
    )
    found = swept(place)
    told = {what: number for what, number in found.counts.items() if number}
    assert told == {"facts compared": 4, "facts merged": 2}
    assert live(place) == ["c", "d"]
    facts = {row["id"]: row for row in rows(place, "facts").iter_rows(named=True)}
    for loser in "ab":
        assert facts[loser]["status"] == "superseded"
        assert facts[loser]["replaced_by"] == "c"
        assert facts[loser]["status_reason"] == "dedup: absorbed by c"
        assert facts[loser]["expired_at"] == NOW
        assert facts[loser]["valid_to"] is None
    survivor = facts["c"]
    assert (survivor["evidence_count"], survivor["confidence"]) == (3, 0.9)
    assert survivor["valid_from"] == T0 + timedelta(days=1)
    assert survivor["statement"] == SPELLINGS[2]
    said = rows(place, "fact_evidence", "fact_id = 'c'")["message_id"].sort().to_list()
    assert said == ["m_a", "m_b", "m_c"]
    assert rows(place, "lineage").select("old_id", "new_id", "reason").sort("old_id").rows() == [
        ("a", "c", "dedup"), ("b", "c", "dedup"),
    ]  # fmt: skip
    [told] = rows(place, "decisions").iter_rows(named=True)
    assert (told["action"], told["subject_id"], told["decided_by"]) == ("absorb", "c", "rule")
    assert '"hit_count":[5,0,2]' in told["measures"].replace(" ", "")
    assert '"merge_threshold":0.88' in told["measures"].replace(" ", "")
    assert examine(Store.open(str(place))) == ()


@pytest.mark.proof
def test_what_consolidation_compared_is_not_looked_at_but_met(remember: Made) -> None:
    done = {"consolidated_at": T0}
    place = remember(fact("a", **done), fact("b", SPELLINGS[1], 1, **done))
    assert swept(place) == TaskResult()
    write(place, [fact("c", SPELLINGS[2], 2)], {}, "said-2")
    assert swept(place).counts["facts compared"] == 1
    assert live(place) == ["a", "b"]


@pytest.mark.proof
def test_the_oldest_come_first_the_rest_next_time_and_scores_stay_as_they_are(remember: Made) -> None:
    place = remember(*(fact(f"f{day}", PLAIN, 9 - day, vector=apart(0, day + 1)) for day in range(3)))
    with Store.open(str(place)).commit("scored", "test", NOW) as tx:
        tx.upsert("fact_scores", pl.DataFrame([{"id": "f2", "quality_score": 0.4, "scored_at": T0}]))
    assert swept(place, merge_scan=2).counts["facts compared"] == 2
    columns = ["id", "quality_score", "scored_at", "compared_at"]
    assert rows(place, "fact_scores").select(columns).rows() == [("f1", None, None, NOW), ("f2", 0.4, T0, NOW)]
    assert [swept(place, merge_scan=2).counts.get("facts compared", 0) for _ in range(2)] == [1, 0]


@pytest.mark.proof
def test_s4_08_a_few_of_the_nearest_are_compared_and_not_the_first_alone(remember: Made) -> None:
    done = {"consolidated_at": T0}
    nearest = fact("x", TEA.replace("green", "black"), vector=apart(0.99), **done)
    place = remember(fact("a", vector=apart(0.95, 2), **done), nearest, fact("new", SPELLINGS[1], 9))
    assert swept(place, dry_run=True, merge_neighbors=1).counts["facts merged"] == 0
    assert swept(place).counts["facts merged"] == 1


@pytest.mark.proof
def test_s4_09_the_sentence_of_more_use_stays_as_it_is_and_takes_over_what_is_known_of_the_other(
    remember: Made,
) -> None:
    place = remember(fact("a", PLAIN), fact("b", FRAMED, 1), hits={"a": 1, "b": 2})
    assert swept(place).counts["facts merged"] == 1
    facts = {row["id"]: row for row in rows(place, "facts").iter_rows(named=True)}
    assert {id_: (row["statement"], row["replaced_by"]) for id_, row in facts.items()} == {
        "a": (PLAIN, "b"), "b": (FRAMED, None),
    }  # fmt: skip
    assert facts["b"]["valid_from"] == T0
    assert rows(place, "lineage").select("old_id", "new_id", "reason").rows() == [("a", "b", "dedup")]
    assert set(rows(place, "fact_evidence", "fact_id = 'b'")["message_id"]) == {
        facts[id_]["message_id"] for id_ in "ab"
    }
    assert {told["decided_by"] for told in rows(place, "decisions").iter_rows(named=True)} == {"rule"}
    used = usage_of(rows(place, "fact_usage"), rows(place, "lineage"))
    assert used.select("id", "hit_count").rows() == [("b", 3)]
    assert swept(place) == TaskResult()
    assert examine(Store.open(str(place))) == ()


# While another run writes


@pytest.mark.proof
def test_t40_what_another_run_retired_meanwhile_is_not_merged(remember: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    place = remember(
        fact("n0", PLAIN), fact("n1", FRAMED, 1), fact("n2", "Note: " + PLAIN, 2), fact("z", PLAIN, vector=apart(0))
    )

    def other() -> None:
        store = Store.open(str(place))
        with store.commit("other", "test", NOW) as tx:
            gone = tx.by_ids("facts", ["n1"], with_vector=True)
            tx.upsert("facts", gone.with_columns(status=pl.lit("retracted"), expired_at=pl.lit(NOW)))

    with overtaken(monkeypatch, "steward.merge", other):
        found = swept(place)
    assert found.counts["facts merged"] == 1
    assert live(place) == ["n0", "z"]
    assert rows(place, "facts", "id = 'n1'")["status"].to_list() == ["retracted"]
    assert examine(Store.open(str(place))) == ()


# With a model


def merger(request: Body) -> Reply:
    """A model to which all pairs are the same."""
    return verdict(request, "same")


SAME = ("Marta runs the billing service in Lisbon.", "In Lisbon Marta runs the billing service.")


@pytest.mark.proof
def test_a_model_decides_what_guards_keep_apart(remember: Made, serve: Callable[..., MessagesApi]) -> None:
    place = remember(fact("a", SAME[0]), fact("b", SAME[1], 1))
    api = serve(merger)
    assert swept(place, CLAUDE, dry_run=True).counts["questions that a model would be asked"] == 1
    assert not api.requests
    found = swept(place, CLAUDE)
    assert (found.counts["facts merged"], found.counts["pairs left undecided"], len(api.requests)) == (1, 0, 1)
    assert len(live(place)) == 1
    assert rows(place, "facts")["consolidated_at"].null_count() == 2
    assert rows(place, "lineage")["reason"].to_list() == ["consolidated"]


# Which facts are read to be compared (S1-02)

KNOWN, NEW = 4000, 30


def facts_of(seed: int) -> pl.DataFrame:
    """Known facts in random directions, and new ones each near to a hundredth known one."""
    rows = np.random.default_rng(seed).standard_normal((KNOWN, 4)).astype(np.float32)
    rows = np.concatenate([rows, rows[: NEW * 100 : 100] + 0.01])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    numbers = range(KNOWN + NEW)
    return pl.DataFrame(
        {
            "id": [f"f{n:05d}" for n in numbers],
            "scope": "global",
            "kind": "note",
            "status": "active",
            "statement": [f"matter{n} thing{n}" for n in numbers],
            "vector": pl.Series(rows.tolist(), dtype=pl.Array(pl.Float32, 4)),
        }
    )


def test_new_facts_of_a_large_store_get_the_same_pairs_without_reading_the_others(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, frame, settings = new_store(), facts_of(5), MergeSettings()
    with store.commit("r", "test", EPOCH) as tx:
        tx.upsert("facts", frame)
    run = Run("r", "ingest", store.uri, store.namespace, EPOCH, "test")
    seeds = frame["id"].tail(NEW)

    def pairs(facts: pl.DataFrame) -> pl.DataFrame:
        asked = facts.with_columns(is_seed=pl.col("id").is_in(seeds.implode()))
        found = find_pairs(asked, unit_matrix(asked["vector"], 4), settings, 0.9)
        return found.select("a_id", "b_id")

    snapshot = store.snapshot()
    expected = pairs(fact_reconciliation.whole_scopes(run, snapshot, pl.Series(["global"])))
    monkeypatch.setattr(fact_reconciliation, "whole_scopes", pytest.fail)
    read = fact_reconciliation._compared(run, snapshot, seeds, settings)
    assert pairs(read).equals(expected)
    assert len(expected) >= NEW
    assert len(read) < len(frame) / 2
