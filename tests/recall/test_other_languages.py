"""What was said in another language is found: by its words, and in English by the general words of facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import fact, remembered
from talk import NOW

from bench.ingest import ingest_files
from bench.languages import FOLDER
from slowwave.common.settings import RecallSettings
from slowwave.integrations.python_api import OpenMemory

SAID = {
    "tea": ("林晓雯在成都开了一家茶馆，名叫听雨轩。", "open tea house business"),
    "job": ("陈志强在苏州的物流公司上班。", "work job company logistics"),
    "cat": ("我家猫豆豆十二岁了。", "cat pet age"),
    "shop": ("佐藤健太のラーメン屋は麺処しずくという。", "ramen shop restaurant name"),
    "bees": ("Marta keeps bees on the roof.", None),
    "boat": ("Marta restores a boat.", None),
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    facts = [fact(name, statement, search_terms=terms) for name, (statement, terms) in SAID.items()]
    return str(remembered(tmp_path_factory.mktemp("languages") / "m", facts))


def best(uri: str, question: str, held_mb: int) -> tuple[str, list[tuple[str, int]]]:
    """The first fact, and all with their scores in millionths."""
    with OpenMemory.open(uri, is_logged=False, settings=RecallSettings(held_mb=held_mb)) as memory:
        found = memory.recall(question, now=NOW).facts
    return found[0].id, [(one.id, round(one.score * 1e6)) for one in found]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("林晓雯的茶馆叫什么名字？", "tea"),
        ("谁在物流公司上班？", "job"),
        ("ラーメン屋の名前は何ですか？", "shop"),
        ("Which tea house did she open?", "tea"),
        ("What is the name of the ramen restaurant?", "shop"),
        ("Who keeps bees?", "bees"),
    ],
)
def test_a_question_in_either_language_finds_the_fact_in_memory_and_by_queries(
    uri: str, question: str, answer: str
) -> None:
    held, queried = best(uri, question, 512), best(uri, question, 0)
    assert held[0] == queried[0] == answer
    assert {name for name, _ in held[1]} == {name for name, _ in queried[1]}


@pytest.mark.parametrize("held_mb", [0, 512])
def test_question_words_and_particles_match_no_message(uri: str, held_mb: int) -> None:
    with OpenMemory.open(uri, is_logged=False, settings=RecallSettings(held_mb=held_mb)) as memory:
        found = memory.recall("怎么什么在哪里呢？", now=NOW).facts
    assert not any(one.parts.get("words") for one in found)


def test_words_of_a_script_without_spaces_are_kept_as_quotations(tmp_path: Path) -> None:
    source = tmp_path / "talk.jsonl"
    rows = FOLDER / "zh.jsonl"
    source.write_text("".join(rows.read_text(encoding="utf-8").splitlines(keepends=True)[:4]), encoding="utf-8")
    summary = ingest_files([str(source)], str(tmp_path / "m"))
    assert summary["counts"]["facts learned"] >= 2
