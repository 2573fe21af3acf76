"""Commands that read conversations and documents: what is new, or in windows of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from slowwave.common.arguments import checked_time
from slowwave.common.errors import UnusableInput
from slowwave.common.run_counts import RunCount
from slowwave.common.settings import BackfillSettings
from slowwave.common.timestamps import parse_moment
from slowwave.reading.ingestion.parsers import FORMATS, known_format

from .configuration import Place, with_flags, write_settings
from .maintain_commands import nightly_settings
from .options import DryRun, JsonOption, ModelFlags, Now, RequireApproval, Shown
from .printing import (
    Aside,
    Whole,
    call_line,
    count_table,
    err,
    issue_lines,
    note_lines,
    out,
    progress,
    run_title,
    table,
    undo_line,
)  # fmt: skip
from .printing import end as finish

if TYPE_CHECKING:
    from rich.console import RenderableType

OwnerOption = Annotated[
    str | None,
    typer.Option(
        "--owner", metavar="NAME", help="The name of the person who speaks as `user` where messages name no speaker."
    ),
]

AUTO = "auto"
"""The model of settings that nobody chose: words are kept as quotations."""
CHANGE = "slowwave init asks who may read"
LOST = (RunCount.LINES_SKIPPED, RunCount.FILES_PASSED_OVER)
"""Counts of the input that could not be read."""
COLUMNS = ("window", "messages", "calls", "usd", "state", "changed")
ESTIMATED = ("window", "messages", "calls", "tokens_in", "tokens_out", "usd")


def demo(
    keep: Annotated[Path | None, typer.Option("--keep", help="Create the store here and keep it.")] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            metavar="PROVIDER/MODEL",
            help="Who reads; by default recorded answers of a model, 'quotes' for nobody.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> Shown:
    """Ingest the bundled conversations without a key, show what changed, and answer four questions."""
    from .demo import run_demo

    return run_demo(keep, as_json, llm)


def init(
    graph: Annotated[bool | None, typer.Option("--graph/--no-graph", help="Build a knowledge graph?")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Who reads: provider/model, claude-code, codex, gemini-cli or quotes.")
    ] = None,
    owner: OwnerOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> Shown:
    """Write `slowwave.toml`. It asks a few questions; options answer them in advance."""
    if as_json:  # a program cannot answer questions
        graph, model, owner = (True if graph is None else graph), model or AUTO, owner or ""
    is_interactive = graph is None or model is None
    graph = typer.confirm("Build a knowledge graph from the conversations?", default=True) if graph is None else graph
    model = ask_who_reads() if model is None else model
    if owner is None and is_interactive:
        owner = typer.prompt("Name of the person who speaks as `user` (empty: a model learns it)", default="")
    path = write_settings(graph, model, force, owner or "")
    yield {"written": str(path)}
    yield f"Wrote {path}. Next: slowwave ingest PATH"


def ingest(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders of conversations and documents.")] = None,
    format: Annotated[
        str, typer.Option("--format", help=f"auto, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    ] = "auto",
    owner: OwnerOption = None,
    reread: Annotated[
        bool, typer.Option("--reread", help="Also read the messages that are kept as quotations; needs a model.")
    ] = False,
    *,
    model: ModelFlags,
    require_approval: RequireApproval = False,
    dry_run: DryRun = False,
    now: Now = None,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Turn conversations and documents into facts. Known input is skipped and costs nothing."""
    from flows.ingest import Format
    from flows.ingest import ingest as flow

    if not paths and not reread:
        raise UnusableInput("There is nothing to read.", "Name files or folders: slowwave ingest PATH…")
    settings = with_flags(place.settings, model, owner=owner).ingest
    if settings.llm.model == AUTO and not as_json:
        err.print(f"No model reads yet: words are kept as they were said. {CHANGE}.")
    if reread:
        from inference.language import has_reader

        if not has_reader(settings.llm):
            raise UnusableInput(
                "There is no model to read what is kept as quotations.",
                "Name one with --llm, or choose one with slowwave init.",
            )
        settings = settings.model_copy(update={"extract": settings.extract.model_copy(update={"reread": True})})
    with progress(quiet=as_json):
        summary: dict[str, Any] = asyncio.run(
            flow(
                [str(path) for path in paths or ()],
                namespace=place.namespace,
                store=place.uri,
                format=cast(Format, known_format(format)),
                settings=settings,
                embedder=place.settings.embedder,
                require_approval=require_approval,
                dry_run=dry_run,
                now=checked_time(now),
            )
        )
    yield summary
    yield count_table(summary)
    if summary["refused"]:
        yield table("Refused", ("gate", "count"), list(summary["refused"].items()))
    yield from map(Aside, issue_lines(summary["issues"]))
    yield from note_lines(summary)
    if owner and summary["counts"].get("sources known already"):
        yield Aside(
            "--owner says who speaks in what is new; what was read before stays as it is: "
            "`slowwave entity rename Owner NAME` names the person there."
        )
    finish(summary, "extracted", "messages")
    counts = summary["counts"]
    is_lost = any(counts.get(what) for what in LOST) or not summary["issues"]
    if paths and is_lost and not any(counts.get(what) for what in ("messages read", "sources known already")):
        raise typer.Exit(1)  # nothing of the input could be read, or there is nothing in it


