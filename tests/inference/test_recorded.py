"""The whole pipeline on real answers: what a model said about the bundled conversations once, played back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from apps.demo import RECORDED, RECORDED_AT, learn
from slowwave.common.settings import LanguageSettings
from storage.store import Store

pytestmark = pytest.mark.xdist_group("recorded")

WAY_OUT = "`make record` says which prompts need new answers, and asks for them"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    place = tmp_path_factory.mktemp("recorded") / "memory"
    return asyncio.run(learn(str(place), LanguageSettings(model=f"replay/{RECORDED}"), RECORDED_AT)), place


def closed(place: Path) -> list[str]:
    """The statements that hold no longer."""
    over = "status IN ('superseded', 'retracted') OR (status = 'active' AND valid_to IS NOT NULL)"
    return Store.open(str(place)).snapshot().frame("facts", over, ["statement"])["statement"].to_list()


def test_every_window_has_a_recorded_answer_and_nothing_is_paid(played: tuple[dict[str, Any], Path]) -> None:
    summary, _ = played
    assert not summary["errors"], WAY_OUT
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


@pytest.mark.parametrize(
    "words",
    [
        ("vim", "fifteen years"),
        ("board is on 21 May",),
        ("100 requests per minute",),
        ("768 MB",),
        ("Brightwell", "2021"),
    ],
    ids=["editor", "release", "rate limit", "memory limit", "employer"],
)
def test_what_changed_is_closed(played: tuple[dict[str, Any], Path], words: tuple[str, ...]) -> None:
    assert any(all(word in statement for word in words) for statement in closed(played[1])), closed(played[1])
