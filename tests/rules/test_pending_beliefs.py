"""What is said unsurely waits until enough messages hint at it, and never becomes a fact by itself (S2-63 … S2-70)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import START, learn, rows, said, written

from slowwave.common import frames
from slowwave.common.settings import BeliefSettings
from slowwave.common.text import statement_hash
from slowwave.facts.revision.candidates import DIRECTIVES, MESSAGES, Candidates
from slowwave.facts.revision.pending_beliefs import (
    BeliefContext,
    BeliefPlan,
    decayed,
    decayed_at,
    noisy_or,
    plan_beliefs,
)
from slowwave.integrations.python_api import OpenMemory
from storage.doctor import examine
from storage.store import Store

T0 = datetime(2026, 1, 1, 9, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def day(n: float) -> datetime:
    return T0 + timedelta(days=n)


def hint(confidence: float, at: float = 0, obj: str = "vim", **more: Any) -> dict[str, Any]:
    """A claim that Anna uses something, said on day `at` in a message of its own."""
    predicate = more.get("predicate", "uses")
    statement = more.get("statement", f"Anna {predicate} {obj}.")
    message = more.get("message", f"m{at}")
    return {
        "id": f"f {message} {predicate} {obj} {confidence} {statement}", "kind": more.get("kind", "relation"),
        "subject_id": "anna", "predicate": predicate, "predicate_raw": predicate,
        "edge_type": more.get("edge_type", "semantic"),
        "object_id": obj, "object_text": obj, "statement": statement, "statement_hash": statement_hash(statement),
        "owner_entity_id": "anna", "scope": more.get("scope", "global"), "polarity": more.get("polarity", "affirmed"),
        "status": "candidate", "patch_batch_id": "p", "valid_from": day(at), "confidence": confidence,
        "evidence_count": 1, "message_id": message, "episode_id": f"e{at}", "at": at,
        "resolves": more.get("resolves", ()),
    }  # fmt: skip


class Mind:
    """Beliefs as a store would hold them, batch after batch."""

    def __init__(self, now: datetime = NOW, **chosen: Any) -> None:
        self.now, self.settings = now, BeliefSettings(enabled=True, **chosen)
        self.beliefs = frames.empty(frames.PENDING_BELIEFS)
        self.evidence = frames.empty(frames.BELIEF_EVIDENCE)
        self.facts = frames.empty(frames.FACTS)
        self.waiting: set[str] = set()
        self.promoted: list[str] = []

    def plan(self, *hints: dict[str, Any]) -> BeliefPlan:
        facts = pl.DataFrame([{n: h.get(n) for n in frames.FACTS} for h in hints], schema=dict(frames.FACTS))
        messages = [
            {"id": h["message_id"], "conversation_id": f"c{h['at']}", "occurred_at": day(h["at"])} for h in hints
        ]
        said_ = frames.conform(
            pl.DataFrame(messages, schema={n: MESSAGES[n] for n in ("id", "conversation_id", "occurred_at")}), MESSAGES
        )
        ends = [
            {"candidate_id": h["id"], "object": thing, "action": "supersede"} for h in hints for thing in h["resolves"]
        ]
        directives = pl.DataFrame([{n: e.get(n) for n in DIRECTIVES} for e in ends], schema=dict(DIRECTIVES))
        batch = pl.DataFrame([{"id": "p", "origin": "ingest", "state": "open", "candidates": len(hints)}])
        candidates = Candidates(facts, directives, frames.conform(batch, frames.PATCH_BATCHES), (), {})
        context = BeliefContext(self.beliefs, self.evidence, self.facts, frozenset(self.waiting))
        return plan_beliefs(candidates, said_.unique("id"), context, self.settings, self.now)

    def hear(self, *hints: dict[str, Any]) -> BeliefPlan:
        plan = self.plan(*hints)
        for name in ("beliefs", "evidence"):
            both = pl.concat([getattr(self, name), getattr(plan, name)])
            setattr(self, name, both.unique("id", keep="last", maintain_order=True))
        self.beliefs = self.beliefs.filter(~pl.col("id").is_in(list(plan.evicted)))
        self.evidence = self.evidence.filter(~pl.col("belief_id").is_in(list(plan.evicted)))
        new = plan.beliefs["promoted_id"].drop_nulls().to_list()
        self.promoted += [fact for fact in new if fact not in self.waiting]
        self.waiting |= set(new)
        return plan

    @property
    def pending(self) -> pl.DataFrame:
        return self.beliefs.filter(pl.col("promoted_at").is_null())

    def probability(self) -> float:
        return float(self.beliefs["probability"].item())


# The arithmetic (§8)


def test_evidence_adds_up_by_noisy_or() -> None:
    assert noisy_or(0.6, 0.7) == pytest.approx(0.88)
    assert noisy_or(0.4, 0.5) == pytest.approx(0.7)
    probability, path = 0.0, []
    for _ in range(6):
        probability = noisy_or(probability, 0.3)
        path.append(probability)
    assert path == pytest.approx([0.3, 0.51, 0.657, 0.7599, 0.83193, 0.882351])
    assert noisy_or(0.0, 0.3) == 0.3


def test_evidence_that_claims_to_be_certain_is_clamped_and_not_dropped() -> None:
    assert noisy_or(0.0, 1.0) == 0.99
    assert noisy_or(0.5, 1.0) == pytest.approx(0.995)


@pytest.mark.parametrize(("days", "left"), [(1, 0.792079), (30, 0.615385), (90, 0.421053), (0, 0.8), (-5, 0.8)])
def test_a_belief_fades_hyperbolically_as_number_and_as_column(days: float, left: float) -> None:
    assert decayed(0.8, days, 0.01) == pytest.approx(left, abs=1e-6)
    frame = pl.DataFrame({"probability": [0.8], "last_at": [day(0)]}, schema_overrides={"last_at": frames.TIME})
    assert frame.select(decayed_at(day(days), 0.01)).item() == pytest.approx(left, abs=1e-6)
    assert decayed(0.8, days, 0.0) == 0.8


# Entry, growth, promotion


def test_an_unsure_claim_is_held_and_a_sure_one_goes_to_the_gate_as_it_is() -> None:
    mind = Mind()
    plan = mind.hear(hint(0.6), hint(0.9, obj="neovim"))
    assert mind.pending.select("statement", "probability", "evidence_count").rows() == [("Anna uses vim.", 0.6, 1)]
    assert plan.candidates.facts["statement"].to_list() == ["Anna uses neovim."]
    assert plan.candidates.batches.select("id", "origin", "candidates").rows() == [("p", "ingest", 1)]
    assert plan.counts["held"] == 1


def test_a_claim_below_the_smallest_probability_is_counted_and_not_held() -> None:
    mind = Mind(min_entry=0.3)
    plan = mind.hear(hint(0.29), hint(0.0, 1))
    assert mind.beliefs.is_empty()
    assert plan.candidates.facts.is_empty()
    assert plan.candidates.batches.is_empty()
    assert plan.counts["too unsure"] == 2
    assert mind.hear(hint(0.3, 2)).counts["held"] == 1


def test_hints_in_different_messages_make_one_candidate_with_the_posterior_and_all_messages() -> None:
    mind = Mind()
    mind.hear(hint(0.6, 0, statement="Anna may use vim."))
    plan = mind.hear(hint(0.7, 3))
    fact = plan.candidates.facts.row(0, named=True)
    assert (fact["statement"], fact["message_id"], fact["evidence_count"]) == ("Anna uses vim.", "m3", 2)
    assert (fact["status"], fact["valid_from"]) == ("candidate", day(3))
    assert fact["confidence"] == pytest.approx(0.88)
    assert plan.support.select("fact_id", "message_id", "confidence", "occurred_at").rows() == [
        (fact["id"], "m0", 0.6, day(0))
    ]
    assert plan.candidates.batches.select("origin", "source_key", "state", "candidates").rows() == [
        ("belief", "c3", "open", 1)
    ]
    assert fact["patch_batch_id"] == plan.candidates.batches["id"].item()
    assert mind.beliefs.select("promoted_id", "promoted_at").rows() == [(fact["id"], NOW)]
    assert plan.decisions.select("action", "subject_id").rows() == [("promote", fact["id"])]
    assert mind.evidence.sort("at").select("evidence", pl.col("posterior").round(6)).rows() == [(0.6, 0.6), (0.7, 0.88)]


def test_a_hint_from_the_past_does_not_age_the_belief() -> None:
    mind = Mind(decay_rate=1.0)
    mind.hear(hint(0.5, 30))
    mind.hear(hint(0.5, 0))
    assert mind.probability() == pytest.approx(0.75)
    assert mind.beliefs.select("first_at", "last_at").row(0) == (day(0), day(30))


@pytest.mark.parametrize(
    "other",
    [{"obj": "emacs"}, {"predicate": "knows"}, {"scope": "other"}, {"polarity": "negated"}, {"edge_type": "causal"}],
    ids=["object", "predicate", "scope", "polarity", "edge type"],
)
def test_what_differs_in_its_key_is_another_belief(other: dict[str, Any]) -> None:
    mind = Mind()
    mind.hear(hint(0.6, 0), hint(0.6, 1, **other))
    assert len(mind.pending) == 2


def test_observations_are_the_same_only_if_their_statements_are() -> None:
    mind = Mind()
    mind.hear(
        hint(0.6, 0, kind="observation", statement="Anna missed the deadline."),
        hint(0.6, 1, kind="observation", statement="Anna set the deadline."),
        hint(0.6, 2, kind="observation", statement="anna set the deadline"),
    )
    assert sorted(mind.beliefs["evidence_count"]) == [1, 2]


def test_a_sure_claim_settles_the_belief_it_repeats_and_its_hints_support_it() -> None:
    mind = Mind()
    mind.hear(hint(0.5, 0))
    plan = mind.hear(hint(0.9, 1))
    assert plan.candidates.facts.select("message_id", "evidence_count").rows() == [("m1", 2)]
    assert plan.support["message_id"].to_list() == ["m0"]
    assert mind.pending.is_empty()


def test_what_a_live_fact_says_is_not_held_back() -> None:
    mind = Mind()
    mind.facts = pl.DataFrame([{n: hint(0.9).get(n) for n in frames.FACTS}], schema=dict(frames.FACTS))
    plan = mind.hear(hint(0.6, 5), hint(0.6, 6, polarity="negated"))
    assert plan.candidates.facts["message_id"].to_list() == ["m5"]
    assert mind.pending["id"].len() == 1


def test_a_candidate_that_waits_for_review_gathers_more_messages() -> None:
    mind = Mind()
    mind.hear(hint(0.7, 0), hint(0.7, 1))
    plan = mind.hear(hint(0.4, 2))
    assert plan.candidates.facts.is_empty()
    assert plan.support.select("fact_id", "message_id").rows() == [(mind.promoted[0], "m2")]
    assert len(mind.promoted) == 1


def test_what_has_ended_can_be_believed_anew() -> None:
    mind = Mind()
    mind.hear(hint(0.7, 0), hint(0.7, 1))
    mind.waiting.clear()  # it was decided, and no live fact says it any more
    assert mind.hear(hint(0.6, 200)).candidates.facts.is_empty()
    assert mind.pending.select("probability", "evidence_count").rows() == [(0.6, 1)]
    mind.hear(hint(0.7, 201))
    assert len(set(mind.promoted)) == 2


def test_what_a_hint_does_away_with_is_done_by_what_it_becomes() -> None:
    mind = Mind()
    mind.hear(hint(0.6, 0, resolves=["emacs"]))
    plan = mind.hear(hint(0.7, 1, resolves=["nano"]))
    fact = plan.candidates.facts["id"].item()
    told = plan.candidates.directives.select("candidate_id", "object", "action").sort("object").rows()
    assert told == [(fact, "emacs", "supersede"), (fact, "nano", "supersede")]


def test_a_message_counts_once_by_its_surest_claim() -> None:
    mind = Mind()
    mind.hear(hint(0.4, 0, message="m"), hint(0.6, 0, message="m", statement="Anna does use vim."))
    assert mind.probability() == 0.6
    plan = mind.hear(hint(0.7, 0, message="m"))
    assert (mind.probability(), plan.counts["counted before"]) == (0.6, 1)


# Caps (S2-68)


def test_of_a_crowded_subject_and_relation_the_least_probable_goes_with_a_decision() -> None:
    mind = Mind(max_per_group=2)
    mind.hear(hint(0.4, 0, obj="a"), hint(0.6, 0, obj="b", message="n"))
    plan = mind.hear(hint(0.5, 1, obj="c"), hint(0.35, 1, obj="d", message="o"), hint(0.3, 1, predicate="knows"))
    assert sorted(mind.pending["object_text"]) == ["b", "c", "vim"]
    gone = plan.decisions.filter(pl.col("action") == "evict")
    assert len(plan.evicted) == 1, "the other was never stored"
    assert len(gone) == 2
    assert gone["reason"].unique().len() == 1
    assert set(mind.evidence["belief_id"]) == set(mind.beliefs["id"])


def test_beyond_the_limit_the_one_that_was_hinted_at_longest_ago_goes() -> None:
    mind = Mind(max_pending=2)
    mind.hear(hint(0.8, 0, obj="a"), hint(0.3, 1, obj="b"))
    mind.hear(hint(0.3, 2, obj="c"))
    assert sorted(mind.pending["object_text"]) == ["b", "c"]


# Laws

CONFIDENCES = st.floats(0.0, 1.0, allow_nan=False)
HINTS = st.lists(st.tuples(CONFIDENCES, st.integers(0, 400), st.sampled_from("abc")), max_size=12)


def told(said_: Sequence[tuple[float, int, str]]) -> list[dict[str, Any]]:
    return [hint(round(p, 3), at, obj, message=f"m{n}") for n, (p, at, obj) in enumerate(said_)]


@settings(max_examples=10, deadline=None)
@given(HINTS, st.floats(0, 1))
def test_a_retry_changes_nothing_and_a_belief_is_promoted_once(
    said_: list[tuple[float, int, str]], rate: float
) -> None:
    mind = Mind(decay_rate=rate)
    hints = told(said_)
    mind.hear(*hints)
    before = (mind.beliefs, mind.evidence, list(mind.promoted))
    sure = {each["id"] for each in hints if each["confidence"] >= 0.85}
    again = mind.hear(*hints)
    assert set(again.candidates.facts["id"]) <= sure
    assert again.decisions.is_empty()
    assert mind.beliefs.equals(before[0])
    assert mind.evidence.equals(before[1])
    assert mind.promoted == before[2]
    assert len(set(mind.promoted)) == len(mind.promoted) <= 3


# Through ingest

WISH = "I want to learn Portuguese."
BELIEFS = {"beliefs": {"enabled": True}}


def talk(number: int, *texts: str) -> list[dict[str, Any]]:
    """Devon says something on another day, in a conversation of its own."""
    return said([("Devon", text) for text in texts], f"c{number}", START + timedelta(days=number))


@pytest.fixture
def twice(tmp_path: Path, reads_relations: None) -> tuple[Path, dict[str, Any]]:
    """A store in which a wish was hinted at in two conversations, and the summary of the second run."""
    store = tmp_path / "m"
    learn(written(tmp_path / "a.jsonl", talk(1, WISH)), store, **BELIEFS)
    assert rows(store, "facts").is_empty()
    assert rows(store, "pending_beliefs")["probability"].to_list() == [0.75]
    return store, learn(written(tmp_path / "b.jsonl", talk(2, WISH + " It is time.")), store, **BELIEFS)


@pytest.mark.proof
def test_two_weak_hints_in_different_conversations_become_a_fact_that_shows_both(
    twice: tuple[Path, dict[str, Any]],
) -> None:
    store, summary = twice
    with OpenMemory.open(str(store)) as memory:
        _, [fact] = memory.facts_of("Devon")
    assert fact.confidence == pytest.approx(noisy_or(0.75, 0.75))
    assert [(p.conversation_id, p.quote) for p in fact.provenance] == [("c1", WISH), ("c2", WISH)]
    stored = rows(store, "facts")
    assert stored.select("status", "evidence_count").rows() == [("active", 2)]
    assert rows(store, "patch_batches")["origin"].to_list() == ["belief"]
    assert rows(store, "decisions", f"subject_id = '{fact.id}'")["action"].sort().to_list() == ["create", "promote"]
    assert summary["counts"]["facts learned"] == 1
    assert examine(Store.open(str(store))) == ()
