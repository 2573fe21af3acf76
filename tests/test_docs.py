"""The generated pages are those that are committed, and say something about everything."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from scripts.write_docs import PAGES, ROOT, default_file, grid, settings_page, tables_page
from slowwave.settings import Settings
from storage.tables import STAMPS, TABLES


def fields(model: type[BaseModel], path: str = "") -> list[tuple[str, Any]]:
    """Every setting and group with its path."""
    found = []
    for name, info in model.model_fields.items():
        found.append((f"{path}{name}", info))
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            found += fields(info.annotation, f"{path}{name}.")
    return found


@pytest.mark.parametrize("path", PAGES)
def test_the_committed_page_is_the_generated_one(path: str) -> None:
    committed = Path(ROOT / path).read_text(encoding="utf-8")
    assert committed == PAGES[path](), f"{path} is out of date: run `make docs`"


def test_every_table_and_column_is_on_the_page_with_its_meaning() -> None:
    page = tables_page()
    for name, table in TABLES.items():
        assert f"### {name}\n" in page
        for column, spec in table.columns.items():
            assert f"| `{column}` |" in page
            assert spec.meaning.replace("<", "&lt;") in page
            assert spec.refers in TABLES or not spec.refers
    assert all(f"`{name}`" in page for name in STAMPS)


def test_every_setting_explains_itself_and_is_on_the_page() -> None:
    page = settings_page()
    for path, info in fields(Settings):
        assert info.title, path
        assert info.description, path
        if info.default_factory is None:
            assert f"| `{path.rpartition('.')[2]}` |" in page


def test_the_range_on_the_page_is_the_range_that_is_enforced() -> None:
    page = settings_page()
    assert re.search(r"\| `lease_s` \| `30\.0` \| ≥ 1 and ≤ 3600 \|", page)
    assert re.search(r"\| `mode` \| `\"auto\"` \| `auto`, `manual` \|", page)
    for value, is_allowed in [(1.0, True), (3600.0, True), (0.9, False), (3600.1, False)]:
        try:
            Settings.model_validate({"retention": {"lease_s": value}})
        except ValueError:
            assert not is_allowed
        else:
            assert is_allowed


def test_the_whole_file_of_the_page_is_valid_and_says_the_defaults() -> None:
    assert Settings.model_validate(tomllib.loads(default_file())) == Settings()
    assert f"```toml\n{default_file()}```" in settings_page()


def test_a_bar_in_a_cell_does_not_break_the_table() -> None:
    assert grid(("a", "b"), [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |\n"
