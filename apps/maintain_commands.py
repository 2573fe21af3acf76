"""Commands that maintain memory by running a flow: what nights are made of, by hand."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, cast, get_args

import typer

from slowwave.errors import UnusableInput
from slowwave.questions import Mode
from slowwave.timestamps import asked_time

from .configuration import with_flags
from .options import JsonOption, MaxCallsOption, MaxUsdOption, NamespaceOption, Place, StoreOption
from .printing import end, err, out, print_json, progress, table

MODES = get_args(Mode)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(consolidate)


def consolidate(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Look again at what was learned since then.", show_default=False),
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this project.", show_default=False)] = None,
    mode: Annotated[str, typer.Option("--mode", help="auto, pairwise or cluster.")] = "auto",
    artifacts: Annotated[
        bool, typer.Option("--artifacts/--no-artifacts", help="Link versions of documents too.")
    ] = True,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="PROVIDER/MODEL", help="Who decides; 'rules' needs no key.", show_default=False),
    ] = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged; change nothing.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Merge facts that say the same, with lineage to the originals. A second run changes nothing and costs nothing."""
    from flows.consolidate import consolidate as flow

    if mode not in MODES:
        raise UnusableInput(f"There is no mode {mode!r}.", f"Choose one of {', '.join(MODES)}.")
    place = Place.of(store, namespace)
    own = place.settings.consolidate.model_copy(update={"retention": place.settings.retention})
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls}
    with progress(quiet=as_json):
        summary: dict[str, Any] = asyncio.run(
            flow(
                namespace=namespace,
                store=place.uri,
                since=asked_time(since) if since else None,
                scope=scope,
                mode=cast(Mode, mode),
                artifacts=artifacts,
                settings=with_flags("consolidate", own, flags).consolidate,
                dry_run=dry_run,
            )
        )
    show_summary(summary, as_json)
    end(summary, "decided", "facts")


def show_summary(summary: dict[str, Any], as_json: bool) -> None:
    """What a run counted and decided, as a person or a program reads it."""
    if as_json:
        print_json(summary)
        return
    title = f"Run {summary['run']}: {summary['state']}"
    if summary["counts"]:
        out.print(table(title, ("what", "count"), list(summary["counts"].items())))
    else:
        out.print(title, style="bold", markup=False)
    if summary["decisions"]:
        columns = ("decision", "fact", "reason")
        out.print(table("Decisions", columns, [[row[name] for name in columns] for row in summary["decisions"]]))
    llm = summary["llm"]
    if llm["calls"] or llm["from ledger"]:
        out.print(
            f"{llm['model']}: {llm['calls']} calls, {llm['from ledger']} from the ledger, {llm['usd']:.4f} dollars"
        )
    for error in summary["errors"]:
        err.print(f"  {error}", markup=False, style="red")
    for line in summary["notes"]:
        out.print(line, markup=False)
