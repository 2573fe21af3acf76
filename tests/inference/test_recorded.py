"""The whole pipeline on real answers: what a model said about the bundled conversations once, played back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from apps.demo import RECORDED, RECORDED_AT, learn
from flows.ingest import ingest
from slowwave.settings import ExtractSettings, IngestSettings, LanguageSettings
from storage.store import Store

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("recorded")]

WAY_OUT = "`make record` says which prompts need new answers, and asks for them"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    place = tmp_path_factory.mktemp("recorded") / "memory"
    return asyncio.run(learn(str(place), LanguageSettings(model=f"replay/{RECORDED}"), RECORDED_AT)), place


def closed(place: Path) -> list[str]:
    """The statements that hold no longer."""
    over = "status IN ('superseded', 'retracted') OR (status = 'active' AND valid_to IS NOT NULL)"
    return Store.open(str(place)).snapshot().frame("facts", over, ["statement"])["statement"].to_list()


def live_facts(place: Path) -> pl.DataFrame:
    """What is known: who, what, since when, until when, and by which messages."""
    snapshot = Store.open(str(place)).snapshot()
    names = dict(snapshot.frame("entities", columns=["id", "name"]).iter_rows())
    said = snapshot.frame("fact_evidence", columns=["fact_id", "message_id"]).group_by(id="fact_id")
    facts = snapshot.frame("facts", "status = 'active'").drop("message_id")
    both = facts.join(said.agg(pl.col("message_id").sort()), on="id").with_columns(
        pl.col("subject_id", "object_id").replace(names)
    )
    columns = [
        "statement",
        "subject_id",
        "predicate",
        "object_id",
        "object_text",
        "valid_from",
        "valid_to",
        "message_id",
    ]
    return both.select(columns).sort(columns[:-1])


def test_every_window_has_a_recorded_answer_and_nothing_is_paid(played: tuple[dict[str, Any], Path]) -> None:
    summary, _ = played
    missing = [error for error in summary["errors"] if "extract_facts" in error]
    assert not missing, WAY_OUT
    assert summary["llm"]["calls"] == 0
    assert summary["counts"]["facts learned"] >= 200


def test_there_is_one_marta_and_there_are_two_annas(played: tuple[dict[str, Any], Path]) -> None:
    snapshot = Store.open(str(played[1])).snapshot()
    entities = snapshot.frame("entities", "merged_into IS NULL", ["id", "name", "entity_type"])
    live = snapshot.frame("facts", "status = 'active'", ["subject_id"]).group_by(id="subject_id").len()
    people = entities.filter(pl.col("entity_type") == "person").join(live, on="id")
    bare = [name for name in people["name"] if "'s " not in name]
    assert [name for name in bare if name.startswith("Marta")] == ["Marta Oliveira"]
    assert sorted(name for name in bare if name.startswith("Anna")) == ["Anna Lindqvist", "Anna Oliveira"]
    assert not {"user", "the user", "assistant"} & {name.lower() for name in entities["name"]}


def test_read_later_it_is_the_same_memory(played: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    asyncio.run(learn(str(tmp_path / "m"), LanguageSettings(model="quotes"), RECORDED_AT))
    settings = IngestSettings(llm=LanguageSettings(model=f"replay/{RECORDED}"), extract=ExtractSettings(reread=True))
    summary = asyncio.run(ingest([], store=str(tmp_path / "m"), settings=settings, now=RECORDED_AT))
    assert not summary["errors"], WAY_OUT
    assert live_facts(tmp_path / "m").equals(live_facts(played[1]))


@pytest.mark.parametrize(
    "words",
    [("vim", "fifteen years"), ("14 May 2026",), ("100 requests per minute",), ("512 MB",), ("Brightwell", "2021")],
    ids=["editor", "release", "rate limit", "memory limit", "employer"],
)
def test_what_changed_is_closed(played: tuple[dict[str, Any], Path], words: tuple[str, ...]) -> None:
    assert any(all(word in statement for word in words) for statement in closed(played[1])), closed(played[1])
