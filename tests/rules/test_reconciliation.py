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
from measures import jaccard
from stores import observation

from slowwave.common import frames
from slowwave.common.comparison.similarity import Vectors
from slowwave.common.settings import MergeSettings
from slowwave.common.text import row_id
from slowwave.common.validity import is_live, successors, valid_facts
from slowwave.facts.deduplication.duplicates import (
    TOPICS,
    CandidateSet,
    Merges,
    by_words,
    find_topics,
    merge_by,
    select_seeds,
)
from slowwave.facts.deduplication.merged_facts import merge_clusters
from slowwave.facts.deduplication.pairs_for_a_model import JudgedPair, choose_pairs, uses_pairs
from slowwave.facts.deduplication.reconciliation_plan import ReconciliationPlan, plan_reconciliation
from slowwave.facts.revision.application import Surroundings

NOW = datetime(2026, 6, 1, tzinfo=UTC)
T0 = datetime(2026, 1, 1, 9, tzinfo=UTC)
VERSION = "v1"
LIMITS = MergeSettings(resolve_cosine=0.60, merge_cosine=0.92)
PAIRS = {"a_id": pl.String, "b_id": pl.String, "cosine": pl.Float64, "jaccard": pl.Float64}
ALIKE = ("Ana drinks green tea in the office kitchen", "Ana drinks green tea in the office kitchen!")


def day(number: float) -> datetime:
    return T0 + timedelta(days=number)


def fact(id_: str, statement: str, **more: Any) -> dict[str, Any]:
    """One live observation about Ana that nobody looked at yet; `at` is the day from which it holds."""
    at = day(more.pop("at", 0))
    about = {"aspect_slugs": [], "is_seed": True, "embed_model": "m", "patch_batch_id": "p_1", **more}
    return observation(id_, statement, at, **about)


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
) -> CandidateSet:  # fmt: skip
    """A pool where every pair has the same cosine, unless it is told as `a__b=.7`."""
    ids = [each["id"] for each in facts]
    every = {(a, b): cosine for place, a in enumerate(ids) for b in ids[place + 1 :]}
    told = {tuple(sorted(name.split("__"))): value for name, value in cosines.items()}
    known = {tuple(sorted(pair)): value for pair, value in every.items()} | told
    pairs = pairs_of(facts, known)  # type: ignore[arg-type]
    no_decisions = frames.empty(frames.PAIR_DECISIONS)
    return CandidateSet(frame(facts), pairs, no_decisions if decided is None else decided, version)


def vectors_of(pool: CandidateSet, *, alike: bool = True) -> Vectors:
    count = len(pool.facts)
    rows = np.ones((count, 4)) if alike else np.eye(count, max(count, 1))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def evidence_of(pool: CandidateSet) -> pl.DataFrame:
    """One message per fact: the one that said it."""
    rows = pool.facts.select(fact_id="id", message_id="message_id", confidence="confidence", occurred_at="valid_from")
    ids = [row_id("v", *pair) for pair in rows.select("fact_id", "message_id").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.FACT_EVIDENCE)


def aspects_of(pool: CandidateSet) -> pl.DataFrame:
    rows = pool.facts.select(fact_id="id", slug="aspect_slugs", via=pl.lit("regex")).explode("slug").drop_nulls("slug")
    ids = [row_id("as", *pair) for pair in rows.select("fact_id", "slug").iter_rows()]
    return frames.conform(rows.with_columns(id=pl.Series(ids, dtype=pl.String)), frames.FACT_ASPECTS)


def plan(
    pool: CandidateSet,
    judged: Sequence[JudgedPair] = (),
    merges: Merges | None = None,
    now: datetime = NOW,
    **more: Any,
) -> ReconciliationPlan:
    merges = merge_by(pool, by_words(LIMITS)) if merges is None else merges
    return plan_reconciliation(
        pool, merges, judged, more.pop("evidence", evidence_of(pool)), aspects_of(pool), more.pop("limits", LIMITS),
        prompt_version=pool.prompt_version, model="anthropic/claude" if pool.prompt_version else "quotes",
        now=now, **more,
    )  # fmt: skip


