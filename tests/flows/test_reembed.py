"""Another embedding model for a whole memory: the same texts, all at once or not at all, and back again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import polars as pl
import pytest
from lancedb.embeddings import TextEmbeddingFunction, get_registry
from safetensors.numpy import load_file, save_file
from talk import EXAMPLES, assert_same, contents, learn, overtaken, rows, said, say_yes, written
from tenacity import wait_none

from flows.oversight import reembed
from inference.embedding import STATIC_MODELS, open_embedder
from recall.entities import exact_row
from recall.report import observations_of
from slowwave.common.errors import RecallFell, Refused, StoreMismatch, UndoRefused
from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings, NightGateSettings, ReembedSettings, SplitSettings
from slowwave.integrations.python_api import OpenMemory
from slowwave.review.split_plan import SplitPart
from storage.doctor import examine
from storage.store import Store
from storage.tables import HOLDING_VECTORS, WITH_VECTORS
from storage.undo import undo
from tasks.entities.derived import refresh_profiles
from tasks.people.observations import observe
from tasks.people.review import propose
from tasks.runtime import retrying
from tasks.runtime.retrying import RETRIES
from tasks.runtime.runs import existing_run, new_run, store_of
from tasks.transfer import reembedding
from tasks.transfer.imports import import_export

DIMS = 96
QUESTION = "Where does Devon work?"


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A static model of its own: the shipped one with fewer dimensions, in a folder."""
    source, folder = STATIC_MODELS[DEFAULT_EMBEDDER], tmp_path_factory.mktemp("half")
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(source / name, folder)
    tables = load_file(source / "model.safetensors")
    tables["embeddings"] = np.ascontiguousarray(tables["embeddings"][:, :DIMS])
    save_file(tables, folder / "model.safetensors")
    return f"model2vec/{folder}"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a vector in every table that can hold one, of every road that makes one."""
    folder = tmp_path_factory.mktemp("told")
    place, talks = folder / "memory", EXAMPLES / "conversations"
    files = [talks / "c12-devon-catches-up.jsonl", EXAMPLES / "documents" / "decision-007-redis-streams.md"]
    learn(files, place, noise={"rebuild_every": 1}, surprise={"enabled": True})
    new = new_run("import", str(place), "default", DEFAULT_EMBEDDER)
    import_export(new, EXAMPLES / "foreign" / "mem0.json", IngestSettings())
    observing = existing_run("observe", str(place), "default")
    observe(observing, "Devon Clarke", ["He plays the cello."], IngestSettings())
    refresh_profiles(existing_run("profiles", str(place), "default"))
    with Store.open(str(place)).commit("r_archived", "test") as tx:
        fact = tx.frame("facts", "status = 'active' AND vector IS NOT NULL", limit=1)["id"]
        archived = tx.by_ids("facts", fact, with_vector=True).with_columns(status=pl.lit("archived"))
        tx.upsert("facts_archive", archived)
        tx.delete("facts", fact)
    talk = written(folder / "more.jsonl", said([("Ines", "I moved from Porto to Braga in May 2026.")], "c99"))
    learn(talk, place, require_approval=True)
    return place


def told(place: Path, run: str, *statements: str) -> None:
    """Facts that a run wrote, embedded with the model that the memory has."""
    store = opened(place)
    seat = open_embedder(store.head.embed_model)
    vectors = pl.Series("vector", seat.embed(statements), dtype=pl.Array(pl.Float32, seat.dims))
    ids = [f"f_{text}" for text in statements]
    frame = pl.DataFrame({"id": ids, "statement": statements, "status": "active", "kind": "observation"})
    with store.commit(run, "test") as tx:
        tx.upsert("facts", frame.with_columns(vectors, embed_model=pl.lit(seat.name)))


BY_MEANING = (
    "colleagues coming back", "moving house", "message brokers", "storage engines", "deployment environments",
    "timetables", "choosing technology", "employment", "data imports", "vacations", "hobbies", "residence",
)  # fmt: skip


@pytest.fixture
def place(memory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(memory, tmp_path / "memory"))


def turn(place: Path, model: str, *, dry_run: bool = False, probes: int = 0, k: int = 1) -> dict[str, Any]:
    """One run of `reembed`, with a gate where it has so many questions."""
    gate = NightGateSettings(enabled=bool(probes), probes=probes or 200, k=k)
    settings = ReembedSettings(gate=gate)
    return asyncio.run(reembed(store=str(place), embedder=model, settings=settings, dry_run=dry_run))


def opened(place: Path) -> Store:
    return Store.open(str(place))


def take_back(place: Path, run: str, **how: bool) -> tuple[str, ...]:
    return undo(opened(place), run, f"undo-{uuid4().hex[:8]}", datetime.now(UTC), **how).runs


def embedding(place: Path) -> tuple[str, int]:
    head = opened(place).head
    return head.embed_model, head.dims


def recalled(place: Path, **how: Any) -> list[tuple[str, float]]:
    with OpenMemory.open(str(place), is_logged=False, **how) as memory:
        return [(fact.id, fact.score) for fact in memory.recall(QUESTION).facts]


class Own(TextEmbeddingFunction):
    """A real function of LanceDB's registry: the first numbers of the shipped model, or noise; it may fail or wait."""

    name: str = ""
    sent: ClassVar[list[str]] = []
    before: ClassVar[Callable[[], object]] = lambda: None

    def ndims(self) -> int:
        return DIMS

    def generate_embeddings(self, texts: Sequence[str], *args: Any, **kwargs: Any) -> list[Any]:
        type(self).before()
        self.sent.extend(texts)
        if self.name == "noise":
            return [np.random.default_rng(len(text)).normal(size=DIMS) for text in texts]
        return list(open_embedder().embed(texts)[:, :DIMS])


