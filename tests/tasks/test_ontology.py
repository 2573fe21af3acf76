"""Relations that no table knows are asked about once, and an answer is believed only as far as it is safe (S2-61)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_api import Body, MessagesApi, Reply, fault, filled
from talk import CLAUDE, learn, rows, said, texts_of, written

from slowwave.common import frames
from slowwave.facts.revision.predicates import DEFAULT, canonicalise, learned_rows, settle_names

NOTHING = frames.empty(frames.PREDICATES)
_QUESTION = re.compile(r'<relation number="(\d+)" name="([^"]*)">')
Answers = dict[str, tuple[str, str]]


class Model:
    """A model that reads "Ana <relation> Borealis" off every message, and knows some relations."""

    def __init__(self, answers: Answers, failure: Reply | None = None) -> None:
        self.answers, self.failure = answers, failure
        self.asked: list[list[str]] = []

    def __call__(self, request: Body) -> Reply:
        tool = request["tools"][0]["name"]
        if tool == "RelationNames":
            return self._named(request, tool)
        if tool != "WindowExtraction":
            return filled(tool, {"answers": []})
        fresh = [(n, text) for n, _, text, is_context in texts_of(request) if not is_context]
        facts = [
            {"m": n, "about": "Ana", "rel": relation, "obj": thing, "s": text, "c": 0.95}
            for n, text in fresh
            for _, relation, thing in [text.rstrip(".").split(" ", 2)]
        ]
        names = [{"name": name, "type": "concept"} for name in ("Ana", *{fact["obj"] for fact in facts})]
        return filled(tool, {"new": names, "facts": facts})

    def _named(self, request: Body, tool: str) -> Reply:
        found = _QUESTION.findall(request["messages"][0]["content"])
        self.asked.append([name for _, name in found])
        if self.failure is not None:
            return self.failure
        told = [(int(n), *self.answers[name]) for n, name in found if name in self.answers]
        return filled(tool, {"answers": [{"question": n, "canonical": c, "cardinality": k} for n, c, k in told]})


def paid(**more: Any) -> dict[str, Any]:
    llm = {"model": CLAUDE, "concurrency": 1, "transient_retries": 0, "validation_retries": 0}
    extract = {"context_messages": 0}
    return {"llm": llm, "noise": {"min_chunk_chars": 0}, "extract": extract, **more}


def told(folder: Path, name: str, *texts: str) -> Path:
    """A document with these passages: the relations of conversations are a closed list."""
    lines = [{**line, "role": "document"} for line in said([("Ana", text) for text in texts], name)]
    return written(folder / f"{name}.jsonl", lines)


def canonical(store: Path) -> dict[str, tuple[str, str]]:
    found = rows(store, "facts").select("predicate_raw", "predicate", "status")
    return {raw: (name, status) for raw, name, status in found.iter_rows()}


# Through ingest


@pytest.mark.proof
def test_unknown_relations_are_asked_about_together_stored_applied_and_never_again(
    tmp_path: Path, serve: Callable[[Model], MessagesApi]
) -> None:
    model = Model({"labours_for": ("employed by", "n"), "sang_with": ("performs_with", "1"), "knits": ("knits", "n")})
    serve(model)
    first = told(tmp_path, "a", "Ana labours_for Borealis.", "Ana sang_with Bea.", "Ana knits Socks.", "Ana uses Wool.")
    learn(first, tmp_path / "m", **paid())
    assert [sorted(asked) for asked in model.asked] == [["knits", "labours_for", "sang_with"]]
    assert canonical(tmp_path / "m") == {
        "labours_for": ("works_at", "active"), "sang_with": ("performs_with", "active"), "knits": ("knits", "active"),
        "uses": ("uses", "active"),
    }  # fmt: skip
    stored = rows(tmp_path / "m", "predicates").sort("alias").select("alias", "canonical", "cardinality", "source")
    assert stored.rows() == [
        ("knits", "knits", "n", "llm"), ("labours_for", "works_at", "1", "llm"),
        ("performs_with", "performs_with", "n", "llm"), ("sang_with", "performs_with", "n", "llm"),
    ]  # fmt: skip
    decided = rows(tmp_path / "m", "decisions", "action = 'name_relation'")
    assert set(decided["decided_by"]) == {"model"}
    assert "labours_for means works_at." in decided["reason"].to_list()

    second = told(tmp_path, "b", "Ana labours_for Ferrywise.", "Ana knits Hats.", "Ana performs_with Cleo.")
    learn(second, tmp_path / "m", **paid())
    assert len(model.asked) == 1


@pytest.mark.proof
def test_in_a_conversation_a_relation_of_the_models_own_is_an_observation_and_nobody_is_asked(
    tmp_path: Path, serve: Callable[[Model], MessagesApi]
) -> None:
    model = Model({"knits": ("creates", "n")})
    serve(model)
    talk = said([("Ana", "Ana knits Socks."), ("Ana", "Ana employed_by Borealis.")], "a")
    learn(written(tmp_path / "a.jsonl", talk), tmp_path / "m", **paid())
    assert model.asked == []
    assert rows(tmp_path / "m", "predicates").is_empty()
    found = rows(tmp_path / "m", "facts").sort("statement").select("kind", "predicate", "statement")
    assert found.rows() == [
        ("relation", "works_at", "Ana employed_by Borealis."), ("observation", "said", "Ana knits Socks."),
    ]  # fmt: skip


@pytest.mark.proof
def test_a_failed_call_leaves_relations_as_they_are_and_the_next_run_asks_again(
    tmp_path: Path, serve: Callable[[Model], MessagesApi]
) -> None:
    model = Model({"knits": ("creates", "n")}, failure=fault(500))
    serve(model)
    summary = learn(told(tmp_path, "a", "Ana knits Socks."), tmp_path / "m", **paid())
    assert canonical(tmp_path / "m") == {"knits": ("knits", "active")}
    assert rows(tmp_path / "m", "predicates").is_empty()
    assert summary["errors"]
    model.failure = None
    learn(told(tmp_path, "b", "Ana knits Hats."), tmp_path / "m", **paid())
    assert model.asked == [["knits"], ["knits"]]
    assert rows(tmp_path / "m", "facts").sort("created_at", "statement")["predicate"].to_list().count("creates") == 1


# What is believed (T37)


def test_a_known_form_keeps_the_cardinality_of_its_table_whatever_the_model_says() -> None:
    assert settle_names({"labours_for": ("Employed By", "n")}, NOTHING) == {"labours_for": ("works_at", "1")}
    assert settle_names({"relishes": ("likes", "1")}, NOTHING) == {"relishes": ("prefers", "n")}


def test_one_object_at_a_time_is_believed_only_of_the_relation_itself() -> None:
    assert settle_names({"capital_of": ("Capital Of", "1")}, NOTHING) == {"capital_of": ("capital_of", "1")}
    assert settle_names({"adopted": ("adopts", "1")}, NOTHING)["adopted"][1] == "n"
    assert settle_names({"sings": ("???", "1")}, NOTHING) == {"sings": ("sings", "n")}


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("does_not_use", "uses"), ("no_longer_uses", "uses"), ("stopped_using", "uses"),
        ("enjoys", "does_not_like"), ("lives_near", "stopped_living_in"),
    ],
)  # fmt: skip
def test_what_is_denied_never_means_what_is(alias: str, name: str) -> None:
    assert settle_names({alias: (name, "1")}, NOTHING) == {alias: (alias, "n")}


def test_answers_that_lead_to_each_other_end_at_one_form() -> None:
    chain = settle_names({"a": ("b", "n"), "b": ("c", "n"), "c": ("likes", "n")}, NOTHING)
    assert {name for name, _ in chain.values()} == {"prefers"}
    circle = settle_names({"b": ("a", "1"), "a": ("b", "1")}, NOTHING)
    assert circle == {"a": ("a", "n"), "b": ("a", "n")}


FORMS = st.sampled_from(["knits", "sang_with", "does_not_knit", "a", "b", "ß", "x" * 300])
ANSWERS = st.one_of(st.text(max_size=300), FORMS, st.sampled_from([p.name for p in DEFAULT]))


@given(st.dictionaries(FORMS, st.tuples(ANSWERS, st.sampled_from(["1", "n"])), max_size=6))
def test_whatever_a_model_writes_forms_are_short_settled_and_known_afterwards(answers: Any) -> None:
    plain = canonicalise(pl.Series(list(answers), dtype=pl.String), NOTHING)["canonical"].to_list()
    asked = dict(zip(plain, answers.values(), strict=False))
    settled = settle_names(asked, NOTHING)
    assert settled.keys() == asked.keys()
    assert all(name and len(name.encode()) <= 256 for name, _ in settled.values())
    table = learned_rows(settled)
    assert table["alias"].n_unique() == len(table)
    forms = pl.Series([name for name, _ in settled.values()], dtype=pl.String)
    again = canonicalise(forms, table)
    assert "raw" not in again["source"]
    assert again["canonical"].to_list() == again["raw"].to_list()
