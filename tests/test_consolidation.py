"""What says the same becomes one, and what only looks alike does not (S1-01 … S1-14, S1-20, S1-22, §6.2, §6.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave import frames
from slowwave.application.patches import statement_hash
from slowwave.merging.consolidation import (
    Cluster,
    ConsolidationPlan,
    Judged,
    Merges,
    Pool,
    Verdict,
    check_verdict,
    merge_alike,
    only_live,
    plan_clusters,
    plan_consolidation,
    plan_pairs,
    select_seeds,
    uses_pairs,
)
from slowwave.settings import MergeSettings
from slowwave.similarity import Vectors, jaccard
from slowwave.text import row_id
from slowwave.validity import check_transition, is_live, successors, valid_facts

NOW = datetime(2026, 6, 1, tzinfo=UTC)
T0 = datetime(2026, 1, 1, 9, tzinfo=UTC)
VERSION = "v1"
LIMITS = MergeSettings(resolve_cosine=0.60, merge_cosine=0.92)
PAIRS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64}
ALIKE = ("Ana drinks green tea in the office kitchen", "Ana drinks green tea in the office kitchen!")
CHANGED = ("reworded", "evidence", "lineage", "aspects", "pairs", "batches", "decisions")


def day(number: float) -> datetime:
    return T0 + timedelta(days=number)


def fact(id_: str, statement: str, **more: Any) -> dict[str, Any]:
    """One live observation about Ana that nobody looked at yet; `at` is the day from which it holds."""
    at = more.pop("at", 0)
    row = {
        "id": id_, "kind": "observation", "subject_id": "e_ana", "predicate": "", "statement": statement,
        "statement_hash": statement_hash(statement), "owner_entity_id": "e_ana", "scope": "global",
        "polarity": "affirmed", "status": "active", "status_reason": "applied", "valid_from": day(at),
        "confidence": 0.8, "evidence_count": 1, "entrenchment": "user_stated", "pinned": False,
        "message_id": f"m_{id_}", "aspect_slugs": [], "similarity_flag": False, "created_at": day(at),
        "is_seed": True, "embed_model": "m", "patch_batch_id": "p_1",
    }  # fmt: skip
    return {**row, **more}


def frame(facts: Sequence[dict[str, Any]]) -> pl.DataFrame:
    schema = {**frames.FACTS, "created_at": frames.TIME, "is_seed": frames.FLAG}
    return pl.DataFrame(list(facts), schema=schema)


def pairs_of(facts: Sequence[dict[str, Any]], cosines: Mapping[tuple[str, str], float]) -> pl.DataFrame:
    said = {each["id"]: each["statement"] for each in facts}
    rows = [(min(a, b), max(a, b), cosine, jaccard(said[a], said[b])) for (a, b), cosine in cosines.items()]
    return pl.DataFrame(rows, schema=PAIRS, orient="row")


def pool_of(
    *facts: dict[str, Any], version: str = VERSION, decided: pl.DataFrame | None = None, cosine: float = 0.95,
    **cosines: float,
) -> Pool:  # fmt: skip
    """A pool where every pair has the same cosine, unless it is told as `a__b=.7`."""
    ids = [each["id"] for each in facts]
    every = {(a, b): cosine for place, a in enumerate(ids) for b in ids[place + 1 :]}
    told = {tuple(sorted(name.split("__"))): value for name, value in cosines.items()}
    known = {tuple(sorted(pair)): value for pair, value in every.items()} | told
    pairs = pairs_of(facts, known)  # type: ignore[arg-type]
    no_decisions = frames.empty(frames.PAIR_DECISIONS)
    return Pool(frame(facts), pairs, no_decisions if decided is None else decided, version)


def vectors_of(pool: Pool, *, alike: bool = True) -> Vectors:
    count = len(pool.facts)
    rows = np.ones((count, 4)) if alike else np.eye(count, max(count, 1))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def evidence_of(pool: Pool) -> pl.DataFrame:
    """One message per fact: the one that said it."""
    rows = pool.facts.select(fact_id="id", message_id="message_id", confidence="confidence", occurred_at="valid_from")
    ids = [row_id("v", *pair) for pair in rows.select("fact_id", "message_id").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.FACT_EVIDENCE)


def aspects_of(pool: Pool) -> pl.DataFrame:
    rows = pool.facts.select(fact_id="id", slug="aspect_slugs", via=pl.lit("regex")).explode("slug").drop_nulls("slug")
    ids = [row_id("as", *pair) for pair in rows.select("fact_id", "slug").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.FACT_ASPECTS)


def plan(
    pool: Pool, judged: Sequence[Judged] = (), merges: Merges | None = None, now: datetime = NOW, **more: Any
) -> ConsolidationPlan:
    merges = merge_alike(pool, LIMITS) if merges is None else merges
    return plan_consolidation(
        pool, merges, judged, more.pop("evidence", evidence_of(pool)), aspects_of(pool), more.pop("limits", LIMITS),
        prompt_version=pool.prompt_version, model="anthropic/claude" if pool.prompt_version else "rules",
        run_id="consolidate-1", now=now,
    )  # fmt: skip


def clusters(pool: Pool, resolve: float = 0.60) -> tuple[Cluster, ...]:
    return plan_clusters(pool, merge_alike(pool, LIMITS), vectors_of(pool), LIMITS, resolve)


def supersede(cluster: Cluster, survivor: str, *absorbed: str, reworded: str | None = None) -> Judged:
    place = {each.id: each.index for each in cluster.facts}
    verdict = Verdict(
        cluster.number, "supersede", place[survivor], tuple(place[each] for each in absorbed), reworded, "the same"
    )
    return Judged(cluster, verdict)


def keep(cluster: Cluster) -> Judged:
    return Judged(cluster, Verdict(cluster.number, "keep_all", reason="two hobbies"))


def changed(made: ConsolidationPlan) -> pl.DataFrame:
    """All rows of facts that the plan writes, with the columns of a fact."""
    return pl.concat([made.facts.select(*frames.FACTS), made.reworded])


def after(pool: Pool, made: ConsolidationPlan) -> pl.DataFrame:
    """The facts of the pool as they are once the plan is written."""
    rows = changed(made).join(pool.facts.select("id", "created_at"), on="id", how="left")
    rest = pool.facts.drop("is_seed").join(rows, on="id", how="anti")
    rows = rows.with_columns(pl.col("created_at").fill_null(NOW))
    return pl.concat([rest, rows.select(rest.columns)])


def row(made: ConsolidationPlan, id_: str) -> dict[str, Any]:
    return changed(made).row(by_predicate=pl.col("id") == id_, named=True)


def losers(pool: Pool) -> dict[str, str]:
    return dict(merge_alike(pool, LIMITS).losers.select("loser_id", "winner_id").iter_rows())


def guards(pool: Pool) -> list[str]:
    return merge_alike(pool, LIMITS).undecided["guard"].to_list()


TEA, CHAI = fact("a", "Ana drinks green tea every morning"), fact("b", "Each morning Ana has a cup of green tea", at=3)


# S1-01: who is looked at


def test_s1_01_seeds_are_unmarked_live_facts_of_a_comparable_kind_oldest_first() -> None:
    facts = frame(
        [
            fact("c", "x", at=2),
            fact("b", "x", at=1),
            fact("a", "x", at=2, kind="relation"),
            fact("d", "x", kind="structural"),
            fact("e", "x", kind="similarity"),
            fact("f", "x", consolidated_at=NOW),
            fact("g", "x", kind="note", at=9),
        ]
    )
    assert select_seeds(facts, frames.empty(frames.PAIR_DECISIONS), False).to_list() == ["b", "a", "c", "g"]


def decided(a: str, b: str, outcome: str, by: str = "rule", version: str = "", kind: str = "redundant") -> pl.DataFrame:
    row = {"id": row_id("pd", a, b, kind), "a_id": a, "b_id": b, "kind": kind, "outcome": outcome, "decided_by": by}
    return frames.conform(pl.DataFrame([{**row, "prompt_version": version}]), frames.PAIR_DECISIONS)


def test_s1_01_with_a_model_the_facts_of_waiting_pairs_are_looked_at_again() -> None:
    facts = frame([fact(name, "x", consolidated_at=NOW) for name in "abcd"])
    pending = pl.concat([decided("a", "b", "pending"), decided("c", "gone", "pending"), decided("c", "d", "keep_all")])
    assert select_seeds(facts, pending, has_model=True).to_list() == ["a", "b"]
    assert select_seeds(facts, pending, has_model=False).is_empty()
    assert select_seeds(facts, decided("a", "b", "pending", kind="implicit_conflict"), True).is_empty()


@pytest.mark.parametrize(("attempts", "again"), [(2, ["a", "b"]), (3, [])])
def test_s1_01_a_failed_pair_is_tried_again_while_attempts_are_left(attempts: int, again: list[str]) -> None:
    facts = frame([fact(name, "x", consolidated_at=NOW, consolidation_attempts=attempts) for name in "ab"])
    assert select_seeds(facts, decided("a", "b", "failed"), True).to_list() == again


# S1-04, S1-10: the short-cut and its guards


def test_s1_04_the_same_words_are_merged_without_a_model() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[1], at=1))
    merges = merge_alike(pool, LIMITS)
    assert merges.losers.select("loser_id", "winner_id", "stage").rows() == [("b", "a", "text")]
    assert merges.undecided.is_empty()


def test_s1_10_of_equals_the_later_is_absorbed_by_the_earlier() -> None:
    assert losers(pool_of(fact("b", ALIKE[0], at=0), fact("a", ALIKE[0], at=1))) == {"a": "b"}


def test_the_same_meaning_is_merged_where_every_guard_agrees() -> None:
    a, b = fact("a", "Ana works in the garden"), fact("b", "Ana is working in the garden", at=1)
    merges = merge_alike(pool_of(a, b, cosine=0.97), MergeSettings(text_dedup=0.99, merge_cosine=0.92))
    assert merges.losers.select("loser_id", "winner_id", "stage").rows() == [("b", "a", "meaning")]
    assert merge_alike(pool_of(a, b, cosine=0.91), MergeSettings(text_dedup=0.99, merge_cosine=0.92)).losers.is_empty()


GOLDEN = [
    ("The limit is 100 requests per minute", "The limit is 1000 requests per minute"),
    ("The user does like cilantro", "The user does not like cilantro"),
    ("Ana likes cilantro", "Ana does not like cilantro"),
    ("The service runs on Python 3.11", "The service runs on Python 3.12"),
    ("The user prefers dark roast coffee", "The user prefers light roast coffee"),
    ("Ana pays Ben", "Ben pays Ana"),
]


@pytest.mark.parametrize(("one", "other"), GOLDEN)
def test_t29_statements_that_differ_in_a_number_a_negation_or_a_word_are_never_merged(one: str, other: str) -> None:
    pool = pool_of(fact("a", one), fact("b", other), cosine=0.99, version="")
    assert losers(pool) == {}
    made = plan(pool)
    assert made.pairs["outcome"].to_list() == ["pending"]
    assert made.pairs["guard"][0] not in (None, "likeness")
    assert made.summary()["merged"] == 0


def test_what_is_not_alike_enough_says_so() -> None:
    assert guards(pool_of(TEA, CHAI, cosine=0.75)) == ["likeness"]


@pytest.mark.parametrize(
    ("other", "guard"),
    [
        ({"subject_id": "e_ben"}, "identity"),
        ({"polarity": "negated"}, "polarity"),
        ({"valid_to": day(900)}, "validity"),
        ({"kind": "note"}, "identity"),
    ],
)
def test_g3_facts_of_another_subject_polarity_end_or_kind_are_not_merged(other: dict[str, Any], guard: str) -> None:
    assert guards(pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], **other))) == [guard]


def test_g3_relations_need_one_predicate_and_object() -> None:
    relation = {"kind": "relation", "predicate": "uses", "object_id": "e_vim", "object_text": "vim"}
    same, other = fact("b", ALIKE[0], **relation), fact("c", ALIKE[0], **{**relation, "object_id": "e_nano"})
    pool = pool_of(fact("a", ALIKE[0], **relation), same, other)
    assert losers(pool) == {"b": "a"}
    assert guards(pool) == ["identity"]


def test_what_is_bound_to_the_day_it_was_said_is_merged_within_that_day_only() -> None:
    words = "Ana went to the dentist yesterday"
    assert losers(pool_of(fact("a", words), fact("b", words, at=0.1))) == {"b": "a"}
    assert guards(pool_of(fact("a", words), fact("b", words, at=1))) == ["day"]


def test_s1_09_facts_of_different_scopes_are_never_compared() -> None:
    pool = pool_of(fact("a", ALIKE[0], scope="p1"), fact("b", ALIKE[0], scope="p2"), fact("c", ALIKE[0]))
    merges = merge_alike(pool, LIMITS)
    assert merges.losers.is_empty()
    assert merges.undecided.is_empty()


@pytest.mark.parametrize(
    "loser",
    [
        {"pinned": True, "entrenchment": "system_inferred"},
        {"entrenchment": "user_axiom"},
        {"entrenchment": "user_stated"},
    ],
)
def test_g4_a_pinned_axiomatic_or_stronger_fact_survives(loser: dict[str, Any]) -> None:
    weak = fact("a", ALIKE[0], entrenchment="system_inferred", evidence_count=9, confidence=1.0)
    assert losers(pool_of(weak, fact("b", ALIKE[0], at=5, **loser))) == {"a": "b"}


def test_g4_two_facts_of_which_neither_may_yield_both_stay() -> None:
    assert guards(pool_of(fact("a", ALIKE[0], pinned=True), fact("b", ALIKE[0], pinned=True))) == ["rank"]
    inferred_pin = fact("a", ALIKE[0], pinned=True, entrenchment="system_inferred")
    assert guards(pool_of(inferred_pin, fact("b", ALIKE[0]))) == ["rank"]


@pytest.mark.parametrize(
    "better", [{"evidence_count": 2}, {"confidence": 0.9}, {"statement": ALIKE[0]}, {"created_at": day(-1)}]
)
def test_of_equal_rank_survives_what_has_more_evidence_is_surer_shorter_or_older(better: dict[str, Any]) -> None:
    assert losers(pool_of(fact("a", ALIKE[0] + "!!"), fact("b", ALIKE[0] + "!!") | better)) == {"a": "b"}


def test_a_statement_that_says_more_is_not_absorbed_by_one_that_says_less() -> None:
    short, long = fact("a", "Ana drives a car", evidence_count=5), fact("b", "Ana drives a red car")
    assert losers(pool_of(short, long, cosine=0.97)) == {}


def test_no_chaining_a_loser_was_compared_with_its_survivor_itself() -> None:
    words = ALIKE[0]
    chain = [fact("a", words), fact("b", words, at=1), fact("c", words, at=2)]
    apart = Pool(frame(chain), pairs_of(chain, {("a", "b"): 0.95}), prompt_version=VERSION)
    assert losers(apart) == {"b": "a"}
    other = fact("c", "Ana drinks black tea in the office kitchen")
    pool = pool_of(fact("a", words), fact("b", words), other, cosine=0.96)
    assert losers(pool) == {"b": "a"}


def test_twins_that_were_only_measured_with_a_loser_are_merged_too() -> None:
    crowd = [fact(f"f{number:02d}", ALIKE[0], evidence_count=9 if number == 30 else 1) for number in range(40)]
    star = {("f00", each["id"]): 1.0 for each in crowd[1:]}
    pool = Pool(frame(crowd), pairs_of(crowd, star), prompt_version=VERSION)
    assert set(losers(pool).values()) == {"f30"}
    assert len(losers(pool)) == 39


def test_a_pair_without_a_seed_is_left_alone() -> None:
    pool = pool_of(fact("a", ALIKE[0], is_seed=False), fact("b", ALIKE[0], is_seed=False))
    assert merge_alike(pool, LIMITS).losers.is_empty()


@pytest.mark.parametrize(("by", "version"), [("person", ""), ("model", VERSION)])
def test_a_pair_that_was_kept_by_a_person_or_the_present_prompt_is_neither_merged_nor_asked(
    by: str, version: str
) -> None:
    kept = decided("a", "b", "keep_all", by, version)
    assert losers(pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0]), decided=kept)) == {}
    asked = pool_of(TEA, CHAI, decided=kept, cosine=0.75)
    assert clusters(asked) == ()
    assert plan_pairs(asked, merge_alike(asked, LIMITS), LIMITS) == ()


def test_a_pair_that_another_prompt_kept_is_asked_again() -> None:
    assert len(clusters(pool_of(TEA, CHAI, decided=decided("a", "b", "keep_all", "model", "v0"), cosine=0.75))) == 1


# S1-03, S1-05, S1-13, S1-14: what a model is asked


def test_s1_05_what_the_short_cut_left_is_shown_under_indices() -> None:
    (cluster,) = clusters(pool_of(TEA, CHAI, cosine=0.75))
    assert cluster.ids() == ("a", "b")
    first = cluster.facts[0]
    assert (first.index, first.statement, first.scope, first.valid_from) == (0, TEA["statement"], "global", day(0))
    assert (first.confidence, first.entrenchment, first.evidence_count) == (0.8, "user_stated", 1)


def test_s1_03_a_cluster_without_a_seed_is_not_asked_about() -> None:
    assert clusters(pool_of(TEA | {"is_seed": False}, CHAI | {"is_seed": False}, cosine=0.75)) == ()
    assert len(clusters(pool_of(TEA | {"is_seed": False}, CHAI, cosine=0.75))) == 1


def test_t28_unrelated_facts_in_a_chain_at_the_threshold_are_not_sent_as_one_cluster() -> None:
    facts = [fact(f"f{n:02d}", f"Statement number {n} of something else") for n in range(20)]
    vectors = np.eye(20, dtype=np.float32)
    for place in range(1, 20):
        vectors[place] = 0.61 * vectors[place - 1] + np.sqrt(1 - 0.61**2) * vectors[place]
    links = {(f"f{n:02d}", f"f{n + 1:02d}"): 0.61 for n in range(19)}
    pool = Pool(frame(facts), pairs_of(facts, links), prompt_version=VERSION)
    asked = plan_clusters(pool, merge_alike(pool, LIMITS), vectors, LIMITS, 0.60)
    assert asked
    assert max(len(cluster.facts) for cluster in asked) == 2


def test_facts_that_end_at_different_times_are_not_asked_about_together() -> None:
    assert clusters(pool_of(TEA, CHAI | {"valid_to": day(300)}, cosine=0.75)) == ()


@pytest.mark.parametrize(
    ("seeds", "mode", "pairs"),
    [(20, "auto", True), (21, "auto", False), (1, "cluster", False), (99, "pairwise", True)],
)
def test_s1_14_small_batches_go_pair_by_pair_unless_it_is_forced(seeds: int, mode: Any, pairs: bool) -> None:
    assert uses_pairs(seeds, mode, LIMITS) is pairs


def old(id_: str, words: str) -> dict[str, Any]:
    return fact(id_, words, is_seed=False, consolidated_at=day(1))


def pair_pool() -> Pool:
    new = fact("n", "Ana sips green tea at dawn", at=9)
    facts = [new, old("x", "Tea is what Ana drinks first"), old("y", "Ana begins the day with sencha")]
    links = {("n", "x"): 0.8, ("n", "y"): 0.7, ("x", "y"): 0.75}
    return Pool(frame(facts), pairs_of(facts, links), prompt_version=VERSION)


def rounds(pool: Pool, *judged: Judged) -> list[tuple[str, ...]]:
    return [cluster.ids() for cluster in plan_pairs(pool, merge_alike(pool, LIMITS), LIMITS, judged, 0.60)]


def first_pair(pool: Pool) -> Cluster:
    return plan_pairs(pool, merge_alike(pool, LIMITS), LIMITS)[0]


def test_s1_13_a_new_fact_is_asked_about_with_its_best_candidate_first() -> None:
    assert rounds(pair_pool()) == [("n", "x")]


def test_s1_13_a_new_fact_that_was_absorbed_has_no_more_candidates() -> None:
    pool = pair_pool()
    assert rounds(pool, supersede(first_pair(pool), "x", "n")) == []


def test_s1_13_a_new_fact_that_wins_or_differs_goes_on_to_the_next_and_no_pair_is_asked_twice() -> None:
    pool = pair_pool()
    for first in (supersede(first_pair(pool), "n", "x"), keep(first_pair(pool)), Judged(first_pair(pool), error="x")):
        assert rounds(pool, first) == [("n", "y")]
        second = plan_pairs(pool, merge_alike(pool, LIMITS), LIMITS, [first])[0]
        assert rounds(pool, first, keep(second)) == []


def test_s1_13_a_survivor_goes_on_in_its_new_words() -> None:
    pool = pair_pool()
    first = supersede(first_pair(pool), "n", "x", reworded="Ana sips the green tea at dawn")
    again = plan_pairs(pool, merge_alike(pool, LIMITS), LIMITS, [first])[0]
    assert again.facts[0].statement == "Ana sips the green tea at dawn"


def test_no_fact_is_in_two_pairs_of_one_round() -> None:
    pool = pool_of(TEA, CHAI, fact("c", "Green tea is the first thing Ana drinks"), cosine=0.75)
    (only,) = plan_pairs(pool, merge_alike(pool, LIMITS), LIMITS)
    assert len(set(only.ids())) == 2


def test_s1_12_reranking_weighs_words_in() -> None:
    new = fact("n", "Ana rides her bike to the office")
    facts = [new, old("x", "Cycling is how Ana commutes"), old("y", "Ana rides the bike to the gym")]
    pool = Pool(frame(facts), pairs_of(facts, {("n", "x"): 0.80, ("n", "y"): 0.75}), prompt_version=VERSION)
    for rerank, best in ((False, "x"), (True, "y")):
        chosen = LIMITS.model_copy(update={"rerank": rerank})
        assert plan_pairs(pool, merge_alike(pool, chosen), chosen)[0].ids() == ("n", best)


# S1-05, T37: what of an answer is taken


def verdict_pool(**second: Any) -> tuple[Pool, Cluster]:
    pool = pool_of(TEA, CHAI | second, fact("c", "Ana likes green tea"), cosine=0.75)
    return pool, clusters(pool)[0]


@pytest.mark.parametrize(
    ("verdict", "wrong"),
    [
        (Verdict(0, "keep_all"), ""),
        (Verdict(0, "supersede", 0, (1,)), ""),
        (Verdict(0, "supersede", 1, (0, 2)), ""),
        (Verdict(0, "merge", 0, (1,)), "outcome"),
        (Verdict(0, "supersede", None, (1,)), "survivor"),
        (Verdict(0, "supersede", 0, ()), "absorbed"),
        (Verdict(0, "supersede", 0, (3,)), "no fact has the index 3"),
        (Verdict(0, "supersede", -1, (0,)), "no fact has the index -1"),
        (Verdict(0, "supersede", 0, (0, 1)), "both"),
        (Verdict(0, "supersede", 0, (1, 1)), "twice"),
        (Verdict(0, "supersede", 0, (1,), ""), ""),
        (Verdict(0, "supersede", 0, (1,), "Ana drinks the green tea every morning"), ""),
        (Verdict(0, "supersede", 0, (1,), "Every morning green tea drinks Ana"), ""),
        (Verdict(0, "supersede", 0, (1,), "Every morning Ana drinks a cup of green tea"), "joins 'cup'"),
        (Verdict(0, "supersede", 0, (1,), "Ana drinks green tea every morning in Lisbon"), "lisbon"),
        (Verdict(0, "supersede", 0, (1,), "Ana does not drink green tea every morning"), "polarity"),
        (Verdict(0, "supersede", 0, (1,), "Ana drinks 3 green tea every morning"), "quantity"),
        (Verdict(0, "supersede", 0, (1,), "Ana drinks green tea every morning " * 60), "2048 bytes"),
    ],
)
def test_s1_05_an_answer_is_checked_before_it_is_taken(verdict: Verdict, wrong: str) -> None:
    pool, cluster = verdict_pool()
    said = check_verdict(cluster, verdict, pool.facts)
    assert wrong in said.lower()
    assert bool(said) == bool(wrong)


@pytest.mark.parametrize(
    "member",
    [
        {"pinned": True},
        {"entrenchment": "user_axiom"},
        {"entrenchment": "user_axiom", "pinned": True},
        {"polarity": "negated"},
    ],
)
def test_s1_22_a_pinned_axiomatic_stronger_or_opposite_fact_is_never_absorbed(member: dict[str, Any]) -> None:
    pool, cluster = verdict_pool(**member)
    assert "must stay" in check_verdict(cluster, Verdict(0, "supersede", 0, (1,)), pool.facts)


def test_s1_22_a_weaker_source_never_absorbs_a_stronger_one() -> None:
    pool = pool_of(TEA | {"entrenchment": "system_inferred"}, CHAI, cosine=0.75)
    (cluster,) = clusters(pool)
    assert "better entrenched" in check_verdict(cluster, Verdict(0, "supersede", 0, (1,)), pool.facts)
    assert check_verdict(cluster, Verdict(0, "supersede", 1, (0,)), pool.facts) == ""


def test_a_pinned_survivor_keeps_its_words() -> None:
    pool, cluster = verdict_pool(pinned=True)
    words = "Each morning Ana has a cup of green tea she drinks"
    assert check_verdict(cluster, Verdict(0, "supersede", 1, (0,)), pool.facts) == ""
    assert "pinned" in check_verdict(cluster, Verdict(0, "supersede", 1, (0,), words), pool.facts)


def test_a_fact_of_another_scope_is_never_absorbed() -> None:
    pool, cluster = verdict_pool()
    moved = pool.facts.with_columns(scope=pl.when(pl.col("id") == "b").then(pl.lit("p1")).otherwise("scope"))
    assert "another scope" in check_verdict(cluster, Verdict(0, "supersede", 0, (1,)), moved)


def test_a_verdict_about_a_fact_that_is_gone_is_not_taken() -> None:
    pool, cluster = verdict_pool()
    left = pool.facts.filter(pl.col("id") != "b")
    assert "does not exist" in check_verdict(cluster, Verdict(0, "supersede", 0, (1,)), left)


# S1-06, S1-07, S1-08: what becomes of the facts


def test_s1_06_an_absorbed_fact_is_superseded_and_its_interval_stays_open() -> None:
    made = plan(pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=2)))
    lost = row(made, "b")
    assert (lost["status"], lost["replaced_by"], lost["valid_to"], lost["expired_at"]) == ("superseded", "a", None, NOW)
    assert lost["status_reason"].startswith("dedup:")
    assert made.lineage.select("old_id", "new_id", "reason").rows() == [("b", "a", "dedup")]
    check_transition("active", lost["status"])


def test_s1_06_a_survivor_takes_the_best_of_all_it_absorbed() -> None:
    pool = pool_of(
        fact("a", ALIKE[0], at=9, evidence_count=3, aspect_slugs=["health"]),
        fact("b", ALIKE[0], at=1, confidence=0.95, aspect_slugs=["music", "health"]),
        fact("c", ALIKE[0], at=4, entrenchment="system_inferred"),
    )
    made = plan(pool)
    kept = row(made, "a")
    assert (kept["valid_from"], kept["confidence"], kept["evidence_count"]) == (day(1), 0.95, 3)
    assert (kept["entrenchment"], kept["aspect_slugs"]) == ("user_stated", ["music", "health"])
    assert kept["supersedes_id"] == "c"
    assert made.aspects.select("fact_id", "slug").rows() == [("a", "music")]
    assert made.summary()["merged"] == 2


def test_c13_messages_are_counted_once_and_none_is_lost() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=1), fact("c", ALIKE[0], at=2))
    shared = {"a": ["m1", "m2"], "b": ["m2", "m3"], "c": ["m4"]}
    rows = [{"id": row_id("v", f, m), "fact_id": f, "message_id": m} for f, said in shared.items() for m in said]
    evidence = frames.conform(pl.DataFrame(rows), frames.FACT_EVIDENCE)
    made = plan(pool, evidence=evidence)
    assert sorted(made.evidence.select("fact_id", "message_id").rows()) == [("a", "m3"), ("a", "m4")]
    assert set(made.evidence["id"]) == {row_id("v", "a", "m3"), row_id("v", "a", "m4")}
    assert row(made, "a")["evidence_count"] == 4


def reworded(words: str = "Ana drinks the green tea every morning") -> tuple[Pool, ConsolidationPlan]:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    return pool, plan(pool, [supersede(clusters(pool)[0], "a", "b", reworded=words)])


def test_s1_06_a_reworded_survivor_is_a_new_fact_that_takes_the_place_of_all() -> None:
    pool, made = reworded()
    (new,) = made.reworded.iter_rows(named=True)
    assert new["statement"] == "Ana drinks the green tea every morning"
    assert new["statement_hash"] == statement_hash(new["statement"])
    assert (new["status"], new["valid_from"], new["subject_id"]) == ("active", day(0), "e_ana")
    assert (new["evidence_count"], new["entrenchment"], new["embed_model"]) == (2, "user_stated", None)
    assert new["consolidated_at"] == NOW
    assert new["supersedes_id"] == "b"
    for id_ in ("a", "b"):
        assert (row(made, id_)["status"], row(made, id_)["replaced_by"]) == ("superseded", new["id"])
        assert row(made, id_)["statement"] == pool.facts.row(by_predicate=pl.col("id") == id_, named=True)["statement"]
    assert set(made.evidence["message_id"]) == {"m_a", "m_b"}
    assert set(made.evidence["fact_id"]) == {new["id"]}
    assert sorted(made.lineage["old_id"]) == ["a", "b"]
    batch = made.batches.row(0, named=True)
    assert (batch["id"], batch["origin"], batch["state"]) == (new["patch_batch_id"], "consolidate", "applied")
    assert made.summary() | {"looked_at": 2} == {
        "looked_at": 2, "merged": 1, "reworded": 1, "kept": 0, "pending": 0, "failed": 0,
    }  # fmt: skip
    assert made.decisions.filter(pl.col("action") == "create")["subject_id"].to_list() == [new["id"]]


def test_t41_the_same_answer_makes_the_same_new_fact() -> None:
    assert reworded()[1].reworded.equals(reworded()[1].reworded)


def test_the_own_words_of_the_survivor_are_no_new_wording() -> None:
    _, made = reworded(TEA["statement"].upper() + ".")
    assert made.reworded.is_empty()
    assert made.batches.is_empty()
    assert row(made, "b")["replaced_by"] == "a"


def test_s1_07_keep_all_changes_nothing_but_the_marks_and_is_remembered() -> None:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    made = plan(pool, [keep(clusters(pool)[0])])
    before = pool.facts.select(*frames.FACTS).with_columns(consolidated_at=pl.lit(NOW, dtype=frames.TIME))
    assert made.facts.select(*frames.FACTS).equals(before.sort("id"))
    pair = made.pairs.row(0, named=True)
    assert (pair["outcome"], pair["decided_by"], pair["prompt_version"], pair["guard"]) == (
        "keep_all", "model", VERSION, "likeness",
    )  # fmt: skip
    (told,) = made.decisions.iter_rows(named=True)
    assert (told["action"], told["ids_in"], told["reason"]) == ("keep", ["a", "b"], "two hobbies")


def test_what_a_verdict_to_keep_says_of_indices_is_not_read() -> None:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    made = plan(pool, [Judged(clusters(pool)[0], Verdict(0, "keep_all", 7, (9,), "Nobody"))])
    assert made.pairs["outcome"].to_list() == ["keep_all"]
    assert made.lineage.is_empty()


def test_s1_08_everything_that_was_processed_is_marked() -> None:
    alone, neighbour = fact("z", "Ana owns a boat"), fact("y", "Green tea is good", is_seed=False)
    pool = pool_of(TEA, CHAI, neighbour, alone, cosine=0.75, a__z=0.1, b__z=0.1, y__z=0.1)
    cluster = Cluster(0, clusters(pool)[0].facts)
    made = plan(pool, [supersede(cluster, "a", "b")])
    assert set(made.facts.filter(pl.col("consolidated_at") == NOW)["id"]) == {"a", "b", "z", *cluster.ids()}


def test_s1_08_a_failure_leaves_its_seeds_unmarked_until_the_third() -> None:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    for attempt in (1, 2, 3):
        made = plan(pool, [Judged(clusters(pool)[0], error="refused")])
        failed = row(made, "a")
        assert failed["consolidation_attempts"] == attempt
        assert (failed["consolidated_at"], failed["consolidation_error"]) == (
            (NOW, "refused") if attempt == 3 else (None, None)
        )
        assert made.pairs["outcome"].to_list() == ["failed"]
        assert made.summary()["failed"] == 1
        pool = replace(pool, facts=after(pool, made).with_columns(is_seed=True))


def test_s1_08_an_unusable_answer_counts_as_a_failure_and_changes_nothing_else() -> None:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    (cluster,) = clusters(pool)
    made = plan(pool, [Judged(cluster, Verdict(0, "supersede", 0, (7,)))])
    assert made.lineage.is_empty()
    assert row(made, "a")["consolidation_attempts"] == 1
    assert "index 7" in made.decisions["reason"][0]


def test_an_answer_after_failures_clears_their_count() -> None:
    pool = pool_of(TEA | {"consolidation_attempts": 2}, CHAI, cosine=0.75)
    assert row(plan(pool, [keep(clusters(pool)[0])]), "a")["consolidation_attempts"] == 0


def test_what_was_planned_but_not_asked_stays_for_the_next_run() -> None:
    pool = pool_of(TEA, CHAI, fact("z", "Ana owns a boat"), cosine=0.75, a__z=0.1, b__z=0.1)
    made = plan(pool, [Judged(Cluster(0, clusters(pool)[0].facts[:2]))])
    assert made.facts["id"].to_list() == ["z"]
    assert made.pairs.is_empty()
    assert made.decisions.is_empty()


def test_a_verdict_may_absorb_a_part_and_the_rest_is_kept() -> None:
    pool, cluster = verdict_pool()
    made = plan(pool, [supersede(cluster, "a", "b")])
    outcomes = {(a, b): how for a, b, how in made.pairs.select("a_id", "b_id", "outcome").iter_rows()}
    assert outcomes == {("a", "b"): "supersede", ("a", "c"): "keep_all", ("b", "c"): "keep_all"}
    assert row(made, "c")["status"] == "active"


# Without a model: what waits


def test_without_a_model_the_best_pair_of_each_fact_waits_with_its_guard() -> None:
    pool = pool_of(TEA, CHAI, fact("c", "Ana likes tea"), version="", a__b=0.8, b__c=0.75, a__c=0.7)
    made = plan(pool)
    assert made.pairs.select("a_id", "b_id", "outcome", "guard", "decided_by").rows() == [
        ("a", "b", "pending", "likeness", "rule"),
        ("b", "c", "pending", "likeness", "rule"),
    ]
    assert set(made.facts["consolidated_at"]) == {NOW}
    assert made.summary()["pending"] == 2


def test_with_a_model_nothing_waits_and_what_waited_is_settled() -> None:
    waiting = decided("a", "b", "pending")
    pool = pool_of(TEA, CHAI, decided=waiting, cosine=0.75)
    assert plan(pool, [keep(clusters(pool)[0])]).pairs["outcome"].to_list() == ["keep_all"]
    parted = plan(pool)  # no cluster held both
    assert parted.pairs.select("id", "outcome", "decided_by").rows() == [(waiting["id"][0], "keep_all", "rule")]


def test_a_pair_that_waited_for_a_fact_that_was_absorbed_waits_no_more() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=1), version="", decided=decided("b", "x", "pending"))
    assert plan(pool).pairs.select("a_id", "b_id", "outcome").rows() == [("b", "x", "supersede")]


# Order, circles, races


def test_t36_a_fact_is_absorbed_once_and_a_survivor_that_is_gone_absorbs_nothing() -> None:
    pool = pool_of(TEA, CHAI, fact("c", "Ana likes green tea"), cosine=0.75)
    (whole,) = clusters(pool)
    ab, bc = (
        Cluster(0, whole.facts[:2]),
        Cluster(1, (replace(whole.facts[1], index=0), replace(whole.facts[2], index=1))),
    )
    made = plan(pool, [supersede(ab, "a", "b"), supersede(bc, "b", "c")])
    assert made.lineage.select("old_id", "new_id").rows() == [("b", "a")]
    assert row(made, "a")["consolidated_at"] == NOW
    assert "c" not in made.facts["id"].to_list()


def test_a_survivor_may_itself_be_absorbed_later_and_everything_goes_on_in_the_last() -> None:
    pool = pool_of(TEA, CHAI, fact("c", "Ana likes green tea in the morning", at=7), cosine=0.75)
    (whole,) = clusters(pool)
    ab = Cluster(0, whole.facts[:2])
    ca = Cluster(1, (replace(whole.facts[2], index=0), replace(whole.facts[0], index=1)))
    words = "Ana drinks the green tea every morning"
    made = plan(pool, [supersede(ab, "a", "b", reworded=words), supersede(ca, "c", "a")])
    assert made.reworded.is_empty()
    assert (row(made, "b")["replaced_by"], row(made, "a")["replaced_by"]) == ("a", "c")
    assert row(made, "c")["valid_from"] == day(0)
    assert set(made.evidence.filter(pl.col("fact_id") == "c")["message_id"]) == {"m_a", "m_b"}
    assert row(made, "c")["evidence_count"] == 3


def test_t35_a_replacement_that_would_close_a_circle_is_refused() -> None:
    pool = pool_of(TEA | {"replaced_by": "b"}, CHAI, cosine=0.75)  # restored after it had been replaced
    made = plan(pool, [supersede(clusters(pool)[0], "a", "b")])
    assert made.lineage.is_empty()
    assert losers(pool_of(fact("a", ALIKE[0], replaced_by="b"), fact("b", ALIKE[0]))) == {"b": "a"}
    assert plan(pool_of(fact("a", ALIKE[0], replaced_by="b"), fact("b", ALIKE[0]))).lineage.is_empty()


def test_t40_what_died_meanwhile_is_left_out_and_its_question_is_asked_again() -> None:
    pool = pool_of(TEA, CHAI, fact("c", ALIKE[0]), fact("d", ALIKE[0]), cosine=0.75, c__d=0.99)
    merges, judged = merge_alike(pool, LIMITS), [supersede(clusters(pool)[0], "a", "b")]
    assert merges.losers["loser_id"].to_list() == ["d"]
    left, fewer, answers = only_live(pool, merges, judged, pl.Series(["a", "d"]))
    assert fewer.losers.is_empty()
    assert [each.verdict for each in answers] == [None]
    made = plan(left, answers, fewer)
    assert made.lineage.is_empty()
    assert made.facts["id"].to_list() == ["d"]


def test_t40_a_loser_that_was_pinned_meanwhile_stays() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=1))
    merges = merge_alike(pool, LIMITS)
    pinned = replace(pool, facts=pool.facts.with_columns(pinned=pl.col("id") == "b"))
    assert plan(pinned, merges=merges).lineage.is_empty()


def test_s1_20_every_decision_says_what_it_saw_and_who_decided() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=1), TEA | {"id": "t"}, CHAI | {"id": "u"}, cosine=0.75)
    cluster = next(each for each in clusters(pool) if "t" in each.ids())
    made = plan(pool, [supersede(cluster, "t", "u")])
    told = {each["subject_id"]: each for each in made.decisions.iter_rows(named=True)}
    assert (told["a"]["action"], told["a"]["decided_by"]) == ("absorb", "rule")
    assert '"text_dedup":0.85' in told["a"]["measures"]
    assert (told["t"]["decided_by"], told["t"]["model"], told["t"]["reason"]) == (
        "model",
        "anthropic/claude",
        "the same",
    )
    assert f'"prompt_version":"{VERSION}"' in told["t"]["measures"]
    assert set(made.lineage["reason"]) == {"dedup", "consolidated"}


def test_nothing_to_look_at_makes_an_empty_plan() -> None:
    made = plan(Pool(frame([]), pl.DataFrame(schema=PAIRS)))
    assert all(getattr(made, name).is_empty() for name in ("facts", *CHANGED))
    assert set(made.summary().values()) == {0}


# Laws

WORDS = (
    "Ana drinks green tea", "Ana drinks green tea!", "ana drinks green tea", "Ana drinks no green tea",
    "Ana drinks 2 green tea", "Ana drinks 3 green tea", "Ben drinks green tea", "Ana drinks green tea today",
    "Ana drinks strong green tea", "Ana owns a boat",
)  # fmt: skip


@st.composite
def _pools(draw: st.DrawFn) -> Pool:
    count = draw(st.integers(0, 9))
    facts = [
        fact(
            f"f{number}",
            draw(st.sampled_from(WORDS)),
            at=draw(st.integers(0, 3)),
            scope=draw(st.sampled_from(["global", "global", "p1"])),
            pinned=draw(st.sampled_from([False, False, True])),
            entrenchment=draw(st.sampled_from(["system_inferred", "user_stated", "user_axiom"])),
            confidence=draw(st.sampled_from([0.5, 0.9])),
            evidence_count=draw(st.integers(1, 3)),
            valid_to=draw(st.sampled_from([None, None, day(500)])),
            is_seed=draw(st.booleans()),
            message_id=f"m{draw(st.integers(0, 5))}",
        )
        for number in range(count)
    ]
    pairs = {
        (f"f{a}", f"f{b}"): draw(st.sampled_from([0.65, 0.9, 0.95, 1.0]))
        for a in range(count)
        for b in range(a + 1, count)
        if draw(st.booleans())
    }
    return Pool(frame(facts), pairs_of(facts, pairs), prompt_version=draw(st.sampled_from(["", VERSION])))


def answered(pool: Pool, draw: Any) -> list[Judged]:
    """Arbitrary answers, sensible or not, to what a model would be asked."""
    if not pool.prompt_version:
        return []
    judged = []
    for cluster in clusters(pool):
        members = range(-1, len(cluster.facts) + 1)
        survivor = draw(st.sampled_from(members))
        absorbed = tuple(draw(st.lists(st.sampled_from(members), max_size=3)))
        words = draw(st.sampled_from([None, "", "Ana drinks green tea", "Ana does drink green tea", "Nobody"]))
        verdict = Verdict(
            cluster.number, draw(st.sampled_from(["supersede", "supersede", "keep_all"])), survivor, absorbed, words
        )
        judged.append(
            draw(st.sampled_from([Judged(cluster, verdict)] * 4 + [Judged(cluster), Judged(cluster, None, "no")]))
        )
    return judged


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_whatever_a_model_answers_memory_keeps_its_laws(data: st.DataObject) -> None:
    pool = data.draw(_pools())
    judged = answered(pool, data.draw)
    made = plan(pool, judged)
    facts = after(pool, made)
    before = {each["id"]: each for each in pool.facts.iter_rows(named=True)}
    steps = dict(facts.drop_nulls("replaced_by").select("id", "replaced_by").iter_rows())
    gone = facts.filter(pl.col("status") == "superseded")
    live = set(facts.filter(is_live(NOW))["id"])
    # No fact is both survivor and absorbed, every chain ends in a live fact, no chain is a circle.
    assert gone["id"].n_unique() == len(gone)
    assert set(steps) == set(gone["id"])
    assert live.isdisjoint(steps)
    rank = ["system_inferred", "user_stated", "user_axiom"]
    for id_ in gone["id"]:
        chain = successors(id_, steps)
        assert chain[-1] in live
        assert id_ not in chain
        heir = facts.row(by_predicate=pl.col("id") == chain[-1], named=True)
        # Nothing pinned, axiomatic, stronger or of another scope was absorbed.
        assert not before[id_]["pinned"]
        assert before[id_]["entrenchment"] != "user_axiom"
        assert rank.index(before[id_]["entrenchment"]) <= rank.index(heir["entrenchment"])
        assert before[id_]["scope"] == heir["scope"]
        assert heir["valid_from"] <= before[id_]["valid_from"]
        assert heir["confidence"] >= before[id_]["confidence"]
    # No message is lost, and no fact says that fewer people said it than before.
    evidence = pl.concat([evidence_of(pool), made.evidence])
    said = {id_: set(part["message_id"]) for (id_,), part in evidence.group_by("fact_id")}
    for id_ in gone["id"]:
        assert said[id_] <= said[successors(id_, steps)[-1]]
    assert evidence["id"].n_unique() == len(evidence)
    # Whoever was valid is seen once: as itself, or as what it became.
    for moment in (day(1.5), day(3.5), day(499), day(501)):
        shown = set(valid_facts(facts, moment)["id"])
        for id_, each in before.items():
            valid = each["valid_from"] <= moment and (each["valid_to"] is None or each["valid_to"] > moment)
            family = {id_, *successors(id_, steps)}
            assert len(family & shown) == 1 or not valid


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_consolidating_again_changes_nothing(data: st.DataObject) -> None:
    pool = data.draw(_pools())
    merges = merge_alike(pool, LIMITS)
    judged = [keep(cluster) for cluster in clusters(pool)] if pool.prompt_version else []
    made = plan(pool, judged, merges)
    facts = after(pool, made)
    live = facts.filter(is_live(NOW))
    processed = facts.filter(pl.col("consolidated_at").is_not_null())["id"]
    assert set(pool.seeds()) <= set(processed)
    has_model = bool(pool.prompt_version)
    left = select_seeds(live, made.pairs, has_model)
    assert set(left).isdisjoint(pool.seeds())
    again = replace(pool, facts=live.with_columns(is_seed=False), decided=made.pairs)
    second = plan(again, now=NOW + timedelta(days=1))
    assert all(getattr(second, name).is_empty() for name in ("facts", *CHANGED))


@settings(max_examples=5, deadline=None)
@given(_pools(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(pool: Pool, chance: Any) -> None:
    order = list(range(len(pool.facts)))
    chance.shuffle(order)
    mixed = replace(pool, facts=pool.facts[order], pairs=pool.pairs.reverse())
    first, second = plan(pool), plan(mixed)
    for name in ("facts", *CHANGED):
        assert getattr(first, name).equals(getattr(second, name)), name
    assert clusters(pool) == clusters(mixed)
    merges = merge_alike(pool, LIMITS)
    assert plan_pairs(pool, merges, LIMITS) == plan_pairs(mixed, merge_alike(mixed, LIMITS), LIMITS)


@settings(max_examples=5, deadline=None)
@given(_pools())
def test_every_merge_passes_its_guards_with_the_survivor_itself(pool: Pool) -> None:
    merges = merge_alike(pool, LIMITS)
    assert merges.losers["loser_id"].n_unique() == len(merges.losers)
    assert set(merges.losers["loser_id"]).isdisjoint(merges.losers["winner_id"])
    known = {each["id"]: each for each in pool.facts.iter_rows(named=True)}
    for loser, winner in merges.losers.select("loser_id", "winner_id").iter_rows():
        two = [known[loser] | {"is_seed": True}, known[winner] | {"is_seed": True}]
        assert losers(Pool(frame(two), pairs_of(two, {(loser, winner): 1.0}))) == {loser: winner}
