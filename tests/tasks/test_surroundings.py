"""What an ingest reads of a store: as much as decides, and no more where an entity has many facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from patchwork import Memory, claim

from slowwave.common import frames
from slowwave.facts.revision.application import ApplicationPlan
from slowwave.facts.revision.candidates import DIRECTIVES, Candidates
from storage.store import Store
from tasks.ingest import surroundings
from tasks.ingest.application import plan_over_store

NO_VECTORS = pl.DataFrame(schema={"id": pl.String, "scope": pl.String, "vector": pl.Array(pl.Float32, 4)})
KEPT = {
    "facts": "facts", "fact_evidence": "evidence", "lineage": "lineage", "decisions": "decisions",
    "pair_decisions": "pairs",
}  # fmt: skip


class StoredMemory(Memory):
    """A memory in a store, of which each batch sees what an ingest reads."""

    def __init__(self, store: Store, **more: Any) -> None:
        super().__init__(**more)
        self.store = store
        with store.commit("r", "test") as tx:
            tx.upsert("entities", self.entities())

    def plan(self, candidates: Candidates, cosines: dict[tuple[str, str], float] | None = None) -> ApplicationPlan:
        verdict = self.judge(candidates)
        own = self.messages.join(candidates.facts, left_on="id", right_on="message_id", how="semi")
        given_ = verdict.passed, NO_VECTORS, candidates.directives, own, verdict.batches
        plan = plan_over_store(self.store.snapshot(), *given_, self.settings, self.revise, self.now)
        with self.store.commit("r", "test") as tx:
            tx.upsert("messages", own.select("id", "conversation_id", "speaker", "occurred_at", message_id="id"))
            ids = candidates.directives.select("candidate_id", "known_id", "object", "action").iter_rows()
            named = pl.Series([" ".join(map(str, key)) for key in ids], dtype=pl.String)
            tx.upsert("fact_directives", candidates.directives.with_columns(id=named).unique("id"))
            for table, part in KEPT.items():
                tx.upsert(table, getattr(plan, part))
        return plan


def believed(memory: Memory) -> list[tuple[Any, ...]]:
    """All that was ever believed, with what replaced it and what it leans on."""
    says = dict(memory.facts.select("id", "statement").iter_rows())
    rows = memory.facts.filter(pl.col("status").is_in(["active", "superseded", "retracted"]))
    columns = ("statement", "status", "valid_from", "valid_to", "evidence_count", "replaced_by")
    told = rows.select(columns).iter_rows()
    return sorted((*map(str, row[:-2]), *(says.get(id_ or "", "") for id_ in row[-2:])) for row in told)


PLACES, TOOLS = ("Acme", "Globex", "Initech"), ("vim", "neovim")


def sentence(kind: int, one: str, tool: str, at: int) -> dict[str, Any]:
    other = TOOLS[1 - TOOLS.index(tool)]
    return (
        claim(f"Anna works at {one}.", relation="works_at", obj=one, at=at),
        claim(f"Anna works at {one}.", relation="works_at", obj=one, at=at, speaker="Devon"),
        claim(f"Anna leads the {one} data team.", relation="leads", obj=f"{one} data team", at=at),
        claim(f"Anna left {one}.", relation="left", obj=one, at=at, ended=True),
        claim(f"Anna never worked at {one}.", relation="denies", obj="Oslo", at=at,
              resolves=[{"object": one, "action": "retract", "reason": "correction"}]),
        claim(f"Anna uses {tool}.", relation="uses", obj=tool, at=at),
        claim(f"Anna switched to {tool}.", relation="uses", obj=tool, at=at, resolves=[{"object": other}]),
        claim(f"Anna gave {tool} up.", relation="uses", obj=tool, at=at, ended=True),
        claim("Anna lives in Oslo with her editor.", relation="lives_in", obj="Oslo", at=at, message=f"m{at}"),
        claim("Anna lives in Oslo with her editor.", relation="uses", obj=tool, at=at, message=f"m{at}"),
    )[kind]  # fmt: skip


JOB, TEAM = sentence(0, "Acme", "vim", 1), sentence(2, "Acme", "vim", 2)


@st.composite
def histories(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Sentences of different days, in any order, in batches."""
    each = st.tuples(st.sampled_from((*range(10), 0, 2, 6)), st.sampled_from(PLACES), st.sampled_from(TOOLS))
    drawn = draw(st.lists(each, min_size=2, max_size=7))
    mixed = draw(st.permutations([sentence(*words, at + 1) for at, words in enumerate(drawn)]))
    size = draw(st.integers(1, 3))
    return [mixed[start : start + size] for start in range(0, len(mixed), size)]


@pytest.mark.proof
@given(histories())
@example([[JOB, TEAM], [sentence(0, "Globex", "vim", 3)]])
@example([[sentence(5, "Acme", "vim", 1)], [sentence(6, "Acme", "neovim", 2)]])
@example([[sentence(8, "Acme", "vim", 1), sentence(9, "Acme", "vim", 1)], [sentence(6, "Acme", "neovim", 2)]])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_read_decides_as_all_that_is_known_would(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch, history: list[list[dict[str, Any]]]
) -> None:
    monkeypatch.setattr(surroundings, "WORDED_PER_DIRECTIVE", 0)  # the search for words would find most of so few facts
    whole, stored = Memory(), StoredMemory(new_store())
    for batch in history:
        whole.tell(*batch)
        stored.tell(*batch)
    assert believed(stored) == believed(whole)


def test_of_neighbours_only_those_are_read_that_are_about_the_same_or_may_be_named(
    new_store: Callable[[], Store],
) -> None:
    memory = StoredMemory(new_store())
    near, far = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
    with memory.store.commit("r", "test") as tx:
        rows = [
            {"id": "near", "subject_id": "e_anna", "vector": near},
            {"id": "beside", "subject_id": "e_other", "vector": near},
            {"id": "far", "subject_id": "e_other", "vector": far},
            {"id": "owned", "subject_id": "e_other", "owner_entity_id": "e_anna", "vector": far},
        ]
        known = pl.DataFrame(rows, schema_overrides={"vector": pl.Array(pl.Float32, 4)})
        tx.upsert("facts", known.with_columns(kind=pl.lit("relation"), status=pl.lit("active"), scope=pl.lit("global")))
    candidates = memory.candidates([claim("Anna uses vim.", relation="uses", obj="vim", at=1)])
    passed = candidates.facts.with_columns(owner_entity_id=pl.lit("e_anna"), scope=pl.lit("global"))
    vectors = passed.select("id", "scope", vector=pl.lit(near, dtype=pl.Array(pl.Float32, 4)))
    own = memory.messages.join(passed, left_on="id", right_on="message_id", how="semi")

    def read(directives: pl.DataFrame) -> tuple[set[str], set[str]]:
        given_ = passed, vectors, directives, own, memory.settings, memory.revise, memory.now
        found = surroundings.near_candidates(memory.store.snapshot(), *given_)
        assert set(found.neighbours["fact_id"]) == set(found.facts["id"])
        return set(found.facts["id"]), set(found.elsewhere["fact_id"])

    assert read(candidates.directives.clear()) == ({"near", "owned"}, {"beside"})
    naming = pl.DataFrame({"candidate_id": passed["id"], "object": ["emacs"], "action": ["supersede"]})
    assert read(frames.conform(naming, DIRECTIVES)) == ({"near", "beside", "owned", "far"}, set())
