"""Stored text on the pages of Prefect: one of them reads table cells as Markdown, the other shows them as they are."""

from __future__ import annotations

import pytest

from tasks.runtime.run_pages import plain_cells


@pytest.mark.parametrize("text", ["2026-03", "completed", "ingest-20261129-004840-d57d3314", "in_progress", "Zoë, 2.5"])
def test_a_text_without_meaning_in_markdown_is_shown_as_it_is(text: str) -> None:
    assert plain_cells([{"cell": text, "count": 3}]) == [{"cell": text, "count": 3}]


@pytest.mark.parametrize(
    "text", ["**bold**", "see [here](x)", "_soft_", "# head", "<b>x</b>", "a www.b.org", "http://b"]
)
def test_a_text_that_markdown_would_change_is_not_left_alone(text: str) -> None:
    assert plain_cells([{"cell": text}])[0]["cell"] not in (text, "")
