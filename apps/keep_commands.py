"""Commands that keep the house: undo, doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from slowwave.text import run_id

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import check_that_somebody_can_answer, out, print_json, show_undo, table

if TYPE_CHECKING:
    from storage.doctor import Defect

FOUND = ("check", "table", "row", "what")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (undo, doctor):
        app.command()(command)


def _run_id(kind: str) -> str:
    return run_id(kind, datetime.now(UTC), uuid4().hex)


def undo(
    run: Annotated[str, typer.Argument(help="The run to take back, or how its id begins; see `slowwave runs`.")],
    cascade: Annotated[bool, typer.Option("--cascade", help="Also take back later runs that built on it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Take back everything that a run changed."""
    from recall.stories import run_to_undo
    from storage.undo import undo as take_back

    opened = Place.of(store, namespace).store()
    meant = run_to_undo(opened.snapshot(), run)
    report = take_back(opened, meant, _run_id("undo"), datetime.now(UTC), cascade=cascade, dry_run=dry_run)
    if as_json:
        print_json({**asdict(report), "dry_run": dry_run})
        return
    verb = "Would take back" if dry_run else "Took back"
    out.print(f"{verb} {', '.join(report.runs)}.")
    names = sorted({*report.put_back, *report.removed})
    out.print(
        table(
            "Rows",
            ("table", "put back", "removed"),
            [(n, report.put_back.get(n, 0), report.removed.get(n, 0)) for n in names],
        )
    )
    if report.put_back.get("proposals") and not dry_run:
        out.print("What was decided in it waits for a person again: slowwave review list", markup=False)


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended, as one commit that can be undone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Mend without asking.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Look for duplicate keys, dangling ids, cycles and other damage. Exit code 1 if something is left.

    --repair shows first what would be done, and asks.
    """
    from storage.doctor import examine, mend_head, prognosis
    from storage.doctor import repair as mend

    place = Place.of(store, namespace)
    mended: tuple[Defect, ...] = ()
    run = _run_id("doctor")
    if repair and not yes:
        check_that_somebody_can_answer("`slowwave doctor`", as_json=as_json)
        foreseen = prognosis(place.uri, place.namespace)
        if repair := any(each.is_repairable for each in foreseen):
            _show_foreseen(foreseen)
            typer.confirm("Mend this?", abort=True, err=True)
    if repair:
        mended = mend_head(place.uri, place.namespace)
        mended += mend(place.attached(), run, datetime.now(UTC))
    left = examine(place.attached())
    if as_json:
        print_json({"mended": [asdict(f) for f in mended], "findings": [asdict(f) for f in left]})
    else:
        _show_examined(mended, left, run, place.namespace)
    if left:
        raise typer.Exit(1)


def _show_foreseen(foreseen: Sequence[Defect]) -> None:
    from storage.doctor import LOST

    rows = [(f.check, f.table, f.row_id, f.detail) for f in foreseen if f.is_repairable and f.check != LOST]
    out.print(table("What would be mended", FOUND, rows))
    if lost := [f.row_id for f in foreseen if f.check == LOST]:
        out.print(f"{len(lost)} runs would lose what they did, and must be run again:")
        _show_lost(lost)
    if left := sum(not f.is_repairable for f in foreseen):
        out.print(f"{left} more findings cannot be mended: slowwave doctor")


def _show_lost(runs: Sequence[str]) -> None:
    for run in runs:
        out.print(f"  slowwave runs {run}", markup=False, soft_wrap=True)


def _show_examined(mended: Sequence[Defect], left: Sequence[Defect], run: str, namespace: str) -> None:
    from storage.doctor import LOST, REPORTED

    rows = [(f.check, f.table, f.row_id, f.detail) for f in mended if f.check in REPORTED and f.check != LOST]
    if rows:
        out.print(table("Mended", FOUND, rows))
    if lost := [f.row_id for f in mended if f.check == LOST]:
        out.print(
            f"{len(lost)} runs lost what they did. Run them again as you did the first time (a night or a "
            "backfill also does its parts): what a model was paid for is kept."
        )
        _show_lost(lost)
    if left:
        out.print(table("Findings", FOUND, [(f.check, f.table, f.row_id, f.detail) for f in left]))
    else:
        out.print(f"Healthy{f'; {len(mended)} findings mended' if mended else ''}.")
    if mended and not rows:  # the repair of damage cannot be undone
        show_undo(run, namespace)
