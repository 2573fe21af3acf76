"""The generated pages are those that are committed, and say something about everything."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from scripts.write_docs import (
    COMMON,
    PAGES,
    ROOT,
    default_file,
    settings_page,
    tables_page,
)
from slowwave.common.settings import SHARED, Settings
from storage.tables import STAMPS, TABLES


def fields(model: type[BaseModel], path: str = "") -> list[tuple[str, Any]]:
    """Every setting and group of the file with its path."""
    found = []
    for name, info in model.model_fields.items():
        if f"{path}{name}" in SHARED:
            continue
        found.append((f"{path}{name}", info))
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            found += fields(info.annotation, f"{path}{name}.")
    return found


@pytest.mark.proof
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
    listed = re.findall(r"^\| `(?:[\w.]+\.)?(\w+)` \|", page, re.MULTILINE)
    for path, info in fields(Settings):
        assert info.description, path
        if info.default_factory is None:
            assert path.rpartition(".")[2] in listed, path
            assert info.description.replace("|", r"\|").replace("<", "&lt;") in page, path


def test_the_common_settings_are_few_and_stand_in_their_part_alone() -> None:
    common, tuning = settings_page().split("## The whole file")[0].split("## Tuning")
    assert re.findall(r"^\| `([\w.]+)` \|", common, re.MULTILINE) == list(COMMON)
    assert len(set(COMMON)) == len(COMMON) <= 40
    headings = re.findall(r"^### (.+)$", tuning, re.MULTILINE)
    assert len(headings) == len(set(headings))
    llm = tuning.split("### `[ingest.llm]`")[1].split("### ")[0]
    assert "| `timeout_s` |" in llm
    assert "| `max_usd` |" not in llm


def test_the_whole_file_of_the_page_is_valid_and_says_the_defaults() -> None:
    assert Settings.model_validate(tomllib.loads(default_file())) == Settings()
    assert f"```toml\n{default_file()}```" in settings_page()


# Pages that are written by hand


def pages() -> list[Path]:
    """Every page of the site, the decisions among them."""
    return sorted((ROOT / "docs").rglob("*.md"))


def test_every_row_that_is_cited_has_its_line_in_the_specification() -> None:
    specification = (ROOT / "docs/internal/specification.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| (S\d-\d\d|[TC]\d+) \| [^|]{4,}", specification, re.MULTILINE))
    folders = ("apps", "bench", "flows", "inference", "recall", "scripts", "slowwave", "storage", "tasks", "tests")
    code = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    cited = {row: path for path in [*code, *pages()] for row in rows_cited(path.read_text(encoding="utf-8"))}
    assert len(cited) > 150
    assert {row: path for row, path in cited.items() if row not in written} == {}


def rows_cited(text: str) -> set[str]:
    """The rows of the specification that a text cites: S2-14 anywhere, T31 and C13 in brackets."""
    brackets = " ".join(re.findall(r"\([^()]*\)", text))
    traps = re.findall(r"(?<=[ (])[TC](?:[1-9]|[1-9]\d)(?=[,;: )]|$)", brackets)
    return {*re.findall(r"\bS[0-4]-\d\d\b", text), *traps}


@pytest.mark.parametrize(("page", "least"), [("architecture.md", 10), ("row-audit.md", 300)])
def test_a_test_that_a_page_names_exists(page: str, least: int) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text(encoding="utf-8")))
    real = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    assert len(named) >= least
    assert named - real == set()


LAYERS = ("apps", "flows", "inference", "prompts", "recall", "slowwave", "storage", "tasks")


def test_the_files_that_a_page_or_a_room_names_exist() -> None:
    for page in ("docs/architecture.md", "CONTRIBUTING.md"):
        named = re.findall(r"`((?:\w+/)+\w+(?:\.\w+)?)`", (ROOT / page).read_text(encoding="utf-8"))
        paths = [path for path in named if path.startswith(tuple(f"{layer}/" for layer in (*LAYERS, "tests", "bench")))]
        assert len(paths) > 20
        assert [path for path in paths if not is_there(ROOT / path)] == [], page
    for room in (init for layer in LAYERS for init in (ROOT / layer).rglob("__init__.py")):
        listed = re.findall(r"^- (`\w+`(?:, `\w+`)*): ", room.read_text(encoding="utf-8"), re.MULTILINE)
        names = re.findall(r"`(\w+)`", " ".join(listed))
        assert [name for name in names if name[0] != "_" and not is_there(room.parent / name)] == [], room


def is_there(path: Path) -> bool:
    """Whether the path is a file, also without `.py`, or a folder."""
    return path.exists() or path.with_suffix(".py").exists()


def test_every_page_is_in_the_menu_and_leads_to_the_glossary() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f" {page.name}\n" in menu, f"{page.name} is missing in the nav of mkdocs.yml"
        text = page.read_text(encoding="utf-8")
        assert page.name == "glossary.md" or "](glossary.md" in text, f"{page.name} has no link to the glossary"


def test_links_between_pages_lead_to_files_and_headings_that_exist() -> None:
    for page in [*pages(), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name) if name else page
            assert file.exists(), f"{page.relative_to(ROOT)} leads to {target}"
            if anchor and file.suffix == ".md":
                assert anchor in anchors(file), f"{page.relative_to(ROOT)} leads to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
