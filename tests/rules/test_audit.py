"""What an audit says of another memory: rates with their denominators, and nothing changed anywhere."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from talk import EXAMPLES

from slowwave.common.settings import Settings
from tasks.transfer.imports import audit_export

FOREIGN = EXAMPLES / "foreign"
NOW = datetime(2026, 8, 1, tzinfo=UTC)


def look(path: Path, **more: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = audit_export(path, Settings(), now=NOW, **more)["findings"]
    return found


def memories(path: Path, *texts: str, owner: str = "ana", **more: Any) -> Path:
    """A file of memories of one person, told on the first of June."""
    at = "2026-06-01T00:00:00Z"
    rows = [{"id": str(n), "memory": text, "created_at": at, "user_id": owner, **more} for n, text in enumerate(texts)]
    path.write_text(json.dumps({"results": rows}), encoding="utf-8")
    return path


def told(finding: dict[str, Any]) -> list[str]:
    return [each["text"] for each in finding["examples"]]


def test_the_example_of_mem0_has_each_fault_that_was_put_into_it() -> None:
    found = look(FOREIGN / "mem0.json")
    counts = {name: (each["count"], each["total"]) for name, each in found.items()}
    assert counts["exact_duplicates"] == (1, 10)
    assert counts["contradictions"] == (1, 10)
    assert counts["secrets"] == (1, 11)
    assert look(FOREIGN / "mem0.json", stale_days=1)["stale"]["count"] > counts["stale"][0]
    assert "Does not like cilantro" in told(found["contradictions"])[0]
    assert "Tr4mway" not in json.dumps(found)


def test_nearly_the_same_words_are_a_duplicate_and_another_word_is_not(tmp_path: Path) -> None:
    said = (
        "Ana is very fond of her old bicycle.",
        "Ana is very fond of her old bike.",
        "Ana's old bicycle is loved by Bo.",
    )
    same = ("Ana bought a sofa for the flat.", "By the way, Ana bought the sofa for the flat.")
    found = look(memories(tmp_path / "m.json", *said, *same))
    assert found["near_duplicates"]["count"] == 1
    assert "sofa" in told(found["near_duplicates"])[0]
    assert found["exact_duplicates"]["count"] == 0


def test_a_contradiction_is_told_with_what_it_contradicts(tmp_path: Path) -> None:
    one, other = "Ana eats meat on Sundays", "Ana does not eat meat on Sundays"
    found = look(memories(tmp_path / "m.json", one, other, "Ana plays chess with Bo"))["contradictions"]
    assert (found["count"], found["total"]) == (1, 3)
    assert one in told(found)[0]
    assert other in told(found)[0]


def test_numbers_of_other_days_and_other_things_contradict_nothing(tmp_path: Path) -> None:
    pairs = (
        ("Visited Rome in 2019", "Visited Rome in 2021"),
        ("Paid 20 euros for lunch on 3 May", "Paid 35 euros for lunch on 9 May"),
        ("Ran 5 km with Bo yesterday", "Ran 8 km with Bo yesterday"),
        ("Has read chapter 3 of the manual", "Has read chapter 4 of the manual"),
        ("Did not train with Bo on 3 May", "Did train with Bo on 9 May"),
    )
    found = look(memories(tmp_path / "m.json", *[text for pair in pairs for text in pair]))
    assert told(found["contradictions"]) == []


def test_an_audit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    shutil.copytree(FOREIGN, folder)
    monkeypatch.chdir(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for name in before:
        look(folder / name)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
