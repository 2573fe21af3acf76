"""Commands that keep the house: undo, doctor."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from slowwave.text import run_id

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import out, print_json, table


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (undo, doctor):
        app.command()(command)


def _run_id(kind: str) -> str:
    return run_id(kind, datetime.now(UTC), uuid4().hex)


def undo(
    run: Annotated[str, typer.Argument(help="The run to take back; see `slowwave runs`.")],
    cascade: Annotated[bool, typer.Option("--cascade", help="Also take back later runs that built on it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Take back everything that a run changed."""
    from storage.undo import undo as take_back

    opened = Place.of(store, namespace).store()
    report = take_back(opened, run, _run_id("undo"), datetime.now(UTC), cascade=cascade, dry_run=dry_run)
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
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Look for duplicate keys, dangling ids, cycles and other damage. Exit code 1 if something is left."""
    from storage.doctor import LOST, TOLD, examine, mend_head
    from storage.doctor import repair as mend

    place = Place.of(store, namespace)
    mended = mend_head(place.uri, place.namespace) if repair else ()
    opened = place.attached()
    mended += mend(opened, _run_id("doctor"), datetime.now(UTC)) if repair else ()
    left = examine(opened)
    if as_json:
        print_json({"mended": [asdict(f) for f in mended], "findings": [asdict(f) for f in left]})
        raise typer.Exit(bool(left))
    if told := [(f.check, f.table, f.row_id, f.detail) for f in mended if f.check in TOLD and f.check != LOST]:
        out.print(table("Mended", ("check", "table", "row", "what"), told))
    if lost := [f.row_id for f in mended if f.check == LOST]:
        out.print(f"{len(lost)} runs lost what they did. Run them again: what a model was paid for is kept.")
        for run in lost:
            out.print(f"  slowwave runs {run}", markup=False, soft_wrap=True)
    if not left:
        out.print(f"Healthy{f'; {len(mended)} findings mended' if mended else ''}.")
    else:
        out.print(
            table("Findings", ("check", "table", "row", "what"), [(f.check, f.table, f.row_id, f.detail) for f in left])
        )
    if left:
        raise typer.Exit(1)
