"""Tables in a terminal: what they leave out, and how they fit into narrow ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from apps.knowledge_commands import entity_table
from apps.overview_commands import _show_report
from apps.printing import count_table, out, table
from apps.runs_commands import _show_runs
from slowwave.types import Entity

LONG = "The Committee for the Restoration of the Old Harbour Crane and its Surroundings at Porto-do-Sul-da-Ribeira"
ID = "0123abcd"
RUN = "ingest-20261123-173507-b7b29de1"


def printed(what: Any) -> list[str]:
    with out.capture() as kept:
        out.print(what)
    return [line.rstrip() for line in kept.get().splitlines()]


@pytest.fixture(autouse=True, params=[80])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The columns of the terminal, whatever they were when the console was made."""
    monkeypatch.setattr(out, "_width", request.param)
    return int(request.param)


@pytest.mark.parametrize("width", [80, 60, 40], indirect=True)
@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (("name", "type", "count", "also known as", "last seen"), (LONG, "organization", 3, LONG, date(2026, 7, 10))),
        (("name", "count", "about", "members", "id"), (LONG, 2, LONG, LONG, ID)),
        (
            ("when", "action", "by", "reason", "run"),
            (datetime(2026, 7, 10, 8, 30, tzinfo=UTC), "create", "rule", LONG, RUN),
        ),
        (("fact", "relation", "valid", "id"), (LONG, "works_at", "2026-03-01 → 2026-05-02", ID)),
        (("entity", "observation", "id"), (LONG, LONG, ID)),
    ],
)
def test_a_table_fits_into_the_terminal_and_keeps_ids_and_days_whole(
    width: int, columns: Sequence[str], row: Sequence[Any]
) -> None:
    lines = printed(table("Title", columns, [row, row]))
    assert max(map(cell_len, lines)) <= width
    whole = [cell for name, cell in zip(columns, row, strict=True) if name in ("id", "run", "valid")]
    for cell in whole:
        assert sum(cell in line for line in lines) == 2
    words = "".join(lines)
    assert all(word in words for word in ("Committee", "Restoration", "Harbour"))


def test_columns_without_any_cell_are_left_out_and_no_rows_are_none() -> None:
    lines = printed(table("Found", ("name", "summary", "id"), [("Pool", "", ID), ("Poolside", None, ID)]))
    assert "summary" not in lines[2]
    assert lines[2].split() == ["┃", "name", "┃", "id", "┃"]
    assert printed(table("Found", ("name", "summary", "id"), [])) == ["Found", "none"]


def test_an_entity_is_one_line_with_the_day_when_it_was_seen() -> None:
    seen = datetime(2026, 7, 10, 8, 46, tzinfo=UTC)
    anna = Entity("e_1", "Anna Lindqvist", "person", None, ("anna",), 35, None, seen)
    lines = printed(entity_table([anna]))
    assert "│ facts │".replace("│", "┃") in lines[1]
    line = next(line for line in lines if "Anna" in line)
    assert line.split() == ["│", "Anna", "Lindqvist", "│", "person", "│", "35", "│", "anna", "│", "2026-07-10", "│"]


def test_a_run_that_counted_nothing_has_no_table() -> None:
    summary = {"run": RUN, "state": "completed", "counts": {"facts learned": 0}}
    assert printed(count_table(summary)) == [f"Run {RUN}: completed"]
    assert any("new facts" in line for line in printed(count_table({**summary, "counts": {"facts learned": 2}})))


def test_every_phase_of_a_night_has_its_id_even_where_it_changed_nothing() -> None:
    times = {"started_at": datetime(2026, 7, 10, 3, tzinfo=UTC), "took_s": 1.0, "window": None, "is_imported": False}
    run = {"flow": "decay", "state": "completed", "calls": 0, "usd": 0.0, "effects": [], "depth": 1, **times}
    with out.capture() as kept:
        _show_runs([{**run, "id": RUN}])
    assert RUN in kept.get()


def test_a_report_says_each_next_step_once() -> None:
    entity = {"entity_id": "e_1", "entity_name": "Anna", "access_count": 3, "total_observations": 2}
    document = {
        "generated_at": "2026-07-10T08:00:00",
        "stale_days": 90,
        "summary": {
            "total_entities": 1,
            "total_observations": 2,
            "stale_entities_count": 0,
            "pending_proposals_count": 0,
        },
        "proposals": [],
        "notes": [],
        **dict.fromkeys(
            ("split_candidates", "stale_entities", "large_entities", "archival_candidates", "suspects"), ()
        ),
        "flagged_observations": {"Anna": [{"entity_id": "e_1", "content_preview": "likes tea", "id": ID}]},
        "duplicates": [{**entity, "duplicates_found": 1, "pairs": [{"a_content": "likes tea", "b_content": "tea"}]}],
    }
    with out.capture() as kept:
        _show_report(document, 5, "en")
    assert kept.get().count("Let one go: slowwave retire ENTITY ID") == 1
    assert "Judge all" in kept.get()
