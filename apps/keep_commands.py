"""Commands that keep the house: runs, undo, doctor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import uuid4

import typer

from slowwave.text import run_id

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import out, print_json, table

EFFECTS = (
    "messages stored", "facts", "patches", "messages left", "messages failed", "entities", "names", "pinned",
    "unpinned", "steward: facts", "consolidate: facts", "decay: facts", "changes proposed", "proposals",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (runs, undo, doctor):
        app.command()(command)


def _run_id(kind: str) -> str:
    return run_id(kind, datetime.now(UTC), uuid4().hex)


def runs(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 20,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What ran, what it did and what it cost; newest first."""
    from recall.overview import runs as listed

    found = listed(Place.of(store, namespace).store())[:limit]
    if as_json:
        print_json({"runs": [{**run, "summary": json.loads(run["summary"] or "{}")} for run in found]})
        return
    rows = [(r["id"], r["state"], _cost(r), _effect(r["summary"])) for r in found]
    out.print(table("Runs, the newest first", ("run", "state", "cost", "effect"), rows))


def _cost(run: Mapping[str, Any]) -> str:
    """What the models cost; nothing where none was asked."""
    return f"{run['calls']} calls, ${run['usd'] or 0:.4f}" if run["calls"] else ""


def _effect(summary: str | None) -> str:
    counts = json.loads(summary or "{}").get("counts", {})
    telling = {what: count for what, count in counts.items() if what.startswith(EFFECTS) and count}
    return ", ".join(f"{count} {what}" for what, count in telling.items())


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
    from storage.doctor import examine
    from storage.doctor import repair as mend

    opened = Place.of(store, namespace).attached()
    mended = mend(opened, _run_id("doctor"), datetime.now(UTC)) if repair else ()
    left = examine(opened)
    if as_json:
        print_json({"mended": [asdict(f) for f in mended], "findings": [asdict(f) for f in left]})
    elif not left:
        out.print(f"Healthy{f'; {len(mended)} findings mended' if mended else ''}.")
    else:
        out.print(
            table("Findings", ("check", "table", "row", "what"), [(f.check, f.table, f.row_id, f.detail) for f in left])
        )
    if left:
        raise typer.Exit(1)
