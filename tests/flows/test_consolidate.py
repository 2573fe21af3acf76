"""The flow `consolidate`: what says the same becomes one fact; a second run does nothing; every run can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from messages_api import Body, MessagesApi, Reply, filled
from stores import observation
from talk import CLAUDE, assert_same, contents, overtaken, pairs_of, rows, verdict

from flows.maintenance import consolidate
from inference.embedding import open_embedder
from slowwave.common.settings import ConsolidateSettings
from slowwave.common.text import normalise_name, row_id
from slowwave.integrations.python_api import OpenMemory
from storage.doctor import examine
from storage.store import Store
from storage.undo import undo

LATE = datetime(2026, 5, 1, 9, tzinfo=UTC)
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)

TEA = (
    "Marta prefers strong green tea in the morning.",
    "Marta prefers strong green tea in the morning",
    "By the way: Marta prefers strong green tea in the morning.",
)
APART = (
    "The gateway allows 100 requests per minute.",
    "The gateway allows 1000 requests per minute.",
    "Devon likes cilantro in his soup.",
    "Devon does not like cilantro in his soup.",
)
ALIKE = (
    "Marta runs the billing service on a small server in Lisbon.",
    "The billing service is run by Marta on a small Lisbon server.",
)

Fact = dict[str, Any]


def fact(statement: str, number: int = 0, **more: Any) -> Fact:
    """One live observation, said by one message and stored at NOW."""
    subject = more.pop("subject", "Marta")
    about = {
        "predicate": "says", "predicate_raw": "says", "message_id": f"m_{number:04d}", "subject": subject,
        "created_at": NOW, **more,
    }  # fmt: skip
    return observation(f"f_{number:04d}", statement, LATE + timedelta(hours=number), row_id("e", subject), **about)


def remembered(place: Path, facts: Sequence[Fact]) -> Path:
    """A store that holds these facts and the messages that say them."""
    seat = open_embedder()
    store = Store.create(str(place), "default", (seat.name, seat.dims))
    store.clock = lambda: NOW
    frame = pl.DataFrame(facts, infer_schema_length=None)
    vectors = pl.Series("vector", seat.embed(frame["statement"].to_list()), dtype=pl.Array(pl.Float32, seat.dims))
    messages = frame.select(
        "scope", id="message_id", message_id="message_id", content="statement", search_text="statement",
        occurred_at="valid_from", conversation_id=pl.lit("c"), role=pl.lit("user"), graph_state=pl.lit("done"),
    )  # fmt: skip
    subjects = frame.unique("subject", keep="first").select(
        id="subject_id", name="subject", canonical_name=pl.col("subject").map_elements(normalise_name, pl.String),
        entity_type=pl.lit("person"), status=pl.lit("active"),
    )  # fmt: skip
    evidence = frame.select(
        "message_id", "confidence", fact_id="id", quote="statement", occurred_at="valid_from",
        id=pl.format("v_{}", "id"),
    )  # fmt: skip
    with store.commit("said-1", "test", NOW) as tx:
        tx.upsert("messages", messages)
        tx.upsert("entities", subjects)
        tx.upsert("facts", frame.drop("subject").with_columns(vectors, embed_model=pl.lit(seat.name)))
        tx.upsert("fact_evidence", evidence)
    return place


def numbered(statements: Sequence[str], start: int = 0, **more: Any) -> list[Fact]:
    """A fact of each statement."""
    return [fact(statement, number, **more) for number, statement in enumerate(statements, start)]


def consolidated(place: Path, model: str = "quotes", **options: Any) -> dict[str, Any]:
    """One run of the flow; returns its summary."""
    settings = options.pop("settings", {})
    llm = {"model": model, **settings.pop("llm", {})}
    chosen = ConsolidateSettings.model_validate({"llm": llm, **settings})
    return asyncio.run(consolidate(store=str(place), settings=chosen, now=options.pop("now", NOW), **options))


def live(place: Path) -> list[str]:
    """What is still believed, in order of ids."""
    return rows(place, "facts", "status = 'active' AND expired_at IS NULL")["statement"].to_list()


# What the model is shown, and how it answers


def merger(request: Body) -> Reply:
    """A model to which all pairs are the same, and that keeps the earlier sentence."""
    return verdict(request, "same", keep=1)


# Without a model


# With a model


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["pairwise", "cluster"])
def test_a_model_decides_what_rules_cannot(tmp_path: Path, serve: Callable[..., MessagesApi], mode: Any) -> None:
    api = serve(merger)
    place = remembered(tmp_path / "m", numbered(ALIKE))
    summary = consolidated(place, CLAUDE, mode=mode)
    assert summary["counts"]["facts merged"] == 1
    assert len(live(place)) == 1
    assert len(api.requests) == 1
    decided = rows(place, "decisions", "action = 'absorb'").to_dicts()
    assert [(row["decided_by"], CLAUDE in row["model"]) for row in decided] == [("model", True)]
    assert rows(place, "lineage")["reason"].to_list() == ["consolidated"]


@pytest.mark.proof
def test_a_pair_without_a_usable_verdict_waits_alone_and_is_given_up_after_three_runs(
    tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    telescope = [text.replace("billing service", "telescope").replace("Lisbon", "Nairobi") for text in ALIKE]

    def one_of_two(request: Body) -> Reply:
        told = {"verdicts": [{"n": n, "v": "same" if "billing" in pair[0] else "perhaps"} for n, pair in
                             pairs_of(request).items()] + [{"n": 99, "v": "same"}, "nonsense"]}  # fmt: skip
        return filled("Reconciliation", told)

    api = serve(one_of_two)
    place = remembered(tmp_path / "m", numbered((*ALIKE, *telescope)))
    first = consolidated(place, CLAUDE)
    assert (first["counts"]["facts merged"], first["counts"]["pairs not decided"]) == (1, 1)
    assert first["state"] == "completed"
    assert len(api.requests) == 1, "nothing is asked again in the same run"
    for _ in range(2):
        consolidated(place, CLAUDE)
    assert [list(pairs_of(request)) for request in api.requests[1:]] == [[1], [1]]
    facts = rows(place, "facts", "statement LIKE '%telescope%'")
    assert facts["status"].to_list() == ["active", "active"]
    assert facts["consolidation_attempts"].to_list() == [3, 3]
    assert facts["consolidated_at"].null_count() == 0
    assert consolidated(place, CLAUDE)["counts"] == {}
    assert len(api.requests) == 3


# What changed, and what clashes

MOVED = ("The first sprint of the shop ends on 1 April.", "The first sprint of the shop now ends on 9 April.")


@pytest.mark.proof
def test_what_is_updated_ends_when_the_new_state_begins(tmp_path: Path, serve: Callable[..., MessagesApi]) -> None:
    serve(lambda request: verdict(request, "updates"))
    place = remembered(tmp_path / "m", numbered(MOVED))
    before = contents(place)
    summary = consolidated(place, CLAUDE)
    assert summary["counts"]["facts superseded"] == 1
    old, new = rows(place, "facts").sort("id").to_dicts()
    assert (old["status"], old["valid_to"], old["replaced_by"]) == ("superseded", new["valid_from"], new["id"])
    assert (new["status"], new["supersedes_id"]) == ("active", old["id"])
    assert rows(place, "lineage")["reason"].to_list() == ["temporal_change"]
    (told,) = rows(place, "decisions", "action = 'supersede'").to_dicts()
    assert (told["decided_by"], CLAUDE in told["model"]) == ("model", True)
    with OpenMemory.open(str(place)) as memory:
        (then,) = memory.recall("When does the first sprint end?", as_of=LATE, now=NOW).facts
        (now,) = memory.recall("When does the first sprint end?", now=NOW).facts
    assert (then.statement, now.statement) == MOVED
    assert examine(Store.open(str(place))) == ()
    undo(Store.open(str(place)), summary["run"], "undo-1", NOW)
    assert_same(before, contents(place))


@pytest.mark.proof
def test_a_clash_keeps_both_and_is_told_until_something_settles_it(
    tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    api = serve(lambda request: verdict(request, "contradicts"))
    place = remembered(tmp_path / "m", numbered(("Marta has never flown to Oslo.", "Marta has flown to Oslo twice.")))
    assert consolidated(place, CLAUDE)["counts"]["contradictions found"] == 1
    assert len(live(place)) == 2
    with OpenMemory.open(str(place)) as memory:
        found = memory.recall("Has Marta flown to Oslo?", now=NOW + timedelta(days=400)).facts
        story = memory.why("f_0000")
    assert {fact.id: [other.id for other in fact.conflicts_with] for fact in found} == {
        "f_0000": ["f_0001"], "f_0001": ["f_0000"],
    }  # fmt: skip
    assert any(decision[1] == "contradict" for decision in story.decisions)
    assert consolidated(place, CLAUDE, since=LATE)["counts"].get("contradictions found", 0) == 0
    assert len(api.requests) == 1


@pytest.mark.proof
@pytest.mark.parametrize(("old", "kind"), [({"pinned": True}, "updates"), ({"entrenchment": "user_axiom"}, "same")])
def test_what_is_fixed_is_never_closed_and_a_clash_with_it_is_told(
    tmp_path: Path, serve: Callable[..., MessagesApi], old: dict[str, Any], kind: str
) -> None:
    api = serve(lambda request: verdict(request, kind, keep=2))
    place = remembered(tmp_path / "m", [fact(MOVED[0], 0, **old), fact(MOVED[1], 1)])
    consolidated(place, CLAUDE)
    assert len(live(place)) == 2
    assert "; fixed]" in api.requests[0]["messages"][0]["content"]
    clashes = rows(place, "pair_decisions", "kind = 'implicit_conflict' AND outcome = 'pending'")
    assert len(clashes) == (0 if kind == "same" else 1)


@pytest.mark.proof
def test_a_spent_budget_stops_the_run_and_the_next_one_goes_on(
    tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    api = serve(merger)
    place = remembered(tmp_path / "m", numbered((*TEA, *ALIKE)))
    summary = consolidated(place, CLAUDE, settings={"llm": {"max_calls": 0}})
    assert summary["state"] == "stopped"
    assert summary["counts"]["facts merged"] == 2
    assert api.requests == []
    assert consolidated(place, CLAUDE)["state"] == "completed"
    assert len(live(place)) == 2


@pytest.mark.proof
def test_what_another_run_gave_an_end_meanwhile_is_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = remembered(tmp_path / "m", numbered(TEA[:2]))

    def end() -> None:
        store = Store.open(str(place))
        with store.commit("other-1", "test", NOW) as tx:
            held = tx.by_ids("facts", ["f_0000"], with_vector=True)
            tx.upsert("facts", held.with_columns(valid_to=pl.lit(NOW + timedelta(days=30))))

    with overtaken(monkeypatch, "consolidate.facts", end):
        consolidated(place)
    assert rows(place, "facts")["status"].to_list() == ["active", "active"]


# What the extractor said of a pair: one fact says all that the other says, and more


SWIMS = ("Marta swims.", "Marta swims in the Tejo.", "Marta swims in the Tejo on Sundays.")


def covering(place: Path, *pairs: tuple[int, int]) -> Path:
    """The facts of SWIMS, with what the extractor said: each second one covers the first."""
    remembered(place, numbered(SWIMS))
    said = [
        {"id": f"d_{old}{new}", "candidate_id": f"f_{new:04d}", "known_id": f"f_{old:04d}", "action": "cover"}
        for old, new in pairs
    ]
    with Store.open(str(place)).commit("said-2", "test", NOW) as tx:
        tx.upsert("fact_directives", pl.DataFrame(said).with_columns(object=pl.lit(""), reason=pl.lit("")))
    return place


@pytest.mark.parametrize(
    "pairs", [((0, 1), (1, 2)), ((1, 2), (0, 1)), ((0, 2), (0, 1), (1, 2)), ((0, 1), (1, 0), (1, 2))]
)
def test_the_fullest_sentence_of_a_chain_stays_alone_and_a_circle_ends(
    tmp_path: Path, pairs: Sequence[tuple[int, int]]
) -> None:
    place = covering(tmp_path / "m", *pairs)
    consolidated(place)
    assert live(place) == [SWIMS[2]]
    assert consolidated(place)["counts"] == {}


@pytest.mark.proof
def test_two_that_a_person_keeps_apart_meanwhile_are_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = covering(tmp_path / "m", (0, 1))

    def keep_both() -> None:
        row = {"id": "pd_1", "a_id": "f_0000", "b_id": "f_0001", "kind": "redundant", "outcome": "keep_all"}
        with Store.open(str(place)).commit("review-1", "test", NOW) as tx:
            tx.upsert("pair_decisions", pl.DataFrame([{**row, "decided_by": "person", "at": NOW}]))

    with overtaken(monkeypatch, "consolidate.facts", keep_both):
        consolidated(place)
    assert live(place) == [*SWIMS]