@pytest.fixture
def own() -> Iterator[str]:
    """The alias under which `Own` is registered for one test."""
    alias = f"own-{uuid4().hex}"
    get_registry().register(alias)(Own)
    Own.before = lambda: None
    Own.sent.clear()
    yield alias
    get_registry()._functions.pop(alias)


def propose_a_split(place: Path) -> None:
    snapshot, run = opened(place).snapshot(), existing_run("split-propose", str(place), "default")
    devon = exact_row(snapshot, "Devon Clarke")["id"]
    one = observations_of(snapshot, devon, run.now)["id"].to_list()[:1]
    propose(run, devon, SplitSettings(), (SplitPart("Devon Clarke - Music", "person", tuple(one)),))


@pytest.mark.parametrize("is_during", [False, True])
def test_what_waits_with_vectors_of_the_old_model_is_decided_first(
    place: Path, half: str, monkeypatch: pytest.MonkeyPatch, is_during: bool
) -> None:
    embed, first = reembedding.NewVectors.embed, [propose_a_split]

    def proposing(self: reembedding.NewVectors, texts: Mapping[str, str]) -> None:
        if first:
            first.pop()(place)
        embed(self, texts)

    if is_during:
        monkeypatch.setattr(reembedding.NewVectors, "embed", proposing)
    else:
        propose_a_split(place)
    before = contents(place)
    with pytest.raises(Refused, match="wait for a person"):
        turn(place, half)
    assert embedding(place)[0] == DEFAULT_EMBEDDER
    assert contents(place)["facts"].equals(before["facts"])