def questions(pool: CandidateSet, limits: MergeSettings = LIMITS, *, by_pairs: bool = True) -> list[tuple[str, str]]:
    chosen = choose_pairs(pool, merge_by(pool, by_words(limits)), vectors_of(pool), limits, 0.60, by_pairs=by_pairs)
    return chosen.select("a_id", "b_id").rows()


def same(winner: str, loser: str) -> JudgedPair:
    return JudgedPair(winner, loser, "same", 1)


def keep(a: str, b: str) -> JudgedPair:
    return JudgedPair(a, b, "details")


def changed(made: ReconciliationPlan) -> pl.DataFrame:
    """All rows of facts that the plan writes, with the columns of a fact."""
    return made.facts.select(*frames.FACTS)


def after(pool: CandidateSet, made: ReconciliationPlan) -> pl.DataFrame:
    """The facts of the pool as they are once the plan is written."""
    rows = changed(made).join(pool.facts.select("id", "created_at"), on="id", how="left")
    rest = pool.facts.drop("is_seed").join(rows, on="id", how="anti")
    rows = rows.with_columns(pl.col("created_at").fill_null(NOW))
    return pl.concat([rest, rows.select(rest.columns)])


def row(made: ReconciliationPlan, id_: str) -> dict[str, Any]:
    return changed(made).row(by_predicate=pl.col("id") == id_, named=True)


def losers(pool: CandidateSet) -> dict[str, str]:
    return dict(merge_by(pool, by_words(LIMITS)).duplicates.select("loser_id", "winner_id").iter_rows())


def guards(pool: CandidateSet) -> list[str]:
    return merge_by(pool, by_words(LIMITS)).undecided["guard"].to_list()


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
    left_open = decided("a", "b", "pending", kind="implicit_conflict")
    assert select_seeds(facts, left_open, True).to_list() == ["a", "b"]
    tried = facts.with_columns(consolidation_attempts=pl.lit(3, dtype=pl.Int64))
    assert select_seeds(tried, left_open, True).is_empty()


@pytest.mark.parametrize(("attempts", "again"), [(2, ["a", "b"]), (3, [])])
def test_s1_01_a_failed_pair_is_tried_again_while_attempts_are_left(attempts: int, again: list[str]) -> None:
    facts = frame([fact(name, "x", consolidated_at=NOW, consolidation_attempts=attempts) for name in "ab"])
    assert select_seeds(facts, decided("a", "b", "failed"), True).to_list() == again


# S1-04, S1-10: the short-cut and its guards


def test_s1_04_the_same_words_are_merged_without_a_model() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[1], at=1))
    merges = merge_by(pool, by_words(LIMITS))
    assert merges.duplicates.select("loser_id", "winner_id", "stage").rows() == [("b", "a", "text")]
    assert merges.undecided.is_empty()


def test_s1_10_of_equals_the_later_is_absorbed_by_the_earlier() -> None:
    assert losers(pool_of(fact("b", ALIKE[0], at=0), fact("a", ALIKE[0], at=1))) == {"a": "b"}


GOLDEN = [
    ("The limit is 100 requests per minute", "The limit is 1000 requests per minute"),
    ("The user does like cilantro", "The user does not like cilantro"),
    ("The user prefers dark roast coffee", "The user prefers light roast coffee"),
]


@pytest.mark.parametrize(("one", "other"), GOLDEN)
def test_t29_statements_that_differ_in_a_number_a_negation_or_a_word_are_never_merged(one: str, other: str) -> None:
    pool = pool_of(fact("a", one), fact("b", other), cosine=0.99, version="")
    assert losers(pool) == {}
    made = plan(pool)
    assert made.pairs["outcome"].to_list() == ["pending"]
    assert made.pairs["guard"][0] not in (None, "likeness")
    assert made.summary()["merged"] == 0


