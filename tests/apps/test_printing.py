"""What commands print for people: facts and passages of one line each, and tables that fit into narrow terminals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import EPOCH
from rich.cells import cell_len
from stores import fact, remembered
from talk import START
from typer.testing import CliRunner

from apps import printing
from apps.cli import app
from apps.printing import out, table
from slowwave.integrations.python_api import OpenMemory

LONG = (
    "Marta plays the violin in an orchestra of the town, and has done so ever since she was a child in Faro by the sea."
)
WHEN = datetime(2025, 3, 1, tzinfo=UTC)
FACTS = [
    fact("f_00000001", LONG, valid_from=START),
    fact("f_00000002", "Marta plays chess.", valid_from=WHEN, event_precision="month"),
    fact("f_00000003", "Marta will play in Lisbon.", event_at=WHEN, event_precision="around"),
    fact("f_00000004", "Marta plays the harp.", valid_from=WHEN, valid_to=EPOCH + timedelta(days=9000)),
    fact("f_00000005", "Marta plays go.\x1b[31m\u202e [red]now[/]"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    gone = fact("f_00000006", "Marta likes boards.", status="superseded", valid_to=EPOCH)
    return remembered(tmp_path / "m", FACTS, archived=[gone])


def printed(monkeypatch: pytest.MonkeyPatch, place: Path, width: int, *more: str) -> list[str]:
    """The lines of a recall in a terminal of so many columns."""
    monkeypatch.setattr(printing.out, "_width", width)
    done = CliRunner().invoke(app, ["recall", "What does Marta play?", "--store", str(place), *more])
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in done.stdout.splitlines()]


def test_at_a_hundred_columns_each_fact_is_one_line_with_who_said_it_and_when(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(monkeypatch, place, 100, "--only", "facts")
    assert max(map(len, lines)) <= 100
    facts = [line for line in lines[1:-1] if line.lstrip()[:1].isdigit()]
    assert len(facts) == len(FACTS)
    assert all("Marta 2026-03-02" in line[-21:] for line in facts)
    (long,) = (line for line in facts if "orchestra" in line)
    assert "…" in long
    assert lines[-1].endswith("--full shows whole texts, scores and ids")


def test_a_line_begins_with_the_time_of_the_fact_unless_it_is_the_day_of_the_message(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(printed(monkeypatch, place, 100, "--only", "facts"))
    assert "(since 2025-03) Marta plays chess." in text
    assert "(~2025) Marta will play in Lisbon." in text
    assert "(2025-03-01 → 2050-08-" in text
    assert ") Marta plays the violin" not in text
    assert "Marta plays go.[31m [red]now[/]" in text
    assert "\x1b[31m" not in text
    assert "\u202e" not in text


def test_whole_texts_scores_and_ids_are_one_option_away(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(printed(monkeypatch, place, 220, "--full"))
    assert LONG in text
    assert "00000001" in text
    assert "score" in text


def test_passages_are_one_line_each_and_more_of_them_are_counted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, place, 100, "--only", "messages")
    assert max(map(len, lines)) <= 100
    quoted = [line for line in lines if '"Marta' in line]
    assert len(quoted) == 3
    assert all("Marta 2026-03-02" in line for line in quoted)
    assert any(line.startswith("…and") and line.endswith("more: --full") for line in lines)


def test_a_document_speaks_under_its_file_name(tmp_path: Path) -> None:
    read = {"id": "m_f_2", "message_id": "m_f_2", "conversation_id": "notes/plan.md", "role": "document", "ordinal": 9,
            "content": "The quay opens.", "search_text": "The quay opens.", "occurred_at": START, "graph_state": "done",
            "scope": "global"}  # fmt: skip
    known = [FACTS[0], fact("f_2", "The quay opens.")]
    with OpenMemory.open(str(remembered(tmp_path / "m", known, more={"messages": [read]}))) as memory:
        facts = memory.recall("Marta's violin and the quay").facts
        told = memory.speakers(facts)
        assert {*told.values()} == {"Marta", "plan.md"}
        assert memory.speakers([]) == {}


# Tables, in terminals of any width


CRANE = "The Committee for the Restoration of the Old Harbour Crane and its Surroundings at Porto-do-Sul-da-Ribeira"
ID = "0123abcd"
RUN = "ingest-20261123-173507-b7b29de1"


def lines_of(what: Any) -> list[str]:
    with out.capture() as kept:
        out.print(what)
    return [line.rstrip() for line in kept.get().splitlines()]


@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (
            ("name", "type", "count", "also known as", "last seen"),
            (CRANE, "organization", 3, CRANE, date(2026, 7, 10)),
        ),
        (("name", "count", "about", "members", "id"), (CRANE, 2, CRANE, CRANE, ID)),
        (
            ("when", "action", "by", "reason", "run"),
            (datetime(2026, 7, 10, 8, 30, tzinfo=UTC), "create", "rule", CRANE, RUN),
        ),
        (("fact", "relation", "valid", "id"), (CRANE, "works_at", "2026-03-01 → 2026-05-02", ID)),
        (("entity", "observation", "id"), (CRANE, CRANE, ID)),
    ],
)
def test_a_table_fits_into_the_terminal_and_keeps_ids_and_days_whole(
    width: int, columns: Sequence[str], row: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "_width", width)
    lines = lines_of(table("Title", columns, [row, row]))
    assert max(map(cell_len, lines)) <= width
    whole = [cell for name, cell in zip(columns, row, strict=True) if name in ("id", "run", "valid")]
    for cell in whole:
        assert sum(cell in line for line in lines) == 2
    words = "".join(lines)
    assert all(word in words for word in ("Committee", "Restoration", "Harbour"))
