"""The steward: what a fact is worth, what fades and what never does, and that recall passes over what has faded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import observation
from talk import assert_same, contents, dying, overtaken, rows

from inference.embedding import open_embedder
from slowwave.common import frames
from slowwave.common.settings import RecallSettings, StewardSettings
from slowwave.common.validity import KEPT_KINDS
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.pruning_and_eviction import plan_prune
from slowwave.lifecycle.usage_scores import USE, half_life_days, score_facts, worth_days
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo
from tasks.nightly.scoring_and_pruning import LEARNING, is_learning, prune, score
from tasks.runtime.run_pages import TaskResult
from tasks.runtime.runs import Run, existing_run

Row = dict[str, Any]
Keep = Callable[..., Path]
NOW = EPOCH + timedelta(days=400)
HOW = StewardSettings()
SCORED, CHANGED = "facts scored", "scores changed"
FEW = settings(max_examples=12, deadline=None)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def fact(key: str, age: float = 300, **more: Any) -> Row:
    """A live observation about Ana that was learned so many days ago."""
    about = {"aspect_slugs": ["work"], "message_id": None, **more}
    return observation(key, f"Ana keeps bees {key}", ago(age), **about)


def used(key: str, hits: int = 1, days: float = 300, **more: Any) -> Row:
    """What was counted of a fact."""
    return {"id": key, "hit_count": hits, "last_retrieved_at": ago(days), **more}


def facts(*given_rows: Row) -> pl.DataFrame:
    schema = {**frames.FACTS, "created_at": frames.TIME}
    return frames.conform(pl.DataFrame(given_rows, infer_schema_length=None), schema)


def usage(*given_rows: Row) -> pl.DataFrame:
    return frames.conform(pl.DataFrame(given_rows, infer_schema_length=None), USE)


def worth(one: Row, *counted: Row, how: StewardSettings = HOW) -> float:
    return float(score_facts(facts(one), usage(*counted), how, NOW)[0])


def fades(one: Row, *counted: Row, how: StewardSettings = HOW, pinned: Sequence[str] = ()) -> bool:
    return len(plan_prune(facts(one), usage(*counted), how, NOW, pinned=pinned).ids) == 1


# Scores (S4-06)


@pytest.mark.parametrize(
    ("content", "days", "prune_age"),
    [(0, 7, 16.25), (0.25, 27.75, 64.43), (0.5, 48.5, 112.61), (0.75, 69.25, 160.79), (1, 90, 208.97)],
)
def test_the_half_life_follows_worth_and_so_does_the_age_at_which_an_unused_fact_fades(
    content: float, days: float, prune_age: float
) -> None:
    assert pl.select(worth_days(pl.lit(float(content)), HOW)).item() == days
    if content:
        assert not fades(fact("f", prune_age - 0.1, content_score=content))
        assert fades(fact("f", prune_age + 0.1, content_score=content))


def test_worth_that_was_never_measured_has_the_full_half_life_and_a_short_full_one_holds_for_all() -> None:
    days = pl.Series([None, 0.0, 1.0], dtype=pl.Float64).to_frame("c")
    assert days.select(half_life_days(pl.col("c"), HOW)).to_series().to_list() == [90.0, 90.0, 90.0]
    short = StewardSettings(decay_half_days=5.0)
    assert days.select(half_life_days(pl.col("c") * 0.1, short)).to_series().to_list() == [5.0, 5.0, 5.0]


def test_hits_count_beside_the_most_there_are_in_the_namespace() -> None:
    once = used("f", 3, 45)
    assert worth(fact("f", content_score=1.0), once, used("other", 15)) == pytest.approx(0.353553, abs=1e-6)
    assert worth(fact("f", 45)) == pytest.approx(0.353553, abs=1e-6)  # unused: as much
    assert worth(fact("f"), used("f", 15, 0)) == 1.0
    assert worth(fact("f"), used("f", 1, 0)) == 1.0, "no other was recalled more often"


def test_one_recall_in_a_busy_store_is_worth_no_less_than_none_and_neither_is_a_low_cosine() -> None:
    busy = used("other", 1000)
    assert worth(fact("f", 10), used("f", 1, 10), busy) == worth(fact("f", 10), busy)
    assert worth(fact("f"), used("f", 9, 0, avg_retrieval_score=0.016)) == 0.5
    assert worth(fact("f"), used("f", 1, 0, avg_retrieval_score=0.9), busy) == 0.9
    assert worth(fact("f"), used("f", 1, 0, avg_retrieval_score=float("nan")), busy) == 0.5


def test_what_comes_from_the_future_is_new_and_nothing_is_worth_more_than_one() -> None:
    assert worth(fact("f", -30)) == worth(fact("f", 0)) == 0.5
    assert worth(fact("f", created_at=None)) == 0.5
    assert worth(fact("f"), used("f", 1, -1, avg_retrieval_score=1.2)) == 1.0


def test_a_part_of_the_facts_is_scored_like_all_of_them() -> None:
    every, counted = facts(fact("a"), fact("b", 9), fact("c")), usage(used("a", 3), used("c", 7, 1))
    whole = score_facts(every, counted, HOW, NOW)
    assert whole.to_list() == [score_facts(every[n], counted, HOW, NOW)[0] for n in range(3)]


@FEW
@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0, 2000), st.integers(0, 50))
def test_a_worthier_fact_is_never_scored_lower_and_a_score_is_a_share(
    a: float, b: float, age: float, hits: int
) -> None:
    counted = [used("f", hits, age / 2)] if hits else []
    low, high = (worth(fact("f", age, content_score=content), *counted) for content in sorted((a, b)))
    assert 0.0 <= low <= high <= 1.0


# What fades (S4-07)


def test_all_three_conditions_must_hold() -> None:
    eager = StewardSettings(prune_threshold=0.6, grace_period_hours=48)
    assert fades(fact("f"))
    assert not fades(fact("f", 100))  # not low
    assert not fades(fact("f"), used("f"))  # recalled once, long ago
    assert not fades(fact("f", 1.999), how=eager)  # young
    assert fades(fact("f", 2.001), how=eager)


def test_exactly_at_the_threshold_or_at_the_end_of_its_grace_a_fact_stays() -> None:
    one = fact("f", 208)
    exact = StewardSettings(prune_threshold=worth(one))
    assert not fades(one, how=exact)
    assert fades(one, how=StewardSettings(prune_threshold=worth(one) + 1e-9))
    assert not fades(fact("f", 2), how=StewardSettings(prune_threshold=0.6, grace_period_hours=48))


@pytest.mark.parametrize(
    "more",
    [{"pinned": True}, {"entrenchment": "user_axiom"}, *({"kind": kind} for kind in KEPT_KINDS),
     {"subject_id": "e_pin"}, {"object_id": "e_pin"}, {"owner_entity_id": "e_pin"}],
)  # fmt: skip
def test_what_is_pinned_an_axiom_structure_or_of_a_pinned_entity_never_fades(more: Row) -> None:
    assert fades(fact("f", 5000))
    assert not fades(fact("f", 5000, **more), pinned=["e_pin"])


@FEW
@given(st.floats(0, 10_000), st.floats(0, 1), st.integers(1, 9), st.floats(0, 10_000), st.floats(0.001, 1))
def test_one_recall_saves_a_fact_whatever_its_age(
    age: float, content: float, hits: int, last: float, threshold: float
) -> None:
    one, how = fact("f", age, content_score=content), StewardSettings(prune_threshold=threshold)
    assert not fades(one, used("f", hits, last), how=how)


def test_what_was_put_back_ages_from_then() -> None:
    back = facts(fact("old"), fact("back")).with_columns(put_back_at=pl.Series([None, ago(20)], dtype=frames.TIME))
    plan = plan_prune(back, usage(), HOW, NOW)
    assert plan.ids.to_list() == ["old"]
    assert score_facts(back, usage(), HOW, NOW)[1] == worth(fact("x", 20))


# In a store


def recalled(key: str, number: int = 0) -> Row:
    return {"id": f"{key}-{number}", "fact_id": key, "cosine": 0.6, "rank": 1, "query_hash": "q", "at": NOW}


def a_run(uri: Path, now: datetime = NOW, name: str = "steward-1") -> Run:
    run = existing_run("steward", str(uri), "default", now)
    return Run(name, run.flow, run.store, run.namespace, run.now, run.embedder, run.retention)


def ids(uri: Path, table: str, where: str | None = None) -> list[str]:
    return rows(uri, table, where, ["id"])["id"].to_list()


def live(uri: Path) -> list[str]:
    return ids(uri, "facts", "status = 'active'")


def commits(uri: Path, kind: str) -> int:
    return len(rows(uri, "commits", f"kind = '{kind}'"))


def test_every_live_fact_is_scored_once_in_one_commit_and_again_only_when_it_matters(keep: Keep) -> None:
    closed = fact("closed", status="superseded", replaced_by="new")
    uri = keep(facts=[fact("new", 0), fact("old"), closed], fact_usage=[used("old", 4, 10)])
    version = Store.open(str(uri)).snapshot().handle("fact_scores").version
    assert score(a_run(uri), HOW) == TaskResult({SCORED: 2, CHANGED: 2})
    assert Store.open(str(uri)).snapshot().handle("fact_scores").version == version + 1  # T42
    told = rows(uri, "fact_scores")
    assert told["quality_score"].to_list() == pytest.approx([0.5, 0.5 ** (10 / 90)])
    assert rows(uri, "metadata", f"id = '{LEARNING}'")["number"].to_list() == [0.0]
    before = Store.open(str(uri)).head.sequence
    assert (
        score(a_run(uri), HOW)
        == score(a_run(uri, NOW + timedelta(hours=1)), HOW)
        == TaskResult({SCORED: 2, CHANGED: 0})
    )
    assert Store.open(str(uri)).head.sequence == before
    assert score(a_run(uri, NOW + timedelta(days=3)), HOW).counts[CHANGED] == 2


def test_a_score_that_recall_would_see_otherwise_is_written_however_little_it_moved(keep: Keep) -> None:
    uri = keep(facts=[fact("a", 299.3)], fact_scores=[{"id": "a", "quality_score": 0.0501}])  # now it scores .0499
    assert score(a_run(uri), HOW, min_quality=0.04).counts[CHANGED] == 0
    assert score(a_run(uri), HOW, min_quality=0.05).counts[CHANGED] == 1


def test_scores_keep_what_else_their_rows_hold_and_go_with_their_facts(keep: Keep) -> None:
    marks = [{"id": "a", "compared_at": EPOCH}, {"id": "gone", "quality_score": 0.4}]
    uri = keep(facts=[fact("a"), fact("gone", status="superseded")], fact_scores=marks)
    assert score(a_run(uri), HOW) == TaskResult({SCORED: 1, CHANGED: 1})
    [row] = rows(uri, "fact_scores").to_dicts()
    assert (row["id"], row["compared_at"], row["scored_at"]) == ("a", EPOCH, NOW)


def test_what_a_fact_absorbed_was_recalled_and_a_recall_that_nobody_counted_yet_save_it(keep: Keep) -> None:
    step = {"id": "l", "old_id": "absorbed", "new_id": "heir", "reason": "dedup"}
    conflict = {**step, "id": "m", "new_id": "rival", "reason": "conflict"}
    gone = fact("absorbed", status="superseded", replaced_by="heir")
    uri = keep(
        facts=[fact("heir"), fact("rival"), fact("asked"), gone],
        lineage=[step, conflict],
        fact_usage=[used("absorbed")],
    )
    Store.open(str(uri)).append("retrieval_events", pl.DataFrame([recalled("asked")]), NOW)
    prune(a_run(uri), HOW)
    assert set(rows(uri, "facts", "status = 'archived'")["id"]) == {"rival"}


def test_a_fading_fact_is_archived_with_what_hangs_on_it_and_undo_brings_all_back(keep: Keep) -> None:
    tagged = [{"id": f"as_{key}", "fact_id": key, "slug": "work", "via": "regex"} for key in ("old", "new")]
    pair = {"a_id": "new", "b_id": "old", "kind": "redundant"}
    pairs = [{"id": "p1", "outcome": "pending", **pair}, {"id": "p2", "outcome": "keep_all", **pair}]
    twin = fact("new", 1, similarity_flag=True, similar_to_id="old", similarity_score=0.9)
    person = {"id": "e_ana", "canonical_name": "ana", "name": "Ana", "entity_type": "person", "status": "active"}
    uri = keep(
        facts=[fact("old"), twin], fact_aspects=tagged, pair_decisions=pairs, entities=[person],
        fact_scores=[{"id": "old", "quality_score": 0.04}],
    )  # fmt: skip
    before = contents(uri)
    run = a_run(uri)
    done = prune(run, HOW)
    assert (done.counts, done.decisions[0].statement) == ({"facts pruned": 1}, "Ana keeps bees old")
    [gone] = rows(uri, "facts", "id = 'old'").to_dicts()
    assert (gone["status"], gone["status_reason"], gone["expired_at"]) == ("archived", "pruned", NOW)
    assert gone["valid_to"] is None
    assert gone["created_at"] == ago(300)
    assert ids(uri, "fact_aspects") == ["as_new"]
    assert ids(uri, "pair_decisions") == ["p2"]
    assert ids(uri, "fact_scores") == []
    assert not rows(uri, "facts", "id = 'new'")["similarity_flag"][0]
    assert rows(uri, "entity_profiles")["text"].str.contains("bees new").to_list() == [True]
    [decided] = rows(uri, "decisions", "action = 'prune'").to_dicts()
    assert (decided["subject_id"], decided["decided_by"], decided["ids_out"]) == ("old", "rule", ["old", "new"])
    assert examine(Store.open(str(uri))) == ()
    undo(Store.open(str(uri)), run.id, "undo-1", NOW)
    assert_same({**before, "entity_profiles": contents(uri)["entity_profiles"]}, contents(uri))
    assert prune(a_run(uri, NOW + timedelta(hours=1), "steward-2"), HOW) == TaskResult()  # put back: it counts as new


def test_while_it_learns_the_steward_scores_and_prunes_nothing(keep: Keep) -> None:
    uri, more = keep(facts=[fact("old")]), StewardSettings(learning_events=51)
    assert is_learning(a_run(uri), more)
    assert prune(a_run(uri), more) == TaskResult()
    assert score(a_run(uri), more).counts[CHANGED] == 1
    assert rows(uri, "metadata", f"id = '{LEARNING}'")["number"].to_list() == [1.0]
    assert live(uri) == ["old"]
    assert not is_learning(Store.open(str(uri)), HOW)


def test_a_store_whose_recalls_cannot_be_counted_is_learning(keep: Keep) -> None:
    uri = keep()
    store = Store.open(str(uri))
    store.db.drop_table("retrieval_events")
    assert is_learning(store, HOW)


@pytest.mark.proof
def test_a_sweep_that_dies_between_batches_is_finished_by_the_next(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, by_two = keep(facts=[fact(f"f{n}", 300 - n) for n in range(5)]), StewardSettings(batch_size=2)
    with dying(monkeypatch, "steward.prune", "after", nth=2):
        prune(a_run(uri), by_two)
    assert live(uri) == ["f4"]
    prune(a_run(uri, name="steward-2"), by_two)
    assert (live(uri), commits(uri, "steward.prune")) == ([], 3)
    assert set(rows(uri, "facts")["status_reason"]) == {"pruned"}


@pytest.mark.proof
def test_what_is_pinned_recalled_or_retired_meanwhile_is_left_alone(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = keep(facts=[fact(key) for key in ("asked", "ended", "fading", "pinned")])

    def other() -> None:
        store = Store.open(str(uri))
        store.append("retrieval_events", pl.DataFrame([recalled("asked")]), NOW)
        with store.commit("other", "other", NOW) as tx:
            whole = tx.by_ids("facts", ["ended", "pinned"]).sort("id")
            changed = whole.with_columns(
                valid_to=pl.Series([ago(1), None], dtype=frames.TIME), pinned=pl.Series([False, True])
            )
            tx.upsert("facts", changed)

    with overtaken(monkeypatch, "steward.prune", other):
        prune(a_run(uri), HOW)
    assert rows(uri, "facts", "status = 'archived'")["id"].to_list() == ["fading"]


# Recall (S4-03)


@pytest.fixture(scope="module")
def asked(empty_memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six facts in as many messages; one is scored at the limit of recall, four below, of which three are protected."""
    seat, uri = open_embedder(), tmp_path_factory.mktemp("asked") / "store"
    shutil.copytree(empty_memory, uri)
    keys = ("new", "worthy", "faded", "pinned", "axiom", "kept")
    said = [f"Ana keeps bees on the roof of house {key}" for key in keys]
    vectors = pl.Series("vector", seat.embed(said), dtype=pl.Array(pl.Float32, seat.dims))
    told = pl.DataFrame(
        [fact(key, statement=text, message_id=f"m_{key}", subject_id="e_pin" if key == "kept" else "e_ana",
              pinned=key == "pinned", entrenchment="user_axiom" if key == "axiom" else "user_stated")
         for key, text in zip(keys, said, strict=True)], infer_schema_length=None,
    ).with_columns(vectors)  # fmt: skip
    messages = pl.DataFrame(
        [{"id": f"m_{key}", "message_id": key, "conversation_id": "c", "search_text": text, "occurred_at": ago(300)}
         for key, text in zip(keys, said, strict=True)]
    ).with_columns(vectors)  # fmt: skip
    scores = [{"id": key, "quality_score": 0.05 if key == "worthy" else 0.049} for key in keys[1:]]
    pinned = {"id": "e_pin", "canonical_name": "pin", "name": "Pin", "status": "active", "pinned": True}
    with Store.open(str(uri)).commit("made", "made", EPOCH) as tx:
        tx.upsert("facts", told)
        tx.upsert("messages", messages)
        tx.upsert("fact_scores", pl.DataFrame(scores))
        tx.upsert("entities", pl.DataFrame([pinned]))
    return uri


