"""The command that reports on the health of a memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from slowwave.errors import UnusableInput
from slowwave.lexicon.labels import Locale, shown_type
from slowwave.settings import ReportSettings

from .maintain_commands import run_flow
from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import out, print_json, print_text, short_id, table

LIMIT = 10


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(report)


def report(
    stale_days: Annotated[
        float | None,
        typer.Option("--stale-days", help="Days without a read after which an entity is stale.", show_default=False),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the report as Markdown.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows of each section; all are counted.")] = LIMIT,
    propose_splits: Annotated[
        bool | None,
        typer.Option("--propose-splits/--no-propose-splits", help="Leave proposals for splits.", show_default=False),
    ] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What in the memory wants a person's eye: what should be split, repeats, is stale or suspect. Changes nothing."""
    from flows.report import report as flow

    if markdown and as_json:
        raise UnusableInput("The report is either Markdown or JSON.", "Leave out --markdown or --json.")
    place = Place.of(store, namespace)
    document = run_flow(flow, place, as_json, stale_days=stale_days, settings=report_settings(place, propose_splits))
    if as_json:
        print_json(document)
    elif markdown:
        from tasks.people.reporting import report_markdown

        print_text(report_markdown(document, limit=limit))
    else:
        _show(document, limit, place.locale)


def report_settings(place: Place, propose_splits: bool | None = None) -> ReportSettings:
    """Those of the file, with what the flag says; [split] is that of the whole file unless the report has its own."""
    own = place.settings.report
    kept: dict[str, Any] = {"retention": place.settings.retention}
    if "split" not in own.model_fields_set:
        kept["split"] = place.settings.split
    if propose_splits is not None:
        kept["propose_splits"] = propose_splits
    return own.model_copy(update=kept)


def _show(document: Mapping[str, Any], limit: int, locale: Locale) -> None:
    from slowwave.review.report_records import counts, sections, verdict

    out.print(table(f"Consolidation report, {document['generated_at'][:10]}", ("what", "count"), counts(document)))
    for section in sections(document, limit):
        rows = [
            [_cell(name, cell, locale) for name, cell in zip(section.columns, cells, strict=True)]
            for cells in section.rows
        ]
        more = section.count - len(rows)
        hidden = f"… and {more} more: --limit {section.count}\n" if more else ""
        out.print(table(section.title, section.columns, rows, hidden + "\n".join(section.following)))
    if document["proposals"]:
        out.print(
            f"Proposed: {len(document['proposals'])} splits. Take that back: slowwave undo {document['run']}",
            markup=False,
        )
    for note in document["notes"]:
        out.print(note, markup=False)
    if line := verdict(document):
        out.print(line, markup=False)


def _cell(column: str, cell: Any, locale: Locale) -> Any:
    return short_id(cell) if column == "id" else shown_type(cell, locale) if column == "type" else cell