@pytest.mark.parametrize(
    ("cosine", "overlap", "is_alike"),
    [(0.0, 0.85, True), (0.0, 0.849, False), (0.70, 0.0, True), (0.699, 0.0, False), (None, 0.849, False)],
)
def test_s1_04_likeness_begins_where_the_settings_say(cosine: float | None, overlap: float, is_alike: bool) -> None:
    pair = pl.DataFrame({"cosine": [cosine], "jaccard": [overlap]}, schema_overrides={"cosine": pl.Float64})
    assert pair.select(alike=by_words(MergeSettings()).is_alike)["alike"][0] is is_alike


def test_what_is_bound_to_the_day_it_was_said_is_merged_within_that_day_only() -> None:
    words = "Ana went to the dentist yesterday"
    assert losers(pool_of(fact("a", words), fact("b", words, at=0.1))) == {"b": "a"}
    assert guards(pool_of(fact("a", words), fact("b", words, at=1))) == ["day"]


def test_s1_09_facts_of_different_scopes_are_never_compared() -> None:
    pool = pool_of(fact("a", ALIKE[0], scope="p1"), fact("b", ALIKE[0], scope="p2"), fact("c", ALIKE[0]))
    merges = merge_by(pool, by_words(LIMITS))
    assert merges.duplicates.is_empty()
    assert merges.undecided.is_empty()


def test_no_chaining_a_loser_was_compared_with_its_survivor_itself() -> None:
    words = ALIKE[0]
    chain = [fact("a", words), fact("b", words, at=1), fact("c", words, at=2)]
    apart = CandidateSet(frame(chain), pairs_of(chain, {("a", "b"): 0.95}), prompt_version=VERSION)
    assert losers(apart) == {"b": "a"}
    framed = [*chain[:2], fact("c", f"By the way: {words}", at=2)]
    far = pool_of(*framed, a__c=0.5)  # what was absorbed itself absorbs nothing, however near it is
    assert (losers(far), losers(pool_of(*framed[1:]))) == ({"b": "a"}, {"c": "b"})
    other = fact("c", "Ana drinks black tea in the office kitchen")
    pool = pool_of(fact("a", words), fact("b", words), other, cosine=0.96)
    assert losers(pool) == {"b": "a"}


@pytest.mark.parametrize(("by", "version"), [("person", ""), ("model", VERSION)])
def test_a_pair_that_was_kept_by_a_person_or_the_present_prompt_is_neither_merged_nor_asked(
    by: str, version: str
) -> None:
    kept = decided("a", "b", "keep_all", by, version)
    assert losers(pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0]), decided=kept)) == {}
    pool = pool_of(TEA, CHAI, decided=kept, cosine=0.75)
    about_one = replace(pool, topics=pool.pairs.with_columns(shared=pl.lit(1.0)).select(*TOPICS))
    assert questions(pool) == questions(about_one) == []


def test_a_pair_that_another_prompt_kept_is_asked_again() -> None:
    assert questions(pool_of(TEA, CHAI, decided=decided("a", "b", "keep_all", "model", "v0"), cosine=0.75)) == [
        ("a", "b")
    ]


# S1-03, S1-05, S1-13, S1-14: what a model is asked


@pytest.mark.parametrize("by_pairs", [True, False])
def test_s1_03_a_pair_without_a_seed_is_not_asked_about(by_pairs: bool) -> None:
    assert questions(pool_of(TEA | {"is_seed": False}, CHAI | {"is_seed": False}, cosine=0.75), by_pairs=by_pairs) == []
    assert questions(pool_of(TEA | {"is_seed": False}, CHAI, cosine=0.75), by_pairs=by_pairs) == [("a", "b")]


