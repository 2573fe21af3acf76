"""The command that reads what was said long ago, window by window."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from slowwave.errors import UnusableInput
from slowwave.ingestion.windows import Period
from slowwave.settings import BackfillSettings

from .configuration import with_flags
from .maintain_commands import DryRunOption, LlmOption, chosen, nightly_settings
from .options import JsonOption, NamespaceOption, Place, StoreOption, time_of
from .printing import end as finish
from .printing import err, out, print_json, progress, show_undo, table

COLUMNS = ("window", "messages", "facts", "calls", "usd", "state")
ESTIMATED = ("window", "messages", "calls", "tokens_in", "tokens_out", "usd")
MaxUsd = Annotated[
    float | None, typer.Option("--max-usd", help="Stop cleanly when all of it has cost this much.", show_default=False)
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", help="Stop cleanly after this many model calls.", show_default=False)
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Stop cleanly after this many tokens.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(backfill)


def backfill(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files to store first; none: what is there.", show_default=False),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="Only what was said from then on.", show_default=False)
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="TIME", help="Only what was said before then.", show_default=False)
    ] = None,
    window: Annotated[str, typer.Option("--window", help="One run for each day, week or month.")] = "week",
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Messages at most, the oldest first.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what was extracted or skipped before.")] = False,
    stage: Annotated[
        list[str] | None, typer.Option("--stage", help="ingest or sleep; several times; both unless given.")
    ] = None,
    llm: LlmOption = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Extract what was said long ago, window by window, then sleep once. --dry-run estimates what it will cost.

    The same command again goes on where it stopped. --namespace takes a pattern such as 'tenant-*'.
    """
    from flows.backfill import STAGES
    from flows.backfill import backfill as flow

    periods = get_args(Period)
    if window not in periods:
        raise UnusableInput(f"There is no window {window!r}.", f"Choose one of {', '.join(periods)}.")
    place = Place.of(store, namespace)
    limits = {"max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    with progress(quiet=as_json):
        summary: dict[str, Any] = asyncio.run(
            flow(
                time_of(start),
                time_of(end),
                namespace=place.namespace,
                store=place.uri,
                paths=tuple(str(path) for path in paths or ()),
                window=cast(Period, window),
                limit=limit,
                force=force,
                stages=chosen(stage, STAGES, "stage"),
                settings=_settings(place, llm, limits),
                dry_run=dry_run,
            )
        )
    if as_json:
        print_json(summary)
    elif dry_run:
        _show_estimate(summary)
    else:
        _show(summary)
    finish(summary, "extracted", "messages")


def _settings(place: Place, llm: str | None, limits: dict[str, float | None]) -> BackfillSettings:
    """What the file and the flags say: of each stage its own section, of the whole `[backfill]`."""
    flags = {"model": llm}
    whole = place.settings.backfill.model_dump() | {name: n for name, n in limits.items() if n is not None}
    return BackfillSettings(
        **whole,
        ingest=place.kept(with_flags("ingest", place.settings.ingest, flags).ingest),
        sleep=nightly_settings(place, flags),
        embedder=place.settings.embedder,
    )


def _show(summary: dict[str, Any]) -> None:
    out.print(table(f"Run {summary['run']}: {summary['state']}", *_columns_and_cells(summary["windows"], COLUMNS)))
    llm = summary["llm"]
    if llm["calls"] or llm["from ledger"]:
        out.print(
            f"{llm['model']}: {llm['calls']} calls, {llm['from ledger']} from the ledger, {llm['usd']:.4f} dollars"
        )
    parts = summary.get("namespaces") or {summary["namespace"]: summary}
    for name, part in parts.items():
        if nightly := part["night"]:
            place = f" of {name}" if len(parts) > 1 else ""
            changed = ", ".join(nightly["changed"]) or "nothing changed"
            out.print(f"Night{place}: {nightly['state']}, {changed} ({nightly['run']})", markup=False, soft_wrap=True)
    for error in summary["errors"]:
        err.print(f"  {error}", markup=False, style="red")
    for line in summary["notes"]:
        out.print(line, markup=False)
    for name, part in parts.items():
        if part["runs"]:
            show_undo(part["run"], name)


def _show_estimate(summary: dict[str, Any]) -> None:
    total = summary["estimate"]
    rows = summary["windows"]
    if len(rows) > 1:
        rows = [*rows, {"namespace": "", "window": "all", **total}]
    out.print(table("Estimate", *_columns_and_cells(rows, ESTIMATED)))
    for line in summary["notes"]:
        out.print(line, markup=False)


def _columns_and_cells(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Columns and cells; the namespace only where there are several."""
    several = len({row["namespace"] for row in rows if row["namespace"]}) > 1
    shown = ("namespace", *columns) if several else columns
    return shown, [[f"{row[name]:.4f}" if name == "usd" else row[name] for name in shown] for row in rows]