@pytest.mark.proof
def test_there_and_back_again_gives_the_very_vectors_of_the_normal_road(place: Path, half: str) -> None:
    before, was, commit = contents(place), recalled(place), opened(place).head.sequence
    assert all(before[name]["vector"].drop_nulls().len() for name in WITH_VECTORS)
    assert all(len(before[name]) for name in ("proposals", "conversation_state"))
    began = existing_run("observe", str(place), "default")
    stale, live = store_of(began), OpenMemory.open(str(place), is_logged=False)
    live.recall(QUESTION)

    summary = turn(place, half)

    assert (summary["state"], embedding(place), summary["llm"]["calls"]) == ("completed", (half, DIMS), 0)
    assert any("No thresholds were measured" in note for note in summary["notes"])
    assert summary["counts"]["rows re-embedded"] >= sum(len(before[name]) for name in WITH_VECTORS)
    seat, turned = open_embedder(half), contents(place)
    facts = turned["facts"].filter(pl.col("vector").is_not_null())
    np.testing.assert_array_equal(facts["vector"].to_numpy(), seat.embed(facts["statement"].to_list()))
    assert {*turned["facts"]["embed_model"].drop_nulls()} == {half}
    for name, frame in before.items():
        if name not in HOLDING_VECTORS:
            assert frame.equals(turned[name], null_equal=True)
        elif "vector" in frame.columns:
            assert frame["vector"].is_null().equals(turned[name]["vector"].is_null()), name
    assert turned["conversation_state"]["recent_turns"].list.len().sum() == 0, "surprise is measured anew"

    with live:  # whoever asked before embeds with the new model from now on
        now = [(fact.id, fact.score) for fact in live.recall(QUESTION).facts]
        assert live.search_entities("Devon")
        assert live.find_entities("the new employer")
    assert recalled(place) == now != was
    assert recalled(place, commit=commit) == was
    with pytest.raises(StoreMismatch, match=f"was re-embedded with {half}") as refused, stale.commit("r", "ingest"):
        raise AssertionError("nobody who began with the old model may write now")
    assert "Run it again" in refused.value.remedy
    with pytest.raises(StoreMismatch):
        observe(began, "Devon Clarke", ["He sings."], IngestSettings())
    assert opened(place).head.is_free()

    back = turn(place, DEFAULT_EMBEDDER)["run"]

    silent = before["conversation_state"].with_columns(recent_turns=turned["conversation_state"]["recent_turns"])
    after = contents(place)  # of what was refused, the part that is kept is embedded
    taught = {name: after[name] for name in ("refusals", "scorer_state")}
    assert_same({**before, "conversation_state": silent, **taught}, after)
    assert recalled(place) == was
    assert take_back(place, back, dry_run=True) == take_back(place, back) == (back,)
    assert_same(turned, contents(place))
    assert (recalled(place), embedding(place)) == (now, (half, DIMS))
    say_yes(place)  # what waited is written with vectors of the model of now
    (fact,) = rows(place, "facts", "statement LIKE '%Braga%' AND status = 'active'", ["statement", "vector"]).rows()
    np.testing.assert_allclose(fact[1], seat.embed([fact[0]])[0], atol=1e-7)
    assert examine(opened(place)) == ()


@pytest.mark.proof
def test_earlier_runs_are_taken_back_after_it_was_and_later_ones_stand_in_its_way(place: Path, half: str) -> None:
    columns = ["id", "statement", "vector", "run_id"]
    was = rows(place, "facts", columns=columns)
    told(place, "r_first", "He sings.", "He plays chess.")
    run = turn(place, half)["run"]
    with pytest.raises(UndoRefused, match=rf"re-embedded after r_first: {run}"):
        take_back(place, "r_first")
    told(place, "r_later", "He learned to juggle.")
    with pytest.raises(UndoRefused, match=r"Later runs built on .*r_later") as refused:
        take_back(place, run)
    assert "slowwave reembed" in refused.value.remedy
    assert {"r_later", run} <= {*take_back(place, run, cascade=True)}
    assert embedding(place) == (DEFAULT_EMBEDDER, 256)
    assert rows(place, "facts", "run_id = 'r_later'").is_empty()
    assert take_back(place, "r_first") == ("r_first",)
    assert rows(place, "facts", columns=columns).equals(was, null_equal=True)