def test_what_two_persons_do_is_not_compared_unless_one_relates_to_the_other() -> None:
    ana, ben = TEA, CHAI | {"subject_id": "e_ben"}
    people = frozenset({"e_ana", "e_ben"})
    assert questions(replace(pool_of(ana, ben, cosine=0.75), people=people)) == []
    related = (ana, ben | {"object_id": "e_ana"}), (ana | {"object_id": "e_ben"}, ben)
    for pair in related:
        assert questions(replace(pool_of(*pair, cosine=0.75), people=people)) == [("a", "b")]
    third = pool_of(ana | {"object_id": "e_cleo"}, ben | {"object_id": "e_cleo"}, cosine=0.75)
    assert questions(replace(third, people=people)) == []
    assert questions(replace(pool_of(ana, ben, cosine=0.75), people=frozenset({"e_ana"}))) == [("a", "b")]
    assert questions(pool_of(ana, ben, cosine=0.75)) == [("a", "b")], "a project is spoken of by its people"


def test_a_fact_brings_its_best_pairs_and_all_together_no_more_than_the_settings_say() -> None:
    facts = [fact(f"f{n:02d}", f"Ana has the hobby {chr(97 + n) * 5}") for n in range(9)]
    pool = pool_of(*facts, cosine=0.7)
    assert len(questions(pool, LIMITS.model_copy(update={"per_call": 3, "pairs_per_fact": 0.5}))) == 5
    few = replace(pool, facts=pool.facts.with_columns(is_seed=pl.col("id") == "f00"))
    assert len(questions(few)) == 4
    nearer = pool_of(*facts, cosine=0.7, f00__f03=0.8, f00__f08=0.9)
    assert questions(replace(nearer, facts=few.facts))[:2] == [("f00", "f08"), ("f00", "f03")]


def test_a_known_fact_takes_few_of_the_pairs_but_each_new_one_has_its_best() -> None:
    hub = fact("hub", "Ana has the hobby ponds") | {"is_seed": False}
    new = [fact(f"f{n}", f"Ana has the hobby {chr(97 + n) * 5}") for n in range(8)]
    cosines = {f"f{n}__hub": 0.9 - n / 100 for n in range(8)} | {"f5__f6": 0.95}
    asked = questions(pool_of(hub, *new, cosine=0.0, **cosines))
    assert [pair for pair in asked if "hub" in pair] == [(f"f{n}", "hub") for n in (0, 1, 2, 3, 4, 7)]
    assert ("f5", "f6") in asked
    known = [fact(f"k{n}", f"Ana has the hobby {chr(110 + n) * 5}") | {"is_seed": False} for n in range(4)]
    failed = pl.concat([decided("hub", each["id"], "failed") for each in known])
    waiting = pool_of(hub, *known, new[0], cosine=0.0, f0__hub=0.9, decided=failed)
    assert ("f0", "hub") in questions(waiting)


def test_seven_tenths_of_the_pairs_are_the_nearest_and_the_others_those_of_which_most_speaks_for_a_change() -> None:
    facts = [fact(f"f{n:02d}", f"Ana has the hobby {chr(97 + n) * 5}") for n in range(24)]
    near = {(f"f{n:02d}", f"f{n + 12:02d}"): 0.7 + n / 100 for n in range(9)}
    changes = [(f"f{n:02d}", f"f{n + 12:02d}", 0.7, 0.0, 15.0) for n in (9, 10, 11)]
    far = [(f"f{n:02d}", f"f{n + 1:02d}", 0.2, 0.0, 15.0) for n in (0, 2, 4)]
    pool = CandidateSet(
        frame(facts), pairs_of(facts, near), prompt_version=VERSION,
        topics=pl.DataFrame(changes + far, schema=TOPICS, orient="row"),
    )  # fmt: skip
    asked = questions(pool, LIMITS.model_copy(update={"per_call": 10, "pairs_per_fact": 0.0}))
    assert asked[:7] == [(f"f{n:02d}", f"f{n + 12:02d}") for n in (8, 7, 6, 5, 4, 3, 2)]
    assert asked[7:] == [("f09", "f21"), ("f10", "f22"), ("f11", "f23")]


