"""Tables in a terminal: what they leave out, and how they fit into narrow ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from apps.printing import out, table

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
