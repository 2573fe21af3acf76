"""Commands that change memory by running a flow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import RenderableType

from slowwave.errors import UnusableInput
from slowwave.ingestion.formats import known_format

from .configuration import with_flags
from .options import (
    JsonOption,
    MaxCallsOption,
    MaxTokensOption,
    MaxUsdOption,
    NamespaceOption,
    Place,
    RequireApproval,
    StoreOption,
)
from .printing import end, err, out, print_json, progress, run_title, show_issues, table

OwnerOption = Annotated[
    str | None,
    typer.Option(
        "--owner", metavar="NAME", help="Who speaks as `user` where messages name no speaker.", show_default=False
    ),
]

LOST = ("lines skipped", "files passed over")
"""Counts of the input that could not be read."""


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(demo)
    app.command()(init)
    app.command()(ingest)


def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Make the store here and keep it.", show_default=False)
    ] = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Play what a model answered about them once, instead of rules.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Learn from the bundled conversations without a key, show what was learned, and answer three questions."""
    from .demo import run_demo

    run_demo(keep, as_json, recorded)


def init(
    graph: Annotated[
        bool | None, typer.Option("--graph/--no-graph", help="Build a knowledge graph?", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model for extraction; 'auto' decides.", show_default=False)
    ] = None,
    owner: OwnerOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write `slowwave.toml`; flags answer its questions without asking."""
    from .configuration import write_settings

    if as_json:  # a program cannot answer questions
        graph, model, owner = (True if graph is None else graph), model or "auto", owner or ""
    is_interactive = graph is None or model is None
    graph = typer.confirm("Build a knowledge graph from what is said?", default=True) if graph is None else graph
    model = (
        typer.prompt("Model for extraction (auto, rules, provider/model)", default="auto") if model is None else model
    )
    if owner is None and is_interactive:
        owner = typer.prompt("Name of the person who speaks as `user` (empty: learned from what is said)", default="")
    path = write_settings(graph, model, force, owner or "")
    if as_json:
        print_json({"written": str(path)})
    else:
        out.print(f"Wrote {path}. Next: slowwave ingest PATH")


def ingest(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files or folders of conversations and documents.", show_default=False)
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help="auto, messages, claude-code, chatgpt, markdown or text.")
    ] = "auto",
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="PROVIDER/MODEL", help="Who extracts; 'rules' needs no key.", show_default=False),
    ] = None,
    owner: OwnerOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    require_approval: RequireApproval = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be read and refused; change nothing.")
    ] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Turn conversations and documents into facts. The same input again does nothing and costs nothing."""
    from flows.ingest import Format
    from flows.ingest import ingest as flow

    if not paths:
        raise UnusableInput("There is nothing to read.", "Name files or folders: slowwave ingest PATH…")
    place = Place.of(store, namespace)
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    settings = with_flags("ingest", place.kept(place.settings.ingest), flags, owner=owner).ingest
    with progress(quiet=as_json):
        summary: dict[str, Any] = asyncio.run(
            flow(
                [str(path) for path in paths],
                namespace=namespace,
                store=place.uri,
                format=cast(Format, known_format(format)),
                settings=settings,
                embedder=place.settings.embedder,
                require_approval=require_approval,
                dry_run=dry_run,
            )
        )
    if as_json:
        print_json(summary)
    else:
        show_ingest(summary)
    end(summary, "extracted", "messages")
    if is_nothing_read(summary):
        raise typer.Exit(1)


def is_nothing_read(summary: dict[str, Any]) -> bool:
    """Whether something was lost and nothing of the input could be read."""
    counts = summary["counts"]
    return any(counts.get(what) for what in LOST) and not any(
        counts.get(what) for what in ("messages read", "sources known already")
    )


def count_table(summary: dict[str, Any]) -> RenderableType:
    """Show the counts of a run."""
    return table(run_title(summary), ("what", "count"), list(summary["counts"].items()))


def show_ingest(summary: dict[str, Any]) -> None:
    """The summary of a run as a person reads it."""
    out.print(count_table(summary))
    if summary["refused"]:
        out.print(table("Refused", ("gate", "count"), list(summary["refused"].items())))
    counts = summary["counts"]
    lost = [f"{what}: {counts[what]:,}" for what in LOST if counts.get(what)]
    if lost:
        err.print(f"Not all of it was read: {', '.join(lost)}.", style="bold red")
    show_issues(summary["issues"], err)
    for error in summary["errors"]:
        err.print(f"  {error}", markup=False, style="red")
    for line in summary["notes"]:
        out.print(line, markup=False)