def test_a_pair_that_waits_is_always_asked_about_and_first() -> None:
    facts = [fact(f"f{n:02d}", f"Ana has the hobby {chr(97 + n) * 5}") for n in range(9)]
    waiting = pl.concat([decided("f07", "f08", how, kind=kind) for how, kind in (("failed", "redundant"),)])
    left_open = decided("f05", "f08", "pending", kind="implicit_conflict")
    pool = pool_of(*facts, cosine=0.7, f07__f08=0.1, f05__f08=0.1, decided=pl.concat([waiting, left_open]))
    asked = questions(pool, LIMITS.model_copy(update={"per_call": 1, "pairs_per_fact": 0.0}))
    assert asked == [("f05", "f08"), ("f07", "f08")]


def test_what_shares_rare_words_is_compared_though_it_is_far_in_meaning() -> None:
    known = [fact(f"k{n:02d}", f"Ana walks to place number {n}", is_seed=False) for n in range(30)]
    old_ = fact("old", "The first sprint of the webshop ends on 1 April", is_seed=False)
    new, other = fact("new", "The webshop sprint was extended to 9 April"), fact("other", "Ana walks home")
    held = frame([*known, old_, new, other])
    found = find_topics(held, np.eye(len(held), dtype=np.float32))
    assert found.select("a_id", "b_id").rows() == [("new", "old")]
    pool = CandidateSet(held, pl.DataFrame(schema=PAIRS), prompt_version=VERSION, topics=found.select(*TOPICS))
    assert questions(pool) == [("new", "old")]


@pytest.mark.parametrize(
    ("seeds", "mode", "pairs"),
    [(20, "auto", True), (21, "auto", False), (1, "cluster", False), (99, "pairwise", True)],
)
def test_s1_14_small_batches_go_pair_by_pair_unless_it_is_forced(seeds: int, mode: Any, pairs: bool) -> None:
    assert uses_pairs(seeds, mode, LIMITS) is pairs


# S1-06, S1-07, S1-08: what becomes of the facts


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


def test_s1_08_a_survivor_is_marked_that_nobody_looked_for() -> None:
    made = plan(pool_of(fact("a", ALIKE[0]), fact("y", ALIKE[0], is_seed=False, evidence_count=3)))
    assert (row(made, "a")["replaced_by"], row(made, "y")["consolidated_at"]) == ("y", NOW)


def test_c13_messages_are_counted_once_and_none_is_lost() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=1), fact("c", ALIKE[0], at=2))
    shared = {"a": ["m1", "m2"], "b": ["m2", "m3"], "c": ["m4"]}
    rows = [{"id": row_id("v", f, m), "fact_id": f, "message_id": m} for f, said in shared.items() for m in said]
    evidence = frames.conform(pl.DataFrame(rows), frames.FACT_EVIDENCE)
    made = plan(pool, evidence=evidence)
    assert sorted(made.evidence.select("fact_id", "message_id").rows()) == [("a", "m3"), ("a", "m4")]
    assert set(made.evidence["id"]) == {row_id("v", "a", "m3"), row_id("v", "a", "m4")}
    assert row(made, "a")["evidence_count"] == 4


def test_s1_07_what_is_kept_apart_changes_nothing_but_the_marks_and_is_remembered() -> None:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    made = plan(pool, [keep("a", "b")])
    before = pool.facts.select(*frames.FACTS).with_columns(consolidated_at=pl.lit(NOW, dtype=frames.TIME))
    assert made.facts.select(*frames.FACTS).equals(before.sort("id"))
    pair = made.pairs.row(0, named=True)
    assert (pair["outcome"], pair["decided_by"], pair["prompt_version"], pair["guard"]) == (
        "keep_all", "model", VERSION, "likeness",
    )  # fmt: skip
    assert made.decisions.is_empty()
    assert made.summary()["kept"] == 1


