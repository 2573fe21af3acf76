"""The gate of maintenance: what is asked, what counts as a loss, and that a run that lost is taken back whole."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import assert_same, contents

from inference.embedding import open_embedder
from recall.history import story_of
from slowwave.common import frames
from slowwave.common.errors import RecallFell
from slowwave.common.settings import GateSettings, RecallSettings
from slowwave.common.words import stems
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.probes import GateVerdict, Probe, Standing, compare, plan_probes, question, staying
from slowwave.lifecycle.usage_scores import usage_of
from storage.store import Store
from tasks.orchestration.phases import Frozen, check_recall, freeze_probes
from tasks.orchestration.tallies import Tally
from tasks.runtime.runs import Run, existing_run, recorded, store_of

BEGAN = datetime(2026, 3, 1, 9, tzinfo=UTC)
NOW = BEGAN + timedelta(days=2)
GATE = GateSettings(enabled=True, probes=12, k=3)
LOGS = ("retrieval_events", "entity_access_log", "recalled_queries")
PEOPLE = (
    "Anna Bruno Carla Devon Elif Farid Greta Hugo Ines Jonas Karin Luca Marta Nadia Oskar Petra Quirin Rosa".split()
)
DEEDS = (
    ("repairs old wooden {thing} every weekend near the harbour", "restores", None),
    ("learned to play the {thing} from a retired teacher", "plays", None),
    ("bought a {thing} in {place} during a rainy holiday", "bought_in", "{place}"),
)
THINGS = "boats clocks violin telescope saddle lantern loom canoe anvil kettle compass barrel".split()
PLACES = "Lisbon Porto Oslo Bergen Vienna Ghent Turin Lyon Basel".split()


def facts_of(people: Sequence[str], deeds: Sequence[tuple[str, str, str | None]] = DEEDS) -> pl.DataFrame:
    """Three facts of each person, or one for each deed, each said by a message of its own."""
    rows = []
    for n, (person, (deed, relation, answer)) in enumerate((p, d) for p in people for d in deeds):
        names = {"thing": THINGS[n * 5 % len(THINGS)], "place": PLACES[n * 4 % len(PLACES)]}
        rows.append(
            {
                "id": f"f{n:03d}", "message_id": f"m{n:03d}", "subject_id": f"e_{person}", "subject": person,
                "statement": f"{person} {deed.format(**names)}.", "kind": "relation" if answer else "observation",
                "predicate": relation, "object_text": answer and answer.format(**names), "object": None,
            }
        )  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"object": pl.String}).with_columns(
        status=pl.lit("active"), valid_from=pl.lit(BEGAN), evidence_count=pl.lit(1), scope=pl.lit("global")
    )


def written(uri: Path, people: Sequence[str], deeds: Sequence[tuple[str, str, str | None]] = DEEDS) -> Path:
    """A store of these people's facts, messages and entities."""
    seat = open_embedder()

    def embedded(rows: pl.DataFrame, text: str) -> pl.DataFrame:
        vectors = pl.Series("vector", seat.embed(rows[text].to_list()), dtype=pl.Array(pl.Float32, seat.dims))
        return rows.with_columns(vectors)

    facts = facts_of(people, deeds)
    said = facts.select(id="message_id", message_id="message_id", content="statement", search_text="statement")
    messages = said.with_columns(
        conversation_id=pl.lit("c"), role=pl.lit("user"), occurred_at=pl.lit(BEGAN), scope=pl.lit("global")
    )
    names = [*dict.fromkeys(people)]
    entities = pl.DataFrame({"id": [f"e_{p}" for p in names], "name": names, "canonical_name": names})
    store = Store.create(str(uri), "default", (seat.name, seat.dims))
    with store.commit("first", "test", BEGAN) as tx:
        tx.upsert("facts", embedded(facts.drop("subject", "object"), "statement"))
        tx.upsert("messages", embedded(messages, "content"))
        tx.upsert("entities", embedded(entities, "name"))
    return uri


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to be copied."""
    return written(tmp_path_factory.mktemp("people") / "memory", PEOPLE)


@pytest.fixture(scope="module")
def frozen(people: Path) -> Frozen:
    """What is asked of the store and of every copy of it."""
    return frozen_of(new(people))


@pytest.fixture
def memory(people: Path, tmp_path: Path) -> Path:
    """A copy of the store, to be changed."""
    return Path(shutil.copytree(people, tmp_path / "memory"))


def new(memory: Path, now: datetime = NOW) -> Run:
    return existing_run("steward", str(memory), "default", now)


def changed(run: Run, ids: Sequence[str], **columns: Any) -> Run:
    """A run that writes these columns of these facts."""
    with recorded(run, Tally(run.id), {}), store_of(run).commit(run.id, "test", run.now) as tx:
        tx.upsert("facts", tx.by_ids("facts", ids, with_vector=True).with_columns(**columns))
    return run


def archived(run: Run, ids: Sequence[str]) -> Run:
    """A run that loses facts."""
    return changed(run, ids, status=pl.lit("archived"), status_reason=pl.lit("pruned"), expired_at=pl.lit(run.now))


def frozen_of(run: Run) -> Frozen:
    frozen = freeze_probes(run, GATE)
    assert frozen is not None
    return frozen


def verdict_of(run: Run, frozen: Frozen, undo: Sequence[str] = ()) -> GateVerdict:
    verdict = check_recall(run, frozen, GATE, undo)
    assert verdict is not None
    return verdict


def answered(frozen: Frozen) -> list[str]:
    """The facts that the frozen probes found."""
    return sorted(fact for found in frozen.found for fact in found)


def usage(hits: dict[str, int], last: datetime) -> pl.DataFrame:
    rows = pl.DataFrame({"id": list(hits), "hit_count": list(hits.values()), "last_retrieved_at": last})
    return usage_of(frames.conform(rows, frames.FACT_USAGE), frames.empty(frames.LINEAGE))


def test_a_question_names_the_subject_and_how_the_statement_begins_but_not_its_answer() -> None:
    assert question("Anna bought a canoe in Porto during a rainy holiday.", "Anna", "Porto") == "Anna bought?"
    assert question("Anna works at Acme.", "Anna", "Acme", "works_at") == "Anna works?"
    assert question("Anna is at Acme.", "Anna", "Acme", "employed_by") == "Anna employed?"
    begun = question("Melanie will always remember the camping trip when the sky lit up with meteors.", "Melanie", "")
    assert begun == "Melanie always?"


WORDS = st.lists(st.sampled_from("canoe harbour paints Acme Porto repairs seven lanterns quietly kettle".split()))


@given(before=WORDS, answer=st.sampled_from(["Oslo", "Globex Labs", "green tea"]), after=WORDS)
def test_no_question_holds_a_word_of_the_answer_or_all_of_the_statement(
    before: list[str], answer: str, after: list[str]
) -> None:
    statement = " ".join(["Anna", *before, answer, *after])
    asked = question(statement, "Anna", answer, "repairs")
    if asked is not None:
        assert not stems(asked) & stems(answer)
        assert stems(asked) < stems(statement) | {"repair"}


def test_only_what_is_live_and_knowledge_is_asked_about() -> None:
    facts = frames.conform(facts_of(PEOPLE[:6]), frames.FACTS)
    gone = facts.with_columns(
        status=pl.when(pl.col("id") == "f000").then(pl.lit("superseded")).otherwise("status"),
        kind=pl.when(pl.col("id") == "f001").then(pl.lit("similarity")).otherwise("kind"),
        valid_to=pl.when(pl.col("id") == "f002").then(pl.lit(NOW, dtype=frames.TIME)),
    )
    queries = pl.DataFrame({"query": ["q"], "query_hash": ["h"], "at": [NOW]})
    events = pl.DataFrame({"fact_id": ["f000", "f002"], "query_hash": "h", "rank": [1, 2], "at": NOW})
    probes = plan_probes(gone, queries, events, GATE, "s", NOW)
    assert {fact for probe in probes for fact in probe.expected}.isdisjoint({"f000", "f001", "f002"})
    assert len(probes) > 10


def test_facts_on_their_way_out_are_not_asked_about_but_one_recall_or_a_pin_keeps_them_in() -> None:
    facts = frames.conform(facts_of(PEOPLE[:2]), frames.FACTS).with_columns(
        created_at=pl.lit(NOW - timedelta(days=120)),
        pinned=pl.col("id") == "f001",
        entrenchment=pl.when(pl.col("id") == "f002").then(pl.lit("user_axiom")),
    )
    young = facts.filter(pl.col("id") == "f005").with_columns(created_at=pl.lit(NOW))
    aged = pl.concat([facts.filter(pl.col("id") != "f005"), young])
    recalled = usage({"f003": 1}, NOW - timedelta(days=200))
    assert staying(aged, recalled, NOW)["id"].to_list() == ["f001", "f002", "f003", "f005"]
    later = NOW + timedelta(days=600)  # by then recall hides what nobody asked for again
    assert staying(aged, recalled, later)["id"].to_list() == ["f001", "f002"]


@pytest.mark.proof
def test_logged_recalls_come_first_with_the_facts_that_they_returned_first(memory: Path) -> None:
    with OpenMemory.open(str(memory), settings=RecallSettings(k=5)) as asked:
        asked.recall("Who plays the violin?", now=NOW - timedelta(hours=2))
        old = asked.recall("Who was in Lisbon?", now=NOW - timedelta(hours=1))
        asked.recall("Who plays the violin?", now=NOW)
    frozen = frozen_of(new(memory))
    first, second, *others = frozen.probes
    assert (first.query, second.query) == ("Who plays the violin?", "Who was in Lisbon?")
    assert second.expected == tuple(fact.id for fact in old.facts[:3])
    assert first.is_logged
    assert second.is_logged
    assert not any(probe.is_logged for probe in others)
    assert frozen.found[:2] == (frozenset(first.expected), frozenset(second.expected))


def test_asking_leaves_no_event_and_no_commit(memory: Path) -> None:
    run, store = new(memory), Store.open(str(memory))
    before = store.head.sequence
    frozen = frozen_of(run)
    assert len(answered(frozen)) / len(frozen.probes) > 0.5
    assert not verdict_of(run, frozen).fell
    assert store.head.sequence == before
    assert [len(store.log(name)) for name in LOGS] == [0, 0, 0]


def test_a_harmful_run_is_taken_back_to_the_byte_and_both_error_and_ledger_say_what_was_lost(
    memory: Path, frozen: Frozen
) -> None:
    run, before = new(memory), contents(memory)
    archived(run, answered(frozen)[::3])
    verdict = verdict_of(run, frozen, [run.id])
    assert verdict.fell
    assert verdict.undone == (run.id,)
    assert_same(contents(memory), before)
    with pytest.raises(RecallFell) as failure:
        verdict.enforce()
    told = str(failure.value)
    assert f"{verdict.recall_before:.3f}" in told
    assert f"{verdict.recall_after:.3f}" in told
    assert verdict.lost[0].statement in told
    assert run.id in told
    assert "tolerance" in told
    assert failure.value.exit_code == 4
    snapshot = Store.open(str(memory)).snapshot()
    row = snapshot.frame("decisions", "action = 'gate'").row(0, named=True)
    assert (row["subject_id"], row["decided_by"], row["ids_out"]) == (run.id, "rule", [run.id])
    assert row["ids_in"] == sorted({lost.fact_id for lost in verdict.lost})
    assert f"{verdict.recall_after:.3f}" in row["reason"]
    told = {each.action: each.decided_by for each in story_of(snapshot, run.id).decisions}
    assert told == {"undo": "rule", "gate": "rule"}
    assert snapshot.by_ids("runs", [run.id], ["state"])["state"].to_list() == ["undone"]


@pytest.mark.proof
def test_a_later_run_in_the_way_is_named_and_nothing_is_half_undone(memory: Path, frozen: Frozen) -> None:
    first, second, other = new(memory), new(memory), new(memory)
    found = answered(frozen)
    archived(first, found[::4])
    archived(second, found[1::4])
    changed(other, found[:1], pinned=pl.lit(True))
    before = contents(memory)
    verdict = verdict_of(second, frozen, [first.id, second.id])
    assert verdict.fell
    assert verdict.undone == ()
    assert other.id in verdict.obstacle
    assert_same(contents(memory), before)
    with pytest.raises(RecallFell, match=other.id):
        verdict.enforce()
    assert set(Store.open(str(memory)).snapshot().frame("decisions", "action = 'gate'")["subject_id"]) == {
        first.id,
        second.id,
    }


PROBES = tuple(Probe(f"q{n}", (f"f{n}",)) for n in range(20))
STANDING = Standing({}, {f"f{n}": f"says {n}" for n in range(20)})
FOUND = [frozenset(probe.expected) for probe in PROBES]
NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("lost", "tolerance", "fell"), [(1, 0.0, False), (2, 0.0, True), (2, 0.1, False), (3, 0.1, True)]
)
def test_recall_fell_by_more_than_the_tolerance_and_by_two_questions_at_least(
    lost: int, tolerance: float, fell: bool
) -> None:
    after = [NOTHING] * lost + FOUND[lost:]
    verdict = compare(PROBES, FOUND, after, STANDING, GateSettings(enabled=True, tolerance=tolerance))
    assert (verdict.fell, len(verdict.lost)) == (fell, lost)
    assert verdict.recall_after == pytest.approx(1 - lost / 20)


def test_too_few_questions_tell_nothing() -> None:
    verdict = compare(PROBES[:9], FOUND[:9], [NOTHING] * 9, STANDING, GATE)
    assert (verdict.fell, verdict.is_telling, verdict.recall_after) == (False, False, 0.0)
    assert "too few" in verdict.sentence()
    verdict.enforce()


def test_what_was_retracted_or_has_ended_is_no_longer_asked_for() -> None:
    ids = [f"f{n}" for n in range(20)]
    rows = pl.DataFrame({"id": ids, "statement": ids}).with_columns(
        status=pl.when(pl.col("id").is_in(["f0", "f1"])).then(pl.lit("retracted")).otherwise(pl.lit("active")),
        valid_to=pl.when(pl.col("id") == "f2").then(pl.lit(NOW, dtype=frames.TIME)),
        replaced_by=pl.when(pl.col("id") == "f3").then(pl.lit("f0")),
    )
    standing = Standing.of(rows, NOW)
    assert standing.over == {"f0", "f1", "f2", "f3"}
    verdict = compare(PROBES, FOUND, [NOTHING] * 4 + FOUND[4:], standing, GATE)
    assert (verdict.fell, verdict.is_telling, verdict.probes, verdict.lost) == (False, True, 16, ())


def test_a_twin_that_says_the_same_sentence_and_any_later_replacement_answer_too() -> None:
    rows = pl.DataFrame(
        {
            "id": ["a", "b", "c", "d", "e"],
            "statement": ["A", "B", "C", "D", "E"],
            "status": ["superseded", "superseded", "active", "archived", "superseded"],
            "valid_to": pl.Series([NOW, None, None, None, None], dtype=frames.TIME),
            "replaced_by": ["b", "c", None, None, "x"],
        }
    )
    standing = Standing.of(rows, NOW)
    probe = Probe("q", ("a", "b", "d", "e"))
    assert standing.over == frozenset()
    assert standing.found(probe, {"c": "C"}) == {"a", "b"}
    assert standing.found(probe, {"other": "D"}) == {"d"}
    assert standing.found(probe, {"x": "X"}) == {"e"}