@pytest.mark.proof
def test_a_killed_run_changes_nothing_and_what_is_written_meanwhile_is_caught_up(
    place: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, before = f"{own}/good", opened(place).head.versions["facts"]

    def die() -> None:
        raise KeyboardInterrupt

    Own.before = die
    with pytest.raises(KeyboardInterrupt):
        turn(place, model)
    assert (embedding(place)[0], opened(place).head.versions["facts"]) == (DEFAULT_EMBEDDER, before)
    texts = turn(place, model, dry_run=True)["counts"]["different texts"]
    assert not Own.sent

    Own.before = lambda: None
    with overtaken(monkeypatch, "reembed", lambda: told(place, "r_meanwhile", "He learned to juggle.")):
        counts = turn(place, model)["counts"]

    assert counts["texts embedded"] == len(Own.sent) == len({*Own.sent}) == texts + 1
    (vector,) = rows(place, "facts", "run_id = 'r_meanwhile'", ["vector"])["vector"]
    np.testing.assert_allclose(vector, open_embedder(model).embed(["He learned to juggle."])[0], atol=1e-7)
    assert embedding(place) == (model, DIMS)


class RateLimitError(Exception):
    """What a provider's library raises after an answer 429."""


def test_no_text_is_embedded_twice_after_errors_that_pass(
    place: Path, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RETRIES, raising=False)
    monkeypatch.setattr(retrying, "wait_random", lambda *_: wait_none())
    monkeypatch.setattr(reembedding, "REMOTE_TEXTS", 10)
    texts = turn(place, f"{own}/good", dry_run=True)["counts"]["different texts"]
    answers, refused = iter(["yes", "yes", "429"]), []

    def answer() -> None:
        if next(answers, "yes") == "429":
            refused.append(opened(place).head.is_free())
            raise RateLimitError

    def write() -> None:
        nonlocal answers
        told(place, "r_meanwhile", "He learned to juggle.")
        answers = iter(["429"])

    Own.before = answer
    with overtaken(monkeypatch, "reembed", write):
        counts = turn(place, f"{own}/good")["counts"]

    assert refused == [True, False], "once before the lease, once within it"
    assert counts["texts embedded"] == len(Own.sent) == len({*Own.sent}) == texts + 1 > 30
    facts = rows(place, "facts", "vector IS NOT NULL", ["statement", "vector"])
    seat = open_embedder(f"{own}/good")
    np.testing.assert_allclose(facts["vector"].to_numpy(), seat.embed(facts["statement"].to_list()), atol=1e-7)


def test_what_is_written_while_it_embeds_is_embedded_before_others_wait(place: Path, own: str) -> None:
    was_free: list[bool] = []

    def write() -> None:
        was_free.append(opened(place).head.is_free())
        if len(was_free) == 1:
            told(place, "r_meanwhile", "He learned to juggle.")

    Own.before = write
    turn(place, f"{own}/good")

    assert Own.sent[-1] == "He learned to juggle."
    assert all(was_free)
    (vector,) = rows(place, "facts", "run_id = 'r_meanwhile'", ["vector"])["vector"]
    assert len(vector) == DIMS


@pytest.mark.proof
def test_it_is_taken_back_where_recall_falls(place: Path, own: str) -> None:
    before = rows(place, "facts", columns=["id", "vector"])
    with OpenMemory.open(str(place)) as memory:
        memory.recall_many(BY_MEANING, 3)  # the words of most facts are found without their vectors
    with pytest.raises(RecallFell, match="Recall fell") as fell:
        turn(place, f"{own}/noise", probes=30, k=3)
    assert len(fell.value.measured["undone"]) == 1
    assert embedding(place) == (DEFAULT_EMBEDDER, 256)
    assert rows(place, "facts", columns=["id", "vector"]).equals(before, null_equal=True)
    (reason,) = rows(place, "decisions", "action = 'gate'", ["reason"])["reason"]
    assert reason.startswith("Recall fell")