def test_a_pair_counts_as_changed_by_its_own_verdict_alone() -> None:
    pool = pool_of(TEA, CHAI, fact("c", "Ana drinks coffee every morning", at=4), cosine=0.75)
    around = Surroundings(pool.facts.select(*frames.FACTS), evidence_of(pool))
    made = plan(pool, [JudgedPair("a", "c", "updates"), keep("a", "b")], near=around)
    outcomes = {(a, b): outcome for a, b, outcome in made.pairs.select("a_id", "b_id", "outcome").rows()}
    assert (outcomes["a", "c"], outcomes["a", "b"]) == ("supersede", "keep_all")


def test_s1_06_a_model_merges_two_facts_and_says_so() -> None:
    made = plan(pool_of(TEA, CHAI, cosine=0.75), [same("a", "b")])
    gone, kept = row(made, "b"), row(made, "a")
    assert (gone["status"], gone["replaced_by"], gone["valid_to"], gone["expired_at"]) == ("superseded", "a", None, NOW)
    assert (kept["valid_from"], kept["evidence_count"], kept["statement"]) == (day(0), 2, TEA["statement"])
    assert made.lineage["reason"].to_list() == ["consolidated"]
    assert (made.summary()["merged"], made.pairs["outcome"].to_list()) == (1, ["supersede"])


def test_s1_08_everything_that_was_processed_is_marked() -> None:
    alone, neighbour = fact("z", "Ana owns a boat"), fact("y", "Green tea is good", is_seed=False)
    pool = pool_of(TEA, CHAI, neighbour, alone, cosine=0.75, a__z=0.1, b__z=0.1, y__z=0.1)
    made = plan(pool, [same("a", "b"), keep("b", "y")])
    assert set(made.facts.filter(pl.col("consolidated_at") == NOW)["id"]) == {"a", "b", "y", "z"}


def test_s1_08_a_failure_leaves_its_seeds_unmarked_until_the_third() -> None:
    pool = pool_of(TEA, CHAI, cosine=0.75)
    for attempt in (1, 2, 3):
        made = plan(pool, [JudgedPair("a", "b", error="refused")])
        failed = row(made, "a")
        assert failed["consolidation_attempts"] == attempt
        assert (failed["consolidated_at"], failed["consolidation_error"]) == (
            (NOW, "refused") if attempt == 3 else (None, None)
        )
        assert made.pairs["outcome"].to_list() == ["failed"]
        assert made.summary()["failed"] == 1
        pool = replace(pool, facts=after(pool, made).with_columns(is_seed=True))


def test_what_was_planned_but_not_asked_stays_for_the_next_run() -> None:
    pool = pool_of(TEA, CHAI, fact("z", "Ana owns a boat"), cosine=0.75, a__z=0.1, b__z=0.1)
    made = plan(pool, [JudgedPair("a", "b")])
    assert made.facts["id"].to_list() == ["z"]
    assert made.pairs.is_empty()
    assert made.decisions.is_empty()


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


@pytest.mark.parametrize("version", ["", VERSION])
def test_what_a_reader_said_of_a_pair_counts_without_a_model_and_is_decided_once(version: str) -> None:
    fuller = fact("b", "Ana drinks green tea every morning at home", at=3)
    pool = pool_of(fact("a", "Ana drinks green tea every morning"), fuller, version=version, cosine=0.75)
    made = plan(pool, [JudgedPair("a", "b", "covers", 2)])
    assert (losers(pool), dict(made.lineage.select("old_id", "new_id").iter_rows())) == ({}, {"a": "b"})
    (told,) = made.decisions.filter(action="absorb").rows(named=True)
    assert told["reason"] == "The model that read the messages says that this one contains the other."
    assert (told["model"] or "", told["measures"]) == ("", "{}")
    lacking = pool_of(fact("a", "Ana drinks 2 cups every morning"), fuller, version=version, cosine=0.75)
    refused = plan(lacking, [JudgedPair("a", "b", "covers", 2)])
    assert refused.lineage.is_empty()
    assert refused.pairs.select("a_id", "b_id", "outcome").rows() == [("a", "b", "keep_all")]
    assert "but a guard keeps them apart (words)." in refused.decisions["reason"][0]


