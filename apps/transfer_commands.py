"""Commands that bring in what other memory systems hold, or write all that is known as files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from slowwave.common.errors import UnusableInput
from slowwave.common.run_counts import shown_counts

from .configuration import Place
from .options import DryRun, JsonOption, RequireApproval, Shown
from .printing import Aside, progress, table, undo_line

SHOWN = 20
OWN = "slowwave"
FromOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="SYSTEM", help="The system that wrote it: auto, slowwave, mem0, graphiti or mcp-memory."
    ),
]


def import_(
    path: Annotated[Path, typer.Argument(help="An export: a JSON file, or a folder of them.")],
    system: FromOption = "auto",
    require_approval: RequireApproval = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Take every row of an export of slowwave as it is, past every filter.")
    ] = False,
    dry_run: DryRun = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Import an export of mem0, Graphiti, Zep, the MCP memory server, or slowwave.

    What `slowwave export` wrote comes back row for row, into a namespace that holds nothing yet, where you --trust it.
    Facts of other systems are judged like new.
    """
    from recall.export import is_own_export
    from tasks.transfer.imports import import_export
    from tasks.transfer.own_exports import import_own

    is_own = system == OWN or (system == "auto" and is_own_export(path))
    if trust and not is_own:
        raise UnusableInput("--trust is for exports of slowwave.", "Leave it out.")
    if require_approval and is_own:
        raise UnusableInput("A whole memory comes back as it was, or not at all.", "Leave out --require-approval.")
    run = place.run("import", makes_store=True)
    with progress(quiet=as_json):
        if is_own:
            done = import_own(run, path, trust=trust, dry_run=dry_run)
        else:
            settings = place.settings.ingest
            done = import_export(run, path, settings, system, require_approval=require_approval, dry_run=dry_run)
    yield {**done.as_json(), "dry_run": dry_run}
    title = f"{done.path}, an export of {done.system}{': nothing was changed' if dry_run else ''}"
    yield table(title, ("what", "count"), list(shown_counts(done.counts).items()))
    for each in done.skipped[:SHOWN]:
        yield Aside(f"  {f'{each.place}: ' if each.place else ''}{each.reason}")
    if len(done.skipped) > SHOWN:
        yield Aside(f"  … and {len(done.skipped) - SHOWN} more; see --json")
    if done.is_known:
        yield "This file was imported before; nothing changed."
    elif not dry_run:
        if done.counts.get("changes proposed"):
            yield f"{done.counts['changes proposed']} changes wait for a person: slowwave review list"
        yield undo_line(done.run)


def export(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    format: Annotated[
        str, typer.Option("--format", help="jsonl or parquet (complete), graphml or markdown.")
    ] = "jsonl",
    *,
    place: Place,
) -> Shown:
    """Export the memory into files. `slowwave import` can read jsonl and parquet again."""
    from recall.export import export as write

    manifest, where = write(place.store(), folder, format, datetime.now(UTC))
    yield {"path": str(where), **asdict(manifest)}
    rows = [(name, count) for name, count in manifest.counts.items() if count]
    yield table(f"{where}, commit {manifest.commit}, as {manifest.format}", ("what", "count"), rows)