def backfill(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files to store first; without any, only stored messages.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="Only messages from this time on.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="Only messages before this time.")] = None,
    window: Annotated[str, typer.Option("--window", help="One run for each day, week or month.")] = "week",
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="How many messages at most, the oldest first.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also messages that were extracted or skipped before.")
    ] = False,
    *,
    model: ModelFlags,
    dry_run: DryRun = False,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Read old messages, one period after the other, then run a night. --dry-run estimates the cost.

    The same command continues where it stopped.
    """
    from flows.nights import backfill as flow
    from slowwave.reading.ingestion.windows import Period  # imports Polars

    periods = get_args(Period)
    if window not in periods:
        raise UnusableInput(f"There is no window {window!r}.", f"Choose one of {', '.join(periods)}.")
    with progress(quiet=as_json):
        summary: dict[str, Any] = asyncio.run(
            flow(
                parse_moment(start) if start is not None else None,
                parse_moment(end) if end is not None else None,
                namespace=place.namespace,
                store=place.uri,
                paths=tuple(str(path) for path in paths or ()),
                window=cast(Period, window),
                limit=limit,
                force=force,
                settings=backfill_settings(place, model),
                dry_run=dry_run,
            )
        )
    yield summary
    yield from (_estimate_lines if dry_run else _backfill_lines)(summary)
    finish(summary, "extracted", "messages")


def backfill_settings(place: Place, model: Mapping[str, Any]) -> BackfillSettings:
    """What the file and the flags say: of each stage its own section, of the whole `[backfill]`."""
    flags = {"model": model.get("model")}
    limits = {name: limit for name, limit in model.items() if name != "model" and limit is not None}
    whole = place.settings.backfill.model_dump() | limits
    return BackfillSettings(
        **whole,
        ingest=with_flags(place.settings, flags).ingest,
        sleep=nightly_settings(place, flags),
        embedder=place.settings.embedder,
    )


def _backfill_lines(summary: dict[str, Any]) -> Iterator[RenderableType | None]:
    title = run_title(summary)
    yield table(title, *_columns_and_cells(summary["windows"], COLUMNS)) if summary["windows"] else title
    yield call_line(summary["llm"])
    if nightly := summary["night"]:
        yield Whole(f"Night: {nightly['state']}, {nightly['changed'] or 'nothing changed'} ({nightly['run']})")
    yield from note_lines(summary)
    if summary["runs"]:
        yield undo_line(summary["run"])


def _estimate_lines(summary: dict[str, Any]) -> Iterator[RenderableType | None]:
    rows = summary["windows"]
    if len(rows) > 1:
        rows = [*rows, {"window": "all", **summary["estimate"]}]
    if rows:
        yield table("Estimate", *_columns_and_cells(rows, ESTIMATED))
    yield from summary["notes"]


def _columns_and_cells(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> tuple[tuple[str, ...], list[list[Any]]]:
    return columns, [[f"{row[name]:.4f}" if name == "usd" else row[name] for name in columns] for row in rows]


# Who may read is asked once. Nobody's key or subscription is used without that answer, which stands in the settings.


def ask_who_reads() -> str:
    """Show who could read, and ask a person; the model, or `quotes` for nobody."""
    from inference.providers import KEPT, QUOTES, choose, find_readers  # imports Polars

    readers = find_readers()
    ready = [reader for reader in readers if not reader.missing]
    out.print("Who may read what was said? A model turns it into facts, and sees what changed.")
    for number, reader in enumerate(ready, 1):
        out.print(f"  {number}  {reader.label}: {reader.cost}")
    out.print(f"  0  {KEPT}")
    for reader in readers[len(ready) :]:
        out.print(f"     ({reader.label}: {reader.missing})")
    word: str = typer.prompt("Number, or provider/model", default="0").strip()
    if not word.isdigit():
        choose(word)
        return word
    if int(word) > len(ready):
        raise UnusableInput(f"There is no number {word}.", f"Give a number up to {len(ready)}, or provider/model.")
    return ready[int(word) - 1].model if int(word) else QUOTES