@pytest.fixture
def bees(asked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(asked, tmp_path / "asked"))


def learns(uri: Path, number: float) -> None:
    with Store.open(str(uri)).commit("made", "made", EPOCH) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": [LEARNING], "number": [number]}))


def answers(memory: OpenMemory, **how: Any) -> set[str]:
    return {found.id for found in memory.recall("Who keeps bees on the roof?", now=NOW, **how).facts}


def test_what_has_faded_is_recalled_while_the_steward_learns_and_not_afterwards(bees: Path) -> None:
    everyone = {"new", "worthy", "faded", "pinned", "axiom", "kept"}
    with OpenMemory.open(str(bees), settings=RecallSettings(min_quality=0.05)) as memory:
        assert answers(memory) == everyone  # nobody has said that learning is over
        learns(bees, 1.0)
        assert answers(memory) == everyone
        learns(bees, 0.0)
        assert answers(memory) == everyone - {"faded"}
        assert answers(memory, as_of=NOW) == everyone
        assert answers(memory, known_as_of=NOW) == everyone
        with Store.open(str(bees)).commit("made", "made", EPOCH) as tx:
            freed = tx.by_ids("facts", ["pinned"], with_vector=True)
            tx.upsert("facts", freed.with_columns(pinned=pl.lit(False)))
        assert answers(memory) == everyone - {"faded", "pinned"}
    with OpenMemory.open(str(bees)) as memory:  # unless it is asked for, nothing is hidden
        assert answers(memory) == everyone


def test_what_has_faded_takes_no_place_of_others(bees: Path) -> None:
    learns(bees, 0.0)
    with OpenMemory.open(str(bees), settings=RecallSettings(min_quality=0.05)) as memory:
        assert len(memory.recall("Who keeps bees on the roof?", k=5, now=NOW).facts) == 5
