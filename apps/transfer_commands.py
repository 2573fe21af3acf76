"""Commands that bring in what other memory systems hold, judge it, or write all that is known into files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.errors import UnusableInput
from slowwave.lifecycle.run_counts import shown_counts

from .configuration import Place
from .options import DryRun, JsonOption, RequireApproval, add_command
from .printing import err, out, print_json, progress, show_undo, table

if TYPE_CHECKING:
    from slowwave.foreign.audit import Audit
    from tasks.transfer.imports import Imported

SHOWN = 20
OWN = "slowwave"
FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="SYSTEM",
        help="The system that wrote it: auto, slowwave, mem0, graphiti or mcp-memory.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    add_command(app, bring_in, "import")
    for command in (audit, export):
        add_command(app, command)


def bring_in(
    path: Annotated[Path, typer.Argument(help="An export: a JSON file, or a folder of them.", show_default=False)],
    system: FromOption = "auto",
    require_approval: RequireApproval = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE|STORE",
            help="The export.key of another store, or its address: trust exports of that store.",
        ),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Trust an export of slowwave without a key.")] = False,
    dry_run: DryRun = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Import an export of mem0, Graphiti, Zep, the MCP memory server, or slowwave.

    What `slowwave export` wrote in this store comes back row for row, into a namespace that holds nothing yet. So does
    the export of a store whose --key is given, or one that you --trust. Facts of other systems are judged like new.
    """
    from recall.export import is_own_export
    from tasks.transfer.imports import import_export
    from tasks.transfer.own_exports import import_own

    is_own = system == OWN or (system == "auto" and is_own_export(path))
    if (key or trust) and not is_own:
        raise UnusableInput("--key and --trust are for exports of slowwave.", "Leave them out.")
    if require_approval and is_own:
        raise UnusableInput("A whole memory comes back as it was, or not at all.", "Leave out --require-approval.")
    run = place.run("import", makes_store=True)
    with progress(quiet=as_json):
        if is_own:
            done = import_own(run, path, key=key, trust=trust, dry_run=dry_run)
        else:
            settings = place.kept(place.settings.ingest)
            done = import_export(run, path, settings, system, require_approval=require_approval, dry_run=dry_run)
    if as_json:
        print_json({**done.as_json(), "dry_run": dry_run})
    else:
        _show_imported(done, dry_run, place.namespace)


def _show_imported(done: Imported, dry_run: bool, namespace: str) -> None:
    title = f"{done.path}, an export of {done.system}{': nothing was changed' if dry_run else ''}"
    out.print(table(title, ("what", "count"), list(shown_counts(done.counts).items())))
    if done.unknown_types:
        rows = list(done.unknown_types.items())[:SHOWN]
        out.print(table("Kinds of things that are concepts here", ("kind", "count"), rows))
    for each in done.skipped[:SHOWN]:
        err.print(f"  {f'{each.place}: ' if each.place else ''}{each.reason}", markup=False)
    if len(done.skipped) > SHOWN:
        err.print(f"  … and {len(done.skipped) - SHOWN} more; see --json")
    if done.is_known:
        out.print("This file was imported before; nothing changed.")
    elif not dry_run:
        if done.counts.get("changes proposed"):
            out.print(f"{done.counts['changes proposed']} changes wait for a person: slowwave review list")
        show_undo(done.run, namespace)


def audit(
    path: Annotated[Path, typer.Argument(help="An export: a JSON file, or a folder of them.", show_default=False)],
    system: FromOption = "auto",
    stale_days: Annotated[int, typer.Option("--stale-days", min=1, help="A fact is stale after this many days.")] = 365,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Audit an export of another memory: duplicates, contradictions, stale facts, secrets."""
    from tasks.transfer.imports import audit_export

    report = audit_export(path, place.settings, system, stale_days=stale_days)
    if as_json:
        print_json(report.as_json())
    else:
        _show_audit(report)


def _show_audit(report: Audit) -> None:
    rows = [(each.title, each.count, f"{each.rate:.1%}", f"of {each.total} {each.of}") for each in report.findings]
    out.print(table(report.title, ("finding", "count", "rate", "of how many"), rows))
    for each in report.findings:
        if each.examples:
            kinds = ", ".join(f"{kind} {count}" for kind, count in (each.kinds or {}).items())
            out.print(table(each.title, ("where", "example"), [(e.place, e.text) for e in each.examples], kinds))


def export(
    folder: Annotated[Path, typer.Argument(help="The folder to create.", show_default=False)],
    format: Annotated[
        str, typer.Option("--format", help="jsonl or parquet (complete), graphml or markdown.")
    ] = "jsonl",
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Also export vectors; without them import computes them again.")
    ] = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> None:
    """Export the memory into files. `slowwave import` can read jsonl and parquet again."""
    from recall.export import export as write

    manifest, where = write(place.store(), folder, format, datetime.now(UTC), with_vectors=vectors)
    if as_json:
        print_json({"path": str(where), **asdict(manifest)})
        return
    rows = [(name, count) for name, count in manifest.counts.items() if count]
    out.print(table(f"{where}, commit {manifest.commit}, as {manifest.format}", ("what", "count"), rows))
    out.print(manifest.holds, markup=False)
