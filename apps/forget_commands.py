"""The command that erases a person or topic for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import check_that_somebody_can_answer, err, out, print_json, table

if TYPE_CHECKING:
    from tasks.people.forgetting import Report

LISTED = 20
BEYOND = (
    "Outside the store the name may still be in the files that were read, in your shell's history, and on the run "
    "pages of Prefect, whose summaries and forms show statements: delete those with `prefect flow-run delete ID`.",
    "A file that changes is read anew, and brings back what it still says: take the name out of it first.",
)


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(forget)


def forget(
    subject: Annotated[str, typer.Argument(help="An entity, by any of its names or its id; else words of texts.")],
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="NAME", help="A further name to erase.", show_default=False)
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="NAME", help="Erase exactly these names, however short.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. There is no undo.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Erase a person or topic from every table, index and older version, and prove it. There is no undo.

    Exit code 1 if a text or a file still names it.
    """
    from tasks.people.forgetting import find_subject, preview
    from tasks.people.forgetting import forget as erase
    from tasks.runtime.runs import existing_run

    place = Place.of(store, namespace)
    run = existing_run("forget", place.uri, place.namespace, retention=place.settings.retention)
    meant = find_subject(run, subject, also or (), name or ())
    if dry_run or not yes:
        if not dry_run:
            check_that_somebody_can_answer("--dry-run", as_json=as_json)
        seen = preview(run, meant)
        if not as_json:
            _show_plan(seen)
        elif dry_run:
            print_json(_as_document(seen, dry_run=True))
        if dry_run:
            return
        typer.confirm("Erase all of this, for good?", abort=True, err=True)
    report = erase(run, meant)
    if as_json:
        print_json(_as_document(report, dry_run=False))
    else:
        _show_proof(report, namespace)
    if report.left:
        raise typer.Exit(1)


def _as_document(report: Report, *, dry_run: bool) -> dict[str, Any]:
    removed, struck = report.plan.removed(), report.plan.changed()
    tables = {
        each: {"removed": removed.get(each, 0), "struck": struck.get(each, 0)} for each in sorted({*removed, *struck})
    }
    subject = report.subject
    return {
        "run": report.run,
        "state": report.state,
        "dry_run": dry_run,
        "subject_id": subject.entity_id or None,
        "names": list(subject.names.listed),
        "entities": list(report.plan.entities),
        "tables": tables,
        "versions_dropped": report.versions,
        "files_dropped": report.files_dropped,
        "texts_before": dict(report.rows_before),
        "scan": {
            "files": report.after.files,
            "bytes": report.after.size,
            "hits_before": report.before.by_table(),
            "hits_after": dict(report.after.hits),
            "excused": report.after.excused,
            "by_chance": report.after.by_chance,
            "not_vouched_for": list(report.compressed),
        },
        "longer_words": list(report.words),
        "left": list(report.left),
        "notes": [*report.notes, *BEYOND],
    }


def _show_plan(report: Report) -> None:
    subject, plan = report.subject, report.plan
    out.print(f"Names: {', '.join(subject.names.listed)}", markup=False)
    if plan.entities:
        more = len(plan.entities) - LISTED
        listed = ", ".join(plan.entities[:LISTED]) + (f" … and {more} more" if more > 0 else "")
        out.print(f"Entities that go, because they are it or their name holds it: {listed}", markup=False)
    if subject.is_past:
        out.print("Only older versions still have it.")
    _show_rows(report)
    out.print(
        f"{report.versions} older versions go too: no run up to now can be undone afterwards, nor can this.",
        style="bold",
    )
    for note in report.notes:
        out.print(note, markup=False)


def _show_rows(report: Report) -> None:
    removed, struck = report.plan.removed(), report.plan.changed()
    rows = [(each, removed.get(each, 0), struck.get(each, 0)) for each in sorted({*removed, *struck})]
    out.print(table("Rows", ("table", "removed", "struck"), rows))


def _show_proof(report: Report, namespace: str) -> None:
    if report.plan.entities:
        out.print(f"Entities that went: {', '.join(report.plan.entities[:LISTED])}", markup=False)
    _show_rows(report)
    scan, found = report.after, sum(report.before.hits.values())
    texts = sum(report.rows_before.values())
    out.print(f"{report.versions} older versions and {report.files_dropped} files are gone.")
    out.print(f"Texts that named it before: {texts}.")
    if scan.files:
        out.print(
            f"Bytes: {scan.size:,} in {scan.files} files were searched; {found} hits before, "
            f"{sum(scan.hits.values())} now."
        )
    else:
        out.print("The store is not on this machine: its rows were read, its bytes were not searched.")
    if report.compressed:
        listed = ", ".join(report.compressed)
        out.print(
            f"Compressed, so that the search of bytes sees little there: {listed}. For these stand the rows, and that "
            "no file from before is left.",
            markup=False,
        )
    if scan.excused:
        shown = ", ".join(report.words[:LISTED]) or "slowwave's own words"
        out.print(f"{scan.excused} hits are parts of longer words: {shown}", markup=False)
    for note in (*report.notes, *BEYOND):
        out.print(note, markup=False)
    if not report.left:
        out.print(f"Nothing in the namespace {namespace!r} names it any more.", style="bold")
        return
    err.print("It is still named in:", style="bold red")
    for place in report.left:
        err.print(f"  {place}", markup=False)