# Order, circles, races


def test_t36_who_was_absorbed_is_not_absorbed_again() -> None:
    facts = pool_of(TEA, CHAI, fact("c", "Ana likes green tea"), cosine=0.75).facts
    assert merge_clusters(facts, Merges(), [("b", "a"), ("b", "c")]).steps == {"b": "a"}


def test_t35_a_replacement_that_would_close_a_circle_is_refused() -> None:
    pool = pool_of(TEA | {"replaced_by": "b"}, CHAI, cosine=0.75)  # restored after it had been replaced
    made = plan(pool, [same("a", "b")])
    assert made.lineage.is_empty()
    assert losers(pool_of(fact("a", ALIKE[0], replaced_by="b"), fact("b", ALIKE[0]))) == {"b": "a"}
    assert plan(pool_of(fact("a", ALIKE[0], replaced_by="b"), fact("b", ALIKE[0]))).lineage.is_empty()


def test_s1_20_every_decision_says_what_it_saw_and_who_decided() -> None:
    pool = pool_of(fact("a", ALIKE[0]), fact("b", ALIKE[0], at=1), TEA | {"id": "t"}, CHAI | {"id": "u"}, cosine=0.75)
    made = plan(pool, [same("t", "u")])
    told = {each["subject_id"]: each for each in made.decisions.iter_rows(named=True)}
    assert (told["a"]["action"], told["a"]["decided_by"]) == ("absorb", "rule")
    assert '"text_dedup":0.85' in told["a"]["measures"]
    assert (told["t"]["decided_by"], told["t"]["model"], told["t"]["reason"]) == (
        "model",
        "anthropic/claude",
        "A model says that they say the same.",
    )
    assert f'"prompt_version":"{VERSION}"' in told["t"]["measures"]
    assert set(made.lineage["reason"]) == {"dedup", "consolidated"}


# Laws

WORDS = (
    "Ana drinks green tea", "Ana drinks green tea!", "ana drinks green tea", "Ana drinks no green tea",
    "Ana drinks 2 green tea", "Ana drinks 3 green tea", "Ben drinks green tea", "Ana drinks green tea today",
    "Ana drinks strong green tea", "Ana owns a boat",
)  # fmt: skip


@st.composite
def _pools(draw: st.DrawFn) -> CandidateSet:
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
    return CandidateSet(frame(facts), pairs_of(facts, pairs), prompt_version=draw(st.sampled_from(["", VERSION])))


def answered(pool: CandidateSet, draw: Any) -> list[JudgedPair]:
    """Arbitrary answers, sensible or not, to what a model would be asked."""
    if not pool.prompt_version:
        return []
    kinds = ["same", "same", "same", "updates", "corrects", "contradicts", "details", "unrelated", ""]
    return [
        JudgedPair(
            *sorted(pair, reverse=draw(st.booleans())), draw(st.sampled_from(kinds)), draw(st.sampled_from([1, 2]))
        )
        if draw(st.integers(0, 9))
        else JudgedPair(*pair, error="no")
        for pair in questions(pool)
    ]


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
    merges = merge_by(pool, by_words(LIMITS))
    judged = [keep(*pair) for pair in questions(pool)] if pool.prompt_version else []
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
    tables = ("facts", "evidence", "lineage", "aspects", "pairs", "decisions")
    assert all(getattr(second, name).is_empty() for name in tables)
